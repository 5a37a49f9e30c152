//! What an image holds, read through the engine's archive calls from a container that is never started.
//! The main function is [`inspect`].

use std::io::Read as _;
use std::path::PathBuf;

use bollard::models::{ContainerCreateBody, ImageInspect};
use futures_util::StreamExt;
use futures_util::stream;

use super::super::job::EngineError;
use super::Docker;
use super::api::{Api, Failure};
use super::container::{labels, unguessable_name};
use super::lifecycle::remove_for_good;
use crate::model::place::ImageFacts;

/// A glibc is some 2 MB; what claims to be one and is larger is not read to its end.
const MAX_LIBC: usize = 16 << 20;
/// Looks into the container at the same time.
const LOOKS: usize = 8;

const LIBC: [&str; 4] =
    ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
const LIBRARY_FOLDERS: [&str; 3] = ["lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];
const NVRTC: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"];

pub(super) async fn inspect(docker: &Docker, reference: &str) -> Result<Option<ImageFacts>, EngineError> {
    let api = &docker.api;
    let Some(image) = api.image(reference).await.map_err(Failure::into_error)? else { return Ok(None) };
    let mut facts = configuration(image);
    let name = open(api, &facts.id, reference).await?;
    let looked = look(api, &name, &mut facts).await;
    close(api, &name, looked).await?;
    Ok(Some(facts))
}

/// A file out of an image, by its id; none if it is not there, or is not a whole file of at most `room` bytes.
pub(super) async fn file(
    api: &Api,
    id: &str,
    reference: &str,
    path: &str,
    room: usize,
) -> Result<Option<Vec<u8>>, EngineError> {
    let name = open(api, id, reference).await?;
    let read = async {
        match api.resolve(&name, path).await? {
            Some(path) => api.download(&name, &path, room).await.map(|tar| content(&tar)),
            None => Ok(None),
        }
    };
    close(api, &name, read.await).await
}

/// The one file in a tar.
fn content(tar: &[u8]) -> Option<Vec<u8>> {
    let mut archive = tar::Archive::new(tar);
    let mut entry = archive.entries().ok()?.next()?.ok()?;
    let mut content = Vec::new();
    entry.read_to_end(&mut content).ok()?;
    // What was cut short is no file.
    (content.len() as u64 == entry.size()).then_some(content)
}

/// Makes a container of an image to look into. It is never started.
pub(super) async fn open(api: &Api, id: &str, reference: &str) -> Result<String, EngineError> {
    let name = unguessable_name()?;
    let body = ContainerCreateBody {
        image: Some(id.into()),
        // An image without a command of its own needs one all the same.
        entrypoint: Some(vec!["/ctk/never".into()]),
        network_disabled: Some(true),
        labels: Some(labels("inspect", reference)),
        ..ContainerCreateBody::default()
    };
    match api.create(&name, Box::new(body)).await {
        Ok(_) => Ok(name),
        Err(failure) => close(api, &name, Err(failure)).await,
    }
}

/// Removes that container, and hands on what was seen in it.
pub(super) async fn close<T>(api: &Api, name: &str, looked: Result<T, Failure>) -> Result<T, EngineError> {
    let removed = remove_for_good(api, name).await;
    let looked = looked.map_err(Failure::into_error)?;
    removed.map_err(Failure::into_error)?;
    Ok(looked)
}

/// What the image says of itself.
fn configuration(image: ImageInspect) -> ImageFacts {
    let config = image.config.unwrap_or_default();
    let pair = |line: String| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    ImageFacts {
        id: image.id.unwrap_or_default(),
        digests: image.repo_digests.unwrap_or_default(),
        bytes: image.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default(),
        arch: image.architecture.unwrap_or_default(),
        env: config.env.unwrap_or_default().into_iter().filter_map(pair).collect(),
        entrypoint: config.entrypoint.unwrap_or_default(),
        ..ImageFacts::default()
    }
}

async fn look(api: &Api, name: &str, facts: &mut ImageFacts) -> Result<(), Failure> {
    let roots = roots(api, name, facts).await?;
    let mut compilers = Vec::new();
    let mut libraries = Vec::new();
    for root in &roots {
        compilers.push(format!("{root}/bin/nvcc"));
        for folder in LIBRARY_FOLDERS {
            libraries.extend(NVRTC.map(|library| format!("{root}/{folder}/{library}")));
        }
    }
    facts.nvcc = !existing(api, name, compilers).await?.is_empty();
    facts.nvrtc = !existing(api, name, libraries).await?.is_empty();
    let compat = roots.iter().map(|root| format!("{root}/compat")).collect();
    facts.compat = existing(api, name, compat).await?.into_iter().next().map(PathBuf::from);
    facts.roots = roots.into_iter().map(PathBuf::from).collect();
    for libc in existing(api, name, LIBC.map(String::from).into()).await? {
        let bytes = api.download(name, &libc, MAX_LIBC).await?;
        facts.glibc = glibc_version(&bytes);
        if facts.glibc.is_some() {
            break;
        }
    }
    Ok(())
}

/// The toolkit folders, without symbolic links: what `/usr/local/cuda` leads to, the folder of the version that the
/// image names, and only if there are none, the folder of any version.
async fn roots(api: &Api, name: &str, facts: &ImageFacts) -> Result<Vec<String>, Failure> {
    let mut first = vec!["/usr/local/cuda".to_owned()];
    if let Some(version) = facts.env.get("CUDA_VERSION") {
        let mut parts = version.split('.');
        if let (Some(major), Some(minor)) = (parts.next(), parts.next()) {
            first.push(format!("/usr/local/cuda-{major}.{minor}"));
        }
    }
    let found = existing(api, name, first).await?;
    if !found.is_empty() {
        return Ok(found);
    }
    let any = (11..=13).flat_map(|major| (0..=9).map(move |minor| format!("/usr/local/cuda-{major}.{minor}")));
    existing(api, name, any.collect()).await
}

/// Those of the paths that are there, in their order, each once, symbolic links followed.
pub(super) async fn existing(api: &Api, name: &str, paths: Vec<String>) -> Result<Vec<String>, Failure> {
    let looks = stream::iter(paths).map(|path| async move { api.resolve(name, &path).await }).buffered(LOOKS);
    let mut found = Vec::new();
    for path in looks.collect::<Vec<_>>().await {
        if let Some(path) = path?.filter(|path| !found.contains(path)) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The version in glibc's banner, `GNU C Library (Ubuntu GLIBC 2.35-0ubuntu3.8) stable release version 2.35.`
fn glibc_version(bytes: &[u8]) -> Option<String> {
    let find = |text: &[u8], part: &[u8]| text.windows(part.len()).position(|window| window == part);
    let banner = &bytes[find(bytes, b"GNU C Library")?..];
    let banner = &banner[..banner.len().min(200)];
    let mark = b"release version ";
    let version = &banner[find(banner, mark)? + mark.len()..];
    let version: String =
        version.iter().map(|byte| char::from(*byte)).take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let version = version.trim_end_matches('.');
    (!version.is_empty()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_out_of_its_tar_and_half_a_one_is_none() {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(700);
        tar.append_data(&mut header, "ctk-stack.json", &[7_u8; 700][..]).unwrap();
        let tar = tar.into_inner().unwrap();
        assert_eq!(content(&tar), Some(vec![7; 700]));
        assert_eq!(content(&tar[..1024]), None);
        assert_eq!(content(b""), None);
    }

    #[test]
    fn the_c_librarys_version_is_read_from_its_banner() {
        let version = |text: &str| glibc_version(format!("\u{0}\u{7f}ELF{text}\nCopyright").as_bytes());
        let ubuntu = "GNU C Library (Ubuntu GLIBC 2.35-0ubuntu3.8) stable release version 2.35.";
        assert_eq!(version(ubuntu).as_deref(), Some("2.35"));
        assert_eq!(version("GNU C Library (GNU libc) stable release version 2.34.").as_deref(), Some("2.34"));
        assert_eq!(version("GNU C Library (GNU libc) development release").as_deref(), None);
        assert_eq!(version("musl libc"), None);
    }
}
