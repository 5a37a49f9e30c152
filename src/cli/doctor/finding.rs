//! One thing that the doctor found. Its main type is [`Finding`].

use serde_json::{Value, json};

/// How a finding bears on the main job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is as it should be.
    Ok,
    /// The main job runs all the same.
    Note,
    /// The main job cannot run.
    Problem,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// What it is about: `engine`, `driver`.
    pub(super) subject: &'static str,
    pub(super) state: State,
    pub(super) says: String,
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(subject: &'static str, says: impl Into<String>) -> Self {
        Self { subject, state: State::Ok, says: says.into(), remedy: None }
    }

    pub(super) fn note(subject: &'static str, says: impl Into<String>) -> Self {
        Self { subject, state: State::Note, says: says.into(), remedy: None }
    }

    pub(super) fn problem(subject: &'static str, says: impl Into<String>) -> Self {
        Self { subject, state: State::Problem, says: says.into(), remedy: None }
    }

    pub(super) fn cure(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { subject, state, says, remedy } = self;
        let mut value = json!({ "subject": subject, "state": state.name(), "says": says });
        if let Some(remedy) = remedy {
            value["remedy"] = json!(remedy);
        }
        value
    }
}
