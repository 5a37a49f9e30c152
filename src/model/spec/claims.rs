//! `claims:`, from what is written to [`Claim`]s. Its main function is [`lower`]: a claim is tested in one way, and says
//! something that no other says.

use super::error::Complaint;
use super::lower::Lower;
use super::node::Node;
use super::raw::OneOrMany;
use super::raw_claims::{RawBoundary, RawClaim, RawClaimCells, RawCompile, RawImport, RawObserve, RawResolve};
use super::rules::{self, Names};
use super::{check, requirement};
use crate::model::arch::Arch;
use crate::model::claim::{BoundaryAsk, Claim, ClaimTest, Observe, PackageAction, PackageTest};
use crate::model::outcome::{Outcome, Stage};

/// The ways to test a claim, as keys.
const WAYS: [&str; 5] = ["cells", "resolve", "import", "compile", "boundary"];

/// The claims, in the order written.
pub(super) fn lower(lower: &mut Lower<'_>, raw: Vec<RawClaim>, node: &Node, names: &Names<'_>) -> Vec<Claim> {
    let said = raw.iter().zip(node.items()).map(|(claim, node)| (claim.says.clone(), node.place("says")));
    let said: Vec<_> = said.filter(|(says, _)| !says.is_empty()).collect();
    lower.distinct(said, "the claim", "the report tells claims apart by what they say");
    raw.into_iter().zip(node.items()).filter_map(|(claim, node)| one(lower, claim, node, names)).collect()
}

fn one(lower: &mut Lower<'_>, raw: RawClaim, node: &Node, names: &Names<'_>) -> Option<Claim> {
    let line = lower.line(&node.place("says"));
    let ways: Vec<&str> = WAYS.into_iter().filter(|way| node.get(way).is_some()).collect();
    let whole = lower.whole("claims");
    match ways.as_slice() {
        [_] => {}
        [] if whole => {
            let complaint = Complaint::new("this claim names nothing to be tested");
            let help =
                "name `cells` and what to `observe` of them, or one of `resolve`, `import`, `compile`, `boundary`";
            lower.complain(node.place("says"), complaint.help(help));
            return None;
        }
        [] => return None,
        [first, second, ..] => {
            let complaint =
                Complaint::new(format!("a claim is tested in one way, and not by `{first}` and `{second}`"));
            lower.complain(node.place(second), complaint.help("write two claims"));
            return None;
        }
    }
    if raw.cells.is_some() && raw.observe.is_none() && whole {
        let complaint = Complaint::new("this claim names cells, and not what must be observed of them");
        lower.complain(node.place("cells"), complaint.help("add `observe: {outcome: pass}`"));
    }
    if raw.cells.is_none() && raw.observe.is_some() {
        let complaint = Complaint::new("`observe` speaks of cells, and this claim names none");
        lower.complain(node.place("observe"), complaint.help("name `cells`, or leave `observe` out"));
    }
    let test = if let Some(cells) = raw.cells {
        by_cells(lower, cells, raw.observe?, node, names)?
    } else {
        ClaimTest::Packages(by_packages(lower, raw.resolve, raw.import, raw.compile, raw.boundary, node)?)
    };
    Some(Claim { says: raw.says, line, test })
}

fn by_cells(
    lower: &mut Lower<'_>,
    raw: RawClaimCells,
    observe: RawObserve,
    node: &Node,
    names: &Names<'_>,
) -> Option<ClaimTest> {
    let mut axes = rules::axes(raw.toolkit, raw.path, raw.kernel, raw.arch);
    axes.stack = raw.stack.into_vec();
    let pattern = rules::pattern(lower, &axes, node.get("cells")?, names);
    let place = node.get("observe")?;
    // The walk has checked both words.
    let outcome = check::EXPECTABLE.into_iter().find(|outcome| outcome.name() == observe.outcome)?;
    let stage = observe.stage.and_then(|text| Stage::ALL.into_iter().find(|stage| stage.name() == text));
    if stage.is_some() && !matches!(outcome, Outcome::Fail | Outcome::Timeout | Outcome::Crashed) {
        let complaint = Complaint::new(format!("a cell that is `{outcome}` has no stage at which it failed"));
        lower.complain(place.place("stage"), complaint.help("leave `stage` out"));
    }
    if observe.code.is_some() && outcome != Outcome::Fail {
        let complaint = Complaint::new(format!("a cell that is `{outcome}` has no code"));
        lower.complain(place.place("code"), complaint.help("leave `code` out"));
    }
    let observe = Observe { outcome, stage, code: observe.code, text: observe.text };
    Some(ClaimTest::Cells { pattern, observe })
}

fn by_packages(
    lower: &mut Lower<'_>,
    resolve: Option<RawResolve>,
    import: Option<RawImport>,
    compile: Option<RawCompile>,
    boundary: Option<RawBoundary>,
    node: &Node,
) -> Option<PackageTest> {
    let test = |python, packages: OneOrMany<String>, action, fails_with| PackageTest {
        python,
        packages: packages.into_vec(),
        action,
        fails_with,
        boundary: None,
    };
    if let Some(raw) = resolve {
        let at = node.get("resolve")?;
        needs_packages(lower, &raw.packages, raw.python.as_deref(), at);
        if raw.python.as_deref() == Some("host") {
            let complaint = Complaint::new("pip chooses for a version of Python, and not for what is installed");
            lower.complain(at.place("python"), complaint.help("write \"3.12\", or leave `python` out"));
        }
        let gives = raw.gives.into_vec();
        if raw.fails_with.is_some() && !gives.is_empty() {
            let complaint = Complaint::new("a choice that fails gives nothing");
            lower.complain(at.place("gives"), complaint.help("leave `gives` or `fails_with` out"));
        }
        return Some(test(raw.python, raw.packages, PackageAction::Resolve(gives), raw.fails_with));
    }
    if let Some(raw) = import {
        needs_packages(lower, &raw.packages, raw.python.as_deref(), node.get("import")?);
        return Some(test(raw.python, raw.packages, PackageAction::Import(raw.module), raw.fails_with));
    }
    if let Some(raw) = compile {
        needs_packages(lower, &raw.packages, raw.python.as_deref(), node.get("compile")?);
        let action = PackageAction::CompileNumba(capability(raw.capability.as_deref()));
        return Some(test(raw.python, raw.packages, action, raw.fails_with));
    }
    let (raw, at) = (boundary?, node.get("boundary")?);
    let action = match (raw.module, raw.with) {
        (Some(_), Some(_)) => {
            let complaint = Complaint::new("a boundary is looked for by one test, and not by `module` and `with`");
            lower.complain(at.place("with"), complaint.help("leave one of them out"));
            return None;
        }
        (Some(module), None) => PackageAction::Import(module),
        (None, Some(_)) => PackageAction::CompileNumba(capability(raw.capability.as_deref())),
        (None, None) => PackageAction::Resolve(Vec::new()),
    };
    let (package, range) = requirement::parts(&raw.pin)?;
    let ask = BoundaryAsk {
        package: package.into(),
        range: range.into(),
        last_good: raw.last_good,
        first_bad: raw.first_bad,
    };
    Some(PackageTest { boundary: Some(ask), ..test(raw.python, raw.packages, action, raw.fails_with) })
}

fn needs_packages(lower: &mut Lower<'_>, packages: &OneOrMany<String>, python: Option<&str>, at: &Node) {
    if packages.clone().into_vec().is_empty() && python != Some("host") && lower.whole("claims") {
        let complaint = Complaint::new("this claim names no packages");
        lower.complain(at.span.clone(), complaint.help("add `packages: [\"numpy==2.4.6\"]`"));
    }
}

/// The walk has checked the text.
fn capability(text: Option<&str>) -> Arch {
    text.and_then(|text| text.parse().ok()).unwrap_or(Arch::WITHOUT_GPU)
}
