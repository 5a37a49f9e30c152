//! `report.json`: everything, for programs. Its main function is [`render`].

use std::fmt::Write as _;

use serde::Serialize;

use crate::model::record::Report;

/// The report as indented JSON with a newline at its end.
#[must_use]
pub fn render(report: &Report) -> String {
    pretty(report)
}

/// Indented JSON that is safe to print: what would act on a terminal or reorder text, and what a CI runner would take
/// for a command, can only stand inside strings, where JSON has its own escapes for it.
pub(super) fn pretty<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_string_pretty(value)
        .expect("the report's types hold only string keys, and writing to memory does not fail");
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // serde_json escapes control characters in strings: a line end is one of its own.
        if c == '\n' || !super::text::acts(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out.push('\n');
    out.replace("##[", "##\\u005b").replace("##vso[", "##vso\\u005b")
}
