//! What became of the stacks of Python packages, as all renderers show it: each once where the runs agree, and where
//! they do not, how they differ. The main types are [`StackView`] and [`Told`].

use std::collections::BTreeSet;

use super::caches;
use super::cellset::CellSet;
use super::differences::{Compared, Seen, agreed, compare, shown};
use crate::model::outcome::{Outcome, Stage};
use crate::model::record::{Record, Report, Run};
use crate::model::stack::{StackImage, StackRecord, normalised};

/// What pip says where it has no complaint.
const SOUND: &str = "No broken requirements found.";

/// How pip's silence opens, where it was not asked.
const NOT_ASKED: &str = "not asked";

/// One stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackView {
    /// `lesson`.
    pub name: String,
    /// `lesson: Python 3.12.3 (asked: 3.12)`.
    pub title: String,
    /// What nobody may overlook.
    pub warnings: Vec<String>,
    /// Labels, each with what it stands for, in order.
    pub facts: Vec<(&'static str, Told)>,
}

/// What stands behind a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A sentence.
    Text(String),
    /// Things of which there can be many: packages.
    List(Vec<String>),
}

pub(super) fn views(report: &Report) -> Vec<StackView> {
    let places: Vec<Vec<String>> = report.runs.iter().map(|run| places(report, run)).collect();
    let mut stacks: Vec<(&str, Vec<Seen<'_>>)> = Vec::new();
    for (run, places) in report.runs.iter().zip(&places) {
        for (record, place) in run.stacks.iter().zip(places) {
            let seen = Seen { place, record };
            match stacks.iter_mut().find(|(name, _)| *name == record.name) {
                Some((_, all)) => all.push(seen),
                None => stacks.push((&record.name, vec![seen])),
            }
        }
    }
    let mut views: Vec<StackView> = Vec::new();
    for (at, (name, all)) in stacks.iter().enumerate() {
        let earlier = stacks[..at].iter().find(|(_, other)| is_same_request(other[0].record, all[0].record));
        views.push(view(report, name, all, earlier.map(|(_, other)| other[0].record)));
    }
    let known: BTreeSet<&str> = stacks.iter().map(|(name, _)| *name).collect();
    views.extend(missing(report, &known));
    views
}

/// Where each of a run's stacks was, so that one can be told from another of its name: `run R`, and on what, where that
/// run had several.
fn places(report: &Report, run: &Run) -> Vec<String> {
    let place = |record: &StackRecord| {
        let of_run = format!("run {}", run.id);
        if run.stacks.iter().filter(|other| other.name == record.name).count() == 1 {
            return of_run;
        }
        let bases: Vec<&str> = record.images.iter().map(|image| image.base.as_str()).collect();
        let on = if bases.is_empty() { "this machine".to_owned() } else { format!("image {}", bases.join(" and ")) };
        if report.runs.len() == 1 { on } else { format!("{of_run} on {on}") }
    };
    run.stacks.iter().map(place).collect()
}

/// How many warnings there are, and on which stacks.
pub(super) fn count(views: &[StackView]) -> Option<String> {
    let warned: Vec<&StackView> = views.iter().filter(|view| !view.warnings.is_empty()).collect();
    let count: usize = warned.iter().map(|view| view.warnings.len()).sum();
    let names: Vec<&str> = warned.iter().map(|view| view.name.as_str()).collect();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    (count > 0).then(|| {
        format!("{count} warning{} on stack{} {}: see Stacks.", plural(count), plural(names.len()), names.join(", "))
    })
}

/// Whether a remark of a run says what is said of its stacks anyway.
pub(super) fn says(stacks: &[StackRecord], note: &str) -> bool {
    stacks.iter().any(|stack| {
        let rest = note.strip_prefix("stack ").and_then(|rest| rest.strip_prefix(stack.name.as_str()));
        rest.and_then(|rest| rest.strip_prefix(": "))
            .is_some_and(|text| text.starts_with("installing ") || stack.warnings.iter().any(|warning| warning == text))
    })
}

fn view(report: &Report, name: &str, all: &[Seen<'_>], same_request: Option<&StackRecord>) -> StackView {
    let mut warnings: Vec<String> = Vec::new();
    let mut warn = |text: String| {
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    };
    all.iter().flat_map(|seen| &seen.record.warnings).cloned().for_each(&mut warn);
    let mut facts = Vec::new();
    facts.extend(asked(all));
    facts.extend(images(all));
    let lists: Vec<_> = all.iter().map(|seen| (*seen, seen.record.resolved.as_slice())).collect();
    let Compared { alike, mut differences } = compare(&lists);
    facts.extend((!alike.is_empty()).then_some(("resolved", Told::List(alike))));
    for toolkit in toolkits(all) {
        // A shard that had no use for the toolkit has built nothing against it, which is no difference.
        let built = all.iter().flat_map(|seen| seen.record.built.iter().map(move |built| (*seen, built)));
        let of_toolkit = built.filter(|(_, built)| built.toolkit == toolkit);
        let lists: Vec<_> = of_toolkit.map(|(seen, built)| (seen, built.packages.as_slice())).collect();
        let compared = compare(&lists);
        differences.extend(compared.differences);
        let packages = asked_first(compared.alike, &all[0].record.asked);
        facts.extend(list(&format!("against toolkit {toolkit}: "), packages).map(|list| ("built", list)));
    }
    let complaint = |check: &str| check != SOUND && !check.starts_with(NOT_ASKED);
    let checks: Vec<(&str, String)> = all.iter().map(|seen| (seen.place, seen.record.check.clone())).collect();
    match agreed(&checks) {
        check if check.is_empty() => {}
        check if checks.iter().any(|(_, one)| !one.is_empty() && complaint(one)) => warn(format!("pip check: {check}")),
        check => facts.push(("pip check", Told::Text(check))),
    }
    let cells: Vec<&Record> = report.cells.iter().filter(|cell| cell.axes.stack.as_deref() == Some(name)).collect();
    facts.extend(caches::words(&cells).map(|words| ("caches", Told::Text(words))));
    cells.iter().filter_map(|cell| caches::warm(cell)).for_each(&mut warn);
    facts.extend(unprovided(report, &cells).map(|why| ("missing", Told::Text(why))));
    facts.extend(shown(differences).into_iter().map(|text| ("differs", Told::Text(text))));
    facts.extend(same_request.into_iter().flat_map(|other| answers(other, all[0].record)));
    StackView { name: name.into(), title: format!("{name}: {}", agreed(&pythons(all))), warnings, facts }
}

/// Stacks that cells have and no run could put together: why not is what is known of them.
fn missing(report: &Report, known: &BTreeSet<&str>) -> Vec<StackView> {
    let mut names: Vec<&str> = Vec::new();
    for name in report.cells.iter().filter_map(|cell| cell.axes.stack.as_deref()) {
        if !known.contains(name) && !names.contains(&name) {
            names.push(name);
        }
    }
    let view = |name: &str| {
        let cells: Vec<&Record> = report.cells.iter().filter(|cell| cell.axes.stack.as_deref() == Some(name)).collect();
        let facts: Vec<_> = unprovided(report, &cells).map(|why| ("missing", Told::Text(why))).collect();
        (!facts.is_empty()).then(|| StackView {
            name: name.into(),
            title: format!("{name}: it could not be put together"),
            warnings: Vec::new(),
            facts,
        })
    };
    names.into_iter().filter_map(view).collect()
}

/// Which libraries could not be had, and why. What a toolkit's own paths failed for too is the toolkit's affair.
fn unprovided(report: &Report, cells: &[&Record]) -> impl Iterator<Item = String> {
    let shared = |cell: &Record| {
        report.cells.iter().any(|other| {
            !other.axes.path.family.is_python()
                && (&other.run, &other.axes.toolkit, other.stage, &other.reason)
                    == (&cell.run, &cell.axes.toolkit, cell.stage, &cell.reason)
        })
    };
    let mut reasons: Vec<(&str, Vec<&crate::model::axes::Axes>)> = Vec::new();
    let failed = cells.iter().filter(|cell| {
        cell.axes.path.family.is_python()
            && cell.stage == Some(Stage::Provision)
            && matches!(cell.outcome, Outcome::Fail | Outcome::ExpectedFail)
            && !shared(cell)
    });
    for cell in failed {
        let reason = cell.reason.as_deref().unwrap_or("no reason given");
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, axes)) => axes.push(&cell.axes),
            None => reasons.push((reason, vec![&cell.axes])),
        }
    }
    let set = CellSet::new(report);
    let lines: Vec<String> =
        reasons.into_iter().map(|(reason, axes)| format!("{}: {reason}", set.words(&axes))).collect();
    lines.into_iter()
}

fn pythons<'a>(all: &[Seen<'a>]) -> Vec<(&'a str, String)> {
    let words = |record: &StackRecord| {
        let found = &record.python_version;
        match (found.is_empty(), record.python.as_str()) {
            (true, asked) => format!("Python {asked}"),
            (false, "host") => format!("Python {found}, with what is installed for it"),
            (false, asked) => format!("Python {found} (asked: {asked})"),
        }
    };
    all.iter().map(|seen| (seen.place, words(seen.record))).collect()
}

/// What was asked: once, or by place where that differs.
fn asked(all: &[Seen<'_>]) -> Vec<(&'static str, Told)> {
    let first = &all[0].record.asked;
    if all.iter().all(|seen| seen.record.asked == *first) {
        return list("", first.clone()).map(|list| ("asked", list)).into_iter().collect();
    }
    let one = |seen: &Seen<'_>| list(&format!("in {}: ", seen.place), seen.record.asked.clone());
    all.iter().filter_map(|seen| Some(("asked", one(seen)?))).collect()
}

/// The images whose Python it was, each once.
fn images(all: &[Seen<'_>]) -> Vec<(&'static str, Told)> {
    let mut lines: Vec<String> = Vec::new();
    for image in all.iter().flat_map(|seen| &seen.record.images) {
        let StackImage { toolkit, base, python, built, .. } = image;
        let python = python.display();
        let line = match built {
            Some(built) => format!("{} for toolkit {toolkit}, built from {base} with its {python}", built.reference),
            None => format!("{base} for toolkit {toolkit}, with its {python}"),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.into_iter().map(|line| ("image", Told::Text(line))).collect()
}

/// What was asked for, before what came along with it.
fn asked_first(mut packages: Vec<String>, asked: &[String]) -> Vec<String> {
    let asked: BTreeSet<String> = asked.iter().map(|requirement| normalised(requirement)).collect();
    packages.sort_by_key(|package| !asked.contains(&normalised(package)));
    packages
}

/// A list whose first item opens with `head`; none where it is empty.
fn list(head: &str, mut items: Vec<String>) -> Option<Told> {
    let first = items.first_mut()?;
    first.insert_str(0, head);
    Some(Told::List(items))
}

fn toolkits<'a>(all: &[Seen<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for built in all.iter().flat_map(|seen| &seen.record.built) {
        if !names.contains(&built.toolkit.as_str()) {
            names.push(&built.toolkit);
        }
    }
    names
}

/// Whether pip was asked for the same by two stacks: then another answer is the Python's, or the day's.
fn is_same_request(a: &StackRecord, b: &StackRecord) -> bool {
    let sorted = |record: &StackRecord| record.asked.iter().cloned().collect::<BTreeSet<_>>();
    !a.asked.is_empty() && sorted(a) == sorted(b)
}

/// How the answer to the same request differs from an earlier stack's.
fn answers(earlier: &StackRecord, here: &StackRecord) -> Vec<(&'static str, Told)> {
    let place = |record: &StackRecord| format!("stack {}", record.name);
    let (there, own) = (place(earlier), place(here));
    let compared = compare(&[
        (Seen { place: &there, record: earlier }, &earlier.resolved),
        (Seen { place: &own, record: here }, &here.resolved),
    ]);
    if compared.differences.is_empty() {
        return Vec::new();
    }
    let (python, own) = (&earlier.python_version, &here.python_version);
    let why = if python == own { String::new() } else { format!(" on Python {python}, {own} here") };
    let head = format!("the same was asked by {there}{why}, and resolved otherwise");
    let lines = [head].into_iter().chain(shown(compared.differences));
    lines.map(|text| ("differs", Told::Text(text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stack::{Built, BuiltImage, Package};
    use crate::report::read;
    use crate::report::testing::{record, run};

    fn package(text: &str) -> Package {
        let (name, version) = text.split_once(' ').unwrap();
        Package { name: name.into(), version: version.into(), sha256: Some("00".into()), requires: Vec::new() }
    }

    fn stack(name: &str, python: &str, packages: &[&str]) -> StackRecord {
        StackRecord {
            name: name.into(),
            python: python.rsplit_once('.').unwrap().0.into(),
            python_version: python.into(),
            asked: vec!["numba-cuda".into()],
            resolved: packages.iter().map(|text| package(text)).collect(),
            built: Vec::new(),
            images: Vec::new(),
            check: SOUND.into(),
            warnings: Vec::new(),
        }
    }

    fn of_runs(runs: Vec<(&str, Vec<StackRecord>)>) -> Vec<StackView> {
        let runs = runs.into_iter().map(|(id, stacks)| Run { stacks, ..run(id, "2026-12-01T10:00:00Z") });
        views(&read::report(runs.collect(), Vec::new(), Vec::new(), Vec::new()))
    }

    /// The facts of a view, `label: text`.
    fn facts(view: &StackView) -> Vec<String> {
        let words = |told: &Told| match told {
            Told::Text(text) => text.clone(),
            Told::List(items) => items.join(", "),
        };
        view.facts.iter().map(|(label, told)| format!("{label}: {}", words(told))).collect()
    }

    #[test]
    fn runs_that_agree_show_a_stack_once() {
        let one = stack("s", "3.11.7", &["numba-cuda 0.30.4", "numpy 2.4.6"]);
        let views = of_runs(vec![("a", vec![one.clone()]), ("b", vec![one])]);
        assert_eq!(views.len(), 1);
        assert_eq!(views[0].title, "s: Python 3.11.7 (asked: 3.11)");
        assert_eq!(
            facts(&views[0]),
            ["asked: numba-cuda", "resolved: numba-cuda 0.30.4, numpy 2.4.6", &format!("pip check: {SOUND}")]
        );
    }

    #[test]
    fn what_runs_resolved_otherwise_is_said_by_package() {
        let old = stack("s", "3.11.7", &["numba-cuda 0.30.4", "numpy 2.4.6"]);
        let new = stack("s", "3.12.3", &["numba-cuda 0.30.4", "numpy 2.5.0", "packaging 26.4"]);
        let views = of_runs(vec![("a", vec![old.clone()]), ("b", vec![new]), ("c", vec![old])]);
        assert_eq!(
            views[0].title,
            "s: Python 3.11.7 (asked: 3.11) in run a, run c; Python 3.12.3 (asked: 3.12) in run b"
        );
        let told = facts(&views[0]);
        assert_eq!(told[1], "resolved: numba-cuda 0.30.4");
        assert_eq!(
            told[3..],
            [
                "differs: numpy: 2.4.6 in run a, run c; 2.5.0 in run b",
                "differs: packaging: none in run a, run c; 26.4 in run b"
            ]
        );
    }

    #[test]
    fn one_request_with_two_answers_is_brought_out() {
        let old = stack("py311", "3.11.7", &["numba-cuda 0.30.4", "numpy 2.4.6"]);
        let new = stack("py312", "3.12.3", &["numba-cuda 0.30.4", "numpy 2.5.0"]);
        let views = of_runs(vec![("a", vec![old, new])]);
        assert_eq!(
            facts(&views[1])[3..],
            [
                "differs: the same was asked by stack py311 on Python 3.11.7, 3.12.3 here, and resolved otherwise",
                "differs: numpy: 2.4.6 in stack py311; 2.5.0 in stack py312"
            ]
        );
        assert!(!facts(&views[0]).iter().any(|fact| fact.starts_with("differs")));
    }

    #[test]
    fn the_same_version_from_another_file_is_no_agreement() {
        let one = stack("s", "3.11.7", &["numpy 2.4.6"]);
        let mut other = one.clone();
        other.resolved[0].sha256 = Some("1122334455".into());
        let views = of_runs(vec![("a", vec![one.clone()]), ("b", vec![other.clone()])]);
        let told = facts(&views[0]);
        assert_eq!(told[3], "differs: numpy 2.4.6, another file: sha256 00 in run a; 11223344 in run b");
        other.python_version = "3.12.3".into();
        let views = of_runs(vec![("a", vec![one]), ("b", vec![other])]);
        assert!(!facts(&views[0]).iter().any(|fact| fact.starts_with("differs")));
    }

    #[test]
    fn shards_build_against_their_own_toolkits() {
        let built = |toolkit: &str, version: &str| StackRecord {
            built: vec![Built { toolkit: toolkit.into(), packages: vec![package(&format!("pycuda {version}"))] }],
            ..stack("s", "3.11.7", &["numpy 2.4.6"])
        };
        let views = of_runs(vec![("a", vec![built("12.4", "2026.1")]), ("b", vec![built("13.0", "2026.1")])]);
        let told = facts(&views[0]);
        assert_eq!(
            told[2..4],
            ["built: against toolkit 12.4: pycuda 2026.1", "built: against toolkit 13.0: pycuda 2026.1"]
        );
        let views = of_runs(vec![("a", vec![built("12.4", "2026.1")]), ("b", vec![built("12.4", "2026.2")])]);
        assert!(facts(&views[0]).contains(&"differs: pycuda: 2026.1 in run a; 2026.2 in run b".to_owned()));
    }

    #[test]
    fn the_image_whose_python_it_was_is_named_once() {
        let image = |built| StackImage {
            toolkit: "12.6".into(),
            base: "my-python".into(),
            base_id: "sha256:1".into(),
            python: "/usr/bin/python3.13".into(),
            built,
        };
        let built = BuiltImage { reference: "ctk-matrix/python:00ff".into(), id: "sha256:2".into() };
        let on = |images: Vec<StackImage>| StackRecord { images, ..stack("s", "3.13.5", &["numpy 2.4.6"]) };
        let one = on(vec![image(None)]);
        let views = of_runs(vec![("a", vec![one.clone()]), ("b", vec![one])]);
        assert_eq!(facts(&views[0])[1], "image: my-python for toolkit 12.6, with its /usr/bin/python3.13");
        let views = of_runs(vec![("a", vec![on(vec![image(Some(built))])])]);
        let line = "image: ctk-matrix/python:00ff for toolkit 12.6, built from my-python with its /usr/bin/python3.13";
        assert_eq!(facts(&views[0])[1], line);
    }

    #[test]
    fn one_run_may_have_a_stack_in_several_environments() {
        let on = |base: &str, numpy: &str, check: &str| StackRecord {
            images: vec![StackImage {
                toolkit: base.into(),
                base: base.into(),
                base_id: "sha256:1".into(),
                python: "/usr/bin/python3.12".into(),
                built: None,
            }],
            check: check.into(),
            ..stack("s", "3.12.3", &[numpy])
        };
        let complaint = "a 1 requires b, which is not installed.";
        let views = of_runs(vec![("r", vec![on("one", "numpy 2.4.6", SOUND), on("two", "numpy 2.5.0", complaint)])]);
        assert!(facts(&views[0]).contains(&"differs: numpy: 2.4.6 in image one; 2.5.0 in image two".to_owned()));
        let warning = format!("pip check: {SOUND} in image one; {complaint} in image two");
        assert_eq!(views[0].warnings, [warning]);
    }

    #[test]
    fn a_toolkit_that_does_not_come_is_no_stack_that_does_not() {
        let failed = |path: &str, reason: &str| {
            let mut record = record("r", "12.6", Outcome::Fail);
            record.axes.path = path.parse().unwrap();
            record.axes.stack = Some("s".into());
            (record.id, record.stage) = (format!("path={path}"), Some(Stage::Provision));
            record.reason = Some(reason.into());
            record
        };
        let of = |cells: Vec<Record>| {
            views(&read::report(vec![run("r", "2026-12-01T10:00:00Z")], cells, Vec::new(), Vec::new())).len()
        };
        let reason = "pip cannot reach its package index";
        assert_eq!(of(vec![failed("nvrtc-cubin", reason), failed("cupy", reason)]), 0);
        assert_eq!(of(vec![failed("cupy", reason)]), 1);
    }

    #[test]
    fn a_complaint_of_pip_is_a_warning_and_each_warning_is_said_once() {
        let broken = StackRecord {
            check: "a 1 requires b, which is not installed.".into(),
            warnings: vec!["majors are mixed".into()],
            ..stack("s", "3.11.7", &["a 1"])
        };
        let views = of_runs(vec![("a", vec![broken.clone()]), ("b", vec![broken])]);
        assert_eq!(views[0].warnings, ["majors are mixed", "pip check: a 1 requires b, which is not installed."]);
        assert_eq!(count(&views).as_deref(), Some("2 warnings on stack s: see Stacks."));
        let silent =
            StackRecord { check: "not asked: the packages are in image i".into(), ..stack("s", "3.11.7", &[]) };
        let views = of_runs(vec![("a", vec![silent])]);
        assert!(views[0].warnings.is_empty() && count(&views).is_none());
        assert_eq!(facts(&views[0])[1], "pip check: not asked: the packages are in image i");
    }
}
