//! Goes through a log line by line and says each thing that is known once, at the line where it was first said.
//! Its main types are [`Findings`], which is fed, and [`Finding`], which comes out.

use std::collections::VecDeque;

use super::rule::Rule;
use super::{codes_in, explain, provision};
use crate::model::outcome::Code;
use crate::model::record::Explanation;

/// How far back a cause may stand: pip says why it cannot download in the lines before it says that it found nothing.
const LINES_BEFORE: usize = 8;
/// Of a longer line only the beginning is looked at; a log is text, and this much of one line is not.
const LONGEST_LINE: usize = 64 << 10;

/// Something that a log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The code, where the line names one.
    pub code: Option<Code>,
    /// What it means; none for a code of which no more than its name is known.
    pub explanation: Option<Explanation>,
    /// The number of the line that said it first, from 1.
    pub line: usize,
    /// That line, as it was.
    pub raw: String,
    /// How many lines said it.
    pub times: usize,
}

/// What a log says, as far as it was read.
#[derive(Debug, Default)]
pub struct Findings {
    found: Vec<Finding>,
    /// The last lines, in lower case.
    before: VecDeque<String>,
    lines: usize,
}

impl Findings {
    /// What a whole text says.
    #[must_use]
    pub fn of(text: &str) -> Vec<Finding> {
        let mut findings = Self::default();
        text.lines().for_each(|line| findings.line(line));
        findings.into_vec()
    }

    /// Reads the next line.
    pub fn line(&mut self, raw: &str) {
        self.lines += 1;
        let raw = raw.trim_end();
        let seen = raw.get(..raw.floor_char_boundary(LONGEST_LINE)).unwrap_or(raw);
        let codes = codes_in(seen);
        for code in &codes {
            let explanation = explain(None, Some(code), seen);
            self.add(Some(code.clone()), explanation, raw);
        }
        if codes.is_empty()
            && let Some(explanation) = explain(None, None, seen)
        {
            let cause = self.cause_before(&explanation);
            self.add(None, Some(cause.unwrap_or(explanation)), raw);
        }
        if self.before.len() == LINES_BEFORE {
            self.before.pop_front();
        }
        self.before.push_back(seen.to_lowercase());
    }

    /// How many lines were read.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Everything that was found, in the order in which it was first said.
    #[must_use]
    pub fn into_vec(self) -> Vec<Finding> {
        self.found
    }

    fn add(&mut self, code: Option<Code>, explanation: Option<Explanation>, raw: &str) {
        // A sentence and a code that mean the same are one finding.
        let same = |finding: &&mut Finding| match &explanation {
            Some(_) => finding.explanation == explanation,
            None => finding.code == code,
        };
        match self.found.iter_mut().find(same) {
            Some(known) => {
                known.times += 1;
                known.code = known.code.take().or(code);
            }
            None => self.found.push(Finding { code, explanation, line: self.lines, raw: raw.into(), times: 1 }),
        }
    }

    /// What the lines before say of the cause, where this is what pip says at its end: within its table, the special
    /// stands before the general.
    fn cause_before(&self, explanation: &Explanation) -> Option<Explanation> {
        let at = provision::RULES.iter().position(|rule| rule.explanation() == *explanation)?;
        let causes = provision::RULES.get(..at)?;
        let said = |rule: &&Rule| self.before.iter().any(|line| rule.applies(None, None, line));
        causes.iter().find(said).map(Rule::explanation)
    }
}

#[cfg(test)]
mod tests {
    use super::super::TABLES;
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let show = |finding: Finding| {
            let code = finding.code.map(|code| format!(" {}", code.number)).unwrap_or_default();
            let what = finding.explanation.map_or("-".into(), |explanation| explanation.what);
            format!("{}x{}{code} {what}", finding.line, finding.times)
        };
        Findings::of(text).into_iter().map(show).collect()
    }

    #[test]
    fn each_thing_is_said_once_at_its_first_line_and_the_raw_line_is_kept() {
        let log = "starting\n\
                   docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].\n\
                   \x20 E0000: CUDA error: CUDA_ERROR_UNSUPPORTED_PTX_VERSION  \n\
                   again: the provided PTX was compiled with an unsupported toolchain\n\
                   CUDA_ERROR_LOSSY_QUERY and CUDA_ERROR_NO_BINARY_FOR_GPU\n\
                   CUDA_ERROR_LOSSY_QUERY\n";
        assert_eq!(
            shown(log),
            [
                "2x1 the engine knows no way to give a GPU to a container",
                "3x2 222 the PTX is newer than the driver",
                "5x2 402 -",
                "5x1 209 nothing in the artifact runs on this GPU",
            ]
        );
        assert_eq!(Findings::of(log)[1].raw, "  E0000: CUDA error: CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
    }

    #[test]
    fn pip_s_last_words_are_explained_by_what_it_said_before() {
        let log = "WARNING: Retrying after connection broken by 'NewConnectionError'\n\
                   ERROR: Could not find a version that satisfies the requirement x\n\
                   ERROR: No matching distribution found for x\n";
        assert_eq!(shown(log), ["1x3 pip has no way to the package index"]);
        let far = format!("NewConnectionError\n{}ERROR: No matching distribution found for x\n", "a\n".repeat(8));
        assert_eq!(shown(&far).len(), 2);
    }

    #[test]
    fn a_log_that_says_nothing_known_gives_nothing() {
        assert_eq!(shown("all went well\n\n1 passed\n"), [""; 0]);
        assert_eq!(shown(&"x".repeat(1 << 20)), [""; 0]);
        assert_eq!(shown(""), [""; 0]);
    }

    #[test]
    fn no_table_has_the_same_explanation_under_two_codes() {
        // Else two codes would be one finding.
        let mut seen: Vec<(Explanation, &str)> = Vec::new();
        for rule in TABLES.iter().copied().flatten().filter(|rule| !rule.code.is_empty()) {
            let explanation = rule.explanation();
            assert!(!seen.iter().any(|(known, code)| *known == explanation && *code != rule.code), "{}", rule.code);
            seen.push((explanation, rule.code));
        }
    }
}
