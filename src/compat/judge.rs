//! Decides whether a cell came out as expected: [`judge`] makes a [`Verdict`] of a [`JudgeInput`].
//! The rule behind every line here is that nothing may look green that was not shown.

use crate::model::matrix::Expectation;
use crate::model::outcome::{Code, Outcome, Stage};
use crate::model::record::GpuMode;

pub use super::whole::run_verdict;

/// What is known of one cell when it has ended.
#[derive(Debug, Clone, Copy)]
pub struct JudgeInput<'a> {
    /// How it ended, as the cell itself has it: `fail`, not `expected-fail`.
    pub outcome: Outcome,
    /// Where it failed.
    pub stage: Option<Stage>,
    /// What it failed with.
    pub code: Option<&'a Code>,
    /// What `expect:` says of it.
    pub expectation: Option<&'a Expectation>,
    /// Whether there is a GPU, the test suite's stand-in included.
    pub gpu: GpuMode,
    /// Whether the kernel has a launch manifest; without one, `loaded` is the most that can be.
    pub launches: bool,
    /// Whether a skip of this cell is foreseen by the catalogue: no nvcc in 12.x wheels.
    pub foreseen_skip: bool,
}

/// How a cell counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How it ended, seen from what was expected.
    pub outcome: Outcome,
    /// Whether that is what was expected.
    pub expected: bool,
    /// Why it is expected against appearances, or not; none where the cell's own reason says it all.
    pub reason: Option<String>,
}

impl Verdict {
    fn expected(outcome: Outcome, reason: Option<String>) -> Self {
        Self { outcome, expected: true, reason }
    }

    fn unexpected(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { outcome, expected: false, reason: Some(reason.into()) }
    }
}

/// Decides whether a cell came out as expected.
///
/// Without an expectation, that is a `pass`; `loaded` for a kernel that is not launched; `built` without a GPU; a
/// foreseen skip. With one, the cell has to end as it says. What a run cannot test counts as if nothing had been said:
/// without a GPU, an expectation about opening the driver, loading or launching; for a kernel that is not launched, one
/// about launching; and any expectation about a cell whose skip is foreseen.
#[must_use]
pub fn judge(input: &JudgeInput) -> Verdict {
    let Some(expectation) = input.expectation else { return unprompted(input) };
    match expectation.outcome {
        Outcome::Skip => skip(input, expectation),
        Outcome::Pass | Outcome::Loaded | Outcome::Built => success(input, expectation),
        Outcome::Fail | Outcome::WrongResult | Outcome::Timeout | Outcome::Crashed | Outcome::Oom => {
            failure(input, expectation)
        }
        // These are not a cell's own doing, or not an end of a cell at all.
        Outcome::ExpectedFail
        | Outcome::UnexpectedPass
        | Outcome::Truncated
        | Outcome::Infra
        | Outcome::Cancelled
        | Outcome::NotRun => {
            Verdict::unexpected(input.outcome, format!("`{}` cannot be expected of a cell", expectation.outcome))
        }
    }
}

/// The verdict where nothing was said.
fn unprompted(input: &JudgeInput) -> Verdict {
    let gpu = input.gpu != GpuMode::None;
    let outcome = input.outcome;
    match outcome {
        Outcome::Pass if !gpu => Verdict::unexpected(outcome, "a pass without a GPU proves nothing"),
        Outcome::Pass if !input.launches => {
            Verdict::unexpected(outcome, "a pass of a kernel that is not launched proves nothing")
        }
        Outcome::Loaded if !gpu => Verdict::unexpected(outcome, "it says that it was loaded, without a GPU"),
        Outcome::Loaded if input.launches => Verdict::unexpected(outcome, "it was loaded, and not launched"),
        Outcome::Built if gpu => Verdict::unexpected(outcome, "it was built, and not loaded, though there is a GPU"),
        Outcome::Skip if !input.foreseen_skip => Verdict { outcome, expected: false, reason: None },
        Outcome::Pass | Outcome::Loaded | Outcome::Built | Outcome::Skip => Verdict::expected(outcome, None),
        Outcome::ExpectedFail | Outcome::UnexpectedPass => {
            Verdict::unexpected(outcome, format!("`{outcome}` is a verdict, and no end that a cell can report"))
        }
        Outcome::WrongResult
        | Outcome::Fail
        | Outcome::Timeout
        | Outcome::Crashed
        | Outcome::Oom
        | Outcome::Truncated
        | Outcome::Infra
        | Outcome::Cancelled
        | Outcome::NotRun => Verdict { outcome, expected: false, reason: None },
    }
}

/// The verdict where a skip was expected.
fn skip(input: &JudgeInput, expectation: &Expectation) -> Verdict {
    if matches(input, expectation) {
        return Verdict::expected(Outcome::Skip, Some(expectation.reason.clone()));
    }
    Verdict::unexpected(input.outcome, contradiction(input, expectation))
}

/// The verdict where a success was expected.
fn success(input: &JudgeInput, expectation: &Expectation) -> Verdict {
    let verdict = unprompted(input);
    if input.outcome == expectation.outcome || (verdict.expected && is_most_that_can_be(input, expectation.outcome)) {
        return verdict;
    }
    Verdict::unexpected(input.outcome, contradiction(input, expectation))
}

/// Whether the cell went as far towards the expected success as this run can.
fn is_most_that_can_be(input: &JudgeInput, wanted: Outcome) -> bool {
    match input.outcome {
        Outcome::Built => matches!(wanted, Outcome::Pass | Outcome::Loaded),
        Outcome::Loaded => wanted == Outcome::Pass,
        // Foreseen, or it would not be expected.
        Outcome::Skip => true,
        _ => false,
    }
}

/// The verdict where a failure was expected.
fn failure(input: &JudgeInput, expectation: &Expectation) -> Verdict {
    if matches(input, expectation) {
        return Verdict::expected(Outcome::ExpectedFail, Some(expectation.reason.clone()));
    }
    let verdict = unprompted(input);
    if !verdict.expected {
        return Verdict::unexpected(input.outcome, contradiction(input, expectation));
    }
    // Whatever is expected without being told is a success, or a foreseen skip.
    if input.outcome == Outcome::Skip || is_out_of_reach(input, expectation) {
        return verdict;
    }
    Verdict::unexpected(Outcome::UnexpectedPass, contradiction(input, expectation))
}

/// Whether the expected failure lies beyond what this run does. Without a GPU, one without a stage may lie beyond it,
/// unless its code is NVRTC's, which only a build gives.
fn is_out_of_reach(input: &JudgeInput, expectation: &Expectation) -> bool {
    let nvrtc = expectation.code.as_ref().is_some_and(|code| code.starts_with("NVRTC_"));
    let stage = expectation.stage.or(nvrtc.then_some(Stage::Build));
    let launch = expectation.outcome == Outcome::WrongResult || stage.is_some_and(|stage| stage >= Stage::FirstLaunch);
    let driver = launch || stage.is_none_or(|stage| stage == Stage::DriverInit || stage >= Stage::Load);
    (input.gpu == GpuMode::None && driver) || (!input.launches && launch)
}

fn matches(input: &JudgeInput, expectation: &Expectation) -> bool {
    let code = input.code.map(|code| code.name.as_str());
    input.outcome == expectation.outcome
        && (expectation.stage.is_none() || expectation.stage == input.stage)
        && (expectation.code.is_none() || expectation.code.as_deref() == code)
}

/// `expected fail at load with X (why), and it is pass`.
fn contradiction(input: &JudgeInput, expectation: &Expectation) -> String {
    let wanted = described(expectation.outcome, expectation.stage, expectation.code.as_deref());
    let got = described(input.outcome, input.stage, input.code.map(|code| code.name.as_str()));
    format!("expected {wanted} ({}), and it is {got}", expectation.reason)
}

fn described(outcome: Outcome, stage: Option<Stage>, code: Option<&str>) -> String {
    let stage = stage.map(|stage| format!(" at {stage}")).unwrap_or_default();
    let code = code.map(|code| format!(" with {code}")).unwrap_or_default();
    format!("{outcome}{stage}{code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: JudgeInput = JudgeInput {
        outcome: Outcome::Pass,
        stage: None,
        code: None,
        expectation: None,
        gpu: GpuMode::Real,
        launches: true,
        foreseen_skip: false,
    };
    const BUILT: JudgeInput = JudgeInput { outcome: Outcome::Built, gpu: GpuMode::None, ..PASS };
    const LOADED: JudgeInput = JudgeInput { outcome: Outcome::Loaded, launches: false, ..PASS };

    fn expect(outcome: Outcome, stage: Option<Stage>, code: Option<&str>) -> Expectation {
        Expectation { outcome, stage, code: code.map(Into::into), reason: "why".into() }
    }

    /// `outcome yes|no reason`.
    fn verdict(input: JudgeInput) -> String {
        let verdict = judge(&input);
        let expected = if verdict.expected { "yes" } else { "no" };
        format!("{} {expected} {}", verdict.outcome, verdict.reason.unwrap_or_default()).trim_end().into()
    }

    /// The verdict on `input` under the expectation of a failure at `stage` with `code`.
    fn under(input: JudgeInput, stage: Option<Stage>, code: Option<&str>) -> String {
        verdict(JudgeInput { expectation: Some(&expect(Outcome::Fail, stage, code)), ..input })
    }

    fn too_new() -> Code {
        Code { name: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION".into(), number: 222 }
    }

    #[test]
    fn the_most_that_a_run_can_show_is_expected_without_being_told() {
        assert_eq!(verdict(PASS), "pass yes");
        assert_eq!(verdict(JudgeInput { gpu: GpuMode::Fake, ..PASS }), "pass yes");
        assert_eq!(verdict(BUILT), "built yes");
        assert_eq!(verdict(JudgeInput { launches: false, ..BUILT }), "built yes");
        assert_eq!(verdict(LOADED), "loaded yes");
        assert_eq!(verdict(JudgeInput { outcome: Outcome::Skip, foreseen_skip: true, ..PASS }), "skip yes");
    }

    #[test]
    fn anything_less_is_not() {
        let gpu = "built no it was built, and not loaded, though there is a GPU";
        assert_eq!(verdict(JudgeInput { gpu: GpuMode::Real, ..BUILT }), gpu);
        assert_eq!(verdict(JudgeInput { gpu: GpuMode::Fake, ..BUILT }), gpu);
        assert_eq!(verdict(JudgeInput { launches: true, ..LOADED }), "loaded no it was loaded, and not launched");
        assert_eq!(
            verdict(JudgeInput { gpu: GpuMode::None, ..LOADED }),
            "loaded no it says that it was loaded, without a GPU"
        );
        assert_eq!(verdict(JudgeInput { outcome: Outcome::Skip, ..PASS }), "skip no");
        assert_eq!(verdict(JudgeInput { gpu: GpuMode::None, ..PASS }), "pass no a pass without a GPU proves nothing");
        assert_eq!(
            verdict(JudgeInput { launches: false, ..PASS }),
            "pass no a pass of a kernel that is not launched proves nothing"
        );
    }

    #[test]
    fn no_failure_is_expected_without_being_told_and_no_cell_can_judge_itself() {
        let good = [Outcome::Pass, Outcome::Built, Outcome::Loaded, Outcome::Skip];
        for outcome in Outcome::ALL.into_iter().filter(|outcome| !good.contains(outcome)) {
            for gpu in [GpuMode::Real, GpuMode::Fake, GpuMode::None] {
                let verdict = judge(&JudgeInput { outcome, gpu, foreseen_skip: true, ..PASS });
                assert!(!verdict.expected && verdict.outcome == outcome, "{outcome}");
            }
        }
        let forged = JudgeInput { outcome: Outcome::ExpectedFail, ..PASS };
        assert_eq!(verdict(forged), "expected-fail no `expected-fail` is a verdict, and no end that a cell can report");
        assert!(!judge(&JudgeInput { expectation: Some(&expect(Outcome::Fail, None, None)), ..forged }).expected);
    }

    #[test]
    fn a_failure_counts_as_expected_where_all_that_was_said_holds() {
        let code = too_new();
        let fail = JudgeInput { outcome: Outcome::Fail, stage: Some(Stage::Load), code: Some(&code), ..PASS };
        let name = code.name.as_str();
        for (stage, code) in
            [(None, None), (Some(Stage::Load), None), (None, Some(name)), (Some(Stage::Load), Some(name))]
        {
            assert_eq!(under(fail, stage, code), "expected-fail yes why");
        }
        let other = "expected fail at load with CUDA_ERROR_NO_BINARY_FOR_GPU (why), and it is fail at load with \
                     CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
        assert_eq!(under(fail, Some(Stage::Load), Some("CUDA_ERROR_NO_BINARY_FOR_GPU")), format!("fail no {other}"));
        let earlier = JudgeInput { stage: Some(Stage::Build), code: None, ..fail };
        assert_eq!(
            under(earlier, Some(Stage::Load), None),
            "fail no expected fail at load (why), and it is fail at build"
        );
        assert_eq!(
            under(earlier, None, Some(name)),
            "fail no expected fail with CUDA_ERROR_UNSUPPORTED_PTX_VERSION (why), and it is fail at build"
        );
    }

    #[test]
    fn another_kind_of_end_is_not_the_expected_failure() {
        for outcome in [Outcome::Timeout, Outcome::Crashed, Outcome::Infra, Outcome::NotRun, Outcome::WrongResult] {
            assert_eq!(
                under(JudgeInput { outcome, ..PASS }, None, None),
                format!("{outcome} no expected fail (why), and it is {outcome}")
            );
        }
        let crash = expect(Outcome::Crashed, None, Some("SIGSEGV"));
        let code = Code { name: "SIGSEGV".into(), number: 11 };
        let crashed = JudgeInput { outcome: Outcome::Crashed, code: Some(&code), expectation: Some(&crash), ..PASS };
        assert_eq!(verdict(crashed), "expected-fail yes why");
    }

    #[test]
    fn a_pass_where_a_failure_was_expected_is_not_green() {
        let load = Some(Stage::Load);
        assert_eq!(under(PASS, load, None), "unexpected-pass no expected fail at load (why), and it is pass");
        assert_eq!(under(PASS, None, None), "unexpected-pass no expected fail (why), and it is pass");
        assert_eq!(under(LOADED, load, None), "unexpected-pass no expected fail at load (why), and it is loaded");
        assert_eq!(under(LOADED, None, None), "unexpected-pass no expected fail (why), and it is loaded");
        let build = "unexpected-pass no expected fail at build (why), and it is built";
        assert_eq!(under(BUILT, Some(Stage::Build), None), build);
        let nvrtc = "unexpected-pass no expected fail with NVRTC_ERROR_INVALID_OPTION (why), and it is built";
        assert_eq!(under(BUILT, None, Some("NVRTC_ERROR_INVALID_OPTION")), nvrtc);
    }

    #[test]
    fn what_a_run_cannot_test_counts_as_if_nothing_had_been_said() {
        for stage in [Stage::DriverInit, Stage::Load, Stage::GetFunction, Stage::FirstLaunch, Stage::VerifyAfter] {
            assert_eq!(under(BUILT, Some(stage), None), "built yes");
        }
        assert_eq!(under(BUILT, None, None), "built yes");
        assert_eq!(under(LOADED, Some(Stage::FirstLaunch), None), "loaded yes");
        let skipped = JudgeInput { outcome: Outcome::Skip, foreseen_skip: true, ..PASS };
        assert_eq!(under(skipped, Some(Stage::Load), None), "skip yes");
        let unforeseen = JudgeInput { foreseen_skip: false, ..skipped };
        assert_eq!(under(unforeseen, Some(Stage::Load), None), "skip no expected fail at load (why), and it is skip");
        for input in [BUILT, LOADED] {
            let wrong = expect(Outcome::WrongResult, None, None);
            assert!(judge(&JudgeInput { expectation: Some(&wrong), ..input }).expected);
        }
        // With a GPU, a cell that was only built did not do what it could.
        assert_eq!(
            under(JudgeInput { gpu: GpuMode::Real, ..BUILT }, Some(Stage::Load), None),
            "built no expected fail at load (why), and it is built"
        );
    }

    #[test]
    fn an_expected_skip_makes_that_skip_expected_and_nothing_else() {
        let skip = expect(Outcome::Skip, None, None);
        let input = JudgeInput { expectation: Some(&skip), ..PASS };
        assert_eq!(verdict(JudgeInput { outcome: Outcome::Skip, ..input }), "skip yes why");
        assert_eq!(verdict(input), "pass no expected skip (why), and it is pass");
    }

    #[test]
    fn an_expected_success_still_has_to_be_one() {
        let pass = expect(Outcome::Pass, None, None);
        let with = |input: JudgeInput| verdict(JudgeInput { expectation: Some(&pass), ..input });
        assert_eq!(with(PASS), "pass yes");
        assert_eq!(with(BUILT), "built yes");
        assert_eq!(with(LOADED), "loaded yes");
        assert_eq!(with(JudgeInput { gpu: GpuMode::None, ..PASS }), "pass no a pass without a GPU proves nothing");
        assert_eq!(
            with(JudgeInput { outcome: Outcome::Fail, stage: Some(Stage::Load), ..PASS }),
            "fail no expected pass (why), and it is fail at load"
        );
        let built = expect(Outcome::Built, None, None);
        assert_eq!(
            verdict(JudgeInput { expectation: Some(&built), ..PASS }),
            "pass no expected built (why), and it is pass"
        );
    }

    #[test]
    fn an_end_that_is_not_the_cell_s_own_doing_cannot_be_expected() {
        for outcome in [Outcome::Infra, Outcome::NotRun, Outcome::Cancelled, Outcome::Truncated, Outcome::ExpectedFail]
        {
            let expectation = expect(outcome, None, None);
            let verdict = judge(&JudgeInput { outcome, expectation: Some(&expectation), ..PASS });
            assert_eq!(verdict, Verdict::unexpected(outcome, format!("`{outcome}` cannot be expected of a cell")));
        }
    }
}
