//! The folder that keeps what was downloaded, shared by concurrent runs.
//! The main type is [`Cache`]: `toolkits/` holds complete entries only, `staging/` what is being made.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

use super::error::{ProvisionError, cause};

/// The variable that names the folder.
pub const CACHE_VARIABLE: &str = "CTK_MATRIX_CACHE";

/// The cache folder. Making a value touches nothing; the folder is made when something is put into it, so that a
/// complete cache may be read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$CTK_MATRIX_CACHE`, else `ctk-matrix` in the user's cache folder.
    pub fn locate() -> Result<Self, ProvisionError> {
        let user = || etcetera::base_strategy::Xdg::new().map(|xdg| xdg.cache_dir()).ok();
        Self::choose(std::env::var_os(CACHE_VARIABLE), user)
    }

    fn choose(named: Option<OsString>, user: impl FnOnce() -> Option<PathBuf>) -> Result<Self, ProvisionError> {
        match named.filter(|named| !named.is_empty()) {
            Some(named) => Self::at(Path::new(&named)),
            None => Self::at(&user().ok_or(ProvisionError::NoHome)?.join("ctk-matrix")),
        }
    }

    /// The cache in this folder.
    pub fn at(root: &Path) -> Result<Self, ProvisionError> {
        // Engines bind folders of the cache, and a bind needs an absolute path.
        let root = std::path::absolute(root)
            .map_err(|error| ProvisionError::Cache { folder: root.into(), cause: cause(&error) })?;
        Ok(Self { root })
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of complete entries.
    pub(crate) fn toolkits(&self) -> PathBuf {
        self.root.join("toolkits")
    }

    /// The folder of complete stacks.
    pub(crate) fn stacks(&self) -> PathBuf {
        self.root.join("stacks")
    }

    /// The folder of what is being made.
    pub(crate) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    /// Makes the cache's folders, readable by every user whatever the umask: the user in a container is another one.
    pub(crate) fn make(&self) -> Result<(), ProvisionError> {
        for folder in [self.root.clone(), self.toolkits(), self.stacks(), self.staging()] {
            make_folder(&folder).map_err(|error| self.error(&folder, 0, &error))?;
        }
        Ok(())
    }

    /// What an error of the system at `at` means; whose folder it is, where it is another user's.
    pub(crate) fn error(&self, at: &Path, needed: u64, error: &io::Error) -> ProvisionError {
        let mut found = ProvisionError::io(&self.root, needed, error);
        if let ProvisionError::Cache { folder, cause } = &mut found {
            let here = at.ancestors().find_map(|folder| Some((folder, fs::symlink_metadata(folder).ok()?)));
            let me = rustix::process::geteuid().as_raw();
            if error.kind() == io::ErrorKind::PermissionDenied
                && let Some((folder, facts)) = here
                && facts.uid() != me
            {
                *cause = format!("{cause}: `{}` belongs to user {}, this is user {me}", folder.display(), facts.uid());
            }
            at.clone_into(folder);
        }
        found
    }
}

/// Makes one folder and those above it, unless it is there.
fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::metadata(folder) {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => Err(io::Error::from(rustix::io::Errno::NOTDIR)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder)?;
            fs::set_permissions(folder, Permissions::from_mode(0o755))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_and_an_empty_one_says_nothing() {
        let root = |named: Option<&str>, user: Option<&str>| {
            Cache::choose(named.map(Into::into), || user.map(Into::into)).map(|cache| cache.root)
        };
        assert_eq!(root(Some("/named"), Some("/user")), Ok("/named".into()));
        assert_eq!(root(Some(""), Some("/user")), Ok("/user/ctk-matrix".into()));
        assert_eq!(root(None, None), Err(ProvisionError::NoHome));
        let here = std::env::current_dir().unwrap();
        assert_eq!(root(Some("rel"), None), Ok(here.join("rel")));
    }

    #[test]
    fn a_folder_of_another_user_is_named_with_its_owner() {
        let me = rustix::process::geteuid().as_raw();
        if me == 0 {
            return; // Root may write anywhere.
        }
        let error = Cache::at(Path::new("/usr/ctk-matrix-cache")).unwrap().make().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the cache folder `/usr/ctk-matrix-cache` cannot be used (permission denied: `/usr` belongs to user 0, \
                 this is user {me}): set CTK_MATRIX_CACHE to a folder that you may write"
            )
        );
    }

    #[test]
    fn a_file_where_the_folder_should_be_is_named_with_the_cure() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("cache");
        fs::write(&file, "").unwrap();
        let error = Cache::at(&file).unwrap().make().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the cache folder `{}` cannot be used (not a directory): set CTK_MATRIX_CACHE to a folder that you may \
                 write",
                file.display()
            )
        );
    }
}
