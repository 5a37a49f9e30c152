//! Makes one report of several: shards of one matrix, or repeated runs of it. Its main function is [`merge`].

use std::collections::{HashMap, HashSet};

use super::read::report;
use crate::model::outcome::Outcome;
use crate::model::record::{GpuMode, Record, Report, Run};

/// One report of several.
///
/// Two runs of one cell on the same GPU and driver (or both without a GPU) are attempts: the newest run's record
/// stays, and the others are listed under `superseded`. A cell that never started is no attempt, so it replaces
/// nothing and is not listed. Everything else stays side by side. A run that is given twice counts once.
#[must_use]
pub fn merge(mut reports: Vec<Report>) -> Report {
    if reports.len() == 1 {
        return reports.remove(0);
    }
    let mut runs: Vec<Run> = Vec::new();
    let mut excluded = Vec::new();
    let mut seen = HashSet::new();
    let (mut cells, mut superseded, mut claims) = (Vec::new(), Vec::new(), Vec::new());
    for report in reports {
        let fresh: HashSet<String> =
            report.runs.iter().map(|run| run.id.clone()).filter(|id| !seen.contains(id)).collect();
        runs.extend(report.runs.into_iter().filter(|run| fresh.contains(&run.id)));
        cells.extend(report.cells.into_iter().filter(|cell| fresh.contains(&cell.run)));
        superseded.extend(report.superseded.into_iter().filter(|cell| fresh.contains(&cell.run)));
        claims.extend(report.claims);
        for combination in report.excluded {
            if !excluded.contains(&combination) {
                excluded.push(combination);
            }
        }
        seen.extend(fresh);
    }
    // RFC 3339 in UTC sorts as text; the id decides between runs of one moment.
    runs.sort_by(|a, b| (&a.started, &a.id).cmp(&(&b.started, &b.id)));
    let cells = newest(cells, &runs, &mut superseded);
    let planned: HashSet<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
    // What one shard leaves out and another runs is a cell.
    excluded.retain(|combination| !planned.contains(combination.axes.id().as_str()));
    let mut merged = report(runs, cells, excluded, superseded);
    merged.claims = super::claims::merged(claims, &merged);
    merged
}

/// What must be equal for two records to be attempts at the same thing.
#[derive(PartialEq, Eq, Hash)]
struct Attempt {
    cell: String,
    gpu: Option<(String, String)>,
    fake: bool,
}

fn newest(cells: Vec<Record>, runs: &[Run], superseded: &mut Vec<Record>) -> Vec<Record> {
    let age: HashMap<&str, usize> = runs.iter().enumerate().map(|(index, run)| (run.id.as_str(), index)).collect();
    let rank = |record: &Record| (record.outcome != Outcome::NotRun, age.get(record.run.as_str()).copied());
    let mut place: HashMap<Attempt, usize> = HashMap::new();
    let mut kept: Vec<Record> = Vec::new();
    for mut record in cells {
        let run = runs.iter().find(|run| run.id == record.run);
        let attempt = Attempt {
            cell: record.id.clone(),
            gpu: run.and_then(|run| run.gpu.as_ref()).map(|gpu| (gpu.uuid.clone(), gpu.driver.clone())),
            fake: run.is_some_and(|run| run.gpu_mode == GpuMode::Fake),
        };
        let Some(&at) = place.get(&attempt) else {
            place.insert(attempt, kept.len());
            kept.push(record);
            continue;
        };
        let attempts = kept[at].attempts + record.attempts;
        if rank(&record) > rank(&kept[at]) {
            std::mem::swap(&mut kept[at], &mut record);
        }
        if record.outcome != Outcome::NotRun {
            superseded.push(record);
        }
        kept[at].attempts = attempts;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{cell, gpu, record, run};

    /// A run of some toolkits, at an hour, on a GPU under a driver.
    fn on_gpu(id: &str, hour: u32, driver: &str, cells: &[(&str, Outcome)]) -> Report {
        let run = Run {
            gpu_mode: GpuMode::Real,
            gpu: Some(gpu("GPU-1", driver)),
            ..run(id, &format!("2026-12-01T{hour:02}:00:00Z"))
        };
        let cells = cells.iter().map(|(toolkit, outcome)| record(id, toolkit, *outcome)).collect();
        report(vec![run], cells, Vec::new(), Vec::new())
    }

    fn cells(records: &[Record]) -> Vec<(&str, &str, Outcome)> {
        records.iter().map(|cell| (cell.run.as_str(), cell.axes.toolkit.as_str(), cell.outcome)).collect()
    }

    #[test]
    fn of_two_attempts_on_one_gpu_and_driver_the_newest_stays_whatever_the_order() {
        let old = on_gpu("old", 9, "580", &[("12.0", Outcome::Pass), ("12.6", Outcome::Infra)]);
        let new = on_gpu("new", 10, "580", &[("12.6", Outcome::Fail)]);
        for reports in [vec![old.clone(), new.clone()], vec![new, old]] {
            let merged = merge(reports);
            let mut kept = cells(&merged.cells);
            kept.sort_by_key(|cell| cell.1);
            assert_eq!(kept, [("old", "12.0", Outcome::Pass), ("new", "12.6", Outcome::Fail)]);
            assert_eq!(cells(&merged.superseded), [("old", "12.6", Outcome::Infra)]);
            assert_eq!(merged.counts, [("fail".into(), 1), ("pass".into(), 1)].into());
            let attempts: u32 = merged.cells.iter().map(|cell| cell.attempts).sum();
            assert_eq!(attempts, 3);
            assert_eq!(merged.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["old", "new"]);
        }
    }

    #[test]
    fn another_driver_or_gpu_or_the_test_driver_is_another_row() {
        let one = on_gpu("a", 9, "580", &[("12.0", Outcome::Pass)]);
        let driver = on_gpu("b", 10, "590", &[("12.0", Outcome::Pass)]);
        let mut other = on_gpu("c", 11, "580", &[("12.0", Outcome::Pass)]);
        other.runs[0].gpu = Some(gpu("GPU-2", "580"));
        let mut fake = on_gpu("d", 12, "580", &[("12.0", Outcome::Pass)]);
        fake.runs[0].gpu_mode = GpuMode::Fake;
        let merged = merge(vec![one, driver, other, fake]);
        assert_eq!((merged.cells.len(), merged.superseded.len()), (4, 0));
    }

    #[test]
    fn a_cell_that_never_started_replaces_nothing_and_makes_the_whole_incomplete_only_if_it_stays() {
        let whole = on_gpu("old", 9, "580", &[("12.0", Outcome::Pass)]);
        let broken_off = on_gpu("new", 10, "580", &[("12.0", Outcome::NotRun), ("12.6", Outcome::NotRun)]);
        let merged = merge(vec![whole, broken_off]);
        assert_eq!(cells(&merged.cells), [("old", "12.0", Outcome::Pass), ("new", "12.6", Outcome::NotRun)]);
        assert!(merged.superseded.is_empty() && !merged.complete);
        let rest = on_gpu("last", 11, "580", &[("12.6", Outcome::Pass)]);
        assert!(merge(vec![merged, rest]).complete);
    }

    #[test]
    fn a_run_given_twice_counts_once() {
        let one = on_gpu("a", 9, "580", &[("12.0", Outcome::Pass)]);
        assert_eq!(merge(vec![one.clone(), one.clone()]), one);
    }

    #[test]
    fn what_one_shard_leaves_out_and_another_runs_is_a_cell() {
        let excluded = |toolkit: &str| crate::model::plan::Excluded {
            axes: cell(toolkit).axes,
            reason: "not in this shard".into(),
            link: None,
        };
        let mut one = on_gpu("a", 9, "580", &[("12.0", Outcome::Pass)]);
        one.excluded = vec![excluded("12.6"), excluded("13.0")];
        let other = on_gpu("b", 9, "580", &[("12.6", Outcome::Pass)]);
        let merged = merge(vec![one, other]);
        assert_eq!(merged.cells.len(), 2);
        assert_eq!(merged.excluded, [excluded("13.0")]);
    }
}
