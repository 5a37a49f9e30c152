//! What records say of a claim about cells. Its main function is [`judge`]: pure, so that a merged or re-rendered report
//! gives the verdict of the live one.

use crate::model::claim::{ClaimResult, ClaimVerdict, Observe, PlannedClaim};
use crate::model::outcome::{Outcome, Stage};
use crate::model::record::{GpuMode, Record};

/// What one cell says of a claim.
enum Says {
    Holds,
    DoesNotHold,
    /// Why nothing can be told, and whether that was to be foreseen.
    NotTested(String, bool),
}

/// What `records` say of a claim about cells. `mode` tells how the run of a record launched.
#[must_use]
pub fn judge(claim: &PlannedClaim, records: &[Record], mode: &dyn Fn(&Record) -> GpuMode) -> ClaimResult {
    let observe = claim.observe.clone();
    let of_claim: Vec<&Record> = records.iter().filter(|record| claim.cells.contains(&record.id)).collect();
    let mut result = ClaimResult {
        says: claim.says.clone(),
        verdict: ClaimVerdict::NotTested,
        expected: true,
        cells: claim.cells.clone(),
        observe: claim.observe.clone(),
        packages: None,
        reason: "none of its cells is part of this run".into(),
        evidence: Vec::new(),
        detail: None,
        boundary: None,
    };
    let Some(observe) = observe.filter(|_| !of_claim.is_empty()) else { return result };
    let (mut holds, mut against, mut untold) = (0, 0, Vec::new());
    for record in &of_claim {
        let mode = mode(record);
        let says = of(&observe, record, mode);
        result.evidence.push(line(record, mode));
        match says {
            Says::Holds => holds += 1,
            Says::DoesNotHold => {
                against += 1;
                result.detail = result.detail.or_else(|| record.detail.clone());
            }
            Says::NotTested(why, foreseen) => {
                result.expected &= foreseen;
                if !untold.contains(&why) {
                    untold.push(why);
                }
            }
        }
    }
    let all = of_claim.len();
    let cells = |count: usize| format!("{count} of {all} cell{}", if all == 1 { "" } else { "s" });
    let of_it = if all == 1 { "of its cell".to_owned() } else { format!("of all {all} cells") };
    (result.verdict, result.reason) = if against > 0 {
        let show = if against == 1 { "shows" } else { "show" };
        (ClaimVerdict::DoesNotHold, format!("{} {show} something else than {observe}", cells(against)))
    } else if holds == all {
        (ClaimVerdict::Holds, format!("{observe} was observed {of_it}"))
    } else if holds > 0 {
        (
            ClaimVerdict::NotTested,
            format!("{observe} was observed of {}; of the rest: {}", cells(holds), untold.join("; ")),
        )
    } else {
        (ClaimVerdict::NotTested, untold.join("; "))
    };
    if result.verdict == ClaimVerdict::DoesNotHold {
        result.expected = false;
    }
    result
}

/// A cell and how it ended, in a line.
fn line(record: &Record, mode: GpuMode) -> String {
    let mut line = format!("{}: {}", record.id, record.outcome);
    if mode == GpuMode::Fake {
        line.push_str(" (test driver)");
    }
    if let Some(stage) = record.stage {
        line = format!("{line} at {stage}");
    }
    if let Some(code) = &record.code {
        line = format!("{line}: {code}");
    }
    if let Some(reason) = &record.reason {
        line = format!("{line}: {reason}");
    }
    line
}

fn of(observe: &Observe, record: &Record, mode: GpuMode) -> Says {
    let seen = own_outcome(record, mode);
    match seen {
        Outcome::NotRun | Outcome::Cancelled => return Says::NotTested("it did not run to its end".into(), false),
        Outcome::Infra | Outcome::Truncated => {
            return Says::NotTested(format!("the engine failed: {}", words(record)), false);
        }
        _ => {}
    }
    if meets(observe, record, seen) {
        return Says::Holds;
    }
    if record.stage == Some(Stage::Provision) && observe.stage != Some(Stage::Provision) {
        return Says::NotTested(format!("its toolkit or stack is not there: {}", words(record)), record.expected);
    }
    match seen {
        Outcome::Skip => Says::NotTested(format!("it was skipped: {}", words(record)), record.expected),
        Outcome::Built if mode == GpuMode::None && beyond_a_build(observe) => {
            Says::NotTested("no GPU: it was built, and not launched".into(), true)
        }
        Outcome::Loaded if launches(observe) => {
            Says::NotTested("a kernel without a manifest is loaded, and not launched".into(), true)
        }
        _ => Says::DoesNotHold,
    }
}

fn words(record: &Record) -> String {
    record.reason.clone().unwrap_or_else(|| "no reason given".into())
}

/// How the cell itself ended, before that was held against what was expected of it.
fn own_outcome(record: &Record, mode: GpuMode) -> Outcome {
    match record.outcome {
        Outcome::ExpectedFail => record.expectation.as_ref().map_or(Outcome::Fail, |expected| expected.outcome),
        Outcome::UnexpectedPass if mode == GpuMode::None => Outcome::Built,
        Outcome::UnexpectedPass if record.bits.is_some() => Outcome::Pass,
        Outcome::UnexpectedPass => Outcome::Loaded,
        outcome => outcome,
    }
}

fn meets(observe: &Observe, record: &Record, seen: Outcome) -> bool {
    let later = |than: Stage| seen == Outcome::Fail && record.stage.is_some_and(|stage| stage > than);
    let reached = match observe.outcome {
        // Whatever got further was built, or loaded, too.
        Outcome::Built => {
            matches!(seen, Outcome::Built | Outcome::Loaded | Outcome::Pass | Outcome::WrongResult)
                || later(Stage::Build)
        }
        Outcome::Loaded => {
            matches!(seen, Outcome::Loaded | Outcome::Pass | Outcome::WrongResult) || later(Stage::GetFunction)
        }
        wanted => wanted == seen,
    };
    let said = |text: &String| [&record.reason, &record.detail].into_iter().flatten().any(|said| said.contains(text));
    reached
        && (observe.stage.is_none() || observe.stage == record.stage)
        && observe.code.as_ref().is_none_or(|code| record.code.as_ref().is_some_and(|found| found.name == *code))
        && observe.text.as_ref().is_none_or(said)
}

/// Whether what is to be observed lies beyond a build. A failure without a stage may, unless its code is NVRTC's.
fn beyond_a_build(observe: &Observe) -> bool {
    match observe.outcome {
        Outcome::Built | Outcome::Skip => false,
        Outcome::Fail | Outcome::Timeout | Outcome::Crashed | Outcome::Oom => {
            let nvrtc = observe.code.as_ref().is_some_and(|code| code.starts_with("NVRTC_"));
            let stage = observe.stage.or(nvrtc.then_some(Stage::Build));
            stage.is_none_or(|stage| stage == Stage::DriverInit || stage >= Stage::Load)
        }
        _ => true,
    }
}

fn launches(observe: &Observe) -> bool {
    matches!(observe.outcome, Outcome::Pass | Outcome::WrongResult)
        || observe.stage.is_some_and(|stage| stage >= Stage::FirstLaunch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::arch::Arch;
    use crate::model::axes::Axes;
    use crate::model::matrix::Expectation;
    use crate::model::outcome::Code;

    fn observe(outcome: Outcome) -> Observe {
        Observe { outcome, stage: None, code: None, text: None }
    }

    fn record(path: &str, outcome: Outcome) -> Record {
        let axes = Axes {
            toolkit: "12.6".into(),
            path: path.parse().unwrap(),
            kernel: "k".into(),
            arch: Arch::new(9, 0),
            stack: None,
        };
        Record { expected: true, attempts: 1, ..Record::new("r", axes, outcome) }
    }

    /// `verdict expected: reason` of a claim about these cells.
    fn verdict(observe: Observe, records: &[Record], mode: GpuMode) -> String {
        let cells = records.iter().map(|record| record.id.clone()).collect();
        let claim = PlannedClaim { says: "s".into(), cells, observe: Some(observe), packages: None };
        let result = judge(&claim, records, &|_| mode);
        assert_eq!(result.evidence.len(), records.len());
        format!("{} {}: {}", result.verdict.name(), if result.expected { "yes" } else { "no" }, result.reason)
    }

    const GPU: GpuMode = GpuMode::Real;
    const NONE: GpuMode = GpuMode::None;

    #[test]
    fn a_launch_is_not_tested_without_a_gpu_and_decided_with_one() {
        let pass = || observe(Outcome::Pass);
        let built = [record("nvrtc-ptx", Outcome::Built), record("nvrtc-cubin", Outcome::Built)];
        assert_eq!(verdict(pass(), &built, NONE), "not-tested yes: no GPU: it was built, and not launched");
        let both = [record("nvrtc-ptx", Outcome::Pass), record("nvrtc-cubin", Outcome::Pass)];
        assert_eq!(verdict(pass(), &both, GPU), "holds yes: pass was observed of all 2 cells");
        let one = [record("nvrtc-ptx", Outcome::Pass), record("nvrtc-cubin", Outcome::WrongResult)];
        let against = "does-not-hold no: 1 of 2 cells shows something else than pass";
        assert_eq!(verdict(pass(), &one, GPU), against);
        // With a GPU, a cell that was only built did not do what it could.
        assert!(verdict(pass(), &built, GPU).starts_with("does-not-hold no"));
    }

    #[test]
    fn what_got_further_was_built_too() {
        for outcome in [Outcome::Built, Outcome::Loaded, Outcome::Pass, Outcome::WrongResult] {
            assert!(verdict(observe(Outcome::Built), &[record("nvrtc-ptx", outcome)], GPU).starts_with("holds"));
        }
        let at = |stage| Record { stage: Some(stage), ..record("nvrtc-ptx", Outcome::Fail) };
        assert!(verdict(observe(Outcome::Built), &[at(Stage::Load)], GPU).starts_with("holds"));
        assert!(verdict(observe(Outcome::Built), &[at(Stage::Build)], GPU).starts_with("does-not-hold"));
    }

    #[test]
    fn a_failure_must_be_the_one_that_is_claimed() {
        let failed = Record {
            stage: Some(Stage::Build),
            code: Some(Code { name: "NVRTC_ERROR_COMPILATION".into(), number: 6 }),
            detail: Some("AttributeError: module 'numpy' has no attribute 'row_stack'".into()),
            ..record("nvrtc-ptx", Outcome::Fail)
        };
        let claim = |stage, code: Option<&str>, text: Option<&str>| Observe {
            outcome: Outcome::Fail,
            stage,
            code: code.map(Into::into),
            text: text.map(Into::into),
        };
        let build = Some(Stage::Build);
        for observe in [
            claim(None, None, None),
            claim(build, None, Some("row_stack")),
            claim(build, Some("NVRTC_ERROR_COMPILATION"), None),
        ] {
            assert!(verdict(observe, std::slice::from_ref(&failed), NONE).starts_with("holds yes"));
        }
        for observe in
            [claim(Some(Stage::Import), None, None), claim(None, Some("X"), None), claim(None, None, Some("vstack"))]
        {
            assert!(verdict(observe, std::slice::from_ref(&failed), NONE).starts_with("does-not-hold no"));
        }
        // As `expect:` has it, the same failure is expected, and is still that failure.
        let expectation = Expectation { outcome: Outcome::Fail, stage: build, code: None, reason: "why".into() };
        let foretold = Record { outcome: Outcome::ExpectedFail, expectation: Some(expectation), ..failed };
        assert!(verdict(claim(build, None, Some("row_stack")), &[foretold], NONE).starts_with("holds yes"));
        let done = [record("nvrtc-ptx", Outcome::Built)];
        assert!(verdict(claim(build, None, None), &done, NONE).starts_with("does-not-hold no"));
        assert!(verdict(claim(Some(Stage::Load), None, None), &done, NONE).starts_with("not-tested yes"));
    }

    #[test]
    fn what_could_not_run_says_nothing_and_what_broke_is_no_green() {
        let skip = Record { reason: Some("not installed".into()), ..record("nvrtc-ptx", Outcome::Skip) };
        assert_eq!(
            verdict(observe(Outcome::Pass), std::slice::from_ref(&skip), GPU),
            "not-tested yes: it was skipped: not installed"
        );
        assert!(verdict(observe(Outcome::Skip), std::slice::from_ref(&skip), GPU).starts_with("holds yes"));
        let half = verdict(observe(Outcome::Pass), &[record("nvrtc-cubin", Outcome::Pass), skip], GPU);
        let rest = "pass was observed of 1 of 2 cells; of the rest: it was skipped: not installed";
        assert_eq!(half, format!("not-tested yes: {rest}"));
        for outcome in [Outcome::NotRun, Outcome::Infra, Outcome::Truncated, Outcome::Cancelled] {
            assert!(verdict(observe(Outcome::Pass), &[record("nvrtc-ptx", outcome)], GPU).starts_with("not-tested no"));
        }
        let missing = Record {
            stage: Some(Stage::Provision),
            expected: false,
            reason: Some("no index".into()),
            ..record("nvrtc-ptx", Outcome::Fail)
        };
        let there = "not-tested no: its toolkit or stack is not there: no index";
        assert_eq!(verdict(observe(Outcome::Pass), &[missing], GPU), there);
        let nothing = PlannedClaim { says: "s".into(), cells: Vec::new(), observe: None, packages: None };
        assert_eq!(judge(&nothing, &[], &|_| GPU).reason, "none of its cells is part of this run");
    }
}
