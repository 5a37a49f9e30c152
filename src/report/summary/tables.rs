//! The tables of one toolkit: timings where something went to a GPU, artifacts where nothing did.
//! Their main types are [`TimingTable`], in the columns of the lesson behind this project, and [`ArtifactTable`].

use std::collections::HashMap;

use super::caches;
use super::compilers;
use super::grid::Common;
use super::mark::Mark;
use super::mode_of;
use super::places::Places;
use crate::model::outcome::Outcome;
use crate::model::path::Family;
use crate::model::record::{GpuMode, Record, Report, Source, SourceKind};
use crate::model::units;

/// The columns of a [`TimingTable`].
pub const TIMING_COLUMNS: [&str; 8] =
    ["path", "version", "build ms", "load ms", "first ms", "mean ms", "GB/s", "launch us"];

/// The columns of an [`ArtifactTable`].
pub const ARTIFACT_COLUMNS: [&str; 8] =
    ["path", "version", "build ms", "bytes", "PTX ISA", "architectures", "registers", "producer"];

/// Stands behind a first launch that a compile is part of.
pub(super) const LATE: char = '†';

/// Stands behind a path whose kernel is not the one that all others compile.
pub(super) const REWRITTEN: char = '‡';

/// What stands where nothing was measured.
pub(super) const NOTHING: &str = "-";

/// The timings of one toolkit.
#[derive(Debug, Clone, PartialEq)]
pub struct TimingTable {
    /// `toolkit 12.6, kernel vector_add, arch 9.0`.
    pub title: String,
    /// Where the toolkit came from.
    pub source: Option<String>,
    /// Which compilers the Python libraries used.
    pub compilers: Option<String>,
    /// The texts under [`TIMING_COLUMNS`].
    pub rows: Vec<[String; 8]>,
}

/// What was made with one toolkit, and not launched.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactTable {
    /// `toolkit 12.6, kernel vector_add, arch 7.5`.
    pub title: String,
    /// Where the toolkit came from.
    pub source: Option<String>,
    /// Which compilers the Python libraries used.
    pub compilers: Option<String>,
    /// The texts under [`ARTIFACT_COLUMNS`].
    pub rows: Vec<[String; 8]>,
}

pub(super) fn tables(report: &Report, places: &Places) -> (Vec<TimingTable>, Vec<ArtifactTable>) {
    let (mut timings, mut artifacts): (Vec<TimingTable>, Vec<ArtifactTable>) = (Vec::new(), Vec::new());
    let (mut timed, mut made): (Vec<Vec<&Record>>, Vec<Vec<&Record>>) = (Vec::new(), Vec::new());
    let mut table_of: HashMap<(String, Common, bool), usize> = HashMap::new();
    for (index, record) in report.cells.iter().enumerate() {
        let common = Common::of(&record.axes, places.of(index));
        let title = format!("toolkit {}, {}", record.axes.toolkit, common.title());
        let launched_nothing = mode_of(report, &record.run) == GpuMode::None;
        let table = table_of.entry((record.axes.toolkit.clone(), common, launched_nothing));
        if launched_nothing && record.artifact.is_some() {
            let at = *table.or_insert_with(|| {
                let source = toolkit_source(report, record);
                artifacts.push(ArtifactTable { title, source, compilers: None, rows: Vec::new() });
                made.push(Vec::new());
                artifacts.len() - 1
            });
            made[at].push(record);
            artifacts[at].rows.push(artifact_row(record));
        } else if !launched_nothing && record.outcome != Outcome::Skip && was_timed(record) {
            let at = *table.or_insert_with(|| {
                let source = toolkit_source(report, record);
                timings.push(TimingTable { title, source, compilers: None, rows: Vec::new() });
                timed.push(Vec::new());
                timings.len() - 1
            });
            timed[at].push(record);
            timings[at].rows.push(timing_row(record));
        }
    }
    for (table, records) in timings.iter_mut().zip(&timed) {
        table.compilers = compilers::words(records);
    }
    for (table, records) in artifacts.iter_mut().zip(&made) {
        table.compilers = compilers::words(records);
    }
    (timings, artifacts)
}

fn was_timed(record: &Record) -> bool {
    let timings = &record.timings;
    [timings.build_ms, timings.load_ms, timings.first_ms, timings.mean_ms].iter().any(Option::is_some)
}

fn timing_row(record: &Record) -> [String; 8] {
    let timings = &record.timings;
    [
        path(record),
        version(record),
        build(record),
        number(timings.load_ms, units::millis),
        first(record),
        number(timings.mean_ms, units::millis),
        number(timings.gbps, units::gbps),
        number(timings.launch_ms, units::micros),
    ]
}

fn artifact_row(record: &Record) -> [String; 8] {
    let artifact = record.artifact.as_ref();
    let text = |value: Option<String>| value.filter(|text| !text.is_empty()).unwrap_or_else(|| NOTHING.into());
    [
        path(record),
        version(record),
        build(record),
        text(artifact.map(|artifact| artifact.bytes.to_string())),
        text(artifact.and_then(|artifact| artifact.ptx_isa).map(|isa| isa.to_string())),
        text(artifact.map(|artifact| artifact.archs.join(" "))),
        text(artifact.and_then(|artifact| artifact.registers).map(|count| count.to_string())),
        text(artifact.map(|artifact| artifact.producer.clone())),
    ]
}

/// The path, and how it ended unless that is the best that could be: a time of a wrong result is no time. Nor is one
/// out of a cache.
fn path(record: &Record) -> String {
    let mut path = record.axes.path.to_string();
    if record.axes.path.family == Family::Numba {
        path.push(REWRITTEN);
    }
    if caches::is_warm(record) {
        path.push_str(" [warm cache]");
    }
    match record.outcome {
        Outcome::Pass | Outcome::Built | Outcome::Loaded => path,
        _ => format!("{path} [{}]", Mark::of(record, GpuMode::None).words),
    }
}

/// The version of the library or program that made the artifact, as it gave it; for the driver family, the driver's.
fn version(record: &Record) -> String {
    let loaded = match record.axes.path.family {
        Family::Driver => &record.loaded.driver,
        Family::Nvrtc => &record.loaded.nvrtc,
        Family::Nvcc => &record.loaded.nvcc,
        Family::CudaCore | Family::Cupy | Family::Numba | Family::Pycuda => &record.loaded.library,
    };
    loaded.as_ref().map_or_else(|| NOTHING.into(), |file| file.version.clone())
}

fn build(record: &Record) -> String {
    let contended = if record.timings.contended == Some(true) { "*" } else { "" };
    record.timings.build_ms.map_or_else(|| NOTHING.into(), |value| format!("{}{contended}", units::millis(value)))
}

fn first(record: &Record) -> String {
    let late = record.axes.path.family.compiles_late() && record.timings.first_ms.is_some();
    let first = number(record.timings.first_ms, units::millis);
    if late { format!("{first}{LATE}") } else { first }
}

pub(super) fn number(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(|| NOTHING.into(), show)
}

/// Where the toolkit of a record came from. The driver family's source is its artifact, so another cell of the same
/// toolkit and run has to tell.
fn toolkit_source(report: &Report, record: &Record) -> Option<String> {
    report
        .cells
        .iter()
        .filter(|other| other.run == record.run && other.axes.toolkit == record.axes.toolkit)
        .filter_map(|other| other.source.as_ref())
        .find(|source| source.kind != SourceKind::Prebuilt)
        .map(source_words)
}

/// `image nvidia/cuda:…`, `wheels …`, `dir …`.
pub(super) fn source_words(source: &Source) -> String {
    let kind = match source.kind {
        SourceKind::Image => "image",
        SourceKind::Wheels => "wheels",
        SourceKind::Dir => "dir",
        SourceKind::Prebuilt => "prebuilt",
    };
    format!("{kind} {}", source.reference)
}
