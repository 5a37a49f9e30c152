//! What no resolver says of an environment: CUDA majors that are mixed, and a package that broke and whose metadata let
//! it. The main function is [`warnings`]: pure.

use std::collections::BTreeMap;

use crate::model::stack::{Package, is_pinned, normalised};

/// A package that does not work from a version of another on, and does not say so.
struct Unbounded {
    package: &'static str,
    /// The newest version that is known to have the fault.
    up_to: &'static str,
    other: &'static str,
    /// The first version of the other that it does not work with.
    broken_from: &'static str,
    why: &'static str,
}

/// Measured: numba-cuda 0.30.4 works with NumPy 2.4.6 and not with 2.5 (on an H200, and by `cuda.compile` without one).
const UNBOUNDED: [Unbounded; 1] = [Unbounded {
    package: "numba-cuda",
    up_to: "0.30.4",
    other: "numpy",
    broken_from: "2.5",
    why: "it uses numpy.row_stack, which NumPy 2.5 removed, when the first kernel is compiled",
}];

/// The warnings on an environment that was made from `asked`.
pub(crate) fn warnings(asked: &[String], packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(mixed(packages));
    for rule in &UNBOUNDED {
        let of = |name: &str| packages.iter().find(|package| normalised(&package.name) == name);
        let (Some(package), Some(other)) = (of(rule.package), of(rule.other)) else { continue };
        if newer(&package.version, rule.up_to) || bounded(package, rule.other) {
            continue;
        }
        let head = format!("{} {} names no upper bound for {}", package.name, package.version, other.name);
        let broken = format!("from {} on it does not work: {}", rule.broken_from, rule.why);
        if !newer(rule.broken_from, &other.version) {
            found.push(format!("{head}, and {} is here: {broken}", other.version));
        } else if !asked.iter().any(|asked| normalised(asked) == rule.other && is_pinned(asked)) {
            found.push(format!("{head}, and {} is not pinned: {broken}", other.name));
        }
    }
    found
}

/// The CUDA majors of the packages, where there are several.
fn mixed(packages: &[Package]) -> Option<String> {
    let mut majors: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for package in packages {
        if let Some(major) = major(&normalised(&package.name), &package.version) {
            majors.entry(major).or_default().push(format!("{} {}", package.name, package.version));
        }
    }
    let each: Vec<String> = majors.iter().map(|(major, names)| format!("{major} ({})", names.join(", "))).collect();
    (majors.len() > 1).then(|| format!("CUDA majors are mixed in one environment: {}", each.join(" and ")))
}

fn major(name: &str, version: &str) -> Option<u32> {
    if let Some((_, rest)) = name.split_once("-cuda").filter(|_| name.starts_with("cupy")) {
        return rest.trim_end_matches('x').parse().ok();
    }
    if let Some((_, digits)) = name.rsplit_once("-cu").filter(|(_, digits)| !digits.is_empty()) {
        return digits.parse().ok();
    }
    // These have the toolkit's own version.
    matches!(name, "cuda-bindings" | "cuda-python" | "cuda-toolkit").then(|| version.split('.').next()?.parse().ok())?
}

/// Whether the package's metadata bounds `other` from above.
fn bounded(package: &Package, other: &str) -> bool {
    let about = |requirement: &&String| normalised(requirement) == other && !requirement.contains("extra ==");
    package.requires.iter().filter(about).any(|requirement| {
        let clauses = requirement.split(';').next().unwrap_or_default();
        clauses.contains('<') || clauses.contains("==") || clauses.contains("~=")
    })
}

/// Whether version `a` is newer than `b`, by their numbers.
fn newer(a: &str, b: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let mut numbers: Vec<u32> = text.split('.').map_while(|part| part.parse().ok()).collect();
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        numbers
    };
    numbers(a) > numbers(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, requires: &[&str]) -> Package {
        let requires = requires.iter().map(ToString::to_string).collect();
        Package { name: name.into(), version: version.into(), sha256: None, requires }
    }

    #[test]
    fn majors_that_are_mixed_are_named_with_their_packages() {
        let found = warnings(
            &[],
            &[
                package("cupy-cuda12x", "13.6.0", &[]),
                package("cuda-bindings", "13.5.0", &[]),
                package("cuda-pathfinder", "1.9.1", &[]),
                package("nvidia-cuda-nvrtc-cu12", "12.6.85", &[]),
            ],
        );
        assert_eq!(
            found,
            [
                "CUDA majors are mixed in one environment: 12 (cupy-cuda12x 13.6.0, nvidia-cuda-nvrtc-cu12 12.6.85) and 13 \
              (cuda-bindings 13.5.0)"
            ]
        );
    }

    #[test]
    fn a_missing_upper_bound_is_named_where_it_hurts_or_may() {
        let with = |numpy: &str, asked: &[&str], requires: &[&str]| {
            let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
            warnings(&asked, &[package("numba-cuda", "0.30.4", requires), package("numpy", numpy, &[])])
        };
        let why = "from 2.5 on it does not work: it uses numpy.row_stack, which NumPy 2.5 removed, when the first kernel \
                   is compiled";
        let head = "numba-cuda 0.30.4 names no upper bound for numpy";
        assert_eq!(with("2.5.0", &["numpy==2.5.0"], &["numpy>=1.22"]), [format!("{head}, and 2.5.0 is here: {why}")]);
        assert_eq!(with("2.4.6", &["numpy"], &["numpy>=1.22"]), [format!("{head}, and numpy is not pinned: {why}")]);
        assert_eq!(with("2.4.6", &["numpy==2.4.6"], &["numpy>=1.22"]), [""; 0]);
        assert_eq!(with("2.5.0", &[], &["numpy<2.5,>=1.22"]), [""; 0]);
    }
}
