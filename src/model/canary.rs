//! Two cells outside the matrix, by which a run on a GPU shows that it can tell a failure from a success. Its main type
//! is [`Canary`].

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::kernel::{Kernel, Prebuilt};
use super::outcome::{Code, Outcome, Stage};
use super::path::{Family, Form, PathId};

/// PTX of an ISA that no driver knows. Driver 580 refuses 9.1 and 10.0 with 222 before it looks at anything else.
const REFUSED: &str = "\
.version 99.9
.target sm_52
.address_size 64
.visible .entry vectorAdd()
{
    ret;
}
";

/// How the two cells ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// An artifact that no GPU can take: it must fail at load.
    pub must_fail: CanaryEnd,
    /// A path for which there is no artifact: it must be skipped.
    pub must_not_apply: CanaryEnd,
    /// Whether both did.
    pub valid: bool,
}

/// How one of them ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryEnd {
    /// The outcome.
    pub outcome: Outcome,
    /// Where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// What it failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// One line: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Canary {
    /// The path that must fail.
    pub const MUST_FAIL: PathId = PathId { family: Family::Driver, form: Form::Ptx };
    /// The path that must not apply.
    pub const MUST_NOT_APPLY: PathId = PathId { family: Family::Driver, form: Form::Cubin };

    /// The kernel of both: a PTX that is refused, and no cubin. It is not launched.
    #[must_use]
    pub fn kernel() -> Kernel {
        let ptx = Prebuilt { origin: "the canary".into(), base64: STANDARD.encode(REFUSED) };
        Kernel {
            name: "canary".into(),
            entry: "vectorAdd".into(),
            options: Vec::new(),
            source: None,
            prebuilt: BTreeMap::from([(Form::Ptx, ptx)]),
            launch: None,
        }
    }

    /// The two ends, judged.
    #[must_use]
    pub fn new(must_fail: CanaryEnd, must_not_apply: CanaryEnd) -> Self {
        // A refusal without a code is not the driver's.
        let refused =
            must_fail.outcome == Outcome::Fail && must_fail.stage == Some(Stage::Load) && must_fail.code.is_some();
        let valid = refused && must_not_apply.outcome == Outcome::Skip;
        Self { must_fail, must_not_apply, valid }
    }

    /// A canary that never got its turn.
    #[must_use]
    pub fn not_run() -> Self {
        let end = || CanaryEnd {
            outcome: Outcome::NotRun,
            stage: None,
            code: None,
            reason: Some("no job came as far as a GPU".into()),
        };
        Self::new(end(), end())
    }

    /// Why the run is invalid; none if it is valid.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        if self.valid {
            return None;
        }
        let said = |end: &CanaryEnd| {
            let stage = end.stage.map(|stage| format!(" at {stage}")).unwrap_or_default();
            let code = end.code.as_ref().map(|code| format!(" with {code}")).unwrap_or_default();
            format!("{}{stage}{code}", end.outcome)
        };
        let (fail, apply) = (&self.must_fail, &self.must_not_apply);
        Some(match fail.outcome {
            Outcome::Pass | Outcome::Loaded | Outcome::Built => format!(
                "the run is invalid: its canary, an artifact that no GPU can take, came out as `{}`, so that nothing \
                 here shows a failure",
                said(fail)
            ),
            Outcome::NotRun | Outcome::Cancelled => {
                "the run proves nothing: its canary, an artifact that no GPU can take, did not run".into()
            }
            _ if fail.stage == Some(Stage::Load) && fail.code.is_some() => format!(
                "the run is invalid: a path without an artifact came out as `{}` instead of being skipped",
                said(apply)
            ),
            _ => format!(
                "the run is invalid: its canary, an artifact that no GPU can take, was not refused at load: it is `{}`",
                said(fail)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(outcome: Outcome, stage: Option<Stage>, code: Option<i64>) -> CanaryEnd {
        let code = code.map(|number| Code { name: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION".into(), number });
        CanaryEnd { outcome, stage, code, reason: None }
    }

    #[test]
    fn only_a_driver_s_refusal_and_a_skip_are_a_living_canary() {
        let refused = end(Outcome::Fail, Some(Stage::Load), Some(222));
        let skipped = end(Outcome::Skip, None, None);
        assert_eq!(Canary::new(refused.clone(), skipped.clone()).complaint(), None);
        let complaint =
            |fail: &CanaryEnd, apply: &CanaryEnd| Canary::new(fail.clone(), apply.clone()).complaint().unwrap();
        let loaded = end(Outcome::Loaded, None, None);
        assert!(complaint(&loaded, &skipped).contains("came out as `loaded`"));
        assert!(complaint(&refused, &loaded).contains("came out as `loaded` instead of being skipped"));
        let early = end(Outcome::Fail, Some(Stage::DriverInit), Some(100));
        assert!(complaint(&early, &skipped).contains("was not refused at load: it is `fail at driver-init"));
        assert!(complaint(&end(Outcome::Fail, Some(Stage::Load), None), &skipped).contains("not refused"));
        assert!(Canary::not_run().complaint().unwrap().contains("did not run"));
    }
}
