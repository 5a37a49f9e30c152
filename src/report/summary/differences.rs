//! What several runs, or several stacks, have of the same packages: what is alike, and a line for what is not. The main
//! function is [`compare`].

use std::collections::{BTreeMap, BTreeSet};

use crate::model::stack::{Package, StackRecord, normalised};

/// Differences of one stack that are shown; `report.json` has all.
const DIFFERENCES: usize = 24;

/// Digits of a hash that are shown.
const DIGITS: usize = 8;

/// A stack as one run had it, or as one of two that are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// `run R`, or `stack S`.
    pub(super) place: &'a str,
    /// What it was there.
    pub(super) record: &'a StackRecord,
}

/// What is the same everywhere: `numpy 1.26.4`; and a line for each package that is not.
pub(super) struct Compared {
    pub(super) alike: Vec<String>,
    /// `numpy: 2.4.6 in run a; 2.5.0 in run b`.
    pub(super) differences: Vec<String>,
}

/// Compares by package name. Where each list has the same version, the same file is asked for of the same Python.
pub(super) fn compare(lists: &[(Seen<'_>, &[Package])]) -> Compared {
    let mut compared = Compared { alike: Vec::new(), differences: Vec::new() };
    let by_name: Vec<BTreeMap<String, &Package>> = lists
        .iter()
        .map(|(_, packages)| packages.iter().map(|package| (normalised(&package.name), package)).collect())
        .collect();
    let names: BTreeSet<&String> = by_name.iter().flat_map(BTreeMap::keys).collect();
    for name in names {
        let found: Vec<Option<&Package>> = by_name.iter().map(|packages| packages.get(name).copied()).collect();
        let of = |value: &dyn Fn(&Package) -> String| -> Vec<(&str, String)> {
            let values = found.iter().map(|found| found.map_or_else(|| "none".into(), value));
            lists.iter().map(|(seen, _)| seen.place).zip(values).collect()
        };
        let shown = found.iter().flatten().next().map_or(name.as_str(), |package| &package.name);
        let versions = of(&|package| package.version.clone());
        if versions.iter().any(|(_, version)| *version != versions[0].1) {
            compared.differences.push(format!("{shown}: {}", agreed(&versions)));
            continue;
        }
        compared.alike.push(format!("{shown} {}", versions[0].1));
        // Another Python has other files of the same version; the same Python has not.
        let pythons = lists.iter().map(|(seen, _)| &seen.record.python_version).collect::<BTreeSet<_>>();
        let hashes: Vec<&str> =
            found.iter().flatten().map(|package| package.sha256.as_deref().unwrap_or_default()).collect();
        let known = hashes.iter().all(|hash| !hash.is_empty());
        if pythons.len() == 1 && known && hashes.iter().any(|hash| *hash != hashes[0]) {
            let hashes = of(&|package| package.sha256.as_deref().unwrap_or_default().chars().take(DIGITS).collect());
            let line = format!("{shown} {}, another file: sha256 {}", versions[0].1, agreed(&hashes));
            compared.differences.push(line);
        }
    }
    compared
}

/// A value that is the same at all places, or `2.4.6 in run a, 2.5.0 in run b, run c`.
pub(super) fn agreed(values: &[(&str, String)]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (place, value) in values {
        match groups.iter_mut().find(|(known, _)| known == value) {
            Some((_, places)) => places.push(place),
            None => groups.push((value, vec![place])),
        }
    }
    match groups.as_slice() {
        [(value, _)] => (*value).to_owned(),
        several => {
            let word = |value: &str| if value.is_empty() { "nothing".into() } else { value.to_owned() };
            let each = several.iter().map(|(value, places)| format!("{} in {}", word(value), places.join(", ")));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// As many differences as a reader bears, with a word on the rest.
pub(super) fn shown(mut differences: Vec<String>) -> Vec<String> {
    let more = differences.len().saturating_sub(DIFFERENCES);
    if more > 0 {
        differences.truncate(DIFFERENCES);
        differences.push(format!("… ({more} more in report.json)"));
    }
    differences
}
