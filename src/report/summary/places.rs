//! Tells apart, in a merged report, where records were made. Its main type is [`Places`]: nothing to say in a report
//! of one run, the GPU and driver where several were used, and the run where even that would put two records into one
//! slot.

use std::collections::HashSet;

use crate::model::record::{GpuMode, Record, Report, Run};

/// A label for each cell of a report, in the report's order; all empty where there is nothing to tell apart.
#[derive(Debug)]
pub(super) struct Places(Vec<String>);

impl Places {
    pub(super) fn new(report: &Report) -> Self {
        let run_of = |record: &Record| report.runs.iter().find(|run| run.id == record.run);
        let mut labels: Vec<String> =
            report.cells.iter().map(|record| run_of(record).map_or(String::new(), label)).collect();
        let slots: HashSet<(&str, &str)> =
            report.cells.iter().zip(&labels).map(|(record, label)| (record.id.as_str(), label.as_str())).collect();
        if slots.len() < report.cells.len() {
            for (record, label) in report.cells.iter().zip(&mut labels) {
                *label = format!("{label}, run {}", record.run);
            }
        }
        let distinct: HashSet<&String> = labels.iter().collect();
        if distinct.len() < 2 {
            labels.fill(String::new());
        }
        Self(labels)
    }

    /// The label of the cell at `index`.
    pub(super) fn of(&self, index: usize) -> &str {
        &self.0[index]
    }

    /// ` on LABEL`, or nothing.
    pub(super) fn suffix(label: &str) -> String {
        if label.is_empty() { String::new() } else { format!(", {label}") }
    }
}

/// The GPU and driver of a run, in a few words.
pub(super) fn label(run: &Run) -> String {
    match (&run.gpu, run.gpu_mode) {
        (None, _) | (_, GpuMode::None) => "no GPU".into(),
        (Some(gpu), GpuMode::Real) => format!("{}, driver {}", gpu.name, gpu.driver),
        (Some(gpu), GpuMode::Fake) => format!("test driver posing as {}, driver {}", gpu.name, gpu.driver),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::outcome::Outcome;
    use crate::report::merge::merge;
    use crate::report::read;
    use crate::report::summary::Summary;
    use crate::report::testing::{gpu, record, run};

    fn on_gpu(id: &str, uuid: &str, driver: &str, toolkit: &str) -> Report {
        let gpu = Some(gpu(uuid, driver));
        let run = Run { gpu_mode: GpuMode::Real, gpu, ..run(id, "2026-12-01T10:00:00Z") };
        read::report(vec![run], vec![record(id, toolkit, Outcome::Pass)], Vec::new(), Vec::new())
    }

    fn titles(reports: Vec<Report>) -> Vec<String> {
        Summary::new(&merge(reports), &[]).grids.into_iter().map(|grid| grid.title).collect()
    }

    #[test]
    fn shards_on_gpus_of_one_kind_share_a_grid() {
        let shards = vec![on_gpu("a", "GPU-1", "580", "12.0"), on_gpu("b", "GPU-2", "580", "12.6")];
        assert_eq!(titles(shards), ["kernel vector_add, arch 9.0"]);
    }

    #[test]
    fn drivers_are_told_apart_and_so_are_gpus_that_ran_the_same_cell() {
        let drivers = vec![on_gpu("a", "GPU-1", "580", "12.0"), on_gpu("b", "GPU-1", "590", "12.0")];
        assert_eq!(
            titles(drivers),
            [
                "kernel vector_add, arch 9.0, NVIDIA H200, driver 580",
                "kernel vector_add, arch 9.0, NVIDIA H200, driver 590"
            ]
        );
        let gpus = vec![on_gpu("a", "GPU-1", "580", "12.0"), on_gpu("b", "GPU-2", "580", "12.0")];
        assert_eq!(
            titles(gpus),
            [
                "kernel vector_add, arch 9.0, NVIDIA H200, driver 580, run a",
                "kernel vector_add, arch 9.0, NVIDIA H200, driver 580, run b"
            ]
        );
    }
}
