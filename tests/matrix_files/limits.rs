//! Files that are made to be slow or large: each is refused at once.

use std::time::Duration;

use ctk_matrix::model::arch::Arch;
use ctk_matrix::model::expand::{self, Selection};
use ctk_matrix::model::spec;
use rustix::time::{ClockId, clock_gettime};

use crate::{read, sound};

/// What this thread has used, so that a busy machine does not count.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

/// Files of up to 64 KiB, and one beyond, that are made to be slow or large.
fn bombs() -> Vec<(&'static str, String)> {
    let fill = |unit: &str| unit.repeat(spec::MAX_BYTES / unit.len());
    let after = |head: &str, unit: &str| head.to_owned() + &unit.repeat((spec::MAX_BYTES - head.len()) / unit.len());
    let head = "version: 1\ntoolkits: ['12.6']\n";
    let nest = |levels: usize| format!("a: {}{}", "[".repeat(levels), "]".repeat(levels));
    let level = |level: usize| format!("a{level}: &a{level} [{}]", vec![format!("*a{}", level - 1); 9].join(","));
    let laughs: Vec<String> = ["a0: &a0 [x,x,x,x,x,x,x,x,x]".into()].into_iter().chain((1..9).map(level)).collect();
    let keys: Vec<String> = (0..6000).map(|index| format!("k{index}: 1")).collect();
    vec![
        ("one byte too many", "#".repeat(spec::MAX_BYTES + 1)),
        ("many megabytes", "a".repeat(8 << 20)),
        ("open brackets", fill("[")),
        ("open braces", fill("{")),
        ("braces with keys", fill("{a: ")),
        ("dashes", fill("- ")),
        ("question marks", fill("? ")),
        ("nested once too deep", nest(17)),
        ("nested 300 levels", nest(300)),
        ("aliases of aliases", laughs.join("\n")),
        (
            "one anchor, many aliases",
            format!("a: &a [{}]\nb: [{}]", fill("x,")[..20000].to_owned(), "*a,".repeat(10000)),
        ),
        ("many unknown keys", keys.join("\n")),
        ("one key many times", after(head, "a: 1\n")),
        ("many faulty values", after("version: 1\npaths: [", "x,") + "]"),
        ("many toolkit ranges", after("version: 1\ntoolkits: [", "12.x,")[..65000].to_owned() + "]"),
        ("one long word", after("version: 1\ntoolkits: ['12.6']\npaths: [", "x")),
        ("one long quoted word", after("version: 1\ntoolkits: ['", "x")[..65000].to_owned() + "']"),
        ("one long key", after("version: 1\n", "x")[..65000].to_owned() + ": 1"),
        ("blank lines", after(head, "\n")[..65000].to_owned() + "x: 1"),
        ("many comments", after(head, "#\n")[..65000].to_owned() + "x: 1"),
        ("many empty rules", format!("{head}exclude: [{}]", "{},".repeat(20000))),
        ("colons", fill(": ")),
        ("commas in brackets", format!("[{}]", &fill(",")[..60000])),
        ("tabs", fill("\t")),
        ("quotes", fill("\"")),
        ("directives", fill("%YAML 1.2\n")),
        ("documents", fill("---\n")),
        ("wide letters", after("version: 1\ntoolkits: [", "é,")),
    ]
}

#[test]
fn a_file_made_to_be_slow_or_large_is_refused_at_once() {
    for (name, text) in bombs() {
        let start = cpu_time();
        let Err(errors) = read(text.as_bytes()) else { panic!("{name} was taken") };
        let shown = errors.render(false);
        let took = cpu_time().saturating_sub(start);
        assert!(!errors.errors.is_empty() && errors.errors[0].line >= 1, "{name}");
        assert!(shown.len() < 100_000, "{name}: {} bytes of errors", shown.len());
        assert!(took < Duration::from_secs(1), "{name}: {took:?}");
    }
    // The peak of this whole process, its other tests included.
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        let peak: u64 = peak.unwrap().parse().unwrap();
        assert!(peak < 100_000, "{peak} kB at the peak");
    }
}

#[test]
fn a_matrix_with_more_combinations_than_anyone_means_is_refused_before_it_is_built() {
    let toolkits: Vec<_> = (0..1000).map(|index| format!("{{name: t{index}, version: '12.4'}}")).collect();
    let archs: Vec<_> = (10..99).flat_map(|major| (0..10).map(move |minor| format!("'{major}.{minor}'"))).collect();
    let text = format!("version: 1\ntoolkits: [{}]\narch: [{}]\n", toolkits.join(","), archs.join(","));
    let start = cpu_time();
    let error = expand::expand(&sound(&text), &Selection::default(), Arch::WITHOUT_GPU).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the matrix matrix.yaml has more than 100000 combinations; name fewer toolkits, kernels or capabilities"
    );
    assert!(cpu_time().saturating_sub(start) < Duration::from_secs(1));
}
