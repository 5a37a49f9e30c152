//! What is wrong in a matrix file, all of it at once, each with its place. Its main type is [`SpecErrors`].
//! `Findings` collects while the file is read; [`SpecErrors::render`] shows the lines with a caret under the text.

use std::fmt::Write as _;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet, normalize_untrusted_str};

/// More errors than anyone reads; the rest is counted.
const SHOWN_ERRORS: usize = 50;
/// When that many are found, no more are looked for: a file of 64 KiB has room for tens of thousands.
const MOST_ERRORS: usize = 200;
/// A longer line is named by its place and not shown: no file that a person wrote has one.
const SHOWN_LINE: usize = 500;
/// Longer words are cut in messages.
const SHOWN_WORD: usize = 48;

/// What kind of error it is: the command line's exit status depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The file says something that cannot be done.
    Invalid,
    /// The file is well formed and asks for nothing: an axis without values.
    Empty,
}

/// One error and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The offending text, as a byte range of [`SpecErrors::text`].
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// How to put it right.
    pub help: Option<String>,
    /// What kind of error it is.
    pub severity: Severity,
}

/// Everything that is wrong with one file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.lines())]
pub struct SpecErrors {
    /// The file, as the user named it.
    pub origin: String,
    /// Its text; empty if it was refused unread.
    pub text: String,
    /// What is wrong.
    pub errors: Vec<SpecError>,
}

impl SpecErrors {
    /// Whether nothing is wrong but that the matrix has no cells, which has an exit status of its own.
    #[must_use]
    pub fn only_empty(&self) -> bool {
        self.errors.iter().all(|error| error.severity == Severity::Empty)
    }

    /// Each error with the line it is in and a caret under the offending text.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut shown: Vec<String> =
            self.errors.iter().take(SHOWN_ERRORS).map(|error| self.render_one(error, &renderer)).collect();
        if self.errors.len() > SHOWN_ERRORS {
            shown.push(self.rest());
        }
        shown.join("\n\n") + "\n"
    }

    fn render_one(&self, error: &SpecError, renderer: &Renderer) -> String {
        let title = Level::ERROR.primary_title(&error.message);
        let start = self.text[..error.span.start].rfind('\n').map_or(0, |end| end + 1);
        let line = self.text[start..].split('\n').next().unwrap_or_default();
        let group = if self.text.is_empty() || line.len() > SHOWN_LINE {
            title.element(Origin::path(&self.origin).line(error.line).char_column(error.column))
        } else {
            // Only the line itself is handed over, so that the cost does not grow with the file.
            let caret = error.span.start - start..error.span.end.saturating_sub(start).min(line.len());
            let caret = caret.start..caret.end.max(caret.start);
            let snippet = Snippet::source(line).line_start(error.line).path(&self.origin);
            title.element(snippet.annotation(AnnotationKind::Primary.span(caret)))
        };
        let help = error.help.as_ref().map(|help| Level::HELP.message(normalize_untrusted_str(help)));
        renderer.render(&[group.elements(help)])
    }

    fn rest(&self) -> String {
        let more = self.errors.len().saturating_sub(SHOWN_ERRORS);
        if self.errors.len() < MOST_ERRORS { format!("and {more} more") } else { format!("and {more} more at least") }
    }

    fn lines(&self) -> String {
        let mut lines = String::new();
        for error in self.errors.iter().take(SHOWN_ERRORS) {
            let separator = if lines.is_empty() { "" } else { "\n" };
            let _ = write!(lines, "{separator}{}:{}:{}: {}", self.origin, error.line, error.column, error.message);
            if let Some(help) = &error.help {
                let _ = write!(lines, " ({help})");
            }
        }
        if self.errors.len() > SHOWN_ERRORS {
            let _ = write!(lines, "\n{}", self.rest());
        }
        lines
    }
}

/// Errors while they are being found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Vec<(Range<usize>, Complaint)>,
}

/// What is wrong with a piece of text, before its place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    /// What is wrong.
    pub(super) message: String,
    /// How to put it right.
    pub(super) help: Option<String>,
    /// What kind of error it is.
    pub(super) severity: Severity,
}

impl Complaint {
    /// A complaint without a cure.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, severity: Severity::Invalid }
    }

    /// The same with its cure.
    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The same, where the file merely asks for nothing.
    pub(super) fn empty(self) -> Self {
        Self { severity: Severity::Empty, ..self }
    }
}

impl Findings {
    /// Notes a complaint about the text at `span`.
    pub(super) fn add(&mut self, span: Range<usize>, complaint: Complaint) {
        if !self.full() {
            self.found.push((span, complaint));
        }
    }

    /// Whether there is no point in looking for more.
    pub(super) fn full(&self) -> bool {
        self.found.len() >= MOST_ERRORS
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The errors with their lines and columns, in the order of the text.
    pub(super) fn into_errors(mut self, origin: &str, text: &str) -> SpecErrors {
        self.found.sort_by_key(|(span, _)| (span.start, span.end));
        let (mut line, mut column, mut seen) = (1, 1, 0);
        let mut errors = Vec::with_capacity(self.found.len());
        for (span, Complaint { message, help, severity }) in self.found {
            let start = floor(text, span.start);
            let end = floor(text, span.end).max(start);
            let passed = &text[seen..start];
            match passed.rfind('\n') {
                Some(at) => {
                    line += passed.matches('\n').count();
                    column = 1 + passed[at + 1..].chars().count();
                }
                None => column += passed.chars().count(),
            }
            seen = start;
            errors.push(SpecError { line, column, span: start..end, message, help, severity });
        }
        SpecErrors { origin: origin.into(), text: text.into(), errors }
    }
}

/// The largest character border at or below `index`.
fn floor(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// A user's word as a message quotes it: in backquotes, cut, with control characters escaped.
pub(super) fn quoted(word: &str) -> String {
    let mut shown: String = word.chars().take(SHOWN_WORD).flat_map(char::escape_debug).collect();
    // `escape_debug` also escapes quotes, which need no escape between backquotes.
    shown = shown.replace("\\\"", "\"").replace("\\'", "'");
    if word.chars().nth(SHOWN_WORD).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_in_the_order_of_the_text_with_columns_in_characters() {
        let mut findings = Findings::default();
        findings.add(7..8, Complaint::new("second").help("cure"));
        findings.add(2..3, Complaint::new("first"));
        let errors = findings.into_errors("m.yaml", "é x\né y\n");
        assert_eq!(errors.to_string(), "m.yaml:1:2: first\nm.yaml:2:2: second (cure)");
    }

    #[test]
    fn a_word_is_quoted_without_its_control_characters() {
        assert_eq!(quoted("a\x1b[31m\"b\"'"), "`a\\u{1b}[31m\"b\"'`");
        assert_eq!(quoted(&"x".repeat(60)), format!("`{}…`", "x".repeat(48)));
    }
}
