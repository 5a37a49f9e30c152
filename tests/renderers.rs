//! One golden run through every renderer, side by side, and one hostile run that must make no markup, no control
//! sequence and no command to a CI runner. The golden runs are invented; see `tests/golden/README.md`.

#![cfg(feature = "host")]

use std::path::{Path, PathBuf};

use ctk_matrix::model::outcome::{Code, Outcome};
use ctk_matrix::model::record::{Explanation, GpuMode, Report};
use ctk_matrix::model::stack::{Built, Package};
use ctk_matrix::report::merge::merge;
use ctk_matrix::report::read::read_run;
use ctk_matrix::report::summary::Summary;
use ctk_matrix::report::terminal::{self, Terminal};
use ctk_matrix::report::{json, junit, markdown};

const PLAIN: Terminal = Terminal { width: 100, colour: false, runner: false };

fn golden(name: &str) -> Report {
    let dir: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect();
    read_run(&dir).unwrap()
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/snapshots"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

fn everywhere(name: &str, report: &Report, verdicts: &[String]) {
    let summary = Summary::new(report, verdicts);
    snapshot(&format!("{name}.terminal"), &terminal::render(&summary, &PLAIN));
    snapshot(&format!("{name}.markdown"), &markdown::render(&summary));
    snapshot(&format!("{name}.junit"), &junit::render(&summary));
}

#[test]
fn a_run_on_a_gpu_in_every_format() {
    everywhere("gpu", &golden("gpu"), &["toolkit 12.6 got nowhere with nvcc".into()]);
}

#[test]
fn a_run_without_a_gpu_in_every_format() {
    everywhere("no-gpu", &golden("no-gpu"), &[]);
}

#[test]
fn a_note_with_every_verdict_in_every_format() {
    everywhere("note", &golden("note"), &[]);
}

#[test]
fn a_note_that_is_merged_with_itself_says_the_same() {
    let note = golden("note");
    let mut later = note.clone();
    later.runs[0].id = "later".into();
    later.cells.iter_mut().for_each(|cell| cell.run = "later".into());
    // What one run tested counts before what another could not.
    let tested = later.claims[3].clone();
    later.claims[3].verdict = ctk_matrix::model::claim::ClaimVerdict::NotTested;
    for reports in [vec![note.clone(), later.clone()], vec![later, note.clone()]] {
        let merged = merge(reports);
        assert_eq!(merged.claims.len(), note.claims.len());
        assert_eq!(merged.claims[3], tested);
        assert_eq!(merged.claims[1].reason, "built was observed of all 2 cells");
    }
}

#[test]
fn hostile_claims_are_text_in_every_format() {
    let mut report = golden("note");
    for claim in &mut report.claims {
        (claim.says, claim.reason) = (evil(), evil());
        (claim.evidence, claim.detail) = (vec![evil(); 40], Some(evil()));
        if let Some(test) = &mut claim.packages {
            (test.packages, test.python) = (vec![evil(); 4], Some(evil()));
            test.fails_with = test.fails_with.as_ref().map(|_| evil());
        }
    }
    let summary = Summary::new(&report, &[]);
    let shown = terminal::render(&summary, &Terminal { runner: true, ..PLAIN });
    assert_eq!(shown.chars().find(|c| acts(*c)), None);
    assert!(shown.lines().all(|line| !line.trim_start().starts_with("::") && !line.contains("##[")));
    assert!(shown.len() < 400_000, "{} bytes", shown.len());
    let page = markdown::render(&summary);
    assert_eq!(page.chars().find(|c| acts(*c)), None);
    let (html, links, _) = parsed(&page);
    assert!(html.iter().all(|text| text == "<!-- -->") && links == 0);
    let headings = page.lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(headings, report.claims.len());
    let xml = junit::render(&summary);
    let tree = roxmltree::Document::parse(&xml).unwrap();
    let cases = tree.descendants().filter(|node| node.has_tag_name("testcase")).count();
    assert_eq!(cases, report.cells.len() + report.claims.len());
}

#[test]
fn merged_runs_in_every_format() {
    everywhere("merged", &merge(vec![golden("no-gpu"), golden("gpu")]), &[]);
}

#[test]
fn stacks_in_every_format() {
    everywhere("stacks", &golden("stacks"), &[]);
}

/// A second run of the golden stacks, on another machine and another day.
fn stacks_later() -> Report {
    let mut report = golden("stacks");
    let run = &mut report.runs[0];
    (run.id, run.started) = ("later".into(), "2026-12-02T14:00:00Z".into());
    run.gpu.as_mut().unwrap().driver = "590.10".into();
    let lesson = &mut run.stacks[0];
    lesson.resolved.retain(|package| package.name != "fastrlock");
    lesson.resolved.iter_mut().find(|package| package.name == "cuda-pathfinder").unwrap().version = "1.9.2".into();
    lesson.resolved[0].sha256 = Some("0123456789abcdef".into());
    lesson.built[0].toolkit = "13.0".into();
    report.cells.iter_mut().for_each(|cell| cell.run = "later".into());
    report
}

#[test]
fn merged_runs_show_a_stack_once_and_say_where_they_differ() {
    let merged = merge(vec![golden("stacks"), stacks_later()]);
    let shown = terminal::render(&Summary::new(&merged, &[]), &PLAIN);
    let section = shown.split("── Stacks").nth(1).unwrap().split("\n──").next().unwrap();
    snapshot("stacks-merged.section", section);
    assert_eq!(section.matches("\nlesson: ").count(), 1);
}

#[test]
fn hostile_stacks_are_text_in_every_format() {
    let mut report = merge(vec![golden("stacks"), stacks_later()]);
    // In every cell's record the long line would only take its time.
    let evil = || evil()[..4_000].to_owned();
    for run in &mut report.runs {
        for stack in &mut run.stacks {
            let package = |version: usize| {
                let version = format!("{version}{}{}", run.id, evil());
                Package { name: format!("p{version}{}", evil()), version, sha256: Some(evil()), requires: vec![evil()] }
            };
            (stack.python, stack.python_version, stack.check) = (evil(), evil(), evil());
            stack.asked = vec![evil(); 500];
            stack.warnings = vec![evil(), format!("another {}", evil())];
            stack.resolved = (0..500).map(package).collect();
            stack.built = vec![Built { toolkit: evil(), packages: stack.resolved.clone() }];
            stack.name = format!("{}{}", evil(), stack.name);
        }
    }
    for cell in &mut report.cells {
        cell.caches.iter_mut().for_each(|cache| cache.of = evil());
        cell.axes.stack = cell.axes.stack.as_ref().map(|name| format!("{}{name}", evil()));
        cell.reason = Some(evil());
    }
    let summary = Summary::new(&report, &[]);
    let shown = terminal::render(&summary, &Terminal { runner: true, ..PLAIN });
    assert_eq!(shown.chars().find(|c| acts(*c)), None);
    assert!(shown.lines().all(|line| !line.trim_start().starts_with("::") && !line.contains("##[")));
    assert!(shown.len() < 800_000, "{} bytes", shown.len());
    let page = markdown::render(&summary);
    assert_eq!(page.chars().find(|c| acts(*c)), None);
    let (html, links, _) = parsed(&page);
    assert!(html.iter().all(|text| text == "<!-- -->") && links == 0);
    let section = page.split("\n## Stacks").nth(1).unwrap().split("\n## ").next().unwrap();
    // Those whose packages came, and the one of which only cells are left.
    assert_eq!(section.lines().filter(|line| line.starts_with('#')).count(), summary.stacks.len());
    assert!(
        section
            .lines()
            .all(|line| line.is_empty() || ["### ", "> **", "- ", " ("].iter().any(|at| line.starts_with(at)))
    );
    let xml = junit::render(&summary);
    let tree = roxmltree::Document::parse(&xml).unwrap();
    assert!(xml.len() < 2_000_000, "{} bytes", xml.len());
    assert_eq!(tree.descendants().filter(|node| node.has_tag_name("system-out")).count(), 1);
    assert_eq!(tree.descendants().filter(|node| node.has_tag_name("testcase")).count(), report.cells.len());
}

#[test]
fn a_narrow_terminal_gets_the_same_words() {
    let summary = Summary::new(&golden("gpu"), &[]);
    let narrow = terminal::render(&summary, &Terminal { width: 60, ..PLAIN });
    snapshot("gpu.terminal-60", &narrow);
}

#[test]
fn json_reads_back_as_the_report_it_was_made_from() {
    for name in ["gpu", "no-gpu", "note", "stacks"] {
        let report = golden(name);
        let text = json::render(&report);
        assert!(text.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}

#[test]
fn colour_adds_escape_sequences_and_nothing_else() {
    let summary = Summary::new(&golden("gpu"), &[]);
    let coloured = terminal::render(&summary, &Terminal { colour: true, ..PLAIN });
    assert!(coloured.contains("\u{1b}[31m✗ wrong-result\u{1b}[0m"), "{coloured}");
    let mut bare = String::new();
    let mut parts = coloured.split("\u{1b}[");
    bare.push_str(parts.next().unwrap());
    for part in parts {
        bare.push_str(part.split_once('m').unwrap().1);
    }
    assert_eq!(bare, terminal::render(&summary, &PLAIN));
}

#[test]
fn what_the_test_driver_ran_is_nowhere_called_a_pass_on_a_gpu() {
    let mut report = golden("gpu");
    report.runs[0].gpu_mode = GpuMode::Fake;
    let summary = Summary::new(&report, &[]);
    let terminal = terminal::render(&summary, &Terminal { width: 200, ..PLAIN });
    assert!(terminal.lines().nth(1).unwrap().starts_with("!! TEST DRIVER, NOT A GPU"), "{terminal}");
    assert!(terminal.contains("On the test driver, not on a GPU: 4 paths over 3 toolkits"), "{terminal}");
    assert!(!terminal.contains("✓ pass  "), "{terminal}");
    assert!(terminal.contains("✓ pass (fake)"), "{terminal}");
    assert!(junit::render(&summary).contains("toolkit 12.0 (TEST DRIVER, NOT A GPU)"));
    assert!(markdown::render(&summary).contains("**TEST DRIVER, NOT A GPU"));
}

/// Everything that a kernel, a compiler or a matrix file might put into a text.
fn evil() -> String {
    let mut text = String::from(
        "</script><img src=x onerror=alert(1)>]]><a href='x'>|x|y| ::add-mask::x ##[set-env]v ##vso[task]v @everyone #1 \
         [link](https://evil.example) `code` ```` <!-- ~~~ \u{1b}]8;;https://evil.example\u{7}link\u{1b}]8;;\u{7}\
         \u{1b}[2J\u{0}\u{9b}31m\u{202e}desrever\u{2066}\u{200b}\r\n::error::second line\n```\n# heading\n- item\n",
    );
    text.push_str(&"A".repeat(1 << 20));
    text
}

/// The golden run with hostile text wherever a run's parts take text from outside.
fn hostile() -> Report {
    let mut report = golden("gpu");
    let run = &mut report.runs[0];
    run.command = evil();
    run.matrix = evil();
    run.notes = vec![evil()];
    run.gpu.as_mut().unwrap().name = evil();
    run.host.kernel = evil();
    for cell in &mut report.cells {
        cell.axes.toolkit = format!("{}{}", evil(), cell.axes.toolkit);
        cell.axes.kernel = evil();
        cell.id = cell.axes.id();
        cell.reason = Some(evil());
        cell.detail = Some(evil());
        if let Some(source) = &mut cell.source {
            source.reference = evil();
        }
        if let Some(code) = &mut cell.code {
            *code = Code { name: evil(), number: 1 };
        }
        if let Some(artifact) = &mut cell.artifact {
            artifact.producer = evil();
            artifact.archs = vec![evil()];
        }
        if let Some(first) = cell.bits.as_mut().and_then(|bits| bits.first.as_mut()) {
            first.got = evil();
        }
        if cell.outcome == Outcome::Fail {
            let text = evil();
            cell.explanation =
                Some(Explanation { what: text.clone(), why: text.clone(), remedy: text.clone(), source: text });
        }
    }
    report.excluded[0].reason = evil();
    report.excluded[0].link = Some(evil());
    report.superseded = vec![report.cells[0].clone()];
    report
}

fn acts(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn hostile_text_reaches_no_terminal_as_anything_but_text() {
    let summary = Summary::new(&hostile(), &[evil()]);
    let shown = terminal::render(&summary, &Terminal { runner: true, ..PLAIN });
    assert_eq!(shown.chars().find(|c| acts(*c)), None);
    for line in shown.lines() {
        assert!(!line.trim_start().starts_with("::"), "{line}");
        assert!(!line.contains("##[") && !line.contains("##vso["), "{line}");
    }
    assert!(shown.contains("\\u{202e}desrever") && shown.contains("\\u{1b}]8;;"), "the escapes are to be seen");
    assert!(shown.len() < 400_000, "{} bytes", shown.len());
}

#[test]
fn without_the_runner_flag_a_command_is_left_as_it_is() {
    let mut report = golden("no-gpu");
    report.runs[0].command = "##[x]".into();
    let shown = terminal::render(&Summary::new(&report, &[]), &PLAIN);
    assert!(shown.contains("##[x]"));
}

#[test]
fn hostile_text_makes_no_node_in_junit() {
    let names = |report: &Report, verdicts: &[String]| {
        let xml = junit::render(&Summary::new(report, verdicts));
        assert_eq!(xml.chars().find(|c| acts(*c)), None);
        let tree = roxmltree::Document::parse(&xml).unwrap();
        let names: Vec<String> =
            tree.descendants().filter(roxmltree::Node::is_element).map(|node| node.tag_name().name().into()).collect();
        assert!(tree.descendants().all(|node| !node.is_comment() && !node.is_pi()));
        (names, xml.len())
    };
    let (plain, _) = names(&golden("gpu"), &["a reason".into()]);
    let (evil, length) = names(&hostile(), &[evil()]);
    let count = |names: &[String], wanted: &str| names.iter().filter(|name| *name == wanted).count();
    for element in ["testsuites", "testcase", "failure", "error", "skipped"] {
        assert_eq!(count(&evil, element), count(&plain, element), "{element}");
    }
    let known = ["testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped"];
    assert!(evil.iter().all(|name| known.contains(&name.as_str())), "{evil:?}");
    assert!(length < 2_000_000, "{length} bytes");
}

/// Markdown as a parser sees it: its HTML, its links, and the number of cells of each table row.
fn parsed(text: &str) -> (Vec<String>, usize, Vec<usize>) {
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
    let (mut html, mut links, mut rows, mut cells) = (Vec::new(), 0, Vec::new(), 0);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Html(text) | Event::InlineHtml(text) => html.push(text.to_string()),
            Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::Strikethrough | Tag::Emphasis) => links += 1,
            Event::Start(Tag::TableCell) => cells += 1,
            Event::End(TagEnd::TableRow | TagEnd::TableHead) => rows.push(std::mem::take(&mut cells)),
            _ => {}
        }
    }
    (html, links, rows)
}

#[test]
fn hostile_text_makes_no_markup_in_markdown() {
    let page = markdown::render(&Summary::new(&hostile(), &[evil()]));
    assert_eq!(page.chars().find(|c| acts(*c)), None);
    let (html, links, rows) = parsed(&page);
    assert!(html.iter().all(|text| text == "<!-- -->"), "{:?}", html.iter().find(|text| *text != "<!-- -->"));
    assert_eq!(links, 0);
    // A row with too many cells is cut by the parser, so that the bars themselves are counted too.
    assert!(!rows.is_empty() && rows.iter().all(|cells| [7, 8].contains(cells)), "{rows:?}");
    let bars: Vec<usize> =
        page.lines().filter(|line| line.starts_with("| ")).map(|line| line.matches('|').count()).collect();
    assert_eq!(bars.len(), rows.len() + page.lines().filter(|line| line.starts_with("| ---")).count());
    assert!(bars.iter().all(|bars| [8, 9].contains(bars)), "{bars:?}");
}

#[test]
fn hostile_text_makes_no_heading_and_ends_no_fence() {
    use pulldown_cmark::{Event, Parser, Tag};
    let count = |report: &Report| {
        let page = markdown::render(&Summary::new(report, &["a reason".into()]));
        let events: Vec<Event<'_>> = Parser::new(&page).collect();
        let headings = events.iter().filter(|event| matches!(event, Event::Start(Tag::Heading { .. }))).count();
        let fences = events.iter().filter(|event| matches!(event, Event::Start(Tag::CodeBlock(_)))).count();
        let lists = page.lines().filter(|line| line.starts_with("- item")).count();
        (headings, fences, lists)
    };
    let mut one = golden("no-gpu");
    one.cells[0].expected = false;
    let mut other = one.clone();
    one.cells[0].detail = Some("plain".into());
    other.cells[0].detail = Some(evil());
    let (headings, fences, _) = count(&one);
    assert_eq!(fences, 1);
    // `- item` may stand in the fence, as text.
    assert_eq!(count(&other), (headings, fences, 1));
}

#[test]
fn hostile_text_is_only_escapes_in_json() {
    let mut report = hostile();
    // Once is enough of the long line.
    report.cells.truncate(1);
    let text = json::render(&report);
    assert_eq!(text.chars().find(|c| acts(*c)), None);
    assert!(!text.contains("##[") && !text.contains("##vso["));
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

#[test]
fn a_page_that_would_be_too_long_loses_its_logs_first_and_says_so() {
    let mut report = golden("no-gpu");
    let cell = report.cells[0].clone();
    report.cells = (0..3000)
        .map(|index| {
            let mut cell = cell.clone();
            cell.axes.toolkit = format!("t{index}");
            cell.id = cell.axes.id();
            cell.expected = false;
            cell.reason = Some(format!("reason {index}"));
            cell.detail = Some(format!("log {index} of some forty characters\n").repeat(60));
            cell
        })
        .collect();
    let page = markdown::render(&Summary::new(&report, &[]));
    assert!(page.len() <= markdown::LARGEST, "{}", page.len());
    assert!(page.ends_with("`report.json` has everything.\n"), "{}", &page[page.len() - 200..]);
    assert!(!page.contains("log 1 of"));
    report.cells.truncate(600);
    let page = markdown::render(&Summary::new(&report, &[]));
    assert!(page.len() <= markdown::LARGEST);
    assert!(page.contains("reason 599") && !page.contains("log 1 of"));
    assert!(page.ends_with("Logs are left out, since the page would be too long. `report.json` has them.\n"));
    report.cells.truncate(10);
    assert!(markdown::render(&Summary::new(&report, &[])).contains("log 9 of"));
}
