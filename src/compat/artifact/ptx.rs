//! Reads PTX text: `.version`, `.target`, the maker's comment, and the names of its kernels.
//! The driver compiles the text itself, so only what rules and reports need is read, and the rest is not judged.

use super::contents::{Contents, Entry, EntryKind, KernelEntry, Kernels};
use super::error::ArtifactError;
use super::producer;
use crate::model::arch::Arch;
use crate::model::path::Form;
use crate::model::version::Version;

/// Whether `bytes` open as PTX does: with `.version`, after comments and white space.
pub(super) fn recognises(bytes: &[u8]) -> bool {
    Words { rest: bytes }.next() == Some(b".version")
}

/// Reads PTX. A final NUL, which NVRTC and fatbins add, is allowed.
pub(super) fn read(bytes: &[u8]) -> Result<Contents, ArtifactError> {
    let malformed = |why: String| ArtifactError::Malformed { form: "PTX", why };
    let mut words = Words { rest: bytes };
    if words.next() != Some(b".version") {
        return Err(malformed("it does not open with .version".into()));
    }
    let head = bytes.len() - words.rest.len();
    let isa = text(words.next());
    let isa: Version =
        isa.parse().map_err(|_| malformed(format!("its .version is `{}`, not like 8.4", shown(&isa))))?;
    if words.next() != Some(b".target") {
        return Err(malformed("there is no .target after .version".into()));
    }
    let target = text(words.next());
    let arch = target.strip_prefix("sm_").and_then(Arch::from_digits);
    let arch = arch.ok_or_else(|| malformed(format!("its .target is `{}`, not like sm_90", shown(&target))))?;

    let mut kernels = Kernels::default();
    while let Some(word) = words.next() {
        if word == b".entry" {
            let name = text(words.next());
            kernels.push(KernelEntry { name, registers: None, stack_bytes: None, shared_bytes: None });
        }
    }
    // The maker's comment stands before `.version`.
    let maker = producer::find(&String::from_utf8_lossy(bytes.get(..head).unwrap_or_default()));
    let (producer, toolkit) = maker.unzip();
    Ok(Contents {
        form: Form::Ptx,
        ptx_isa: Some(isa),
        archs: vec![arch.compute()],
        producer,
        toolkit,
        compressed: None,
        entries: vec![Entry {
            kind: EntryKind::Ptx,
            arch,
            ptx_isa: Some(isa),
            abi: None,
            compression: None,
            bytes: bytes.len() as u64,
            unpacked_bytes: None,
        }],
        kernels: kernels.into_vec(),
    })
}

/// A word for a message or a name: what is not UTF-8 is replaced.
fn text(word: Option<&[u8]>) -> String {
    String::from_utf8_lossy(word.unwrap_or_default()).into_owned()
}

/// The start of a word, for a message.
fn shown(word: &str) -> String {
    word.chars().take(40).collect()
}

/// The words of PTX: runs of letters, digits, `_`, `$`, `%` and `.`. Comments, strings and punctuation part them.
struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let first = *self.rest.first()?;
            let skip = if self.rest.starts_with(b"//") {
                find(self.rest, b"\n")
            } else if self.rest.starts_with(b"/*") {
                // Looked for behind the opening, so that `/*/` does not close itself.
                find(&self.rest[2..], b"*/").map(|length| length + 2)
            } else if first == b'"' {
                find(&self.rest[1..], b"\"").map(|length| length + 1)
            } else if is_word(first) {
                let end = self.rest.iter().position(|byte| !is_word(*byte)).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                return Some(word);
            } else {
                Some(1)
            };
            // What is opened and not closed goes to the end.
            self.rest = self.rest.get(skip.unwrap_or(self.rest.len())..).unwrap_or_default();
        }
    }
}

/// The length of `bytes` up to and including the first `end`.
fn find(bytes: &[u8], end: &[u8]) -> Option<usize> {
    bytes.windows(end.len()).position(|window| window == end).map(|at| at + end.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.') || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.4\n.target sm_80\n.address_size 64\n";

    fn names(body: &str) -> Vec<String> {
        let contents = read(format!("{HEAD}{body}").as_bytes()).unwrap();
        contents.kernels.into_iter().map(|kernel| kernel.name).collect()
    }

    #[test]
    fn kernels_are_found_and_functions_comments_and_strings_are_not() {
        let body =
            ".visible .entry a(.param .u64 p)\n{ ret; }\n.func b(){}\n// .entry c\n/* .entry d */ /*/ .entry e */
                    .file 1 \".entry f\"\n.weak .entry _Z1gIiEvPT_$1( )";
        assert_eq!(names(body), ["a", "_Z1gIiEvPT_$1"]);
        assert_eq!(names("/* open .entry a"), [""; 0]);
    }

    #[test]
    fn the_target_is_the_first_of_its_list_and_keeps_its_mark() {
        let contents = read(b"/* c */ .version 8.0\n.target sm_90a, texmode_independent\n\0").unwrap();
        assert_eq!(
            (contents.archs.as_slice(), contents.ptx_isa),
            (&["compute_90a".into()][..], Some(Version::new(8, 0)))
        );
    }

    #[test]
    fn a_header_that_is_not_whole_is_named() {
        let why = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(why(".version"), "the PTX is malformed: its .version is ``, not like 8.4");
        assert_eq!(why(".version 8"), "the PTX is malformed: its .version is `8`, not like 8.4");
        assert_eq!(why(".version 8.4"), "the PTX is malformed: there is no .target after .version");
        assert_eq!(why(".version 8.4 .target"), "the PTX is malformed: its .target is ``, not like sm_90");
        assert_eq!(
            why(".version 8.4 .target map_f64"),
            "the PTX is malformed: its .target is `map_f64`, not like sm_90"
        );
    }
}
