//! From what the user wrote to what will be done, for the file as a whole. Its main function is [`matrix`]; toolkits,
//! kernels and rules have files of their own.

use std::collections::HashMap;
use std::ops::Range;

use super::error::{Complaint, Findings, quoted};
use super::node::Node;
use super::raw::{OneOrMany, RawLimits, RawMatrix, RawMeasure};
use super::{Input, Known, claims, fleet, kernels, places, quantity, rules, shape, stacks, toolkits, walk};
use crate::model::arch::Arch;
use crate::model::matrix::{ArchChoice, Limits, Matrix, Measure};
use crate::model::path::{Family, PathId, PathPattern};

/// What the parts of the second half share.
pub(super) struct Lower<'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) known: &'a Known<'a>,
    pub(super) text: &'a str,
    /// The file as it was written.
    written: &'a Node,
    /// What the walk left of it.
    root: &'a Node,
    pub(super) findings: &'a mut Findings,
}

/// The matrix that `text` describes. Where `findings` is not empty afterwards, the result is not to be used.
pub(super) fn matrix(input: &Input<'_>, text: &str, known: &Known<'_>, findings: &mut Findings) -> Option<Matrix> {
    let tree = places::tree(text, findings)?;
    let root = walk::walk(&tree, &shape::MATRIX, known, findings)?;
    let sound = findings.is_empty();
    let raw: RawMatrix = if sound {
        serde_yaml::from_str(text).map_err(|error| findings.add(place(&error), typing(&error))).ok()?
    } else {
        // There are errors to report already: what cannot be typed on top of them is left alone.
        serde_yaml::from_value(walk::value(&root)).ok()?
    };
    let mut lower = Lower { input, known, text, written: &tree, root: &root, findings };
    Some(lower.matrix(raw))
}

/// Both passes read one grammar, so this is a disagreement between the two parsers; it still has a place.
fn place(error: &serde_yaml::Error) -> Range<usize> {
    error.location().map_or(0..0, |location| location.index()..location.index())
}

fn typing(error: &serde_yaml::Error) -> Complaint {
    Complaint::new(error.to_string())
}

impl Lower<'_> {
    fn matrix(&mut self, raw: RawMatrix) -> Matrix {
        let root = self.root;
        let nowhere = Node { span: 0..0, kind: super::node::Kind::List(Vec::new()) };
        let section = |key: &str| root.get(key).unwrap_or(&nowhere);
        let toolkits = toolkits::lower(self, raw.toolkits.into_vec(), section("toolkits"));
        // `include:` may name further toolkits, with which a stack can run.
        let all = if raw.include.is_empty() { toolkits.as_slice() } else { &[] };
        let stacks = stacks::lower(self, raw.stacks.into_vec(), section("stacks"), all);
        let paths = self.paths(raw.paths, section("paths"), !stacks.is_empty());
        let kernels = kernels::lower(self, raw.kernels.map(OneOrMany::into_vec), section("kernels"));
        let arch = self.arch(raw.arch, section("arch"));
        let names = rules::Names { toolkits: &toolkits, kernels: &kernels.names, paths: &paths, stacks: &stacks };
        let exclude = rules::exclude(self, raw.exclude, section("exclude"), &names);
        let include = rules::include(self, raw.include, section("include"), &names);
        let expect = rules::expect(self, raw.expect, section("expect"), &names);
        let claims = claims::lower(self, raw.claims, section("claims"), &names);
        let fleet = fleet::lower(self, raw.fleet, section("fleet"));
        Matrix {
            origin: self.input.origin.into(),
            toolkits,
            paths,
            kernels: kernels.kernels,
            arch,
            stacks,
            exclude,
            include,
            expect,
            claims,
            fleet,
            measure: measure(&raw.measure),
            limits: limits(&raw.limits),
        }
    }

    /// Whether the walk took nothing out of a section. If it did, a name that is missing may be one of those.
    pub(super) fn whole(&self, section: &str) -> bool {
        self.written.get(section) == self.root.get(section)
    }

    /// Notes a complaint about the text at `span`.
    pub(super) fn complain(&mut self, span: Range<usize>, complaint: Complaint) {
        self.findings.add(span, complaint);
    }

    /// The line on which a place is, counted from 1.
    pub(super) fn line(&self, place: &Range<usize>) -> usize {
        1 + self.text.bytes().take(place.start).filter(|byte| *byte == b'\n').count()
    }

    /// Notes each name that an earlier one has taken. `cure` says what to do about it.
    pub(super) fn distinct(&mut self, names: impl IntoIterator<Item = (String, Range<usize>)>, what: &str, cure: &str) {
        let mut first: HashMap<String, Range<usize>> = HashMap::new();
        let mut complained = None;
        for (name, span) in names {
            match first.get(&name) {
                // A range that repeats many names is one mistake.
                Some(earlier) if complained != Some(span.start) => {
                    complained = Some(span.start);
                    let line = 1 + self.text[..earlier.start].matches('\n').count();
                    let twice = format!("{what} {} is listed twice, first on line {line}", quoted(&name));
                    self.complain(span, Complaint::new(twice).help(cure));
                }
                Some(_) => {}
                None => {
                    first.insert(name, span);
                }
            }
        }
    }

    fn paths(&mut self, raw: Option<OneOrMany<String>>, node: &Node, stacks: bool) -> Vec<PathPattern> {
        let Some(raw) = raw else {
            let families = Family::ALL.into_iter().filter(|family| stacks || !family.is_python());
            return families.map(PathPattern::Family).collect();
        };
        let written = patterns(&raw.into_vec(), node);
        if !stacks && self.whole("stacks") {
            for (pattern, span) in &written {
                if let Some(path) =
                    PathId::ALL.into_iter().find(|path| path.family.is_python() && pattern.matches(*path))
                {
                    let complaint =
                        Complaint::new(format!("`{path}` is a Python library, and there is no stack of packages"));
                    let cure =
                        "add `stacks: [{name: mine, python: \"3.11\", packages: [\"…==…\"]}]`, or `python: host`";
                    self.complain(span.clone(), complaint.help(cure));
                }
            }
        }
        let covered = written.iter().flat_map(|(pattern, span)| {
            PathId::ALL.into_iter().filter(|path| pattern.matches(*path)).map(|path| (path.to_string(), span.clone()))
        });
        self.distinct(covered, "the path", "a family stands for all its paths: name each path once");
        let mut paths: Vec<PathPattern> = written.into_iter().map(|(pattern, _)| pattern).collect();
        paths.sort_by_key(|pattern| PathId::ALL.iter().position(|path| pattern.matches(*path)));
        paths
    }

    fn arch(&mut self, raw: Option<OneOrMany<String>>, node: &Node) -> ArchChoice {
        let raw = raw.map(OneOrMany::into_vec).unwrap_or_default();
        if raw.is_empty() || raw == ["native"] {
            return ArchChoice::Native;
        }
        if let Some(at) = raw.iter().position(|text| text == "native") {
            let place = node.items()[at].span.clone();
            let complaint = Complaint::new("`native` stands alone, and not in a list with others");
            self.complain(place, complaint.help("write `arch: native`, or list the compute capabilities"));
        }
        self.distinct(
            raw.iter().cloned().zip(node.items().iter().map(|node| node.span.clone())),
            "the compute capability",
            "name it once",
        );
        ArchChoice::List(archs(&raw))
    }
}

/// Patterns with their places. The walk has checked each text.
fn patterns(raw: &[String], node: &Node) -> Vec<(PathPattern, Range<usize>)> {
    let places = node.items().iter().map(|node| node.span.clone());
    raw.iter().zip(places).filter_map(|(text, span)| Some((text.parse().ok()?, span))).collect()
}

/// Compute capabilities. The walk has checked each text.
pub(super) fn archs(raw: &[String]) -> Vec<Arch> {
    raw.iter().filter_map(|text| text.parse().ok()).collect()
}

fn measure(raw: &RawMeasure) -> Measure {
    let usual = Measure::default();
    Measure {
        warmup: raw.warmup.unwrap_or(usual.warmup),
        timed: raw.timed.unwrap_or(usual.timed),
        // The walk has checked the text.
        process: raw.process.as_deref().and_then(|text| text.parse().ok()).unwrap_or(usual.process),
    }
}

fn limits(raw: &RawLimits) -> Limits {
    let usual = Limits::default();
    Limits {
        timeout_ms: raw.timeout.as_deref().and_then(quantity::millis).unwrap_or(usual.timeout_ms),
        memory: raw.memory.as_deref().and_then(quantity::bytes).unwrap_or(usual.memory),
        pids: raw.pids.unwrap_or(usual.pids),
    }
}
