//! Checks of words about Python packages, for the table in `shape.rs`. Its main function is [`parts`]: what reaches
//! pip is a name and a set of versions, never an option, an address or a path.

use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifiers};

use super::Known;
use super::error::{Complaint, quoted};

type Checked = Result<(), Complaint>;

/// The longest requirement; a longer one is a mistake in the file.
const LONGEST: usize = 200;

/// The name with its extras, and the versions, of `cuda-core[cu12]>=1,<2`. None if that is not what it is.
pub(super) fn parts(text: &str) -> Option<(&str, &str)> {
    let at = text.find(['=', '<', '>', '!', '~']).unwrap_or(text.len());
    let (name, versions) = (text[..at].trim_end(), text[at..].trim());
    let (bare, extras) = match name.split_once('[') {
        Some((bare, rest)) => (bare, Some(rest.strip_suffix(']')?)),
        None => (name, None),
    };
    let word = |word: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        word.bytes().all(inner) && ends(word.bytes().next()) && ends(word.bytes().last())
    };
    let sound = word(bare)
        && extras.is_none_or(|extras| extras.split(',').all(|extra| word(extra.trim())))
        && (versions.is_empty() || VersionSpecifiers::from_str(versions).is_ok())
        && text.len() <= LONGEST;
    sound.then_some((name, versions))
}

/// A requirement as pip takes it.
pub(super) fn requirement(text: &str, _: &Known<'_>) -> Checked {
    if parts(text).is_some() {
        return Ok(());
    }
    Err(Complaint::new(format!("{} is not a package with versions", quoted(text)))
        .help("write a name and versions as pip takes them: \"cupy-cuda12x==14.2.0\", \"numpy>=2,<2.5\""))
}

/// A package whose versions are tried, and which of them.
pub(super) fn pin(text: &str, known: &Known<'_>) -> Checked {
    if text.contains('[') {
        return Err(Complaint::new(format!("{} has extras, and a boundary lies between versions", quoted(text)))
            .help("name the extras under `packages`"));
    }
    requirement(text, known).map_err(|complaint| complaint.help("write a name and a range: \"numpy>=2.0\""))
}

/// A version of a package.
pub(super) fn version(text: &str, _: &Known<'_>) -> Checked {
    match Version::from_str(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(Complaint::new(format!("{} is not a version of a package", quoted(text)))
            .help("write it as \"2.4.6\", or as \"2.4\" for any 2.4")),
    }
}

/// A Python.
pub(super) fn python(text: &str, _: &Known<'_>) -> Checked {
    let number = |part: &str| !part.is_empty() && part.len() < 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let sound = text.strip_prefix("3.").is_some_and(number);
    if sound || text == "host" {
        return Ok(());
    }
    Err(Complaint::new(format!("{} is not a Python", quoted(text)))
        .help("write \"3.12\", or `host` for this machine's Python with what is installed for it"))
}

/// A module.
pub(super) fn module(text: &str, _: &Known<'_>) -> Checked {
    let part = |part: &str| {
        part.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if text.len() <= LONGEST && text.split('.').all(part) {
        return Ok(());
    }
    Err(Complaint::new(format!("{} is not the name of a module", quoted(text))).help("write it as `numba.cuda`"))
}

/// A library that compiles without a GPU.
pub(super) fn compiler(text: &str, _: &Known<'_>) -> Checked {
    if text == "numba" {
        return Ok(());
    }
    Err(Complaint::new(format!("{} is not known to compile without a GPU", quoted(text))).help("write `numba`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_name_and_versions_reaches_pip() {
        assert_eq!(parts("numpy"), Some(("numpy", "")));
        assert_eq!(parts("cuda-core[cu12, a] >=1, <2"), Some(("cuda-core[cu12, a]", ">=1, <2")));
        assert_eq!(parts("a==1.*"), Some(("a", "==1.*")));
        for text in [
            "",
            "-r x",
            "--index-url=http://x",
            "-e.",
            "a @ http://x",
            "./a",
            "a b",
            "a==",
            "a=1",
            "a==1; os_name",
            "a[",
            "a[]",
            "http://x/a.whl",
            "a\n-r x",
            "a>=1 --pre",
        ] {
            assert_eq!(parts(text), None, "{text:?}");
        }
    }
}
