//! How files of a run are named and written. Its main function is [`replace`]: whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::error::ReportError;
use crate::model::wire::hex;

/// The longest file name, in bytes, that a job's id becomes. Linux file systems take 255.
const LONGEST_NAME: usize = 160;

/// Writes a file through a temporary one beside it that is renamed. On an error the old file is kept and nothing else
/// is left behind.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    write_whole(path, bytes).map_err(ReportError::write(path))
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    // A temporary file is readable by its owner alone unless told otherwise; reports follow the umask.
    let mut file = tempfile::Builder::new()
        .prefix(".writing-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(|error| io::Error::from(error.kind()))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The rename itself is durable once the folder is; a file system that cannot do that is no reason to fail.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    Ok(())
}

/// Creates a folder and those above it.
pub(super) fn create_dir(path: &Path) -> Result<(), ReportError> {
    fs::create_dir_all(path).map_err(ReportError::write(path))
}

/// The file name, without extension, for a job's id: `kernel=vector_add,toolkit=12.6` becomes
/// `kernel-vector_add+toolkit-12.6`. An id with other characters gets the start of its SHA-256 as well, so that two
/// ids never share a name.
pub(super) fn job_name(id: &str) -> String {
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let pairs: Option<Vec<String>> = id
        .split(',')
        .map(|pair| {
            let (axis, value) = pair.split_once('=')?;
            (plain(axis) && !axis.contains(['-', '.']) && plain(value)).then(|| format!("{axis}-{value}"))
        })
        .collect();
    if let Some(name) = pairs.map(|pairs| pairs.join("+")).filter(|name| name.len() <= LONGEST_NAME) {
        return name;
    }
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let start: String = id.chars().map(safe).take(LONGEST_NAME - 20).collect();
    format!("{}+{}", start.trim_start_matches('.'), &hex(&Sha256::digest(id.as_bytes()))[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_found_by_its_file_name() {
        assert_eq!(job_name("kernel=vector_add,toolkit=12.6"), "kernel-vector_add+toolkit-12.6");
        assert_eq!(job_name("kernel=k,toolkit=../../etc"), "kernel_k_toolkit_.._.._etc+17122bc531da");
    }

    #[test]
    fn two_jobs_never_share_a_file_name() {
        let ids = ["kernel=a,toolkit=b", "kernel-a,toolkit=b", "kernel=a,toolkit=b=", "kernel=a+toolkit-b", "..", ""];
        let mut names: Vec<_> = ids.map(job_name).into();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ids.len());
        let long = job_name(&format!("kernel=k,toolkit={}", "x".repeat(4000)));
        assert!(long.len() <= LONGEST_NAME, "{}", long.len());
        assert!(names.iter().all(|name| !name.contains('/') && !name.starts_with('.')), "{names:?}");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_kept_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        // A rename onto a folder that holds something fails after the new bytes were written.
        let path = dir.path().join("report.json");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("old"), "old").unwrap();
        let error = replace(&path, b"new").unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write {}", path.display())), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read(path.join("old")).unwrap(), b"old");
    }

    #[test]
    fn a_folder_that_is_gone_is_named_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gone/report.json");
        let error = replace(&path, b"new").unwrap_err();
        assert!(
            matches!(&error, ReportError::Write { path: named, source }
            if *named == path && source.kind() == io::ErrorKind::NotFound),
            "{error:?}"
        );
    }

    #[test]
    fn a_report_may_be_read_by_those_whom_the_umask_lets() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("plain"), "").unwrap();
        replace(&dir.path().join("replaced"), b"").unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("replaced"), mode("plain"));
    }
}
