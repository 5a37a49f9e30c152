//! `ctk-matrix explain`: what a code or a text means, or everything that a log says.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::args::ExplainArguments;
use super::context::print;
use super::exit::{Code, Failure};
use crate::compat::explain::{Finding, Findings, meanings, query};
use crate::model::outcome;
use crate::model::record::Explanation;
use crate::report::text::visible;

/// The longest line that is kept of a log, so that a file without line ends does no harm.
const LONGEST_LINE: u64 = 1 << 20;

/// Explains, and says by the exit code whether anything is known.
pub(crate) fn explain(arguments: &ExplainArguments) -> Result<Code, Failure> {
    let mut out = String::new();
    let mut known = false;
    for word in asked(&arguments.what) {
        let codes = query(&word);
        if codes.is_empty() {
            let findings = Findings::of(&word);
            known |= findings.iter().any(|finding| finding.explanation.is_some());
            text(&mut out, &word, &findings);
        } else {
            for code in &codes {
                known |= one_code(&mut out, code);
            }
        }
    }
    if let Some(log) = &arguments.log {
        let (findings, lines) = read(log)?;
        known |= findings.iter().any(|finding| finding.explanation.is_some());
        whole_log(&mut out, log, &findings, lines);
    }
    print(&out)?;
    Ok(if known { Code::AsExpected } else { Code::NotAsExpected })
}

/// Several words that are codes are several questions; anything else is one text that was not quoted.
fn asked(words: &[String]) -> Vec<String> {
    if words.is_empty() {
        Vec::new()
    } else if words.iter().all(|word| !query(word).is_empty()) {
        words.to_vec()
    } else {
        vec![words.join(" ")]
    }
}

/// Everything that a code can mean; whether anything is known of it.
fn one_code(out: &mut String, code: &outcome::Code) -> bool {
    let meanings = meanings(code);
    let _ = writeln!(out, "{code}");
    if meanings.is_empty() {
        out.push_str("  it is a code of NVIDIA's headers, and nothing more is known of it here\n");
    }
    for meaning in &meanings {
        if !meaning.with.is_empty() {
            let texts: Vec<String> = meaning.with.iter().map(|text| format!("`{text}`")).collect();
            let _ = writeln!(out, "  with {} in what was said:", texts.join(" or "));
        } else if meanings.len() > 1 {
            out.push_str("  else:\n");
        }
        explanation(out, &meaning.explanation);
    }
    !meanings.is_empty()
}

fn text(out: &mut String, asked: &str, findings: &[Finding]) {
    if findings.is_empty() {
        let _ = writeln!(out, "`{}`\n  nothing is known of this", visible(asked));
    }
    for finding in findings {
        match &finding.code {
            Some(code) => drop(writeln!(out, "`{}`: {code}", visible(&finding.raw))),
            None => drop(writeln!(out, "`{}`", visible(&finding.raw))),
        }
        known_or_not(out, finding);
    }
}

fn whole_log(out: &mut String, log: &Path, findings: &[Finding], lines: usize) {
    if findings.is_empty() {
        let _ = writeln!(out, "{}: nothing that is known in {lines} lines", log.display());
    }
    for finding in findings {
        let again = match finding.times {
            1 => String::new(),
            times => format!(" ({times} lines say so)"),
        };
        let code = finding.code.as_ref().map(|code| format!(": {code}")).unwrap_or_default();
        let _ = writeln!(out, "{}:{}{code}{again}", log.display(), finding.line);
        let _ = writeln!(out, "  said    {}", visible(&finding.raw));
        known_or_not(out, finding);
    }
}

fn known_or_not(out: &mut String, finding: &Finding) {
    match &finding.explanation {
        Some(known) => explanation(out, known),
        None => out.push_str("  it is a code of NVIDIA's headers, and nothing more is known of it here\n"),
    }
}

fn explanation(out: &mut String, explanation: &Explanation) {
    let Explanation { what, why, remedy, source } = explanation;
    let _ = write!(out, "  what    {what}\n  why     {why}\n  remedy  {remedy}\n  source  {source}\n");
}

/// Reads a log line by line; what is not UTF-8 is replaced.
fn read(log: &Path) -> Result<(Vec<Finding>, usize), Failure> {
    let unreadable = |error| Failure::caused(Code::Usage, format!("cannot read {}", log.display()), error);
    let mut file = BufReader::new(File::open(log).map_err(unreadable)?);
    let mut findings = Findings::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            let lines = findings.lines();
            return Ok((findings.into_vec(), lines));
        }
        findings.line(&String::from_utf8_lossy(&line));
    }
}
