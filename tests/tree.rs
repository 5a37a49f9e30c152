//! Holds the lines that `src/lib.rs` draws: who may import whom, a header on every file, 500 lines a file at most, one
//! file for each foreign API, and `unsafe` only where it belongs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, extension: &str, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    walk(&root.join(folder), extension, &mut found);
    assert!(!found.is_empty(), "{folder} holds no .{extension} file");
    for (path, _) in &mut found {
        *path = path.strip_prefix(root).unwrap().to_owned();
    }
    found.sort();
    found
}

/// The folder under `src` that a file belongs to; none for `lib.rs` and the programs.
fn folder(path: &Path) -> Option<String> {
    let mut parts = path.components().skip(1);
    let first = parts.next()?.as_os_str().to_str()?.to_owned();
    (parts.next().is_some() && first != "bin").then_some(first)
}

/// The folders that a file imports from, with line numbers. Comments do not import.
fn imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap();
        for (at, _) in code.match_indices("crate::") {
            let rest = &code[at + "crate::".len()..];
            if let Some(group) = rest.strip_prefix('{') {
                let names = group.split(['{', '}', ',']).filter_map(|part| part.trim().split("::").next());
                found.extend(names.filter(|name| !name.is_empty()).map(|name| (number + 1, name.to_owned())));
            } else {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                found.push((number + 1, name));
            }
        }
    }
    found
}

#[test]
fn nothing_imports_against_the_drawing() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("model", &["model"][..]),
        ("compat", &["compat", "model"]),
        ("bench", &["bench", "compat", "model"]),
        ("toolkit", &["toolkit", "compat", "model"]),
        ("engine", &["engine", "compat", "model"]),
        ("run", &["run", "engine", "toolkit", "compat", "model"]),
        ("report", &["report", "compat", "model"]),
        ("cli", &["cli", "run", "engine", "toolkit", "report", "compat", "model"]),
    ]);
    let mut wrong = Vec::new();
    for (path, text) in files("src", "rs") {
        let Some(folder) = folder(&path) else { continue };
        let allowed = allowed.get(folder.as_str()).unwrap_or_else(|| panic!("src/{folder} is not in the drawing"));
        for (line, name) in imports(&text) {
            if !allowed.contains(&name.as_str()) {
                wrong.push(format!("{}:{line}: {folder} imports {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for_and_none_is_too_long() {
    let mut wrong = Vec::new();
    for (path, text) in files("src", "rs").into_iter().chain(files("tests", "rs")) {
        if !text.starts_with("//!") && !text.starts_with("#!") {
            wrong.push(format!("{}: no header", path.display()));
        }
        let lines = text.lines().count();
        if lines > 500 {
            wrong.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_foreign_api_stops_at_its_border() {
    let borders = [
        ("bollard::", &["src/engine/docker"][..]),
        ("indicatif::", &["src/report/progress"]),
        ("cudarc::", &["src/bench"]),
        ("libloading::", &["src/bench"]),
        ("clap::", &["src/cli"]),
        ("lz4_flex::", &["src/compat/artifact/unpack"]),
        ("ruzstd::", &["src/compat/artifact/unpack"]),
        ("quick_junit::", &["src/report/junit"]),
        // A CDI specification is YAML too, and the host's own.
        ("serde_yaml::", &["src/model/spec", "src/engine/cdi"]),
        ("saphyr_parser::", &["src/model/spec"]),
    ];
    let mut wrong = Vec::new();
    for (path, text) in files("src", "rs") {
        for (api, borders) in borders {
            let used = text.lines().any(|line| line.split("//").next().unwrap().contains(api));
            let inside = |border: &&str| path.starts_with(border) || path == Path::new(&format!("{border}.rs"));
            if used && !borders.iter().any(inside) {
                wrong.push(format!("{}: names {api} outside {}", path.display(), borders.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_stays_in_the_two_files_that_speak_to_libraries_and_says_why_it_is_sound() {
    let mut wrong = Vec::new();
    for (path, text) in files("src", "rs") {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap();
            if !code.contains("unsafe {") && !code.contains("unsafe impl") {
                continue;
            }
            if !path.starts_with("src/bench/cuda") && !path.starts_with("src/bench/nvrtc") {
                wrong.push(format!(
                    "{}:{}: unsafe outside src/bench/cuda and src/bench/nvrtc",
                    path.display(),
                    number + 1
                ));
            }
            let before = &lines[number.saturating_sub(6)..=number];
            if !before.iter().any(|line| line.contains("SAFETY:")) {
                wrong.push(format!("{}:{}: unsafe without a SAFETY line", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
