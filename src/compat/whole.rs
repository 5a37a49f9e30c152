//! Decides whether a whole run is as expected, beyond its single cells: [`run_verdict`].
//! What is looked for here shows in no single record: lost cells, and runs and toolkits that tried nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::outcome::Outcome;
use crate::model::plan::Cell;
use crate::model::record::Record;

/// Why a whole run is not as expected, beyond its single cells: none of these can be seen in one record.
///
/// - a planned cell without a record, a cell with several, a record of no planned cell;
/// - no cell got as far as an artifact;
/// - a toolkit that has nothing but skips, foreseen ones included: it was named, and nothing of it was tried.
#[must_use]
pub fn run_verdict(planned: &[Cell], records: &[Record]) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records {
        *count.entry(record.id.as_str()).or_default() += 1;
    }
    let cells: BTreeSet<&str> = planned.iter().map(|cell| cell.id.as_str()).collect();
    let missing = planned.iter().map(|cell| cell.id.as_str()).filter(|id| !count.contains_key(id));
    let several = count.iter().filter(|(_, count)| **count > 1).map(|(id, _)| *id);
    let unplanned = count.keys().copied().filter(|id| !cells.contains(id));
    reasons.extend(listed(missing, "planned without a record"));
    reasons.extend(listed(several, "with more than one record"));
    reasons.extend(listed(unplanned, "recorded without being planned"));

    if !records.iter().any(|record| record.artifact.is_some()) {
        reasons.push("no cell got as far as an artifact: nothing was built".into());
    }
    let mut toolkits: BTreeMap<&str, bool> = BTreeMap::new();
    for record in records {
        *toolkits.entry(record.axes.toolkit.as_str()).or_insert(true) &= record.outcome == Outcome::Skip;
    }
    // In the plan's order, which is that of the matrix.
    let mut seen = BTreeSet::new();
    for toolkit in records.iter().map(|record| record.axes.toolkit.as_str()) {
        if toolkits.get(toolkit) == Some(&true) && seen.insert(toolkit) {
            reasons.push(format!("toolkit {toolkit} has nothing but skips: nothing of it was tried"));
        }
    }
    reasons
}

/// One line for all cells with the same trouble, naming at most three.
fn listed<'a>(ids: impl Iterator<Item = &'a str>, trouble: &str) -> Option<String> {
    let ids: Vec<&str> = ids.collect();
    let named = ids.get(..3).unwrap_or(&ids).join("; ");
    match ids.len() {
        0 => None,
        1 => Some(format!("1 cell {trouble}: {named}")),
        count @ 2..=3 => Some(format!("{count} cells {trouble}: {named}")),
        count => Some(format!("{count} cells {trouble}: {named}; …")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::arch::Arch;
    use crate::model::axes::Axes;
    use crate::model::path::Form;
    use crate::model::record::Artifact;

    fn record(toolkit: &str, path: &str, outcome: Outcome) -> Record {
        let axes = Axes {
            toolkit: toolkit.into(),
            path: path.parse().unwrap(),
            kernel: "vector_add".into(),
            arch: Arch::WITHOUT_GPU,
            stack: None,
        };
        let artifact = Artifact {
            kind: Form::Ptx,
            bytes: 1,
            sha256: String::new(),
            producer: String::new(),
            ptx_isa: None,
            archs: Vec::new(),
            registers: None,
            spill_bytes: None,
            shared_bytes: None,
        };
        let artifact = (outcome != Outcome::Skip).then_some(artifact);
        Record { expected: true, attempts: 1, artifact, ..Record::new("r", axes, outcome) }
    }

    fn planned(records: &[Record]) -> Vec<Cell> {
        let cell = |record: &Record| Cell { id: record.id.clone(), axes: record.axes.clone(), expectation: None };
        records.iter().map(cell).collect()
    }

    #[test]
    fn a_whole_run_is_green_where_every_toolkit_was_tried_and_every_cell_has_its_record() {
        let records = [
            record("12.0", "nvrtc-ptx", Outcome::Built),
            record("12.0", "nvcc-ptx", Outcome::Skip),
            record("13.0", "nvcc-ptx", Outcome::Pass),
        ];
        assert_eq!(run_verdict(&planned(&records), &records), [""; 0]);
    }

    #[test]
    fn a_run_without_an_artifact_and_a_toolkit_without_a_try_are_not_green() {
        let records = [
            record("12.0", "nvcc-ptx", Outcome::Skip),
            record("12.0", "nvcc-cubin", Outcome::Skip),
            record("11.8", "nvcc-ptx", Outcome::Skip),
        ];
        let expected = [
            "no cell got as far as an artifact: nothing was built",
            "toolkit 12.0 has nothing but skips: nothing of it was tried",
            "toolkit 11.8 has nothing but skips: nothing of it was tried",
        ];
        assert_eq!(run_verdict(&planned(&records), &records), expected);
        let with = [records.as_slice(), &[record("13.0", "nvcc-ptx", Outcome::Built)]].concat();
        assert_eq!(run_verdict(&planned(&with), &with), expected[1..]);
        assert_eq!(run_verdict(&[], &[]), expected[..1]);
    }

    #[test]
    fn cells_that_are_lost_doubled_or_made_up_are_named() {
        let all: Vec<_> = ["driver-ptx", "nvrtc-ptx", "nvcc-ptx", "nvrtc-cubin", "nvcc-cubin"]
            .map(|path| record("12.0", path, Outcome::Built))
            .into();
        let id = |path: &str| format!("arch=7.5,kernel=vector_add,path={path},toolkit=12.0");
        let twice = [&all[..2], &all[1..2]].concat();
        assert_eq!(
            run_verdict(&planned(&all[..3]), &twice),
            [
                format!("1 cell planned without a record: {}", id("nvcc-ptx")),
                format!("1 cell with more than one record: {}", id("nvrtc-ptx")),
            ]
        );
        assert_eq!(
            run_verdict(&planned(&all[..1]), &all[..3]),
            [format!("2 cells recorded without being planned: {}; {}", id("nvcc-ptx"), id("nvrtc-ptx"))]
        );
        let lost = run_verdict(&planned(&all), &all[..1]);
        let named = ["nvrtc-ptx", "nvcc-ptx", "nvrtc-cubin"].map(id).join("; ");
        assert_eq!(lost, [format!("4 cells planned without a record: {named}; …")]);
    }
}
