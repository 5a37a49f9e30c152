//! The report for a pull request or a job summary. Its main function is [`render`].
//!
//! Texts that others wrote are escaped, put in code spans, or fenced; none can open a link, mention a person, start an
//! HTML element or add a column to a table.

use std::fmt::Write as _;

use super::summary::{
    ARTIFACT_COLUMNS, Finding, Group, Mark, SPEED_COLUMNS, StackView, Summary, TIMING_COLUMNS, Told, Tone,
};
use super::text::{clipped, listed, log_lines, visible};

/// Bytes of the whole page. GitHub takes 1 MiB for a job's summary and shows nothing of a longer one.
pub const LARGEST: usize = 900_000;

/// Characters of a name in a table.
const NAME: usize = 80;
/// Characters of a text.
const TEXT: usize = 2_000;
/// Characters of one package in a list, and of the list: an environment is shown in full.
const LIST: (usize, usize) = (160, 20_000);
/// Lines of a log, and characters of each.
const LOG: (usize, usize) = (60, 1_000);

/// The report as GitHub-flavoured Markdown, at most [`LARGEST`] bytes. Where it would be more, logs are left out
/// first, and what is still too much is cut at the end of a line, with a notice.
#[must_use]
pub fn render(summary: &Summary) -> String {
    let whole = page(summary, true);
    if whole.len() <= LARGEST {
        return whole;
    }
    let mut short = page(summary, false);
    let mut notice = "\n> Logs are left out, since the page would be too long. `report.json` has them.\n";
    if short.len() + notice.len() > LARGEST {
        notice = "\n> The rest is left out, since the page would be too long. `report.json` has everything.\n";
        let mut end = LARGEST - notice.len();
        while !short.is_char_boundary(end) {
            end -= 1;
        }
        let end = short[..end].rfind('\n').map_or(0, |line| line + 1);
        short.truncate(end);
    }
    short.push_str(notice);
    short
}

fn page(summary: &Summary, logs: bool) -> String {
    let mut out = format!("# ctk-matrix: {}\n\n", prose(&summary.headline.title, TEXT));
    for alarm in &summary.headline.alarms {
        let _ = writeln!(out, "> **{}**\n", prose(alarm, TEXT));
    }
    verdict(&mut out, summary);
    claims(&mut out, summary, logs);
    let grids = summary.grids.iter().map(|grid| ("Compatibility", grid));
    for (what, grid) in grids.chain(summary.fleet.iter().map(|grid| ("Predicted", grid))) {
        let _ = writeln!(out, "\n## {what}: {}\n", prose(&grid.title, TEXT));
        let header: Vec<String> = ["toolkit".into()].into_iter().chain(grid.columns.iter().cloned()).collect();
        let rows: Vec<Vec<String>> = grid
            .rows
            .iter()
            .map(|(name, marks)| {
                let marks = marks.iter().map(|mark| mark.as_ref().map_or("-".into(), Mark::to_string));
                [name.clone()].into_iter().chain(marks).collect()
            })
            .collect();
        table(&mut out, &header, &rows, &[]);
    }
    if let Some(predictions) = &summary.predictions {
        findings(&mut out, "Not as predicted", &predictions.findings, false);
    }
    findings(&mut out, "Not as expected", &summary.unexpected, logs);
    stacks(&mut out, &summary.stacks);
    for timing in &summary.timings {
        heading(&mut out, "Timings", &timing.title, timing.source.as_ref(), timing.compilers.as_ref());
        table(&mut out, &TIMING_COLUMNS.map(Into::into), &cells(&timing.rows), &[2, 3, 4, 5, 6, 7]);
    }
    for speed in &summary.speeds {
        heading(&mut out, "Against each other", &speed.title, None, None);
        table(&mut out, &SPEED_COLUMNS.map(Into::into), &cells(&speed.rows), &[1, 2, 3, 4, 5, 6]);
        out.push('\n');
        for line in &speed.lines {
            let _ = writeln!(out, "- {}", item(line));
        }
    }
    for artifact in &summary.artifacts {
        heading(&mut out, "Artifacts", &artifact.title, artifact.source.as_ref(), artifact.compilers.as_ref());
        table(&mut out, &ARTIFACT_COLUMNS.map(Into::into), &cells(&artifact.rows), &[2, 3, 4, 6]);
    }
    findings(&mut out, "Failed as expected", &summary.expected_failures, false);
    groups(&mut out, "Skipped, as foreseen", Tone::Skipped, &summary.skips);
    groups(&mut out, "Left out", Tone::Left, &summary.exclusions);
    list(&mut out, "Earlier attempts", &summary.superseded);
    list(&mut out, "What is measured", &summary.legend);
    let _ = writeln!(out, "\n## Where this ran\n");
    for (label, text) in &summary.headline.facts {
        let _ = writeln!(out, "- {}: {}", prose(label, NAME), prose(text, TEXT));
    }
    for note in &summary.headline.notes {
        let _ = writeln!(out, "- note: {}", prose(note, TEXT));
    }
    out
}

fn verdict(out: &mut String, summary: &Summary) {
    let counts: Vec<String> = summary.counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    let tone = if summary.verdict.as_expected { Tone::Good } else { Tone::Bad };
    let counts = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    let _ = writeln!(out, "**{} {}**{counts}\n", tone.glyph(), prose(&summary.verdict.line, TEXT));
    for reason in &summary.verdict.reasons {
        let _ = writeln!(out, "- {} {}", Tone::Bad.glyph(), prose(reason, TEXT));
    }
    for line in &summary.closing {
        let _ = writeln!(out, "- {}", item(line));
    }
}

fn claims(out: &mut String, summary: &Summary, logs: bool) {
    if summary.claims.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## Claims ({})", summary.claims.len());
    for claim in &summary.claims {
        let (glyph, says) = (claim.tone.glyph(), prose(&claim.says, TEXT));
        let _ = writeln!(out, "\n### {glyph} {}: {says}\n", claim.verdict);
        for text in claim.test.iter().chain([&claim.reason]) {
            let _ = writeln!(out, "{}\n", item(text));
        }
        for line in &claim.evidence {
            let _ = writeln!(out, "- {}", item(line));
        }
        if let Some(detail) = claim.detail.as_ref().filter(|_| logs) {
            let _ = writeln!(out, "\n{}", fenced(&log_lines(detail, LOG.0, LOG.1)));
        }
    }
}

fn stacks(out: &mut String, stacks: &[StackView]) {
    if stacks.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## Stacks ({})", stacks.len());
    for stack in stacks {
        let _ = writeln!(out, "\n### {}\n", prose(&stack.title, TEXT));
        for warning in &stack.warnings {
            let _ = writeln!(out, "> **{}**\n", prose(warning, TEXT));
        }
        for (label, told) in &stack.facts {
            let text = match told {
                Told::Text(text) => prose(text, TEXT),
                // Its own notice of what is missing is the last that is cut.
                Told::List(items) => prose(&listed(items, LIST.0, LIST.1), 2 * LIST.1),
            };
            let _ = writeln!(out, "- {label}: {text}");
        }
    }
}

fn heading(out: &mut String, what: &str, title: &str, source: Option<&String>, compilers: Option<&String>) {
    let _ = writeln!(out, "\n## {what}: {}\n", prose(title, TEXT));
    if let Some(source) = source {
        let _ = writeln!(out, "From {}.\n", code(&clipped(source, TEXT)));
    }
    if let Some(compilers) = compilers {
        let _ = writeln!(out, "With {}.\n", prose(compilers, TEXT));
    }
}

fn cells<const N: usize>(rows: &[[String; N]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.to_vec()).collect()
}

fn table(out: &mut String, header: &[String], rows: &[Vec<String>], numbers: &[usize]) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|text| prose(text, NAME)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule: Vec<&str> =
        (0..header.len()).map(|column| if numbers.contains(&column) { "--:" } else { "---" }).collect();
    let _ = writeln!(out, "{}\n| {} |", line(header), rule.join(" | "));
    for row in rows {
        let _ = writeln!(out, "{}", line(row));
    }
}

fn findings(out: &mut String, title: &str, findings: &[Finding], logs: bool) {
    if findings.is_empty() {
        return;
    }
    let count: usize = findings.iter().map(|finding| finding.count).sum();
    let _ = writeln!(out, "\n## {title} ({count})");
    for finding in findings {
        let _ = writeln!(out, "\n### {} {}\n", finding.tone.glyph(), prose(&finding.what, TEXT));
        let _ = writeln!(out, "- cells: {}", prose(&finding.cells, TEXT));
        for (label, text) in &finding.facts {
            let _ = writeln!(out, "- {label}: {}", prose(text, TEXT));
        }
        if matches!(finding.tone, Tone::Bad | Tone::Unfinished) {
            let _ = writeln!(out, "- again: {}", code(&clipped(&finding.again, TEXT)));
        }
        if let Some(detail) = finding.detail.as_ref().filter(|_| logs) {
            let _ = writeln!(out, "\n{}", fenced(&log_lines(detail, LOG.0, LOG.1)));
        }
    }
}

fn groups(out: &mut String, title: &str, tone: Tone, groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    let count: usize = groups.iter().map(|group| group.count).sum();
    let _ = writeln!(out, "\n## {title} ({count})\n");
    for group in groups {
        let link = group.link.as_ref().map_or(String::new(), |link| format!(" ({})", prose(link, TEXT)));
        let (cells, reason) = (prose(&group.cells, TEXT), prose(&group.reason, TEXT));
        let _ = writeln!(out, "- {} {cells}: {reason}{link}", tone.glyph());
    }
}

fn list(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {title}\n");
    for line in lines {
        let _ = writeln!(out, "- {}", item(line));
    }
}

/// Text at the start of a list's item, where it could open a list, a heading or a rule of its own.
fn item(text: &str) -> String {
    let mut out = prose(text, TEXT);
    let digits = out.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &out[digits..];
    let numbered = digits > 0 && rest.starts_with(['.', ')']);
    if numbered || out.starts_with(['-', '+', '=']) {
        out.insert(digits, '\\');
    }
    out
}

/// Text in a line or a table cell, at most `most` characters of it, in which nothing is markup.
fn prose(text: &str, most: usize) -> String {
    let text = clipped(text, most);
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let after = text[at + c.len_utf8()..].chars().next().unwrap_or(' ');
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A backslash before a bar does not keep it in its cell where another backslash precedes it.
            '|' => out.push_str("&#124;"),
            // A mention or a reference is looked for after the escapes are resolved: only another node parts them.
            '@' if after.is_ascii_alphanumeric() => out.push_str("@<!-- -->"),
            '#' if after.is_ascii_digit() => out.push_str("#<!-- -->"),
            '_' if before.is_alphanumeric() && after.is_alphanumeric() => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '$' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// A code span: its delimiter is longer than any run of backticks inside.
fn code(text: &str) -> String {
    let text = visible(text);
    let delimiter = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{delimiter}{pad}{text}{pad}{delimiter}")
}

/// A fenced block: its fence is longer than any run of backticks inside.
fn fenced(lines: &[String]) -> String {
    let longest = lines.iter().map(|line| longest_run(line)).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}text\n{}\n{fence}", lines.join("\n"))
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_prose_is_markup() {
        assert_eq!(prose("a|b<c>[d](e)", 99), "a&#124;b&lt;c&gt;\\[d\\](e)");
        assert_eq!(prose("@user fixed #12, # not", 99), "@<!-- -->user fixed #<!-- -->12, \\# not");
        assert_eq!(prose("vector_add _x_ `y`", 99), "vector_add \\_x\\_ \\`y\\`");
        assert_eq!(item("1. one"), "1\\. one");
        assert_eq!(item("- item\nnext"), "\\- item\\\\nnext");
    }

    #[test]
    fn code_is_fenced_by_more_backticks_than_it_holds() {
        assert_eq!(code("a `` b"), "```a `` b```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(fenced(&["````".into()]), "`````text\n````\n`````");
    }
}
