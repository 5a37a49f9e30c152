//! `junit.xml`: one test suite for each toolkit, one test case for each cell. Its main function is [`render`].

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::summary::{Case, StackView, Status, Summary, Told};
use super::text;

/// Characters of a name or a message. Test views show them in one line.
const LINE: usize = 500;
/// Characters of one package in a list, and of the list.
const LIST: (usize, usize) = (160, 8_000);
/// Characters of a line of a log, and lines of it.
const LOG: (usize, usize) = (2_000, 200);

/// The report for a CI's test view.
///
/// # Panics
/// Never: XML of strings is written to memory.
#[must_use]
pub fn render(summary: &Summary) -> String {
    let mut report = Report::new("ctk-matrix");
    for suite in &summary.suites {
        let mut out = TestSuite::new(line(&suite.name));
        if suite.name == summary.suites[0].name {
            for (label, text) in &summary.headline.facts {
                out.add_property((line(label), line(text)));
            }
            if !summary.stacks.is_empty() {
                out.set_system_out(stacks(&summary.stacks));
            }
        }
        for case in &suite.cases {
            let mut test = TestCase::new(line(&case.name), status(case));
            test.set_classname(line(&suite.name));
            if let Some(seconds) = case.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
                test.set_time(seconds);
            }
            out.add_test_case(test);
        }
        report.add_test_suite(out);
    }
    report.to_string().expect("XML of strings is written to memory, which does not fail")
}

/// What became of the stacks, for whoever opens the suite's output.
fn stacks(stacks: &[StackView]) -> String {
    let mut lines = Vec::new();
    for stack in stacks {
        lines.push(format!("stack {}", line(&stack.title)));
        lines.extend(stack.warnings.iter().map(|warning| format!("  !! {}", line(warning))));
        lines.extend(stack.facts.iter().map(|(label, told)| {
            let text = match told {
                Told::Text(text) => line(text),
                Told::List(items) => text::listed(items, LIST.0, LIST.1),
            };
            format!("  {label}: {text}")
        }));
    }
    lines.join("\n")
}

fn status(case: &Case) -> TestCaseStatus {
    let (kind, trouble) = match &case.status {
        Status::Pass => return TestCaseStatus::success(),
        Status::Skipped(reason) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(line(reason));
            return status;
        }
        Status::Failure(trouble) => (NonSuccessKind::Failure, trouble),
        Status::Error(trouble) => (NonSuccessKind::Error, trouble),
    };
    let mut lines: Vec<String> = trouble.facts.iter().map(|(label, text)| format!("{label}: {}", line(text))).collect();
    if let Some(detail) = &trouble.detail {
        lines.push(String::new());
        lines.extend(text::log_lines(detail, LOG.1, LOG.0));
    }
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(line(&trouble.kind)).set_message(line(&trouble.message)).set_description(lines.join("\n"));
    status
}

fn line(text: &str) -> String {
    text::clipped(text, LINE)
}
