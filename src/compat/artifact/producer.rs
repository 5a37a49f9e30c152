//! What an artifact says of its maker. Every CUDA compiler writes the same words, into a comment of PTX and into a
//! note of newer cubins: `Cuda compilation tools, release 12.4, V12.4.131`.

use crate::model::version::Version;

const WORDS: &str = "Cuda compilation tools, release ";

/// The maker's full version as `CUDA 12.4.131`, and the toolkit that it belongs to.
pub(super) fn find(text: &str) -> Option<(String, Version)> {
    let (_, rest) = text.split_once(WORDS)?;
    let line = rest.lines().next()?;
    let (release, rest) = line.split_once(", V")?;
    let toolkit = release.parse().ok()?;
    let full: &str = rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
    let full = if full.is_empty() || full.len() > 24 { release } else { full };
    Some((format!("CUDA {full}"), toolkit))
}

/// The toolkit behind the number that cubins write: 124 is 12.4, 130 is 13.0.
pub(super) fn from_number(number: u32) -> Option<Version> {
    let plausible = (60..1000).contains(&number);
    plausible.then(|| Version::new(u16::try_from(number / 10).unwrap_or(0), u16::try_from(number % 10).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_version_and_the_toolkit_are_read() {
        let text = "// Compiler Build ID: CL-1\n// Cuda compilation tools, release 12.4, V12.4.131\n// Based on NVVM";
        assert_eq!(find(text), Some(("CUDA 12.4.131".into(), Version::new(12, 4))));
        assert_eq!(find("Cuda compilation tools, release 13.0, V"), Some(("CUDA 13.0".into(), Version::new(13, 0))));
        assert_eq!(find("Cuda compilation tools, release x, V1"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn numbers_of_toolkits_have_one_digit_of_minor() {
        assert_eq!(
            [118, 124, 0x82].map(from_number),
            [(11, 8), (12, 4), (13, 0)].map(|(a, b)| Some(Version::new(a, b)))
        );
        assert_eq!([0, 1, 59, 1000, u32::MAX].map(from_number), [None; 5]);
    }
}
