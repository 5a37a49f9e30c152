//! Makes a report from the folder of a run, whether or not the run came to its end. Its main function is [`read_run`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::claims;
use super::error::ReportError;
use super::journal::{CLAIMS, RECORDS, REPORT, RUN, RunFile};
use crate::model::claim::ClaimResult;
use crate::model::outcome::Outcome;
use crate::model::plan::{Cell, Excluded};
use crate::model::record::{Record, Report, Run, SCHEMA};

/// The report of a run, from its `run.json` and `records.jsonl`.
///
/// A planned cell without a record is `not-run`. A line that cannot be read, which a kill or a full disk leaves, is
/// mentioned in the run's notes. Where a cell has several records, the last one counts. Of a folder that no longer has
/// the records, `report.json` is read, which holds them all.
pub fn read_run(dir: &Path) -> Result<Report, ReportError> {
    if !dir.join(RECORDS).exists() && dir.join(REPORT).is_file() {
        return read_as(&dir.join(REPORT), dir);
    }
    let RunFile { run, cells, excluded, claims: planned, .. } = read_plan(dir)?;
    let (records, mut notes) = read_records(dir)?;
    let tested = read_claims(dir, &mut notes)?;
    let mut report = assemble(run, &cells, records, excluded, notes);
    report.claims = claims::results(&planned, &tested, &report);
    Ok(report)
}

/// The report of a run from its plan and the records that there are.
#[must_use]
pub fn assemble(
    mut run: Run,
    cells: &[Cell],
    records: Vec<Record>,
    excluded: Vec<Excluded>,
    mut notes: Vec<String>,
) -> Report {
    let planned: HashSet<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
    let mut latest: HashMap<String, Record> = HashMap::new();
    let mut unplanned = Vec::new();
    for record in records {
        if record.run != run.id {
            notes.push(format!("{RECORDS} has a record of another run ({}), left out", record.run));
        } else if planned.contains(record.id.as_str()) {
            latest.insert(record.id.clone(), record);
        } else {
            notes.push(format!("{RECORDS} has a record of a cell that was not planned: {}", record.id));
            unplanned.push(record);
        }
    }
    let mut records: Vec<Record> =
        cells.iter().map(|cell| latest.remove(&cell.id).unwrap_or_else(|| not_run(&run, cell))).collect();
    records.extend(unplanned);
    if run.finished.is_none() {
        notes.push("the run has no end: it was killed, or still goes on".into());
    }
    run.notes.extend(notes);
    report(vec![run], records, excluded, Vec::new())
}

/// A report with its counts and its completeness, which follow from the cells.
pub(super) fn report(runs: Vec<Run>, cells: Vec<Record>, excluded: Vec<Excluded>, superseded: Vec<Record>) -> Report {
    let mut counts = BTreeMap::new();
    for cell in &cells {
        *counts.entry(cell.outcome.name().to_owned()).or_insert(0) += 1;
    }
    let complete = !cells.iter().any(|cell| matches!(cell.outcome, Outcome::NotRun | Outcome::Cancelled));
    Report { schema: SCHEMA, complete, counts, runs, cells, excluded, superseded, claims: Vec::new() }
}

pub(super) fn read_plan(dir: &Path) -> Result<RunFile, ReportError> {
    read_as(&dir.join(RUN), dir)
}

/// A file of the run in `dir` that says of itself of which schema it is.
fn read_as<T: DeserializeOwned>(path: &Path, dir: &Path) -> Result<T, ReportError> {
    let text = fs::read(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReportError::NotARun { dir: dir.into() },
        _ => ReportError::Read { path: path.into(), source },
    })?;
    let damaged = |source| ReportError::Damaged { path: path.into(), source };
    // The schema first, since a later one may not fit the types.
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
    let found = value.get("schema").and_then(serde_json::Value::as_u64).and_then(|number| u32::try_from(number).ok());
    match found {
        Some(found) if found != SCHEMA => Err(ReportError::Schema { path: path.into(), found, wanted: SCHEMA }),
        _ => serde_json::from_value(value).map_err(damaged),
    }
}

pub(super) fn read_records(dir: &Path) -> Result<(Vec<Record>, Vec<String>), ReportError> {
    let path = dir.join(RECORDS);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Vec::new(), vec![format!("there is no {RECORDS}")]));
        }
        Err(error) => return Err(ReportError::read(&path)(error)),
    };
    let (mut records, mut notes) = (Vec::new(), Vec::new());
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(record) => records.push(record),
            Err(_) if !line.ends_with(b"\n") => {
                notes.push(format!("the last line of {RECORDS} is torn: a cell ended while the run was killed"));
            }
            Err(error) => notes.push(format!("line {} of {RECORDS} cannot be read: {error}", index + 1)),
        }
    }
    Ok((records, notes))
}

/// What came of claims about packages. Most runs make none, and have no such file.
fn read_claims(dir: &Path, notes: &mut Vec<String>) -> Result<Vec<ClaimResult>, ReportError> {
    let path = dir.join(CLAIMS);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ReportError::read(&path)(error)),
    };
    let lines = bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    let mut claims = Vec::new();
    for (index, line) in lines {
        match serde_json::from_slice(line) {
            Ok(claim) => claims.push(claim),
            Err(error) => notes.push(format!("line {} of {CLAIMS} cannot be read: {error}", index + 1)),
        }
    }
    Ok(claims)
}

fn not_run(run: &Run, cell: &Cell) -> Record {
    Record {
        id: cell.id.clone(),
        reason: Some("the run ended before this cell started or ended".into()),
        expectation: cell.expectation.clone(),
        ..Record::new(&run.id, cell.axes.clone(), Outcome::NotRun)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;

    use super::*;
    use crate::report::journal::Journal;
    use crate::report::testing::{cell, record, run};

    /// The folder of a run of two cells that was killed after the first.
    fn killed() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let unfinished = Run { finished: None, ..run("r1", "2026-12-01T10:00:00Z") };
        let mut journal = Journal::create(dir.path(), &unfinished, &[cell("12.0"), cell("12.6")], &[]).unwrap();
        journal.record(&record("r1", "12.0", Outcome::Built)).unwrap();
        let records = dir.path().join(RECORDS);
        (dir, records)
    }

    fn append(path: &Path, bytes: &[u8]) {
        fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    fn line(record: &Record) -> Vec<u8> {
        [serde_json::to_vec(record).unwrap(), b"\n".into()].concat()
    }

    #[test]
    fn after_a_kill_every_planned_cell_is_in_the_report() {
        let (dir, _) = killed();
        let report = read_run(dir.path()).unwrap();
        let cells: Vec<_> = report.cells.iter().map(|cell| (cell.outcome, cell.expected)).collect();
        assert_eq!(cells, [(Outcome::Built, true), (Outcome::NotRun, false)]);
        assert_eq!(report.counts, [("built".into(), 1), ("not-run".into(), 1)].into());
        assert!(!report.complete);
        assert_eq!(report.runs[0].notes, ["the run has no end: it was killed, or still goes on"]);
    }

    #[test]
    fn a_line_torn_anywhere_costs_its_own_cell_only() {
        let whole = line(&record("r1", "12.6", Outcome::Built));
        for cut in 1..whole.len() - 1 {
            let (dir, records) = killed();
            append(&records, &whole[..cut]);
            let report = read_run(dir.path()).unwrap();
            assert_eq!(report.cells[0].outcome, Outcome::Built);
            assert_eq!(report.cells[1].outcome, Outcome::NotRun, "cut at {cut}");
            assert!(report.runs[0].notes[0].starts_with("the last line of records.jsonl is torn"), "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_line_is_named_and_the_rest_counts() {
        let (dir, records) = killed();
        append(&records, b"{\"half\n\n");
        append(&records, &line(&record("r1", "12.6", Outcome::Built)));
        let report = read_run(dir.path()).unwrap();
        assert!(report.complete);
        assert!(report.runs[0].notes[0].starts_with("line 2 of records.jsonl cannot be read: "));
    }

    #[test]
    fn of_several_records_of_a_cell_the_last_counts() {
        let (dir, records) = killed();
        append(&records, &line(&record("r1", "12.0", Outcome::Infra)));
        assert_eq!(read_run(dir.path()).unwrap().cells[0].outcome, Outcome::Infra);
    }

    #[test]
    fn what_was_not_planned_is_kept_and_what_is_of_another_run_is_not() {
        let (dir, records) = killed();
        append(&records, &line(&record("r1", "13.0", Outcome::Built)));
        append(&records, &line(&record("r2", "12.6", Outcome::Built)));
        let report = read_run(dir.path()).unwrap();
        let cells: Vec<_> = report.cells.iter().map(|cell| (cell.axes.toolkit.as_str(), cell.outcome)).collect();
        assert_eq!(cells, [("12.0", Outcome::Built), ("12.6", Outcome::NotRun), ("13.0", Outcome::Built)]);
        assert_eq!(report.runs[0].notes.len(), 3, "{:?}", report.runs[0].notes);
    }

    #[test]
    fn of_a_folder_that_has_its_report_and_no_records_the_report_is_read() {
        let (dir, records) = killed();
        let report = read_run(dir.path()).unwrap();
        let json = |report: &Report| fs::write(dir.path().join(REPORT), serde_json::to_vec(report).unwrap()).unwrap();
        json(&report);
        fs::remove_file(records).unwrap();
        assert_eq!(read_run(dir.path()).unwrap(), report);
        fs::remove_file(dir.path().join(RUN)).unwrap();
        assert_eq!(read_run(dir.path()).unwrap(), report);
        json(&Report { schema: 2, ..report });
        assert!(matches!(read_run(dir.path()), Err(ReportError::Schema { found: 2, wanted: 1, .. })));
    }

    #[test]
    fn a_folder_that_is_no_runs_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = read_run(dir.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} is not the folder of a run: there is no run.json in it", dir.path().display())
        );
        fs::write(dir.path().join(RUN), "{\"schema\": 2}").unwrap();
        assert!(matches!(read_run(dir.path()), Err(ReportError::Schema { found: 2, wanted: 1, .. })));
        fs::write(dir.path().join(RUN), "{").unwrap();
        assert!(matches!(read_run(dir.path()), Err(ReportError::Damaged { .. })));
    }
}
