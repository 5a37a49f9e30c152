//! `ctk-matrix run --resume DIR`: the run in a folder, held against what would be done now. Its main type is
//! [`Resumed`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::exit::{Code, Failure};
use super::host;
use super::report::failure;
use crate::model::outcome::Outcome;
use crate::model::plan::{Cell, Plan};
use crate::model::record::{Record, Run};
use crate::report::error::ReportError;
use crate::report::journal::{Journal, RunFile};

/// So many differences are named; more would hide them.
const NAMED: usize = 5;

/// A run that is taken up again.
pub(crate) struct Resumed {
    /// Its folder, which no other process writes to.
    pub(crate) journal: Journal,
    file: RunFile,
    /// The last record of each cell.
    records: HashMap<String, Record>,
}

/// What a resumed run begins with.
#[derive(Default)]
pub(crate) struct Begun {
    /// Records that stay.
    pub(crate) kept: Vec<Record>,
    /// How often the other cells were tried before.
    pub(crate) attempts: HashMap<String, u32>,
}

impl Resumed {
    /// Opens the folder.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        let (journal, records) = Journal::resume(dir).map_err(|error| {
            failure(if matches!(error, ReportError::Write { .. }) { Code::Report } else { Code::Usage }, error)
        })?;
        let file = journal.file().clone();
        let records = records.into_iter().filter(|record| record.run == file.run.id);
        let records = records.map(|record| (record.id.clone(), record)).collect();
        Ok(Self { journal, file, records })
    }

    /// The run's id.
    pub(crate) fn id(&self) -> &str {
        &self.file.run.id
    }

    /// Cells whose record is final: that they are run again would tell nothing new.
    pub(crate) fn done(&self) -> HashSet<&str> {
        let records = self.records.values();
        records.filter(|record| is_final(record.outcome)).map(|record| record.id.as_str()).collect()
    }

    /// Makes `run` the continuation of the one in the folder, or says why it is not.
    pub(crate) fn begin(self, plan: &Plan, run: &mut Run) -> Result<(Journal, Begun), Failure> {
        let dir = self.journal.dir().display();
        let differs = differences(&self.file, plan, run);
        if !differs.is_empty() {
            let more = differs.len().saturating_sub(NAMED);
            let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
            let named = differs[..differs.len().min(NAMED)].join("\n  ");
            return Err(Failure::new(
                Code::Usage,
                format!(
                    "the run in {dir} is not the one that was asked for now, so it cannot be resumed:\n  {named}{more}\n\
                     It was started as `{}`; give the same matrix and options with --resume, or --out for a run of its \
                     own",
                    self.file.run.command
                ),
            ));
        }
        let mut begun = Begun { kept: Vec::new(), attempts: HashMap::new() };
        for cell in &plan.cells {
            match self.records.get(&cell.id) {
                Some(record) if is_final(record.outcome) => begun.kept.push(record.clone()),
                Some(record) => drop(begun.attempts.insert(cell.id.clone(), record.attempts)),
                None => {}
            }
        }
        let before = self.file.run;
        (run.started, run.command) = (before.started, before.command);
        let fresh = std::mem::replace(&mut run.notes, before.notes);
        let note = format!("resumed at {}: {} of {} cells were kept", host::now(), begun.kept.len(), plan.cells.len());
        for note in fresh.into_iter().chain([note]) {
            if !run.notes.contains(&note) {
                run.notes.push(note);
            }
        }
        let mut journal = self.journal;
        journal.update(run).map_err(|error| failure(Code::Report, error))?;
        Ok((journal, begun))
    }
}

fn is_final(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::NotRun | Outcome::Cancelled | Outcome::Infra | Outcome::Truncated)
}

/// In what the run in the folder and the one asked for differ, one line each.
fn differences(file: &RunFile, plan: &Plan, run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    let before = &file.run;
    let mut differ = |what: &str, was: &str, is: &str| {
        if was != is {
            lines.push(format!("{what}: it was {was}, and is {is}"));
        }
    };
    differ("ctk-matrix", &before.version, &run.version);
    differ(
        "engine",
        &format!("{:?}", before.engine.kind).to_lowercase(),
        &format!("{:?}", run.engine.kind).to_lowercase(),
    );
    differ("GPU", &gpu(before), &gpu(run));
    let settings = plan.settings();
    if !file.settings.is_empty() {
        for name in file.settings.keys().chain(settings.keys()).collect::<BTreeSet<_>>() {
            let of = |settings: &BTreeMap<String, String>| settings.get(name).map_or("absent".to_owned(), Clone::clone);
            differ(name, &of(&file.settings), &of(&settings));
        }
    }
    let of = |cells: &[Cell]| -> BTreeMap<String, Cell> {
        cells.iter().map(|cell| (cell.id.clone(), cell.clone())).collect()
    };
    let (was, is) = (of(&file.cells), of(&plan.cells));
    for (id, cell) in &was {
        match is.get(id) {
            None => lines.push(format!("{id} was planned, and is not")),
            Some(now) if now.expectation != cell.expectation => {
                lines.push(format!("{id} is expected to end otherwise"));
            }
            Some(_) => {}
        }
    }
    lines.extend(is.keys().filter(|id| !was.contains_key(*id)).map(|id| format!("{id} was not planned, and is")));
    lines
}

fn gpu(run: &Run) -> String {
    run.gpu.as_ref().map_or("none".into(), |gpu| format!("{} under driver {}", gpu.uuid, gpu.driver))
}
