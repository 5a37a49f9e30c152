//! Which library files this process has mapped, by `/proc/self/maps`: what was really loaded, not what was asked for.

use std::path::{Path, PathBuf};

/// The mapped files whose name satisfies `named`, each once, in the order of their addresses.
pub(super) fn mapped(named: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    // Without /proc nothing is known to be mapped, and whoever asked says so.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    files(&maps, named)
}

fn files(maps: &str, named: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        // address perms offset dev inode path; the path may hold spaces.
        let Some(start) = line.find('/') else { continue };
        let path = Path::new(line[start..].trim_end_matches(" (deleted)"));
        let matches = path.file_name().and_then(|name| name.to_str()).is_some_and(&named);
        if matches && !found.iter().any(|earlier| earlier == path) {
            found.push(path.into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapped_file_is_listed_once() {
        let maps = "\
7f0000000000-7f0000001000 r--p 00000000 08:01 1234       /usr/lib/my folder/libcuda.so.580.1
7f0000001000-7f0000002000 r-xp 00001000 08:01 1234       /usr/lib/my folder/libcuda.so.580.1
7f0000002000-7f0000003000 rw-p 00000000 00:00 0 
7f0000003000-7f0000004000 r--p 00000000 08:01 99         /compat/libcuda.so.550.2
7f0000004000-7f0000005000 r--p 00000000 08:01 98         /usr/lib/libcudart.so.12
7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0          [stack]
";
        let found = files(maps, |name| name.starts_with("libcuda.so"));
        assert_eq!(found, [Path::new("/usr/lib/my folder/libcuda.so.580.1"), Path::new("/compat/libcuda.so.550.2")]);
    }
}
