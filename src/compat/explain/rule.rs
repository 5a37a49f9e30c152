//! One entry of the tables: when it applies, and what it says. Its main type is [`Rule`].

use crate::model::outcome::{Code, Stage};
use crate::model::record::Explanation;

/// One entry of the tables.
#[derive(Debug)]
pub(super) struct Rule {
    /// The stages at which it applies; none means any.
    pub(super) stages: &'static [Stage],
    /// The name of the code; empty for a rule on text alone.
    pub(super) code: &'static str,
    /// It applies where one of these is in the text, in whatever case; none means any text. Here they are in lower case.
    pub(super) texts: &'static [&'static str],
    pub(super) what: &'static str,
    pub(super) why: &'static str,
    pub(super) remedy: &'static str,
    pub(super) source: &'static str,
}

impl Rule {
    /// A rule on a code.
    pub(super) const fn code(code: &'static str, says: [&'static str; 4]) -> Self {
        let [what, why, remedy, source] = says;
        Self { stages: &[], code, texts: &[], what, why, remedy, source }
    }

    /// A rule on text.
    pub(super) const fn text(texts: &'static [&'static str], says: [&'static str; 4]) -> Self {
        let [what, why, remedy, source] = says;
        Self { stages: &[], code: "", texts, what, why, remedy, source }
    }

    /// The same, at these stages only.
    pub(super) const fn at(self, stages: &'static [Stage]) -> Self {
        Self { stages, ..self }
    }

    /// The same, where one of these is in the text.
    pub(super) const fn with(self, texts: &'static [&'static str]) -> Self {
        Self { texts, ..self }
    }

    /// Whether it applies. A stage that is not known is no hindrance. `text` is in lower case.
    pub(super) fn applies(&self, stage: Option<Stage>, code: Option<&Code>, text: &str) -> bool {
        let stage = stage.is_none_or(|stage| self.stages.is_empty() || self.stages.contains(&stage));
        let code = self.code.is_empty() || code.is_some_and(|code| code.name == self.code);
        let text = self.texts.is_empty() || self.texts.iter().any(|part| text.contains(part));
        stage && code && text
    }

    pub(super) fn explanation(&self) -> Explanation {
        Explanation {
            what: self.what.into(),
            why: self.why.into(),
            remedy: self.remedy.into(),
            source: self.source.into(),
        }
    }
}
