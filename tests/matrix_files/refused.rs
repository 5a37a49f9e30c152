//! Faulty files, and the whole of what a user sees of them.

use crate::read;

/// What a user sees of a faulty file.
fn refusal(text: &str) -> String {
    read(text.as_bytes()).expect_err("the file is faulty").render(false)
}

/// Faulty files and the whole of what is said about each.
#[test]
fn every_error_of_a_file_is_told_with_its_place_and_its_cure() {
    let cases = [
        (
            "many_errors_at_once",
            "version: 1\ntoolkits: [\"12.7\", 12.10, {version: \"12.4\", dri: /opt}]\npath: [nvrtc]\n\
             kernels: [vector_ad]\narch: sm_90\nlimits: {timeout: 120, memory: 8G}\n\
             expect: [{path: nvrtc-cubbin, outcome: failed, stage: laod, code: 222}]\n",
        ),
        ("a_version_that_never_existed", "version: 1\ntoolkits: [\"12.7\"]\n"),
        (
            "versions_beyond_the_known_ones",
            "version: 1\ntoolkits: ['11.0', '14.0', '12.10', '>=14', '12.6.3', latest]\n",
        ),
        ("a_version_without_quotes", "version: 1\ntoolkits:\n  - 12.10\n  - 12.4\n  - {version: 12.6}\narch: [9.0]\n"),
        (
            "two_entries_with_one_id",
            "version: 1\ntoolkits: ['12.4', {version: '12.4', dir: /opt/cuda}, '12.x']\npaths: [nvcc, nvcc-cubin]\n\
             kernels: [vector_add, vector_add]\narch: ['9.0', '7.5', '9.0']\n",
        ),
        ("empty_axes", "version: 1\ntoolkits: []\npaths: []\nkernels: []\narch: []\n"),
        ("empty_lists_in_rules", "version: 1\ntoolkits: ['12.6']\nexclude: [{path: [], reason: r}]\ninclude: [{}]\n"),
        (
            "kernels_that_are_not_there",
            "version: 1\ntoolkits: ['12.6']\nkernels: [nosuch, unmarked, two, {file: gone.cu, entry: f}, {file: empty.ptx, entry: f},\n\
             \u{20} {file: latin.cu, entry: f}, {file: secret.cu, entry: f}, {file: saxpy.cu}]\n",
        ),
        (
            "names_that_leave_the_folder",
            "version: 1\ntoolkits: [{name: ../x, version: '12.6'}]\nkernels: [../evil, /etc/passwd, a/b, {file: ../x.cu, entry: f},\n\
             \u{20} {file: /abs.cu, entry: f}, {file: 'a\\b.cu', entry: f}, {file: notes.txt, entry: f}, {file: saxpy.cu, entry: 'f('}]\n",
        ),
        (
            "stacks_of_every_wrong_kind",
            "version: 1\ntoolkits: ['12.6']\npaths: [cupy, cupyx]\nstacks:\n- {name: a, python: 3.11, packages: ['numpy==1.26.4']}\n\
             - {name: b, python: '3.11.2', packages: ['numpy==1.26.4']}\n\
             - {name: c, python: '3.11', packages: ['numpy==1.26.4', 'NumPy==2.0', '--index-url=x', 'git+https://x/y']}\n\
             - {name: d, python: host, packages: [numpy]}\n- {name: d, python: '3.11'}\n",
        ),
        (
            "a_stack_whose_base_no_toolkit_can_share",
            "version: 1\ntoolkits: [{version: '12.6', image: cuda}, {version: '12.4', base: other}]\nstacks:\n- {name: s, python: '3.13', base: my-python, packages: [numpy]}\n- {name: t, python: '3.13', base: 'a b', packages: [numpy]}\n",
        ),
        (
            "a_library_without_a_stack",
            "version: 1\ntoolkits: ['12.6']\npaths: [cupy, driver]\nexclude: [{stack: s, reason: r}]\n",
        ),
        ("another_format_version", "version: 2\ntoolkits: ['12.6']\n"),
        ("a_quoted_format_version", "version: \"1\"\ntoolkits: ['12.6']\n"),
        ("nothing_but_a_version", "version: 1\n"),
        ("an_empty_file", "# nothing\n"),
        ("a_list_for_a_file", "- version: 1\n"),
        ("not_yaml", "version: 1\ntoolkits: [\"12.6\"\npaths: [driver]\n"),
        ("keys_written_twice", "version: 1\ntoolkits: ['12.6']\ntoolkits: ['12.4']\nlimits: {pids: 1, pids: 2}\n"),
        (
            "anchors_aliases_and_tags",
            "version: 1\ntoolkits: &a ['12.6']\npaths: [!!str nvcc, nvrtc]\nexclude:\n- {toolkit: *a, reason: r}\n",
        ),
        ("two_documents", "version: 1\ntoolkits: ['12.6']\n---\nversion: 1\n"),
        (
            "values_of_a_wrong_type",
            "version: one\ntoolkits: {version: ['12.6']}\npaths:\nkernels: true\nexclude: nvcc\n\
             measure: {warmup: -1, timed: 1.5}\nlimits: [120s]\n",
        ),
        (
            "numbers_out_of_range",
            "version: 1\ntoolkits: ['12.6']\nmeasure: {warmup: 9999999, timed: 0, process: own}\n\
             limits: {pids: 0, memory: 1KiB, timeout: 25h}\n",
        ),
        (
            "rules_about_what_is_not_there",
            "version: 1\ntoolkits: [{name: mine, version: '12.4', dir: /opt}, '12.6']\nexclude:\n\
             - {toolkit: mime, kernel: vector_sub, reason: ''}\n- {toolkit: '12.7', path: nvrtc-fatbin, reason: r}\n\
             include: [{toolkit: '12.7'}, {toolkit: {name: mine, version: '12.5'}}]\n\
             expect: [{outcome: expected-fail, reason: r}, {outcome: skip, stage: load, code: EXIT, reason: r}, {outcome: fail}]\n",
        ),
        (
            "toolkits_that_contradict_themselves",
            "version: 1\ntoolkits:\n- {name: '12.6', version: '12.4'}\n- {version: '12.5', dir: /opt, image: x}\n\
             - {version: '12.8', image: 'x y'}\n- {version: '12.9', image: x, base: y}\narch: [native, '9.0']\n",
        ),
        (
            "claims_that_cannot_be_tested",
            "version: 1\ntoolkits: ['12.6']\nclaims:\n- {says: nothing}\n- {says: both, resolve: {packages: a}, import: {packages: a, module: m}}\n\
             - {says: unseen, cells: {path: nvcc}}\n- {says: no cells, observe: {outcome: pass}, resolve: {packages: a}}\n\
             - {says: staged, cells: {}, observe: {outcome: pass, stage: load, code: X}}\n- {says: staged, cells: {toolkit: mine}, observe: {outcome: passed}}\n\
             - {says: injected, resolve: {packages: ['--index-url=http://x', 'a @ http://x'], python: '4.0', gives: 'a=1'}}\n\
             - {says: host, resolve: {packages: a, python: host, gives: b, fails_with: c}}\n- {says: bare, import: {module: a-b}}\n\
             - {says: cupy, compile: {packages: cupy, with: cupy, capability: sm_75}}\n- {says: empty, import: {module: os}}\n\
             - {says: turn, boundary: {pin: 'numpy[x]', last_good: two, module: m, with: numba}}\n\
             - {says: turns, boundary: {pin: numpy, module: m, with: numba}}\n- {resolve: {packages: a}, says: ''}\n",
        ),
        (
            "claims_that_say_too_little",
            "version: 1\ntoolkits: ['12.6']\nclaims:\n- {says: nothing}\n- {says: unseen, cells: {path: nvcc}}\n\
             - {says: bare, import: {module: os}}\n",
        ),
        ("text_that_is_not_ascii", "version: 1\ntoolkits: ['12.6']\n\"é\u{1b}[31m\": ü\npaths: ['é', nvrct]\n"),
    ];
    for (name, text) in cases {
        insta::assert_snapshot!(name, refusal(text), text);
    }
}

#[test]
fn each_error_is_also_a_line_of_its_own_and_color_is_only_added_on_request() {
    let errors = read(b"version: 1\ntoolkits: ['12.6']\npathss: [nvcc]\nlimits: {pid: 2}\n").unwrap_err();
    assert_eq!(
        errors.to_string(),
        "matrix.yaml:3:1: unknown key `pathss` (did you mean `paths`?)\n\
         matrix.yaml:4:10: unknown key `pid` (did you mean `pids`?)"
    );
    assert!(errors.render(true).contains("\x1b["));
    assert!(!errors.render(false).contains('\x1b'));
}

#[test]
fn a_file_that_asks_for_nothing_is_told_apart_from_a_faulty_one() {
    let only_empty = |text: &str| read(text.as_bytes()).unwrap_err().only_empty();
    assert!(only_empty("version: 1\ntoolkits: []\npaths: []\n"));
    assert!(!only_empty("version: 1\ntoolkits: []\npaths: [x]\n"));
    assert!(!only_empty("version: 1\ntoolkits: ['12.7']\n"));
}

#[test]
fn bytes_that_are_not_text_are_refused_and_a_byte_order_mark_is_not() {
    assert_eq!(
        read(b"version: 1\n\xff\n").unwrap_err().to_string(),
        "matrix.yaml:1:1: the file is not UTF-8 text: see line 2"
    );
    assert!(read(b"\xEF\xBB\xBFversion: 1\r\ntoolkits: ['12.6']\r\n").is_ok());
    assert_eq!(
        read(b"version: 1\r\ntoolkits: ['12.7']\r\n").unwrap_err().errors[0].line,
        2,
        "lines that end as on Windows are counted once"
    );
}
