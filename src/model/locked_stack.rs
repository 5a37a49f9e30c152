//! Stacks in `ctk.lock`: what their packages became when they were locked. The main type is [`LockedStack`]; in what a
//! matrix, or a machine, differs from it is told in lines by [`LockedStack::asks`] and [`LockedPackages::installed`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::stack::{Stack, normalised};

/// A stack of Python packages, as it was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedStack {
    /// The Python that was asked for: `3.12`, `host`.
    pub python: String,
    /// What was asked for, as written: `cupy-cuda12x==13.6.0`.
    pub asked: Vec<String>,
    /// What that became for a Python of the machine; none where no toolkit of the matrix needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<LockedPackages>,
    /// What that became for the Python of an image, whose C library may take other wheels. Never for `host`: what is
    /// installed in an image is held by the image's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<LockedPackages>,
}

/// The packages of one environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackages {
    /// The series of the interpreter that they were resolved for: `3.12`.
    pub python: String,
    /// Every package that comes as a wheel, or that is installed on the machine, sorted by name.
    pub packages: Vec<LockedPackage>,
    /// What is built from source against the toolkit, with all that comes along, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<LockedPackage>,
}

/// A package, pinned to the bytes of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// Its name, as an index compares it: `cuda-core`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The size of its file, where the index told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The SHA-256 of its file; none for what is installed on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl LockedPackage {
    /// `numpy==1.26.4`.
    #[must_use]
    pub fn requirement(&self) -> String {
        format!("{}=={}", self.name, self.version)
    }
}

/// Packages as a requirements file that pip holds to. pip wants a hash of all of them or of none.
#[must_use]
pub fn requirements(packages: &[LockedPackage]) -> String {
    let hashed = all_hashed(packages);
    let line = |package: &LockedPackage| match package.sha256.as_ref().filter(|_| hashed) {
        Some(sha256) => format!("{} --hash=sha256:{sha256}\n", package.requirement()),
        None => package.requirement() + "\n",
    };
    packages.iter().map(line).collect()
}

/// Whether every package is pinned to its bytes.
#[must_use]
pub fn all_hashed(packages: &[LockedPackage]) -> bool {
    packages.iter().all(|package| package.sha256.is_some())
}

impl LockedPackages {
    /// In what the packages that are `found` on this machine are not these, one line each.
    #[must_use]
    pub fn installed(&self, found: &Self) -> Vec<String> {
        if self.python != found.python {
            return vec![format!("the machine's Python is {}, ctk.lock holds {}", found.python, self.python)];
        }
        let of = |packages: &Self| -> BTreeMap<String, String> {
            packages.packages.iter().map(|package| (package.name.clone(), package.version.clone())).collect()
        };
        let (held, found) = (of(self), of(found));
        let mut lines = Vec::new();
        for (name, version) in &held {
            match found.get(name) {
                None => lines.push(format!("{name} is not installed, ctk.lock holds {version}")),
                Some(found) if found != version => {
                    lines.push(format!("{name} {found} is installed, ctk.lock holds {version}"));
                }
                Some(_) => {}
            }
        }
        let more = found.iter().filter(|(name, _)| !held.contains_key(*name));
        lines.extend(more.map(|(name, version)| format!("{name} {version} is installed, ctk.lock does not hold it")));
        lines
    }

    /// Takes over from `old` the sizes of files that are the same: an index that does not answer once is no change.
    fn keep_sizes(&mut self, old: &Self) {
        let sizes: BTreeMap<_, _> =
            old.packages.iter().chain(&old.sources).map(|old| (&old.sha256, old.bytes)).collect();
        for package in self.packages.iter_mut().chain(&mut self.sources).filter(|package| package.sha256.is_some()) {
            package.bytes = package.bytes.or_else(|| sizes.get(&package.sha256).copied().flatten());
        }
    }
}

impl LockedStack {
    /// What was asked for, with nothing resolved yet.
    #[must_use]
    pub fn of(stack: &Stack) -> Self {
        Self { python: stack.python.to_string(), asked: stack.packages.clone(), machine: None, image: None }
    }

    /// What it became for the Python of an image, or for the machine's; else that it was not locked for that.
    pub fn at(&self, in_image: bool) -> Result<&LockedPackages, String> {
        let (held, whose) =
            if in_image { (&self.image, "an image's Python") } else { (&self.machine, "the machine's Python") };
        held.as_ref().ok_or_else(|| format!("ctk.lock does not hold it for {whose}"))
    }

    /// In what `stack` asks for something else than was locked, one line each.
    #[must_use]
    pub fn asks(&self, stack: &Stack) -> Vec<String> {
        let mut lines = Vec::new();
        let python = stack.python.to_string();
        if python != self.python {
            lines.push(format!("the matrix says Python {python}, ctk.lock holds {}", self.python));
        }
        let of = |packages: &[String]| -> BTreeMap<String, String> {
            packages.iter().map(|package| (normalised(package), package.clone())).collect()
        };
        let (held, asked) = (of(&self.asked), of(&stack.packages));
        for (name, package) in &asked {
            match held.get(name) {
                None => lines.push(format!("the matrix asks for {package}, ctk.lock does not")),
                Some(held) if held != package => {
                    lines.push(format!("the matrix asks for {package}, ctk.lock holds {held}"));
                }
                Some(_) => {}
            }
        }
        let less = held.iter().filter(|(name, _)| !asked.contains_key(*name));
        lines.extend(less.map(|(_, package)| format!("ctk.lock holds {package}, the matrix does not ask for it")));
        lines
    }

    /// Takes over from `old` the sizes that are no longer told and, with `places`, what is for a place that was not looked
    /// at this time.
    pub fn keep(&mut self, old: &Self, places: bool) {
        for (new, old) in [(&mut self.machine, &old.machine), (&mut self.image, &old.image)] {
            match (new.as_mut(), old) {
                (Some(new), Some(old)) => new.keep_sizes(old),
                (None, Some(_)) if places => new.clone_from(old),
                (None | Some(_), _) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stack::Python;

    fn package(name: &str, version: &str, sha256: Option<&str>) -> LockedPackage {
        LockedPackage { name: name.into(), version: version.into(), bytes: None, sha256: sha256.map(Into::into) }
    }

    fn packages(list: &[(&str, &str)]) -> LockedPackages {
        let packages = list.iter().map(|(name, version)| package(name, version, None)).collect();
        LockedPackages { python: "3.11".into(), packages, sources: Vec::new() }
    }

    #[test]
    fn the_text_for_pip_names_a_hash_of_all_packages_or_of_none() {
        let (a, b) = (package("a", "1", Some("00ff")), package("b-c", "2.0", Some("01")));
        assert_eq!(requirements(&[a.clone(), b]), "a==1 --hash=sha256:00ff\nb-c==2.0 --hash=sha256:01\n");
        assert_eq!(requirements(&[a, package("b-c", "2.0", None)]), "a==1\nb-c==2.0\n");
    }

    #[test]
    fn each_thing_that_the_matrix_asks_otherwise_is_a_line() {
        let stack = |python: &str, packages: &[&str]| Stack {
            name: "s".into(),
            python: Python::Version(python.into()),
            packages: packages.iter().map(ToString::to_string).collect(),
            base: None,
        };
        let locked = LockedStack::of(&stack("3.11", &["NumPy==1.26.4", "lib"]));
        assert_eq!(locked.asks(&stack("3.11", &["lib", "NumPy==1.26.4"])), [""; 0]);
        assert_eq!(
            locked.asks(&stack("3.12", &["numpy==2.0", "more"])),
            [
                "the matrix says Python 3.12, ctk.lock holds 3.11",
                "the matrix asks for more, ctk.lock does not",
                "the matrix asks for numpy==2.0, ctk.lock holds NumPy==1.26.4",
                "ctk.lock holds lib, the matrix does not ask for it",
            ]
        );
    }

    #[test]
    fn each_thing_that_is_installed_otherwise_is_a_line() {
        let held = packages(&[("a", "1"), ("b", "1"), ("c", "1")]);
        assert_eq!(held.installed(&held), [""; 0]);
        assert_eq!(
            held.installed(&packages(&[("a", "1"), ("b", "2"), ("d", "1")])),
            [
                "b 2 is installed, ctk.lock holds 1",
                "c is not installed, ctk.lock holds 1",
                "d 1 is installed, ctk.lock does not hold it",
            ]
        );
        let other = LockedPackages { python: "3.12".into(), ..held.clone() };
        assert_eq!(held.installed(&other), ["the machine's Python is 3.12, ctk.lock holds 3.11"]);
    }

    #[test]
    fn a_size_that_is_no_longer_told_is_kept_for_the_same_file_alone() {
        let stack = |bytes, sha256: &str| LockedStack {
            python: "3.11".into(),
            asked: Vec::new(),
            machine: Some(LockedPackages {
                packages: vec![LockedPackage { bytes, ..package("a", "1", Some(sha256)) }],
                ..packages(&[])
            }),
            image: Some(packages(&[])),
        };
        let mut same = LockedStack { image: None, ..stack(None, "00") };
        same.keep(&stack(Some(7), "00"), true);
        assert_eq!(same, stack(Some(7), "00"));
        let mut other = LockedStack { image: None, ..stack(None, "01") };
        other.keep(&stack(Some(7), "00"), false);
        assert_eq!(other, LockedStack { image: None, ..stack(None, "01") });
    }
}
