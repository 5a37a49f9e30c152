//! The version of the C library that this process runs on.
//! It is read from the library's own banner: asking the library itself would be a foreign call.

use super::maps;

/// glibc's version, such as `2.36`; none where the C library is another one.
pub(super) fn version() -> Option<String> {
    let library = maps::mapped(|name| name == "libc.so.6" || name.starts_with("libc-2.")).into_iter().next()?;
    banner(&std::fs::read(library).ok()?)
}

fn banner(bytes: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b" release version ";
    let mut from = 0;
    loop {
        // `stable release version 2.36.`; between releases it says `development`.
        let at = from + bytes[from..].iter().position(|byte| *byte == BEFORE[0])?;
        from = at + 1;
        let Some(rest) = bytes[at..].strip_prefix(BEFORE) else { continue };
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let version = str::from_utf8(&rest[..digits]).ok()?.trim_end_matches('.');
        if !version.is_empty() {
            return Some(version.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banner_gives_the_version() {
        let text = b"\0 released\0GNU C Library (Debian GLIBC 2.36-9+deb12u8) stable release version 2.36.\nCopyright";
        assert_eq!(banner(text), Some("2.36".into()));
        assert_eq!(banner(b"musl libc (x86_64)\nVersion 1.2.5\n"), None);
    }
}
