//! Writes the folder of a run while the run goes on. Its main type is [`Journal`].
//!
//! `run.json` (the run and its plan) comes first, then one line of `records.jsonl` for each cell the moment it exists,
//! on the disk before the next; so that after a kill at any moment [`super::read::read_run`] still makes a report that
//! holds every planned cell. `logs/JOB.log` holds what a job said beside its frames, `artifacts/SHA256` what was
//! handed to the driver, under no other name. `report.json`, `report.md` and `junit.xml` come last.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::ReportError;
use super::files;
use super::summary::Summary;
use super::{json, junit, markdown, read};
use crate::model::claim::{ClaimResult, PlannedClaim};
use crate::model::plan::{Cell, Excluded};
use crate::model::record::{Record, Report, Run, SCHEMA};
use crate::model::wire::hex;

/// The run and its plan.
pub const RUN: &str = "run.json";
/// One record a line.
pub const RECORDS: &str = "records.jsonl";
/// What came of claims about packages, one a line; only where there are such claims.
pub const CLAIMS: &str = "claims.jsonl";
/// The whole report, for programs.
pub const REPORT: &str = "report.json";
/// The whole report, for a pull request.
pub const MARKDOWN: &str = "report.md";
/// The whole report, for a CI's test view.
pub const JUNIT: &str = "junit.xml";
/// What jobs said beside their frames.
pub const LOGS: &str = "logs";
/// What was handed to the driver, by SHA-256.
pub const ARTIFACTS: &str = "artifacts";

/// `run.json`: what is known before the first cell ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run, rewritten when more is known of it.
    pub run: Run,
    /// Every planned cell, in plan order.
    pub cells: Vec<Cell>,
    /// Combinations that are not cells.
    #[serde(default)]
    pub excluded: Vec<Excluded>,
    /// What a note claims of the cells and of packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<PlannedClaim>,
}

/// The folder of a run that goes on.
#[derive(Debug)]
#[must_use]
pub struct Journal {
    dir: PathBuf,
    file: RunFile,
    records: File,
    /// How long `records.jsonl` is, without a line that could not be written whole.
    written: u64,
}

impl Journal {
    /// Makes the folder. It may exist, and may hold other things, but no run.
    pub fn create(dir: &Path, run: &Run, cells: &[Cell], excluded: &[Excluded]) -> Result<Self, ReportError> {
        files::create_dir(dir)?;
        for name in [RUN, RECORDS, CLAIMS, REPORT, MARKDOWN, JUNIT, LOGS, ARTIFACTS] {
            if fs::symlink_metadata(dir.join(name)).is_ok() {
                return Err(ReportError::Occupied { dir: dir.into(), found: name.into() });
            }
        }
        let path = dir.join(RECORDS);
        // Of two runs that are given one folder at the same moment, only one creates this file.
        let records = OpenOptions::new().write(true).create_new(true).open(&path).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                ReportError::Occupied { dir: dir.into(), found: RECORDS.into() }
            } else {
                ReportError::Write { path: path.clone(), source }
            }
        })?;
        let file = RunFile {
            schema: SCHEMA,
            run: run.clone(),
            cells: cells.to_vec(),
            excluded: excluded.to_vec(),
            claims: Vec::new(),
        };
        let journal = Self { dir: dir.into(), file, records, written: 0 };
        journal.prepare().inspect_err(|_| {
            // Nothing was recorded yet: the folder must not be taken for a run's.
            let _ = fs::remove_file(&path);
        })?;
        Ok(journal)
    }

    fn prepare(&self) -> Result<(), ReportError> {
        files::create_dir(&self.dir.join(LOGS))?;
        files::create_dir(&self.dir.join(ARTIFACTS))?;
        self.write_run()
    }

    fn write_run(&self) -> Result<(), ReportError> {
        files::replace(&self.dir.join(RUN), json::pretty(&self.file).as_bytes())
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes down what is known of the run by now: its GPU, its attach mode, its notes.
    pub fn update(&mut self, run: &Run) -> Result<(), ReportError> {
        self.file.run = run.clone();
        self.write_run()
    }

    /// Writes down what will be put to the test beside the cells.
    pub fn claims(&mut self, claims: &[PlannedClaim]) -> Result<(), ReportError> {
        self.file.claims = claims.to_vec();
        if claims.is_empty() { Ok(()) } else { self.write_run() }
    }

    /// Writes down what came of a claim about packages. It is on the disk when this returns.
    pub fn claim(&self, result: &ClaimResult) -> Result<(), ReportError> {
        let path = self.dir.join(CLAIMS);
        let line = serde_json::to_string(result).map_err(io::Error::from).map_err(ReportError::write(&path))?;
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_data()))
            .map_err(ReportError::write(&path))
    }

    /// Writes down how a cell ended. It is on the disk when this returns.
    pub fn record(&mut self, record: &Record) -> Result<(), ReportError> {
        let path = self.dir.join(RECORDS);
        let mut line = serde_json::to_vec(record).map_err(|error| ReportError::Write {
            path: path.clone(),
            source: io::Error::new(io::ErrorKind::InvalidData, error),
        })?;
        line.push(b'\n');
        let result = self.records.write_all(&line).and_then(|()| self.records.sync_data());
        if result.is_ok() {
            self.written += line.len() as u64;
        } else {
            // Half a line would spoil the next one.
            let _ = self.records.set_len(self.written);
            let _ = self.records.seek(SeekFrom::Start(self.written));
        }
        result.map_err(ReportError::write(&path))
    }

    /// Adds to a job's log.
    pub fn log(&self, job: &str, text: &str) -> Result<(), ReportError> {
        let path = self.log_path(job);
        let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{text}{newline}").as_bytes()))
            .map_err(ReportError::write(&path))
    }

    /// Where a job's log is.
    #[must_use]
    pub fn log_path(&self, job: &str) -> PathBuf {
        self.dir.join(LOGS).join(format!("{}.log", files::job_name(job)))
    }

    /// Keeps an artifact and gives its SHA-256, which is its file name. The same bytes are kept once.
    pub fn artifact(&self, bytes: &[u8]) -> Result<String, ReportError> {
        let sha256 = hex(&Sha256::digest(bytes));
        let path = self.dir.join(ARTIFACTS).join(&sha256);
        if !path.exists() {
            files::replace(&path, bytes)?;
        }
        Ok(sha256)
    }

    /// Writes down the run's end, and makes the report from what is on the disk: it is the one that
    /// [`super::read::read_run`] makes later.
    pub fn close(mut self, run: &Run) -> Result<Report, ReportError> {
        self.update(run)?;
        read::read_run(&self.dir)
    }
}

/// Writes `report.json`, `report.md` and `junit.xml` into the folder of a run.
pub fn write_reports(dir: &Path, report: &Report, summary: &Summary) -> Result<(), ReportError> {
    files::replace(&dir.join(REPORT), json::render(report).as_bytes())?;
    files::replace(&dir.join(MARKDOWN), markdown::render(summary).as_bytes())?;
    files::replace(&dir.join(JUNIT), junit::render(summary).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::model::outcome::Outcome;
    use crate::report::testing::{cell, record, run};

    const STARTED: &str = "2026-12-01T10:00:00Z";

    fn journal(dir: &Path) -> Journal {
        Journal::create(dir, &run("r1", STARTED), &[cell("12.0"), cell("12.6")], &[]).unwrap()
    }

    #[test]
    fn the_live_report_is_the_one_read_later() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new/folder");
        let mut journal = journal(&dir);
        journal.record(&record("r1", "12.6", Outcome::Built)).unwrap();
        journal.record(&record("r1", "12.0", Outcome::Skip)).unwrap();
        let report = journal.close(&run("r1", STARTED)).unwrap();
        let outcomes: Vec<_> = report.cells.iter().map(|cell| (cell.axes.toolkit.as_str(), cell.outcome)).collect();
        assert_eq!(outcomes, [("12.0", Outcome::Skip), ("12.6", Outcome::Built)]);
        assert!(report.complete);
        write_reports(&dir, &report, &Summary::new(&report, &[])).unwrap();
        assert_eq!(read::read_run(&dir).unwrap(), report);
        assert_eq!(fs::read_to_string(dir.join(REPORT)).unwrap(), json::render(&report));
        let mut names: Vec<_> =
            fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [ARTIFACTS, JUNIT, LOGS, RECORDS, REPORT, MARKDOWN, RUN]);
    }

    #[test]
    fn a_folder_with_a_run_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("unrelated"), "").unwrap();
        journal(dir.path()).record(&record("r1", "12.0", Outcome::Built)).unwrap();
        let before = fs::read(dir.path().join(RECORDS)).unwrap();
        let error = Journal::create(dir.path(), &run("r2", STARTED), &[], &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} already holds a run (run.json): give --out a new or empty folder", dir.path().display())
        );
        assert_eq!(fs::read(dir.path().join(RECORDS)).unwrap(), before);
    }

    #[test]
    fn a_path_that_is_a_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Journal::create(&file.join("run"), &run("r1", STARTED), &[], &[]).unwrap_err();
        assert!(error.to_string().ends_with("a part of the path is a file, give another folder with --out"), "{error}");
    }

    #[test]
    fn a_full_disk_is_said_with_the_file_and_the_cure() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(dir.path());
        journal.records = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = journal.record(&record("r1", "12.0", Outcome::Built)).unwrap_err();
        let path = dir.path().join(RECORDS);
        let cure = "no space is left, free some or give another folder with --out";
        assert_eq!(error.to_string(), format!("cannot write {}: {cure}", path.display()));
    }

    /// Runs the test of this name once more, in a process that can write no file longer than a few blocks.
    fn with_short_files(test: &str, dir: &Path) {
        let status = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\" --test-threads 1"])
            .arg(std::env::current_exe().unwrap())
            .arg(format!("report::journal::tests::{test}"))
            .env("CTK_TEST_SHORT_FILES", dir)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&status.stdout);
        assert!(status.status.success() && output.contains("1 passed"), "{output}");
    }

    #[test]
    fn half_a_record_never_spoils_the_next() {
        let Some(dir) = std::env::var_os("CTK_TEST_SHORT_FILES").map(PathBuf::from) else {
            let dir = tempfile::tempdir().unwrap();
            with_short_files("half_a_record_never_spoils_the_next", dir.path());
            let report = read::read_run(dir.path()).unwrap();
            let outcomes: Vec<_> = report.cells.iter().map(|cell| cell.outcome).collect();
            assert_eq!(outcomes, [Outcome::Built, Outcome::Skip]);
            assert_eq!(report.runs[0].notes, Vec::<String>::new());
            return;
        };
        let mut journal = journal(&dir);
        journal.record(&record("r1", "12.0", Outcome::Built)).unwrap();
        let long = Record { detail: Some("x".repeat(100_000)), ..record("r1", "12.6", Outcome::Fail) };
        assert!(matches!(journal.record(&long), Err(ReportError::Write { .. })));
        journal.record(&record("r1", "12.6", Outcome::Skip)).unwrap();
    }

    #[test]
    fn an_old_report_is_kept_when_the_new_one_does_not_fit() {
        let Some(dir) = std::env::var_os("CTK_TEST_SHORT_FILES").map(PathBuf::from) else {
            let dir = tempfile::tempdir().unwrap();
            with_short_files("an_old_report_is_kept_when_the_new_one_does_not_fit", dir.path());
            assert_eq!(fs::read_to_string(dir.path().join(REPORT)).unwrap(), "old");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
            return;
        };
        let path = dir.join(REPORT);
        fs::write(&path, "old").unwrap();
        let error = files::replace(&path, &vec![b'x'; 100_000]).unwrap_err();
        assert!(matches!(error, ReportError::Write { path: named, .. } if named == path));
    }

    #[test]
    fn an_artifact_is_kept_once_under_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(dir.path());
        let sha256 = journal.artifact(b"abc").unwrap();
        assert_eq!(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let path = dir.path().join(ARTIFACTS).join(&sha256);
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(journal.artifact(b"abc").unwrap(), sha256);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        assert_eq!(fs::read(&path).unwrap(), b"abc");
    }

    #[test]
    fn a_log_grows_by_whole_lines_under_its_jobs_name() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(dir.path());
        journal.log("kernel=vector_add,toolkit=12.6", "one").unwrap();
        journal.log("kernel=vector_add,toolkit=12.6", "two\n").unwrap();
        let log = dir.path().join("logs/kernel-vector_add+toolkit-12.6.log");
        assert_eq!(fs::read_to_string(log).unwrap(), "one\ntwo\n");
    }
}
