//! What ran, where, and on what: the first lines of a report. Its main type is [`Headline`].

use super::tables::source_words;
use super::{places, stacks};
use crate::model::axes::Axes;
use crate::model::canary::Canary;
use crate::model::record::{EngineInfo, EngineKind, Gpu, GpuMode, Host, Report, Run, SourceKind};
use crate::model::units;

/// The first lines of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// `14 cells (2 toolkits, 7 paths) on NVIDIA H200, driver 580.159.04`.
    pub title: String,
    /// What nobody may overlook.
    pub alarms: Vec<String>,
    /// A label and a text each.
    pub facts: Vec<(String, String)>,
    /// Remarks on the whole run.
    pub notes: Vec<String>,
}

impl Headline {
    pub(super) fn new(report: &Report) -> Self {
        let mut facts = Vec::new();
        match report.runs.as_slice() {
            [run] => facts.extend(run_facts(run)),
            runs => facts.extend(runs.iter().map(|run| (format!("run {}", run.id), run_line(run)))),
        }
        facts.extend(toolkits(report));
        Self { title: title(report), alarms: alarms(report), facts, notes: notes(report) }
    }
}

fn title(report: &Report) -> String {
    let axis = |value: &dyn Fn(&Axes) -> String| distinct(report.cells.iter().map(|record| value(&record.axes))).len();
    let places = distinct(report.runs.iter().map(places::label));
    let on = match places.as_slice() {
        [] => String::new(),
        [one] if one == "no GPU" => "; no GPU, nothing was launched".into(),
        [one] => format!(" on {one}"),
        several => format!(" on {}", several.join("; ")),
    };
    let count = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let mut parts =
        vec![count(axis(&|axes| axes.toolkit.clone()), "toolkit"), count(axis(&|axes| axes.path.to_string()), "path")];
    for (number, word) in [(axis(&|axes| axes.kernel.clone()), "kernel"), (axis(&|axes| axes.arch.to_string()), "arch")]
    {
        if number > 1 {
            parts.push(count(number, word));
        }
    }
    format!("{} ({}){on}", count(report.cells.len(), "cell"), parts.join(", "))
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn alarms(report: &Report) -> Vec<String> {
    let mut alarms = Vec::new();
    if report.runs.iter().any(|run| run.gpu_mode == GpuMode::Fake) {
        alarms.push(
            "TEST DRIVER, NOT A GPU: a stand-in for NVIDIA's libcuda answered. Nothing here was launched on a GPU, and \
             no pass here is a pass on a GPU."
                .into(),
        );
    }
    // A run that shows no failure where there must be one shows nothing.
    let dead = report.runs.iter().filter_map(|run| run.canary.as_ref()).filter(|canary| !canary.valid);
    alarms.extend(dead.filter_map(Canary::complaint).map(|complaint| format!("INVALID: {complaint}")));
    if !report.complete {
        alarms.push("INCOMPLETE: not every planned cell ran to its end.".into());
    }
    alarms
}

fn run_facts(run: &Run) -> Vec<(String, String)> {
    let fact = |label: &str, text: String| (label.to_owned(), text);
    let gpu = run.gpu.as_ref().map_or_else(|| "none: nothing was launched".into(), |gpu| gpu_words(gpu, run.gpu_mode));
    vec![
        fact("run", format!("{} by ctk-matrix {}, {}", run.id, run.version, times(run))),
        fact("command", run.command.clone()),
        fact("matrix", run.matrix.clone()),
        fact("engine", format!("{}; GPU attach: {}", engine(&run.engine, run.jobs), run.attach)),
        fact("GPU", gpu),
        fact("host", host(&run.host)),
    ]
}

fn run_line(run: &Run) -> String {
    let gpu = run.gpu.as_ref().map_or_else(|| "no GPU".into(), |gpu| gpu_words(gpu, run.gpu_mode));
    format!("{}; {}; attach {}; {gpu}; {}", times(run), engine(&run.engine, run.jobs), run.attach, host(&run.host))
}

fn times(run: &Run) -> String {
    let took = run.finished.as_ref().map(|finished| {
        let span: Option<(jiff::Timestamp, jiff::Timestamp)> = run.started.parse().ok().zip(finished.parse().ok());
        span.map_or(String::new(), |(from, to)| {
            format!(", took {}", units::seconds(to.duration_since(from).as_secs_f64()))
        })
    });
    format!("started {}{}", run.started, took.unwrap_or_else(|| ", without an end".into()))
}

fn engine(engine: &EngineInfo, jobs: usize) -> String {
    let mut words = match engine.kind {
        EngineKind::Docker => "docker".to_owned(),
        EngineKind::Process => "process (no containers)".to_owned(),
    };
    if let Some(version) = &engine.version {
        words = format!("{words} {version}");
    }
    if let Some(api) = &engine.api {
        words = format!("{words} (API {api})");
    }
    format!("{words}, {jobs} {} at a time", if jobs == 1 { "job" } else { "jobs" })
}

fn gpu_words(gpu: &Gpu, mode: GpuMode) -> String {
    let who = match mode {
        GpuMode::Real | GpuMode::None => "",
        GpuMode::Fake => "TEST DRIVER posing as ",
    };
    let driver = if gpu.driver.is_empty() { "version unknown" } else { &gpu.driver };
    format!("{who}{}, compute capability {}, driver {driver} (CUDA {}), {}", gpu.name, gpu.cc, gpu.cuda, gpu.uuid)
}

fn host(host: &Host) -> String {
    let mut parts = vec![format!("{} {}", host.os, host.arch)];
    parts.extend(host.glibc.as_ref().map(|version| format!("glibc {version}")));
    parts.extend(Some(&host.kernel).filter(|kernel| !kernel.is_empty()).map(|kernel| format!("kernel {kernel}")));
    parts.extend(Some(host.cpus).filter(|cpus| *cpus > 0).map(|cpus| format!("{cpus} CPUs")));
    parts.join(", ")
}

/// Where the toolkits came from: one text for each source kind, images and folders by name.
fn toolkits(report: &Report) -> Option<(String, String)> {
    let mut sources: Vec<(String, Vec<String>)> = Vec::new();
    for record in &report.cells {
        let Some(source) = record.source.as_ref().filter(|source| source.kind != SourceKind::Prebuilt) else {
            continue;
        };
        let words = if source.kind == SourceKind::Wheels { "NVIDIA's wheels".into() } else { source_words(source) };
        let name = &record.axes.toolkit;
        match sources.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) if names.contains(name) => {}
            Some((_, names)) => names.push(name.clone()),
            None => sources.push((words, vec![name.clone()])),
        }
    }
    let words: Vec<_> =
        sources.into_iter().map(|(words, names)| format!("{} from {words}", names.join(", "))).collect();
    (!words.is_empty()).then(|| ("toolkits".into(), words.join("; ")))
}

fn notes(report: &Report) -> Vec<String> {
    const WHEELS: &str = "wheels, not NVIDIA's image";
    let wheels = |record: &&crate::model::record::Record| {
        record.source.as_ref().is_some_and(|source| source.kind == SourceKind::Wheels)
    };
    let from_wheels = distinct(report.cells.iter().filter(wheels).map(|record| record.axes.toolkit.clone()));
    let mut notes = Vec::new();
    if !from_wheels.is_empty() {
        let engine =
            if report.runs.iter().all(|run| run.engine.kind == EngineKind::Process) { " --engine docker" } else { "" };
        notes.push(format!(
            "{WHEELS}: {}. For nvidia/cuda images, whose size is said before they are pulled: ctk-matrix \
             run{engine} --source image",
            from_wheels.join(", ")
        ));
    }
    let several = report.runs.len() > 1;
    for run in &report.runs {
        // What provisioning says of wheels is said above, once for all toolkits, and what it says of stacks has a section.
        for note in run.notes.iter().filter(|note| !note.contains(WHEELS) && !stacks::says(&run.stacks, note)) {
            notes.push(if several { format!("run {}: {note}", run.id) } else { note.clone() });
        }
    }
    notes
}
