//! Why a stack of Python packages is not there, each with its cure. The main type is [`StackError`]; pip's own text is
//! read by [`StackError::of_pip`], which is pure.

use std::path::PathBuf;

use super::super::diagnosis::{NETWORK, PipEnd, decisive};
use super::super::error::ProvisionError;

/// Why a stack is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// There is no interpreter of this version.
    #[error(
        "there is no Python {wanted} on this machine ({}): install it, name another version, or run on a `base:` image that has it",
        there(others)
    )]
    NoPython {
        /// The version.
        wanted: String,
        /// Those that there are.
        others: Vec<String>,
    },
    /// The image has no interpreter of this version.
    #[error("image {image} has no {wanted} ({}): name the version that it has, or another image", there(others))]
    NoPythonInImage {
        /// The image.
        image: String,
        /// What was looked for.
        wanted: String,
        /// The versions that there are.
        others: Vec<String>,
    },
    /// No image with the packages could be built.
    #[error("no image with these packages can be made from {base}: {line}")]
    Image {
        /// The image to build on.
        base: String,
        /// The line that decided.
        line: String,
        /// The decisive lines.
        detail: String,
    },
    /// There is no `python3`.
    #[error("there is no `python3` on this machine: install Python 3, or name a version and packages")]
    NoHostPython,
    /// The interpreter lies where only its owner reads.
    #[error(
        "the Python in {0} cannot be read by a container's user: `chmod -R a+rX {0}`, use a Python in /usr, or say --engine process",
        prefix.display()
    )]
    Unreadable {
        /// Its folder.
        prefix: PathBuf,
    },
    /// A pin does not exist, or not for this Python.
    #[error("pip's index has no {requirement} for Python {python}: {known}")]
    NoMatch {
        /// The requirement.
        requirement: String,
        /// The Python.
        python: String,
        /// The versions that there are, the newest last, or what else is known.
        known: String,
        /// pip's lines.
        detail: String,
    },
    /// The packages contradict each other.
    #[error("the packages contradict each other: {cause}")]
    Conflict {
        /// pip's own reasons, joined.
        cause: String,
        /// pip's lines.
        detail: String,
    },
    /// A package could not be built from source.
    #[error("{package} cannot be built from source: {line}")]
    Build {
        /// The package.
        package: String,
        /// The line that decided.
        line: String,
        /// The decisive lines.
        detail: String,
    },
    /// The toolkit lacks what a source package needs.
    #[error(
        "{package} is built from source against the toolkit, and toolkit {toolkit} has no {lacks}: name a full toolkit as a `dir`"
    )]
    ToolkitLacks {
        /// The package.
        package: String,
        /// The toolkit.
        toolkit: String,
        /// The files.
        lacks: String,
    },
    /// What the index has is not what the lock holds.
    #[error(
        "{requirement} is not the file that ctk.lock holds: its SHA-256 differs; if the index was to change it, `ctk-matrix lock --update` takes what it has now, else ask who runs the index"
    )]
    NotLocked {
        /// `numpy==1.26.4`.
        requirement: String,
        /// pip's lines.
        detail: String,
    },
    /// The lock holds nothing of a package.
    #[error(
        "ctk.lock does not hold what is built of {package}: `ctk-matrix lock --update`, with a Python {python} on the machine"
    )]
    Unlocked {
        /// The package.
        package: String,
        /// The Python.
        python: String,
    },
    /// A file that the index gives without a hash, and that came from somewhere else.
    #[error(
        "the index gives no SHA-256 of {requirement}, so it cannot be locked: name another index, or another version"
    )]
    NoHash {
        /// The requirement.
        requirement: String,
    },
    /// More would be fetched than the user allowed.
    #[error(
        "--max-download leaves {}, and {} of packages would be fetched: allow more",
        crate::model::units::bytes(*left),
        crate::model::units::bytes(*bytes)
    )]
    TooMuch {
        /// The packages' size, as far as it is known.
        bytes: u64,
        /// What may still be fetched.
        left: u64,
    },
    /// The user allowed so much, and nobody knows how much it would be.
    #[error(
        "--max-download is set, and nobody knows what the build of an image fetches: leave it out, or say --locked with a \
         ctk.lock that holds the size of every package"
    )]
    Unbounded,
    /// pip is too old.
    #[error("`{python} -m pip` is older than 22.3, which stacks need: `{python} -m pip install --upgrade pip`")]
    OldPip {
        /// The interpreter that pip runs in.
        python: String,
    },
    /// Something that toolkits fail of too.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
}

fn there(others: &[String]) -> String {
    if others.is_empty() { "there is none".into() } else { format!("there is {}", others.join(", ")) }
}

impl StackError {
    /// pip's decisive lines.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::NoMatch { detail, .. }
            | Self::Conflict { detail, .. }
            | Self::Build { detail, .. }
            | Self::NotLocked { detail, .. }
            | Self::Image { detail, .. } => Some(detail.as_str()).filter(|detail| !detail.is_empty()),
            Self::Provision(error) => error.detail(),
            Self::NoPython { .. }
            | Self::NoPythonInImage { .. }
            | Self::NoHostPython
            | Self::Unreadable { .. }
            | Self::ToolkitLacks { .. }
            | Self::Unlocked { .. }
            | Self::NoHash { .. }
            | Self::TooMuch { .. }
            | Self::Unbounded
            | Self::OldPip { .. } => None,
        }
    }

    /// What a failed pip means for a stack of Python `python`. `full` is the error for a full disk.
    pub(crate) fn of_pip(
        program: &str,
        python: &str,
        packages: &[String],
        end: PipEnd,
        output: &str,
        full: ProvisionError,
    ) -> Self {
        let usual = || super::super::diagnosis::diagnose(program, packages, end, output, full);
        if output.contains("no such option: --python") || output.contains("no such option: --report") {
            return Self::OldPip { python: program.into() };
        }
        // A network that fails makes pip say that there are no versions.
        let unreached = output.contains("(from versions: none)") && NETWORK.iter().any(|text| output.contains(text));
        if matches!(end, PipEnd::Signal(_)) || unreached || output.contains("No space left on device") {
            return usual().into();
        }
        if let Some(cause) = conflict(output) {
            return Self::Conflict { cause, detail: decisive(output) };
        }
        if let Some((requirement, known)) = unmatched(output) {
            return Self::NoMatch { requirement, python: python.into(), known, detail: decisive(output) };
        }
        if let Some((package, line)) = unbuilt(output) {
            return Self::Build { package, line, detail: decisive(output) };
        }
        usual().into()
    }
}

/// The lines after `The conflict is caused by:`, joined.
fn conflict(output: &str) -> Option<String> {
    let (_, after) = output.split_once("The conflict is caused by:")?;
    let lines = after.lines().map(str::trim).skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    Some(lines.collect::<Vec<_>>().join("; "))
}

/// The requirement that no version satisfies, and the versions that there are.
fn unmatched(output: &str) -> Option<(String, String)> {
    const SHOWN: usize = 6;
    let (_, after) = output.split_once("Could not find a version that satisfies the requirement ")?;
    let line = after.lines().next()?;
    let (requirement, versions) = line.split_once(" (from versions: ").unwrap_or((line, "none)"));
    let requirement = requirement.split_once(" (from ").map_or(requirement, |(requirement, _)| requirement);
    let versions: Vec<&str> = versions.trim_end_matches(')').split(", ").filter(|version| *version != "none").collect();
    let known = match versions.as_slice() {
        [] => "the index lists no file of it that fits: is the name right, and does the index answer?".into(),
        few if few.len() <= SHOWN => format!("there is {}", few.join(", ")),
        many => format!("the newest are {}", many[many.len() - SHOWN..].join(", ")),
    };
    Some((requirement.trim().into(), known))
}

/// The package that could not be built, and the line that decided.
fn unbuilt(output: &str) -> Option<(String, String)> {
    let failed = ["Failed building wheel for ", "Could not build wheels for ", "Failed to build "]
        .iter()
        .find_map(|text| Some(output.split_once(text)?.1.lines().next()?.split([',', ' ', '\'']).next()?.to_owned()));
    let prepared =
        ["Getting requirements to build wheel did not run", "Preparing metadata", "subprocess-exited-with-error"];
    if failed.is_none() && !prepared.iter().any(|text| output.contains(text) && output.contains("error")) {
        return None;
    }
    let telling = |line: &&str| {
        [": fatal error: ", ": error: ", "cannot find -l", "command not found"].iter().any(|text| line.contains(text))
    };
    let exception =
        |line: &&str| line.split_once(": ").is_some_and(|(name, _)| name.ends_with("Error") && !name.contains(' '));
    let mut lines = output.lines().map(str::trim);
    let line = lines.clone().find(telling).or_else(|| lines.find(exception)).unwrap_or("its build failed");
    Some((failed.unwrap_or_else(|| "a package".into()), line.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str) -> String {
        let packages = ["numpy==9.9.9".to_owned()];
        StackError::of_pip("python3", "3.11", &packages, PipEnd::Code(1), output, ProvisionError::NoHome).to_string()
    }

    #[test]
    fn a_pin_that_does_not_exist_is_named_with_those_that_do() {
        let output = "ERROR: Could not find a version that satisfies the requirement numpy==9.9.9 (from versions: 1.24.0, \
                      1.25.0, 1.26.0, 2.0.0, 2.1.0, 2.2.0, 2.3.0)\nERROR: No matching distribution found for numpy==9.9.9\n";
        assert_eq!(
            of(output),
            "pip's index has no numpy==9.9.9 for Python 3.11: the newest are 1.25.0, 1.26.0, 2.0.0, 2.1.0, 2.2.0, 2.3.0"
        );
        let nothing = "ERROR: Could not find a version that satisfies the requirement nmpy==1 (from versions: none)\n";
        assert_eq!(
            of(nothing),
            "pip's index has no nmpy==1 for Python 3.11: the index lists no file of it that fits: is the name right, and does the index answer?"
        );
    }

    #[test]
    fn a_contradiction_has_pips_own_reasons() {
        let output = "ERROR: Cannot install cupy-cuda12x==14.2.0 and numpy==1.26.4 because these package versions have \
                      conflicting dependencies.\n\nThe conflict is caused by:\n    The user requested numpy==1.26.4\n    \
                      cupy-cuda12x 14.2.0 depends on numpy<2.6 and >=2.0\n\nTo fix this you could try to:\n1. loosen\n";
        assert_eq!(
            of(output),
            "the packages contradict each other: The user requested numpy==1.26.4; cupy-cuda12x 14.2.0 depends on \
             numpy<2.6 and >=2.0"
        );
    }

    #[test]
    fn a_build_that_fails_has_the_compilers_line() {
        let output = "  Building wheel for pycuda (pyproject.toml): finished with status 'error'\n  error: \
                      subprocess-exited-with-error\n      src/cpp/cuda.hpp:14:10: fatal error: cudaProfiler.h: No such \
                      file or directory\n  ERROR: Failed building wheel for pycuda\nFailed to build pycuda\n";
        assert_eq!(
            of(output),
            "pycuda cannot be built from source: src/cpp/cuda.hpp:14:10: fatal error: cudaProfiler.h: No such file or \
             directory"
        );
    }

    #[test]
    fn an_index_that_does_not_answer_is_no_missing_pin() {
        let output = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError()': /simple/numpy/\n\
                      ERROR: Could not find a version that satisfies the requirement numpy==9.9.9 (from versions: none)\n";
        assert!(of(output).starts_with("pip cannot reach its package index"), "{}", of(output));
    }

    #[test]
    fn an_old_pip_is_named_with_the_cure() {
        let text = of("\nUsage:\n  python3 -m pip <command> [options]\n\nno such option: --python\n");
        assert!(text.ends_with("`python3 -m pip install --upgrade pip`"), "{text}");
    }
}
