//! The last lines of a report: counts, verdict, which output was bit-identical, and what each column measures.
//! Its main type is [`Verdict`].

use super::mark::Tone;
use super::mode_of;
use super::tables::{LATE, REWRITTEN};
use crate::model::outcome::Outcome;
use crate::model::path::Family;
use crate::model::record::{Bits, GpuMode, Record, Report};
use crate::model::units;

/// How many hexadecimal digits of a hash are shown. The whole hash is in `report.json`.
const SHOWN_DIGITS: usize = 8;

/// Whether everything ended as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it did.
    pub as_expected: bool,
    /// `as expected`, or how many cells are not.
    pub line: String,
    /// Why the run as a whole is not as expected, beyond its cells.
    pub reasons: Vec<String>,
}

impl Verdict {
    pub(super) fn new(report: &Report, verdicts: &[String]) -> Self {
        let unexpected = report.cells.iter().filter(|record| !record.expected).count();
        let mut reasons = verdicts.to_vec();
        if !report.complete {
            let unfinished = report.cells.iter().filter(|record| Tone::of(record) == Tone::Unfinished).count();
            reasons.push(format!("incomplete: {unfinished} of {} cells did not run to their end", report.cells.len()));
        }
        if report.cells.is_empty() && reasons.is_empty() {
            reasons.push("there are no cells".into());
        }
        let claims = super::claims::unexpected(report);
        let line = match (unexpected, reasons.is_empty()) {
            (0, true) => "as expected".to_owned(),
            (0, false) => "not as expected".to_owned(),
            (1, _) => "1 cell not as expected".to_owned(),
            (count, _) => format!("{count} cells not as expected"),
        };
        let as_expected = unexpected == 0 && reasons.is_empty() && claims.is_none();
        let line = match claims {
            None => line,
            Some(claims) if unexpected == 0 && reasons.is_empty() => claims,
            Some(claims) => format!("{line}, {claims}"),
        };
        Self { as_expected, line, reasons }
    }
}

pub(super) fn counts(report: &Report) -> Vec<(Outcome, usize)> {
    let count = |outcome| report.cells.iter().filter(|record| record.outcome == outcome).count();
    Outcome::ALL.into_iter().map(|outcome| (outcome, count(outcome))).filter(|(_, count)| *count > 0).collect()
}

/// The kernel's name, and whether the test driver ran it.
type Key<'a> = (&'a str, bool);
/// A record whose output was compared.
type Launched<'a> = (&'a Record, &'a Bits);

/// For each kernel, and apart for the test driver, how many paths over how many toolkits produced the same bits.
pub(super) fn bit_identity(report: &Report) -> Vec<String> {
    let mut groups: Vec<(Key<'_>, Vec<Launched<'_>>)> = Vec::new();
    for record in &report.cells {
        let Some(bits) = &record.bits else { continue };
        let key = (record.axes.kernel.as_str(), mode_of(report, &record.run) == GpuMode::Fake);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push((record, bits)),
            None => groups.push((key, vec![(record, bits)])),
        }
    }
    if groups.is_empty() {
        let launched = report.runs.iter().any(|run| run.gpu_mode != GpuMode::None);
        return vec![if launched {
            "No cell got as far as a launch: no output to compare.".into()
        } else {
            "Nothing was launched: no output to compare.".into()
        }];
    }
    let several = groups.iter().any(|((kernel, _), _)| *kernel != groups[0].0.0);
    let line = |((kernel, fake), group): &(Key<'_>, Vec<Launched<'_>>)| {
        let mut line = identical(group);
        if several {
            line = format!("kernel {kernel}: {line}");
        }
        if *fake { format!("On the test driver, not on a GPU: {line}") } else { line }
    };
    groups.iter().map(line).collect()
}

fn identical(group: &[Launched<'_>]) -> String {
    let right: Vec<_> = group.iter().filter(|(_, bits)| bits.mismatches == 0 && bits.checked > 0).collect();
    let wrong = group.len() - right.len();
    let mut hashes: Vec<&str> = right.iter().map(|(_, bits)| bits.sha256.as_str()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let distinct = |value: &dyn Fn(&Record) -> String| {
        let mut values: Vec<String> = right.iter().map(|(record, _)| value(record)).collect();
        values.sort();
        values.dedup();
        values.len()
    };
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut line = match hashes.as_slice() {
        [] => "no cell produced the expected bits".to_owned(),
        [hash] => format!(
            "{} over {} produced bit-identical output ({} launched and right, sha256 {})",
            plural(distinct(&|record| record.axes.path.to_string()), "path"),
            plural(distinct(&|record| record.axes.toolkit.clone()), "toolkit"),
            plural(right.len(), "cell"),
            shown(hash),
        ),
        // Each was right against its own reference, yet the outputs differ: the references did.
        several => format!(
            "{} produced {} different outputs (sha256 {})",
            plural(right.len(), "cell"),
            several.len(),
            several.iter().map(|hash| shown(hash)).collect::<Vec<_>>().join(", ")
        ),
    };
    if wrong > 0 {
        line = format!("{line}; {} produced WRONG BITS", plural(wrong, "cell"));
    }
    format!("{line}.")
}

fn shown(hash: &str) -> String {
    match hash.char_indices().nth(SHOWN_DIGITS) {
        Some((cut, _)) => format!("{}…", &hash[..cut]),
        None => hash.into(),
    }
}

/// What each column of the tables that are shown means.
pub(super) fn legend(report: &Report, timings: bool, artifacts: bool) -> Vec<String> {
    let mut legend: Vec<String> = Vec::new();
    if timings || artifacts {
        legend.push("build: wall clock round the compile step; the driver paths compile nothing.".into());
    }
    if timings {
        legend.push("load: wall clock round module load and get function; for PTX that is the driver's JIT.".into());
        legend.push("first: wall clock round the first launch, up to its synchronisation.".into());
        legend.push(format!(
            "mean: CUDA events round the timed launches, divided by their number{}.",
            sampling(report).map_or(String::new(), |(warmup, timed)| format!("; {warmup} to warm up, then {timed}"))
        ));
        legend.push(format!("GB/s: the bytes that must move, over mean{}.", cached(report)));
        if report.cells.iter().any(|record| record.timings.launch_ms.is_some()) {
            legend.push(
                "launch: what one launch of a small grid costs the host, not synchronised; the median of batches into an \
                 idle stream."
                    .into(),
            );
        }
        legend.push(
            "first alone would report a compiler: a library that defers compiling pays for it there, one that does \
             not pays under build or load."
                .into(),
        );
    }
    let any = |wanted: &dyn Fn(&Record) -> bool| report.cells.iter().any(wanted);
    if timings && any(&|record| record.axes.path.family.compiles_late() && record.timings.first_ms.is_some()) {
        legend.push(format!(
            "{LATE}: a compile is in it: CuPy and Numba compile in their first launch, and their build only readies that."
        ));
    }
    let tabled = |record: &Record| record.artifact.is_some() || record.timings.first_ms.is_some();
    if any(&|record| record.axes.path.family == Family::Numba && tabled(record)) {
        legend.push(format!(
            "{REWRITTEN}: a re-implementation of the kernel in Python; every other path has the one CUDA C++ source."
        ));
    }
    if artifacts {
        legend.push("version: what the loaded library or program says of itself.".into());
        legend
            .push("PTX ISA, architectures, registers: read from the artifact itself; - where it does not say.".into());
    }
    if report.cells.iter().any(|record| record.timings.contended == Some(true)) {
        legend.push("*: other jobs ran at the same time, so this compares with nothing.".into());
    }
    legend
}

fn sampling(report: &Report) -> Option<(u32, u32)> {
    let mut numbers = report.cells.iter().filter_map(|record| record.timings.warmup.zip(record.timings.timed));
    let first = numbers.next()?;
    numbers.all(|other| other == first).then_some(first)
}

/// A word of warning where the data fit the level-2 cache: then the rate is not the memory's.
fn cached(report: &Report) -> String {
    let working_set = report.cells.iter().filter(|record| record.timings.gbps.is_some()).find_map(|record| {
        // Two inputs and one output of four bytes an element.
        let bytes = 12 * record.bits.as_ref()?.checked;
        let run = report.runs.iter().find(|run| run.id == record.run)?;
        let l2 = run.gpu.as_ref().filter(|_| run.gpu_mode == GpuMode::Real)?.l2_bytes;
        (bytes > 0 && bytes <= l2).then_some((bytes, l2))
    });
    working_set.map_or(String::new(), |(bytes, l2)| {
        format!(
            "; the {} fit the GPU's {} level-2 cache, so this is not its memory's rate",
            units::bytes(bytes),
            units::bytes(l2)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::read;
    use crate::report::testing::{gpu, record, run};

    /// A run on a GPU: for each toolkit, the hash of its output and how many elements are wrong.
    fn launched(cells: &[(&str, &str, u64)]) -> Report {
        let run = crate::model::record::Run {
            gpu_mode: GpuMode::Real,
            gpu: Some(gpu("GPU-1", "580")),
            ..run("r1", "2026-12-01T10:00:00Z")
        };
        let cells = cells
            .iter()
            .map(|(toolkit, sha256, mismatches)| Record {
                bits: Some(Bits { checked: 4, mismatches: *mismatches, first: None, sha256: (*sha256).into() }),
                ..record("r1", toolkit, Outcome::Pass)
            })
            .collect();
        read::report(vec![run], cells, Vec::new(), Vec::new())
    }

    #[test]
    fn only_right_and_equal_outputs_are_called_identical() {
        assert_eq!(
            bit_identity(&launched(&[("12.0", "0123456789", 0), ("12.6", "0123456789", 0)])),
            ["1 path over 2 toolkits produced bit-identical output (2 cells launched and right, sha256 01234567…)."]
        );
        assert_eq!(
            bit_identity(&launched(&[("12.0", "aa", 0), ("12.6", "aa", 1)])),
            ["1 path over 1 toolkit produced bit-identical output (1 cell launched and right, sha256 aa); 1 cell \
              produced WRONG BITS."]
        );
        assert_eq!(
            bit_identity(&launched(&[("12.0", "bb", 0), ("12.6", "aa", 0)])),
            ["2 cells produced 2 different outputs (sha256 aa, bb)."]
        );
        assert_eq!(
            bit_identity(&launched(&[("12.0", "aa", 2)])),
            ["no cell produced the expected bits; 1 cell produced WRONG BITS."]
        );
    }

    #[test]
    fn without_output_there_is_nothing_to_compare() {
        let mut report = launched(&[("12.0", "aa", 0)]);
        report.cells[0].bits = None;
        assert_eq!(bit_identity(&report), ["No cell got as far as a launch: no output to compare."]);
        report.runs[0].gpu_mode = GpuMode::None;
        assert_eq!(bit_identity(&report), ["Nothing was launched: no output to compare."]);
    }

    #[test]
    fn a_run_can_be_not_as_expected_though_its_cells_are() {
        let report = launched(&[("12.0", "aa", 0)]);
        assert!(Verdict::new(&report, &[]).as_expected);
        let verdict = Verdict::new(&report, &["nothing was built".into()]);
        assert_eq!((verdict.as_expected, verdict.line.as_str()), (false, "not as expected"));
        let empty = read::report(report.runs, Vec::new(), Vec::new(), Vec::new());
        assert_eq!(Verdict::new(&empty, &[]).reasons, ["there are no cells"]);
    }
}
