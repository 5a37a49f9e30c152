//! Stacks: named sets of pinned Python packages. Its main types are [`Stack`], what was asked for, [`StackRecord`], what
//! came of it on this machine, and [`StackFiles`], what a job is told of it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::matrix::{Toolkit, ToolkitSource};

/// Opens the reason of a skip that lies with this machine and not with the stack: such a skip is foreseen.
pub const NOT_TESTED: &str = "not tested here: ";

/// A stack, as the matrix names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The name on the `stack` axis.
    pub name: String,
    /// The interpreter.
    pub python: Python,
    /// What to install, as pip takes it: `numpy==1.26.4`. Empty for [`Python::Host`].
    pub packages: Vec<String>,
    /// The image that its jobs run on, with that image's Python, where the toolkit has no image of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// The interpreter of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Python {
    /// The machine's `python3` with what is installed for it.
    Host,
    /// An interpreter of this version, with nothing but the packages: `3.11`.
    Version(String),
}

impl fmt::Display for Python {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Version(version) => version,
        })
    }
}

/// The name of a requirement as indexes compare it: lower case, runs of `-_.` as one `-`.
#[must_use]
pub fn normalised(requirement: &str) -> String {
    let name =
        requirement.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).next().unwrap_or_default();
    let mut out = String::with_capacity(name.len());
    for part in name.split(['-', '_', '.']).filter(|part| !part.is_empty()) {
        if !out.is_empty() {
            out.push('-');
        }
        out.push_str(&part.to_ascii_lowercase());
    }
    out
}

/// Whether a requirement names exactly one version.
#[must_use]
pub fn is_pinned(requirement: &str) -> bool {
    requirement.split_once("==").is_some_and(|(_, version)| !version.contains(['*', ',']) && !version.is_empty())
}

impl Stack {
    /// Why this stack and this toolkit cannot share a container: each names an image of its own.
    #[must_use]
    pub fn apart_from(&self, toolkit: &Toolkit) -> Option<String> {
        let base = self.base.as_deref()?;
        let (name, other) = (&toolkit.name, &self.name);
        match (&toolkit.source, &toolkit.base) {
            (ToolkitSource::Image(image), _) if image != base => Some(format!(
                "toolkit {name} is in image {image}, and stack {other} runs on image {base}: a stack without `base` is \
                 built into the toolkit's image"
            )),
            (_, Some(image)) if image != base => Some(format!(
                "toolkit {name} runs on image {image}, and stack {other} on image {base}: name one of them"
            )),
            _ => None,
        }
    }

    /// Whether the packages name a distribution of this Python library.
    #[must_use]
    pub fn names(&self, family: super::path::Family) -> bool {
        use super::path::Family;
        self.packages.iter().map(|package| normalised(package)).any(|name| match family {
            Family::CudaCore => name == "cuda-core",
            // One distribution for each CUDA major: cupy-cuda12x.
            Family::Cupy => name == "cupy" || name.starts_with("cupy-cuda"),
            Family::Numba => name == "numba-cuda",
            Family::Pycuda => name == "pycuda",
            Family::Driver | Family::Nvrtc | Family::Nvcc => true,
        })
    }
}

/// One package of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its name, as its own metadata has it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SHA-256 of the file that it was installed from; none where that is not known, as on a machine's own Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// What it needs, as its metadata says, for the extras and the Python at hand or any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
}

/// What became of a stack on this machine: what was asked, and what was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRecord {
    /// Its name.
    pub name: String,
    /// The Python that was asked for.
    pub python: String,
    /// The interpreter's version, `3.11.2`; empty where there is none.
    pub python_version: String,
    /// The packages that were asked for.
    pub asked: Vec<String>,
    /// Every package of the environment, sorted by name.
    pub resolved: Vec<Package>,
    /// The toolkit that source packages were built against, and those packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub built: Vec<Built>,
    /// The images that its jobs ran on, where they were not on the host's own Python.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<StackImage>,
    /// What `pip check` said, or why it was not asked.
    pub check: String,
    /// What no resolver says: CUDA majors that are mixed, a package that lacks an upper bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl StackRecord {
    /// Whether it is the same stack with the same interpreter and the same packages: then only what it ran on and what
    /// was built against a toolkit can differ.
    #[must_use]
    pub fn is_environment_of(&self, other: &Self) -> bool {
        self.name == other.name
            && self.python_version == other.python_version
            && self.resolved == other.resolved
            && self.check == other.check
    }
}

/// Packages that were built from source, against one toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// The toolkit entry's name.
    pub toolkit: String,
    /// The packages that were installed with it.
    pub packages: Vec<Package>,
}

/// The image that a stack's jobs with one toolkit ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackImage {
    /// The toolkit entry's name.
    pub toolkit: String,
    /// The image that was named, by reference.
    pub base: String,
    /// Its id.
    pub base_id: String,
    /// Its interpreter: `/usr/bin/python3.13`.
    pub python: PathBuf,
    /// The image that was made from it, with the packages in it; none where they are bound into the base itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built: Option<BuiltImage>,
}

/// An image that was made for a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltImage {
    /// Its tag.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Its id.
    pub id: String,
}

/// What a job is told of its stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFiles {
    /// The stack's name.
    pub name: String,
    /// The interpreter, as the job sees it.
    pub python: PathBuf,
    /// Further folders with packages.
    pub folders: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::path::Family;

    #[test]
    fn names_are_compared_as_an_index_does() {
        let all = ["CuPy_CUDA12x==13.6.0", "cuda.core[cu12]==1.1.1", "numba--cuda", "PyCUDA>=2026"].map(normalised);
        assert_eq!(all, ["cupy-cuda12x", "cuda-core", "numba-cuda", "pycuda"]);
    }

    #[test]
    fn only_one_version_is_a_pin() {
        let pinned = ["numpy==1.26.4", "a[b]==1", "numpy", "numpy>=2", "numpy==2.*", "numpy==2,<3"].map(is_pinned);
        assert_eq!(pinned, [true, true, false, false, false, false]);
    }

    #[test]
    fn a_library_is_named_by_its_distributions() {
        let stack = Stack {
            name: "s".into(),
            python: Python::Version("3.11".into()),
            packages: vec!["cupy-cuda12x==13.6.0".into(), "numba==0.60.0".into()],
            base: None,
        };
        let named: Vec<_> = [Family::CudaCore, Family::Cupy, Family::Numba, Family::Pycuda]
            .into_iter()
            .filter(|family| stack.names(*family))
            .collect();
        assert_eq!(named, [Family::Cupy]);
    }

    #[test]
    fn a_stack_and_a_toolkit_that_name_different_images_stay_apart() {
        let stack = Stack {
            name: "py313".into(),
            python: Python::Version("3.13".into()),
            packages: Vec::new(),
            base: Some("my-python".into()),
        };
        let toolkit = |source, base: Option<&str>| Toolkit {
            name: "12.6".into(),
            version: crate::model::version::Version::new(12, 6),
            source,
            base: base.map(Into::into),
        };
        let image = |name: &str| ToolkitSource::Image(name.into());
        assert_eq!(stack.apart_from(&toolkit(ToolkitSource::Unsaid, None)), None);
        assert_eq!(stack.apart_from(&toolkit(ToolkitSource::Dir("/d".into()), Some("my-python"))), None);
        assert_eq!(stack.apart_from(&toolkit(image("my-python"), None)), None);
        assert_eq!(
            [toolkit(image("cuda"), None), toolkit(ToolkitSource::Unsaid, Some("other"))]
                .map(|toolkit| stack.apart_from(&toolkit).unwrap()),
            [
                "toolkit 12.6 is in image cuda, and stack py313 runs on image my-python: a stack without `base` is built \
                 into the toolkit's image",
                "toolkit 12.6 runs on image other, and stack py313 on image my-python: name one of them",
            ]
        );
        assert_eq!(Stack { base: None, ..stack }.apart_from(&toolkit(image("cuda"), None)), None);
    }
}
