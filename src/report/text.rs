//! Text that others wrote, made safe to show: compilers, kernels, images and matrix files can put anything into a
//! name or a log. Its main function is [`visible`], which shows what would otherwise act instead of being read.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

/// Whether a character acts on a terminal or on the order of text instead of being seen: control characters,
/// bidirectional controls, zero-width and tag characters.
pub(super) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// One line of text in which everything that acts is shown as an escape: `\n`, `\u{1b}`, `\u{202e}`. A tab becomes a
/// space.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push(' '),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if acts(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// The first `most` characters of a text, made [`visible`], with a word on how much is missing. Line ends at either
/// side are dropped.
#[must_use]
pub fn clipped(text: &str, most: usize) -> String {
    cut(text.trim(), most)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => visible(text),
        Some((cut, _)) => format!("{}… ({} more characters)", visible(&text[..cut]), text[cut..].chars().count()),
    }
}

/// Items in a row, each at most `each` characters long, as many as `most` characters hold, with a word on how many are
/// missing.
#[must_use]
pub fn listed(items: &[String], each: usize, most: usize) -> String {
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        let item = clipped(item, each);
        if at > 0 && out.chars().count() + item.chars().count() > most {
            let _ = write!(out, ", … ({} more)", items.len() - at);
            break;
        }
        out.push_str(if at > 0 { ", " } else { "" });
        out.push_str(&item);
    }
    out
}

/// The first lines of a log, each at most `width` characters long and [`visible`], with a last line that says how much
/// is missing.
#[must_use]
pub fn log_lines(text: &str, most: usize, width: usize) -> Vec<String> {
    let text = text.trim_end();
    let mut lines: Vec<String> = text.lines().take(most).map(|line| cut(line.trim_end(), width)).collect();
    let missing = text.lines().count().saturating_sub(most);
    if missing > 0 {
        lines.push(format!("… ({missing} more lines)"));
    }
    lines
}

/// Text broken at spaces into lines of at most `width` columns. A word that is longer is broken where it must be.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut fresh = true;
    for word in text.split(' ') {
        if !fresh && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        fresh = false;
        for c in word.chars() {
            if line.width() >= width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

/// A line that a CI runner takes for no command: GitHub's runner obeys lines that open with `::` after any white
/// space, and both it and Azure's obey `##[…]` and `##vso[…]` anywhere.
#[must_use]
pub fn defused(line: &str) -> String {
    let line = line.replace("##[", "##\\[").replace("##vso[", "##vso\\[");
    let text = line.trim_start();
    if text.starts_with("::") {
        let (indent, text) = line.split_at(line.len() - text.len());
        return format!("{indent}\\{text}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_shown_as_an_escape() {
        assert_eq!(visible("a\u{1b}[31mb\u{0}\u{9b}c"), "a\\u{1b}[31mb\\u{0}\\u{9b}c");
        assert_eq!(visible("\u{202e}evil\u{2069}\u{200b}"), "\\u{202e}evil\\u{2069}\\u{200b}");
        assert_eq!(visible("tab\tand\r\nline"), "tab and\\r\\nline");
        assert_eq!(visible("naïve 日本 ✓"), "naïve 日本 ✓");
    }

    #[test]
    fn a_long_text_says_how_much_is_missing() {
        assert_eq!(clipped("short\n", 5), "short");
        assert_eq!(clipped("日本語文", 2), "日本… (2 more characters)");
        let items: Vec<String> = ["one", "two", "three\n", "four"].map(Into::into).into();
        assert_eq!(listed(&items, 3, 11), "one, two, … (2 more)");
        assert_eq!(listed(&items, 4, 99), "one, two, thre… (1 more characters), four");
        assert_eq!(log_lines("a\nb\r\nc\nd\n", 2, 10), ["a", "b", "… (2 more lines)"]);
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_where_they_must() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghijk l", 8), ["abcdefgh", "ijk l"]);
        assert_eq!(wrapped("   ^ here", 8), ["   ^", "here"]);
        assert_eq!(wrapped("", 8), [""]);
    }

    #[test]
    fn a_runner_finds_no_command_in_a_defused_line() {
        assert_eq!(defused("  ::add-mask::x"), "  \\::add-mask::x");
        assert_eq!(defused("a ##[set-env]b ##vso[x]"), "a ##\\[set-env]b ##vso\\[x]");
        assert_eq!(defused("std::vector"), "std::vector");
    }
}
