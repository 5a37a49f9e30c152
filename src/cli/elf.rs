//! The newest GLIBC version that a program asks for, which decides on which images it starts.

use std::path::Path;

use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Endianness, Object as _};

use crate::model::version::Version;

/// The newest `GLIBC_x.y` in the version needs of a 64-bit ELF file; none if it cannot be read or asks for none.
pub(crate) fn glibc_floor(path: &Path) -> Option<Version> {
    let bytes = std::fs::read(path).ok()?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
    let endian = file.endianness();
    let sections = file.elf_header().sections(endian, &*bytes).ok()?;
    let (mut needs, link) = sections.gnu_verneed(endian, &*bytes).ok()??;
    let strings = sections.strings(endian, &*bytes, link).ok()?;
    let mut newest = None;
    while let Ok(Some((_, mut versions))) = needs.next() {
        while let Ok(Some(version)) = versions.next() {
            let name = version.name(endian, strings).ok()?;
            let parsed = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_").and_then(major_minor);
            newest = newest.max(parsed);
        }
    }
    newest
}

/// `2.17`, and `2.2.5` without its last part.
fn major_minor(text: &str) -> Option<Version> {
    let mut parts = text.split('.');
    format!("{}.{}", parts.next()?, parts.next()?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_asks_for_a_glibc_that_is_no_newer_than_the_one_it_runs_on() {
        let needed = glibc_floor(&std::env::current_exe().unwrap()).unwrap();
        let text = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output().unwrap().stdout;
        let running: Version = String::from_utf8(text).unwrap().trim().strip_prefix("glibc ").unwrap().parse().unwrap();
        assert!(Version::new(2, 2) <= needed && needed <= running, "{needed} and {running}");
    }

    #[test]
    fn what_is_no_elf_file_asks_for_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "#!/bin/sh\n").unwrap();
        assert_eq!(glibc_floor(file.path()), None);
    }
}
