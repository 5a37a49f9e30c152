//! Whether what happened is what the rules said: [`agrees`].

use crate::model::outcome::{Code, Outcome, Stage};
use crate::model::record::Predicted;

/// Whether the end of a cell is the predicted one. None where the end says nothing of the rules: the toolkit or the
/// container did not come up, the run was interrupted, a frame was lost.
///
/// A stage or code that was not predicted is left open: which code an old driver gives has not always been seen.
#[must_use]
pub fn agrees(predicted: &Predicted, outcome: Outcome, stage: Option<Stage>, code: Option<&Code>) -> Option<bool> {
    let same = |observed: Outcome| {
        predicted.outcome == observed
            && (predicted.stage.is_none() || predicted.stage == stage)
            && (predicted.code.is_none() || predicted.code.as_ref() == code)
    };
    match outcome {
        Outcome::Fail if matches!(stage, Some(Stage::Provision | Stage::Start)) => None,
        // A busy machine is slow before anything is loaded; what hangs later may well be the driver's answer.
        Outcome::Timeout if stage.is_none_or(|stage| stage <= Stage::DriverInit) => None,
        Outcome::Pass
        | Outcome::WrongResult
        | Outcome::Fail
        | Outcome::Loaded
        | Outcome::Built
        | Outcome::Skip
        | Outcome::Timeout
        | Outcome::Crashed => Some(same(outcome)),
        // Verdicts on an expectation, and no ends of a cell; or not the cell's own doing.
        Outcome::ExpectedFail
        | Outcome::UnexpectedPass
        | Outcome::Oom
        | Outcome::Truncated
        | Outcome::Infra
        | Outcome::Cancelled
        | Outcome::NotRun => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::codes;

    #[test]
    fn an_end_agrees_where_outcome_stage_and_code_do() {
        let code = codes::driver(222);
        let said = |outcome, stage, code| Predicted { outcome, stage, code, rule: "ptx-isa".into(), agrees: None };
        let fail = said(Outcome::Fail, Some(Stage::Load), Some(code.clone()));
        assert_eq!(agrees(&fail, Outcome::Fail, Some(Stage::Load), Some(&code)), Some(true));
        assert_eq!(agrees(&fail, Outcome::Fail, Some(Stage::Load), Some(&codes::driver(209))), Some(false));
        assert_eq!(agrees(&fail, Outcome::Fail, Some(Stage::Build), None), Some(false));
        assert_eq!(agrees(&fail, Outcome::Pass, None, None), Some(false));
        assert_eq!(agrees(&fail, Outcome::Fail, Some(Stage::Start), None), None);
        assert_eq!(agrees(&fail, Outcome::Infra, None, None), None);
        let open = said(Outcome::Fail, Some(Stage::Load), None);
        assert_eq!(agrees(&open, Outcome::Fail, Some(Stage::Load), Some(&codes::driver(200))), Some(true));
        let pass = said(Outcome::Pass, None, None);
        assert_eq!(agrees(&pass, Outcome::Pass, None, None), Some(true));
        assert_eq!(agrees(&pass, Outcome::WrongResult, Some(Stage::Verify), None), Some(false));
        assert_eq!(agrees(&pass, Outcome::Timeout, Some(Stage::Load), None), Some(false));
    }
}
