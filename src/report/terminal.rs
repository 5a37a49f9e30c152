//! The report for a terminal. Its main function is [`render`]; [`Terminal`] says how wide, whether in colour, and
//! whether a CI runner reads the output as well.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle};
use unicode_width::UnicodeWidthStr;

use super::summary::{ARTIFACT_COLUMNS, Finding, Group, SPEED_COLUMNS, StackView, Summary, TIMING_COLUMNS, Told, Tone};
use super::text::{clipped, defused, listed, log_lines, visible, wrapped};

/// Characters of a name in a table.
const NAME: usize = 48;
/// Characters of a text.
const TEXT: usize = 600;
/// Characters of one package in a list, and of the list: an environment is shown in full.
const LIST: (usize, usize) = (160, 8_000);
/// Lines of a log; the whole is in `report.json`.
const LOG_LINES: usize = 12;
/// Columns of the labels before texts.
const LABEL: usize = 11;

/// What the terminal is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Columns.
    pub width: usize,
    /// Whether glyphs and headings are coloured.
    pub colour: bool,
    /// Whether a CI runner looks for commands in the output: then what would be one is spoilt with a backslash.
    pub runner: bool,
}

/// The report as lines of text.
#[must_use]
pub fn render(summary: &Summary, terminal: &Terminal) -> String {
    let mut page = Page { width: terminal.width.clamp(40, 400), lines: Vec::new() };
    headline(&mut page, summary);
    claims(&mut page, summary);
    stacks(&mut page, &summary.stacks);
    tables(&mut page, summary);
    if let Some(predictions) = &summary.predictions {
        findings(&mut page, "Not as predicted", &predictions.findings);
    }
    findings(&mut page, "Not as expected", &summary.unexpected);
    findings(&mut page, "Failed as expected", &summary.expected_failures);
    groups(&mut page, "Skipped, as foreseen", Tone::Skipped, &summary.skips);
    groups(&mut page, "Left out", Tone::Left, &summary.exclusions);
    list(&mut page, "Earlier attempts", &summary.superseded);
    list(&mut page, "What is measured", &summary.legend);
    verdict(&mut page, summary);
    let mut out = String::new();
    for line in page.lines {
        let line = line.trim_end();
        let line = if terminal.runner { defused(line) } else { line.to_owned() };
        out.push_str(&if terminal.colour { coloured(&line) } else { line });
        out.push('\n');
    }
    out
}

/// Lines that are being put together.
struct Page {
    width: usize,
    lines: Vec<String>,
}

impl Page {
    fn heading(&mut self, text: &str) {
        self.lines.push(String::new());
        self.lines.push(format!("── {text}"));
    }

    /// A text behind a label or glyph; what does not fit goes on below the text.
    fn labelled(&mut self, label: &str, indent: usize, text: &str) {
        let pad = indent.saturating_sub(label.width());
        let mut first = Some(format!("{label}{}", " ".repeat(pad)));
        for part in wrapped(text, self.width.saturating_sub(indent)) {
            let start = first.take().unwrap_or_else(|| " ".repeat(indent));
            self.lines.push(format!("{start}{part}"));
        }
    }

    /// A table, in as many pieces side by side as the width asks for, each with the first column.
    fn table(&mut self, header: &[&str], rows: &[Vec<String>], numbers: &[usize]) {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
            cells.chain([header[column].width()]).max().unwrap_or(0) + 2
        };
        let mut from = 1;
        while from < header.len() {
            let mut used = width(0) + width(from);
            let mut to = from + 1;
            while to < header.len() && used + width(to) <= self.width {
                used += width(to);
                to += 1;
            }
            let columns: Vec<usize> = [0].into_iter().chain(from..to).collect();
            let mut table = Table::new();
            table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
            table.set_header(columns.iter().map(|column| header[*column]));
            for row in rows {
                table.add_row(columns.iter().map(|column| row[*column].as_str()));
            }
            for (index, column) in columns.iter().enumerate() {
                if let Some(out) = table.column_mut(index).filter(|_| numbers.contains(column)) {
                    out.set_cell_alignment(CellAlignment::Right);
                }
            }
            self.lines.extend(table.lines());
            from = to;
            if from < header.len() {
                self.lines.push(String::new());
            }
        }
    }
}

const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('╌').junction('╌'))
    .content_lines(ContentLineStyle::none());

fn headline(page: &mut Page, summary: &Summary) {
    page.labelled("", 0, &clipped(&summary.headline.title, TEXT));
    for alarm in &summary.headline.alarms {
        page.labelled("!!", 3, &clipped(alarm, TEXT));
    }
    for (label, text) in &summary.headline.facts {
        let label = clipped(label, NAME);
        let label = format!("  {label}");
        page.labelled(&label, LABEL.max(label.width() + 1), &clipped(text, TEXT));
    }
    for note in &summary.headline.notes {
        page.labelled("  note", LABEL, &clipped(note, TEXT));
    }
}

fn claims(page: &mut Page, summary: &Summary) {
    if summary.claims.is_empty() {
        return;
    }
    page.heading(&format!("Claims ({})", summary.claims.len()));
    for (index, claim) in summary.claims.iter().enumerate() {
        if index > 0 {
            page.lines.push(String::new());
        }
        let glyph = claim.tone.glyph().to_string();
        page.labelled(&glyph, 2, &format!("{}: {}", claim.verdict, clipped(&claim.says, TEXT)));
        for text in claim.test.iter().chain([&claim.reason]) {
            page.labelled("", 4, &clipped(text, TEXT));
        }
        for line in &claim.evidence {
            page.labelled("    -", 6, &clipped(line, TEXT));
        }
        for line in claim.detail.iter().flat_map(|detail| log_lines(detail, LOG_LINES, TEXT)) {
            page.labelled("    |", 6, &line);
        }
    }
}

fn stacks(page: &mut Page, stacks: &[StackView]) {
    if stacks.is_empty() {
        return;
    }
    page.heading(&format!("Stacks ({})", stacks.len()));
    for (index, stack) in stacks.iter().enumerate() {
        if index > 0 {
            page.lines.push(String::new());
        }
        page.labelled("", 0, &clipped(&stack.title, TEXT));
        for warning in &stack.warnings {
            page.labelled("!!", 3, &clipped(warning, TEXT));
        }
        for (label, told) in &stack.facts {
            let text = match told {
                Told::Text(text) => clipped(text, TEXT),
                Told::List(items) => listed(items, LIST.0, LIST.1),
            };
            page.labelled(&format!("  {label}"), LABEL + 2, &text);
        }
    }
}

fn tables(page: &mut Page, summary: &Summary) {
    let grids = summary.grids.iter().map(|grid| ("Compatibility", grid));
    for (what, grid) in grids.chain(summary.fleet.iter().map(|grid| ("Predicted", grid))) {
        page.heading(&format!("{what}: {}", clipped(&grid.title, TEXT)));
        let header: Vec<&str> = ["toolkit"].into_iter().chain(grid.columns.iter().map(String::as_str)).collect();
        let row = |(name, marks): &(String, Vec<Option<super::summary::Mark>>)| {
            let marks = marks.iter().map(|mark| mark.as_ref().map_or("-".into(), |mark| visible(&mark.to_string())));
            [clipped(name, NAME)].into_iter().chain(marks).collect()
        };
        page.table(&header, &grid.rows.iter().map(row).collect::<Vec<_>>(), &[]);
    }
    for table in &summary.timings {
        page.heading(&format!("Timings: {}", clipped(&table.title, TEXT)));
        source(page, table.source.as_ref());
        compilers(page, table.compilers.as_ref());
        page.table(&TIMING_COLUMNS, &cells(&table.rows), &[2, 3, 4, 5, 6, 7]);
    }
    for table in &summary.speeds {
        page.heading(&format!("Against each other: {}", clipped(&table.title, TEXT)));
        page.table(&SPEED_COLUMNS, &cells(&table.rows), &[1, 2, 3, 4, 5, 6]);
        for line in &table.lines {
            page.labelled("", 2, &clipped(line, TEXT));
        }
    }
    for table in &summary.artifacts {
        page.heading(&format!("Artifacts: {}", clipped(&table.title, TEXT)));
        source(page, table.source.as_ref());
        compilers(page, table.compilers.as_ref());
        page.table(&ARTIFACT_COLUMNS, &cells(&table.rows), &[2, 3, 4, 6]);
    }
}

fn source(page: &mut Page, source: Option<&String>) {
    if let Some(source) = source {
        page.labelled("from", 5, &clipped(source, TEXT));
    }
}

fn compilers(page: &mut Page, compilers: Option<&String>) {
    if let Some(compilers) = compilers {
        page.labelled("with", 5, &clipped(compilers, TEXT));
    }
}

fn cells<const N: usize>(rows: &[[String; N]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|text| clipped(text, NAME)).collect()).collect()
}

fn findings(page: &mut Page, title: &str, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    page.heading(&format!("{title} ({})", findings.iter().map(|finding| finding.count).sum::<usize>()));
    for (index, finding) in findings.iter().enumerate() {
        if index > 0 {
            page.lines.push(String::new());
        }
        page.labelled(&finding.tone.glyph().to_string(), 2, &clipped(&finding.what, TEXT));
        page.labelled("  cells", LABEL + 2, &clipped(&finding.cells, TEXT));
        for (label, text) in &finding.facts {
            page.labelled(&format!("  {label}"), LABEL + 2, &clipped(text, TEXT));
        }
        let tells = matches!(finding.tone, Tone::Bad | Tone::Unfinished);
        if tells {
            page.labelled("  again", LABEL + 2, &clipped(&finding.again, TEXT));
        }
        if let Some(detail) = finding.detail.as_ref().filter(|_| tells) {
            for line in log_lines(detail, LOG_LINES, TEXT) {
                page.labelled("    |", 6, &line);
            }
        }
    }
}

fn groups(page: &mut Page, title: &str, tone: Tone, groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    page.heading(&format!("{title} ({})", groups.iter().map(|group| group.count).sum::<usize>()));
    for group in groups {
        page.labelled(&tone.glyph().to_string(), 2, &clipped(&group.cells, TEXT));
        page.labelled("", 4, &clipped(&group.reason, TEXT));
        if let Some(link) = &group.link {
            page.labelled("", 4, &clipped(link, TEXT));
        }
    }
}

fn list(page: &mut Page, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    page.heading(title);
    for line in lines {
        page.labelled("", 2, &clipped(line, TEXT));
    }
}

fn verdict(page: &mut Page, summary: &Summary) {
    let counts: Vec<String> = summary.counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    page.heading("Verdict");
    let tone = if summary.verdict.as_expected { Tone::Good } else { Tone::Bad };
    let counts = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    page.labelled(&tone.glyph().to_string(), 2, &format!("{}{counts}", summary.verdict.line));
    for reason in &summary.verdict.reasons {
        page.labelled(&Tone::Bad.glyph().to_string(), 2, &clipped(reason, TEXT));
    }
    for line in &summary.closing {
        page.labelled("", 2, &clipped(line, TEXT));
    }
}

/// The line with its glyphs, and the word after each, in colour, and a heading in bold. This is the only place that
/// writes escape sequences, and it does so around text that has none left.
fn coloured(line: &str) -> String {
    if line.starts_with("── ") || line.starts_with("!! ") {
        return format!("\u{1b}[1m{line}\u{1b}[0m");
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((at, tone)) = rest
        .char_indices()
        .find_map(|(at, c)| Tone::ALL.into_iter().find(|tone| tone.glyph() == c).map(|tone| (at, tone)))
    {
        let glyph = &rest[at..];
        // The glyph, one space, and a word of letters and dashes.
        let word = glyph.char_indices().skip(2).find(|(_, c)| !c.is_ascii_alphabetic() && *c != '-');
        let end = match word {
            Some((end, _)) => end,
            None => glyph.len(),
        };
        out.push_str(&rest[..at]);
        let _ = write!(out, "\u{1b}[{}m{}\u{1b}[0m", colour(tone), &glyph[..end]);
        rest = &glyph[end..];
    }
    out.push_str(rest);
    out
}

/// The number of an SGR sequence: colours that are told apart on light and dark ground.
const fn colour(tone: Tone) -> u8 {
    match tone {
        Tone::Good => 32,
        Tone::Foretold => 36,
        Tone::Skipped | Tone::Left => 2,
        Tone::Bad => 31,
        Tone::Unfinished => 33,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_put_round_a_glyph_and_its_word_and_changes_no_text() {
        let line = "12.6     ✓ pass   ✗ wrong-result   ○ skip";
        let shown = coloured(line);
        assert_eq!(
            shown,
            "12.6     \u{1b}[32m✓ pass\u{1b}[0m   \u{1b}[31m✗ wrong-result\u{1b}[0m   \u{1b}[2m○ skip\u{1b}[0m"
        );
    }
}
