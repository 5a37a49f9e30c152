//! The Pythons of an image, found by looking along its `PATH`, as its other contents are: nothing of it is started.
//! The main function is [`pythons`].

use std::path::{Path, PathBuf};

use super::super::job::EngineError;
use super::api::{Api, Failure};
use super::container::PATH;
use super::image::{close, existing, open};
use crate::model::place::ImagePython;

/// Releases to look for where the wanted one is not there, so that it can be said which is.
const RELEASES: std::ops::RangeInclusive<u32> = 6..=16;

/// The interpreters of an image, by its id: the one of `wanted` (`3.13`) where it is there, else all that there are.
/// Without a wish it is the one that `python3` means.
pub(super) async fn pythons(
    api: &Api,
    id: &str,
    reference: &str,
    wanted: Option<&str>,
) -> Result<Vec<ImagePython>, EngineError> {
    let image = api.image(id).await.map_err(Failure::into_error)?;
    let env = image.and_then(|image| image.config).and_then(|config| config.env).unwrap_or_default();
    let path = env.iter().find_map(|line| line.strip_prefix("PATH=")).unwrap_or(PATH).to_owned();
    let name = open(api, id, reference).await?;
    let looked = look(api, &name, &path, wanted).await;
    close(api, &name, looked).await
}

async fn look(api: &Api, name: &str, path: &str, wanted: Option<&str>) -> Result<Vec<ImagePython>, Failure> {
    let first: Vec<String> =
        wanted.iter().map(|version| format!("python{version}")).chain(["python3".into()]).collect();
    let found = named(api, name, path, &first).await?;
    match wanted {
        None => return Ok(found.into_iter().take(1).collect()),
        Some(wanted) => {
            if let Some(fits) = found.iter().find(|python| python.version == wanted) {
                return Ok(vec![fits.clone()]);
            }
        }
    }
    let any: Vec<String> = first.into_iter().chain(RELEASES.map(|release| format!("python3.{release}"))).collect();
    named(api, name, path, &any).await
}

/// The interpreters of these names along a `PATH`, the first of each version.
async fn named(api: &Api, name: &str, path: &str, names: &[String]) -> Result<Vec<ImagePython>, Failure> {
    let folders = path.split(':').filter(|folder| folder.starts_with('/')).map(|folder| folder.trim_end_matches('/'));
    let programs = folders.flat_map(|folder| names.iter().map(move |name| format!("{folder}/{name}"))).collect();
    let mut found: Vec<ImagePython> = Vec::new();
    for program in existing(api, name, programs).await? {
        let program = PathBuf::from(program);
        let Some(version) = version(api, name, &program).await? else { continue };
        if !found.iter().any(|other| other.version == version) {
            found.push(ImagePython { version, program });
        }
    }
    Ok(found)
}

/// The release that a program's name says, or else the folder of its library.
async fn version(api: &Api, name: &str, program: &Path) -> Result<Option<String>, Failure> {
    if let Some(version) = release(program) {
        return Ok(Some(version));
    }
    let Some(root) = program.parent().and_then(Path::parent) else { return Ok(None) };
    let libraries = RELEASES.map(|release| format!("{}/lib/python3.{release}/os.py", root.display())).collect();
    let library = existing(api, name, libraries).await?.into_iter().next();
    Ok(library.and_then(|file| release(Path::new(&file).parent()?)))
}

/// `3.13` of `/usr/bin/python3.13`.
fn release(path: &Path) -> Option<String> {
    let version = path.file_name()?.to_str()?.strip_prefix("python")?;
    let minor = version.strip_prefix("3.")?;
    (!minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit())).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_off_a_name_that_says_one() {
        let of = |path: &str| release(Path::new(path));
        assert_eq!(of("/usr/bin/python3.13").as_deref(), Some("3.13"));
        for other in ["/usr/bin/python3", "/usr/bin/python3.13t", "/usr/bin/python2.7", "/usr/bin/python3.", "/"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
