//! The host's user space for a container: an image with nothing in it, and read-only binds of the host's folders.
//! The main functions are [`image`] and [`folders`].

use std::path::{Path, PathBuf};

use tokio::sync::Mutex;

use super::super::job::EngineError;
use super::api::{Api, Failure};

const REPO: &str = "ctk-matrix/empty";
const TAG: &str = "1";
/// Marks the image as ours.
const LABEL: &str = "ctk-matrix.empty";

/// What a program of the host needs of it to run. `/sbin` is not among them: the engine puts its init there, and
/// cannot into a folder that is bound read-only. `/tmp` is not in the image: runc 1.1 would keep its mode.
const FOLDERS: [&str; 8] =
    ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/etc/alternatives", "/etc/ld.so.cache"];

/// Where the host's folders lie, and where the container sees them. On a system with a merged `/usr`, `/lib` is a link
/// on the host and a bind of its own inside.
pub(super) fn folders() -> Vec<(PathBuf, &'static str)> {
    let real = |folder: &'static str| Some((std::fs::canonicalize(Path::new(folder)).ok()?, folder));
    FOLDERS.into_iter().filter_map(real).collect()
}

/// Jobs that start side by side make one image, not one each.
static MAKING: Mutex<()> = Mutex::const_new(());

/// The id of the empty image, which is made if it is not there. Two runs that make it at the same time each get one
/// that works.
pub(super) async fn image(api: &Api) -> Result<String, EngineError> {
    let _making = MAKING.lock().await;
    for made in [false, true] {
        if let Some(id) = existing(api).await.map_err(Failure::into_error)? {
            return Ok(id);
        }
        if !made {
            // Two blocks of zeros are the end of a tar, and so an empty one.
            let made = api.import(REPO, TAG, LABEL, vec![0; 1024]).await;
            made.map_err(|failure| EngineError::Setup(format!("the empty image cannot be made: {failure}")))?;
        }
    }
    Err(EngineError::Setup(format!(
        "the image {REPO}:{TAG} is not ours, or goes away: remove it with `docker image rm {REPO}:{TAG}`"
    )))
}

async fn existing(api: &Api) -> Result<Option<String>, Failure> {
    let Some(image) = api.image(&format!("{REPO}:{TAG}")).await? else { return Ok(None) };
    let labels = image.config.and_then(|config| config.labels).unwrap_or_default();
    Ok(image.id.filter(|_| labels.contains_key(LABEL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_folders_are_real_ones() {
        let folders = folders();
        assert!(folders.iter().any(|(host, inside)| host == Path::new("/usr") && *inside == "/usr"));
        assert!(folders.iter().all(|(host, _)| host.exists() && !host.is_symlink()));
        assert!(!folders.iter().any(|(_, inside)| *inside == "/sbin"));
    }
}
