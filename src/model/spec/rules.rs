//! `exclude:`, `include:` and `expect:`, from what is written to patterns over the axes. Its main type is [`Names`],
//! what the rules may refer to.

use std::ops::Range;

use super::check;
use super::error::{Complaint, quoted};
use super::lower::{Lower, archs};
use super::node::{Kind, Node};
use super::raw::{OneOrMany, RawExclude, RawExpect, RawInclude, RawToolkit};
use super::toolkits;
use crate::model::matrix::{Exclude, Expect, Expectation, Include, Pattern, Toolkit, ToolkitPattern};
use crate::model::nearest::{listed, nearest};
use crate::model::outcome::{Outcome, Stage};
use crate::model::path::PathPattern;
use crate::model::selector::Selector;
use crate::model::stack::Stack;

/// More cells than that are a mistake in the file, and would fill the memory.
const MOST_INCLUDED: usize = 100_000;

/// What rules may refer to.
pub(super) struct Names<'a> {
    pub(super) toolkits: &'a [Toolkit],
    pub(super) kernels: &'a [String],
    pub(super) paths: &'a [PathPattern],
    pub(super) stacks: &'a [Stack],
}

/// The axes of a rule, as written.
pub(super) struct RawAxes {
    toolkit: Vec<String>,
    path: Vec<String>,
    kernel: Vec<String>,
    arch: Vec<String>,
    pub(super) stack: Vec<String>,
}

/// The `exclude:` rules.
pub(super) fn exclude(lower: &mut Lower<'_>, raw: Vec<RawExclude>, node: &Node, names: &Names<'_>) -> Vec<Exclude> {
    let rules = raw.into_iter().zip(node.items());
    rules
        .map(|(raw, node)| {
            let axes = RawAxes { stack: raw.stack.into_vec(), ..axes(raw.toolkit, raw.path, raw.kernel, raw.arch) };
            Exclude { pattern: pattern(lower, &axes, node, names), reason: raw.reason, link: raw.link }
        })
        .collect()
}

/// The `expect:` rules.
pub(super) fn expect(lower: &mut Lower<'_>, raw: Vec<RawExpect>, node: &Node, names: &Names<'_>) -> Vec<Expect> {
    let rules = raw.into_iter().zip(node.items());
    rules
        .filter_map(|(raw, node)| {
            let axes = RawAxes { stack: raw.stack.into_vec(), ..axes(raw.toolkit, raw.path, raw.kernel, raw.arch) };
            let pattern = pattern(lower, &axes, node, names);
            // The walk has checked both words.
            let outcome = check::EXPECTABLE.into_iter().find(|outcome| outcome.name() == raw.outcome)?;
            let stage = raw.stage.and_then(|text| Stage::ALL.into_iter().find(|stage| stage.name() == text));
            if stage.is_some() && !matches!(outcome, Outcome::Fail | Outcome::Timeout | Outcome::Crashed) {
                let message = format!("a cell that is `{outcome}` has no stage at which it failed");
                lower.complain(node.place("stage"), Complaint::new(message).help("leave `stage` out"));
            }
            if raw.code.is_some() && outcome != Outcome::Fail {
                let message = format!("a cell that is `{outcome}` has no code");
                lower.complain(node.place("code"), Complaint::new(message).help("leave `code` out"));
            }
            Some(Expect { pattern, expectation: Expectation { outcome, stage, code: raw.code, reason: raw.reason } })
        })
        .collect()
}

pub(super) fn axes(
    toolkit: OneOrMany<String>,
    path: OneOrMany<String>,
    kernel: OneOrMany<String>,
    arch: OneOrMany<String>,
) -> RawAxes {
    let (toolkit, path, kernel, arch) = (toolkit.into_vec(), path.into_vec(), kernel.into_vec(), arch.into_vec());
    RawAxes { toolkit, path, kernel, arch, stack: Vec::new() }
}

pub(super) fn pattern(lower: &mut Lower<'_>, raw: &RawAxes, node: &Node, names: &Names<'_>) -> Pattern {
    let places = places(node, "toolkit");
    let toolkit = raw.toolkit.iter().zip(places);
    Pattern {
        toolkit: toolkit.map(|(text, place)| toolkit_pattern(lower, text, place, names)).collect(),
        path: raw.path.iter().filter_map(|text| text.parse().ok()).collect(),
        kernel: kernel_names(lower, &raw.kernel, node, names),
        arch: archs(&raw.arch),
        stack: stack_names(lower, &raw.stack, node, names),
    }
}

/// Names of stacks that there are.
fn stack_names(lower: &mut Lower<'_>, raw: &[String], node: &Node, names: &Names<'_>) -> Vec<String> {
    for (text, place) in raw.iter().zip(places(node, "stack")) {
        if lower.whole("stacks") && !names.stacks.iter().any(|stack| stack.name == *text) {
            let there: Vec<&str> = names.stacks.iter().map(|stack| stack.name.as_str()).collect();
            let cure = match nearest(text, there.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if there.is_empty() => "there are no `stacks`".into(),
                None => format!("there is {}", listed(there)),
            };
            lower.complain(place, Complaint::new(format!("no stack has the name {}", quoted(text))).help(cure));
        }
    }
    raw.to_vec()
}

/// Where each value of an axis stands.
fn places(node: &Node, axis: &str) -> Vec<Range<usize>> {
    node.get(axis).map(|node| node.items().iter().map(|item| item.span.clone()).collect()).unwrap_or_default()
}

fn toolkit_pattern(lower: &mut Lower<'_>, text: &str, place: Range<usize>, names: &Names<'_>) -> ToolkitPattern {
    let Ok(selector) = text.parse::<Selector>() else {
        if !names.toolkits.iter().any(|toolkit| toolkit.name == text) {
            unknown_toolkit(lower, text, place, names);
        }
        return ToolkitPattern::Name(text.into());
    };
    let listed = |version| names.toolkits.iter().any(|toolkit| toolkit.version == version);
    let exact = selector.exact().filter(|version| !listed(*version));
    if let Some(Err(complaint)) = exact.map(|version| check::published(version, lower.known)) {
        lower.complain(place, complaint);
    }
    ToolkitPattern::Versions(selector)
}

fn unknown_toolkit(lower: &mut Lower<'_>, text: &str, place: Range<usize>, names: &Names<'_>) {
    if !lower.whole("toolkits") {
        return;
    }
    let written = names.toolkits.iter().map(|toolkit| toolkit.name.as_str());
    let complaint = match nearest(text, written) {
        Some(near) => Complaint::new(format!("no toolkit entry has the name {}", quoted(text)))
            .help(format!("did you mean `{near}`?")),
        None => check::not_versions(text, lower.known),
    };
    lower.complain(place, complaint);
}

fn kernel_names(lower: &mut Lower<'_>, raw: &[String], node: &Node, names: &Names<'_>) -> Vec<String> {
    for (text, place) in raw.iter().zip(places(node, "kernel")) {
        if lower.whole("kernels") && !names.kernels.contains(text) {
            let complaint = Complaint::new(format!("no kernel here has the name {}", quoted(text)));
            let written = names.kernels.iter().map(String::as_str);
            let help = match nearest(text, written.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("`kernels` has {}", listed(written)),
            };
            lower.complain(place, complaint.help(help));
        }
    }
    raw.to_vec()
}

/// The `include:` rules, one for each combination of the values that a rule lists.
pub(super) fn include(lower: &mut Lower<'_>, raw: Vec<RawInclude>, node: &Node, names: &Names<'_>) -> Vec<Include> {
    let mut all = Vec::new();
    let mut added: Vec<Toolkit> = Vec::new();
    for (raw, node) in raw.into_iter().zip(node.items()) {
        let toolkits = included_toolkits(lower, raw.toolkit.into_vec(), node, names, &mut added);
        let kernels = kernel_names(lower, &raw.kernel.into_vec(), node, names);
        let paths: Vec<PathPattern> = raw.path.into_vec().iter().filter_map(|text| text.parse().ok()).collect();
        let archs = archs(&raw.arch.into_vec());
        if lower.whole("include") && matches!(&node.kind, Kind::Map(pairs) if pairs.is_empty()) {
            let complaint = Complaint::new("this rule names no axis, so it adds nothing");
            lower.complain(node.span.clone(), complaint.help("name a `toolkit`, `path`, `kernel` or `arch`"));
        }
        let toolkits = if toolkits.is_empty() { names.toolkits.to_vec() } else { toolkits };
        let paths = if paths.is_empty() { names.paths.to_vec() } else { paths };
        let count = toolkits.len() * paths.len() * kernels.len().max(1) * archs.len().max(1);
        if all.len() + count > MOST_INCLUDED {
            let complaint = Complaint::new(format!("`include` adds more than {MOST_INCLUDED} cells"));
            lower.complain(node.span.clone(), complaint);
            break;
        }
        for toolkit in &toolkits {
            for path in &paths {
                for kernel in some_or_none(&kernels) {
                    for arch in some_or_none(&archs) {
                        let (toolkit, path, kernel) = (toolkit.clone(), *path, kernel.clone());
                        all.push(Include { toolkit, path, kernel, arch });
                    }
                }
            }
        }
    }
    all
}

/// Each value, or the one `None` that stands for the matrix's own.
fn some_or_none<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().cloned().map(Some).collect() }
}

/// An entry by its name, or else new toolkits. `added` are those of earlier rules.
fn included_toolkits(
    lower: &mut Lower<'_>,
    raw: Vec<RawToolkit>,
    node: &Node,
    names: &Names<'_>,
    added: &mut Vec<Toolkit>,
) -> Vec<Toolkit> {
    let mut chosen = Vec::new();
    let nodes = node.get("toolkit").map(Node::items).unwrap_or_default();
    for (raw, node) in raw.into_iter().zip(nodes) {
        let entries = match &raw {
            RawToolkit::Versions(text) => {
                if let Some(toolkit) = names.toolkits.iter().find(|toolkit| toolkit.name == *text) {
                    vec![toolkit.clone()]
                } else if text.parse::<Selector>().is_err() {
                    unknown_toolkit(lower, text, node.span.clone(), names);
                    continue;
                } else if let Err(complaint) = check::versions(text, lower.known) {
                    lower.complain(node.span.clone(), complaint);
                    continue;
                } else {
                    toolkits::entries(lower, raw, node)
                }
            }
            RawToolkit::Entry(_) => toolkits::entries(lower, raw, node),
        };
        for toolkit in entries {
            match names.toolkits.iter().chain(added.iter()).find(|other| other.name == toolkit.name) {
                Some(same) if *same == toolkit => {}
                // A bare version that an entry has taken as its name means that entry.
                Some(other) if node.get("version").is_none() => {
                    chosen.push(other.clone());
                    continue;
                }
                Some(_) => {
                    let complaint = Complaint::new(format!("another toolkit has the name {}", quoted(&toolkit.name)));
                    lower.complain(node.place("name"), complaint.help("give one of them another `name`"));
                }
                None => added.push(toolkit.clone()),
            }
            chosen.push(toolkit);
        }
    }
    chosen
}
