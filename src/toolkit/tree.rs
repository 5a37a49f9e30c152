//! The files that pip unpacked: their sizes, their modes, their hashes. It has no type of its own but [`Walked`].

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::entry::FileFacts;
use crate::model::wire::hex;

/// What an unpacked tree holds.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// The size of all files.
    pub bytes: u64,
    /// Every ELF file, by its path in the tree.
    pub files: BTreeMap<String, FileFacts>,
}

/// The bytes below a folder. What comes and goes meanwhile counts as it may: this feeds a progress bar.
pub(crate) fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => size(&entry.path()),
        Ok(facts) if facts.is_file() => facts.len(),
        Ok(_) | Err(_) => 0,
    });
    sizes.sum()
}

/// Opens a tree to every user, whatever the umask was, and hashes its libraries and programs.
pub(crate) fn finish(root: &Path) -> io::Result<Walked> {
    let mut walked = Walked::default();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(root.join(&folder), Permissions::from_mode(0o755))?;
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let facts = entry.metadata()?;
            if facts.is_dir() {
                folders.push(path);
            } else if facts.is_file() {
                // A wheel need not carry the execute bit; what lies in a folder of programs is one.
                let program = facts.permissions().mode() & 0o111 != 0 || is_program(&path);
                let mode = if program { 0o755 } else { 0o644 };
                fs::set_permissions(entry.path(), Permissions::from_mode(mode))?;
                walked.bytes += facts.len();
                if let Some(sha256) = hash_if_elf(&entry.path())? {
                    walked.files.insert(path.to_string_lossy().into_owned(), FileFacts { bytes: facts.len(), sha256 });
                }
            }
        }
    }
    Ok(walked)
}

/// `…/bin/nvcc` and `…/nvvm/bin/cicc`, but not `bin/nvcc.profile` or a header in `bin/crt`.
fn is_program(path: &Path) -> bool {
    path.extension().is_none() && path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "bin")
}

fn hash_if_elf(path: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0_u8; 1 << 20];
    let mut hash = Sha256::new();
    let mut first = true;
    loop {
        let read = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if first && !buffer[..read].starts_with(b"\x7fELF") {
            return Ok(None);
        }
        if read == 0 {
            return Ok(Some(hex(&hash.finalize())));
        }
        first = false;
        hash.update(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_the_execute_bit_and_only_elf_files_are_hashed() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("cu13/bin")).unwrap();
        for (path, text) in [("cu13/bin/nvcc", "\x7fELFabc"), ("cu13/bin/nvcc.profile", "TOP"), ("cu13/cuda.h", "")] {
            fs::write(root.join(path), text).unwrap();
            fs::set_permissions(root.join(path), Permissions::from_mode(0o600)).unwrap();
        }
        fs::set_permissions(root.join("cu13"), Permissions::from_mode(0o700)).unwrap();
        let walked = finish(root).unwrap();
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
        let modes = ["cu13", "cu13/bin", "cu13/bin/nvcc", "cu13/bin/nvcc.profile", "cu13/cuda.h"].map(mode);
        assert_eq!(modes, [0o755, 0o755, 0o755, 0o644, 0o644]);
        let nvcc = FileFacts { bytes: 7, sha256: hex(&Sha256::digest(b"\x7fELFabc")) };
        assert_eq!((walked.bytes, walked.files), (10, [("cu13/bin/nvcc".to_owned(), nvcc)].into()));
        assert_eq!(size(root), 10);
    }
}
