//! A toolkit that is in an image: what an engine found in it becomes a [`Provisioned`], or a refusal.
//! Pure: the engine inspects, this decides. The main function is [`provisioned`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::dir::major_minor;
use crate::model::matrix::Toolkit;
use crate::model::path::Family;
use crate::model::place::{ImageFacts, Place, Provisioned};
use crate::model::record::{ImageSource, Source, SourceKind};
use crate::model::version::Version;

/// Why an image is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// It would load libraries into every program.
    #[error(
        "image `{reference}` sets LD_PRELOAD={value}, which would be loaded into everything that is measured: name an image without it"
    )]
    Preload {
        /// The image.
        reference: String,
        /// The variable's value.
        value: String,
    },
    /// It is for another processor.
    #[error("image `{reference}` is for {found}, this machine is {host}: pull it with `--platform linux/{host}`")]
    OtherProcessor {
        /// The image.
        reference: String,
        /// The image's.
        found: String,
        /// This machine's.
        host: String,
    },
    /// It holds another toolkit.
    #[error(
        "image `{reference}` holds toolkit {found} (CUDA_VERSION={value}), and its entry says {claimed}: correct `version` or `image` in the matrix"
    )]
    OtherVersion {
        /// The image.
        reference: String,
        /// The entry's version.
        claimed: Version,
        /// The image's.
        found: Version,
        /// The variable's value.
        value: String,
    },
}

/// Base systems of the nvidia/cuda images, in the order in which they are looked for: the first is the one that most
/// versions from 11.8 on have.
const SYSTEMS: [&str; 4] = ["ubuntu22.04", "ubuntu24.04", "ubuntu20.04", "rockylinux8"];

/// NVIDIA's images of a version, by its full number, best first: `12.6.3` is `nvidia/cuda:12.6.3-devel-ubuntu22.04`.
/// `repository` is `nvidia/cuda`, or a mirror of it.
#[must_use]
pub fn default_references(repository: &str, full: &str) -> Vec<String> {
    SYSTEMS.iter().map(|system| format!("{repository}:{full}-devel-{system}")).collect()
}

/// The toolkit of an entry, in the image that its reference names.
pub fn provisioned(toolkit: &Toolkit, facts: &ImageFacts, reference: &str) -> Result<Provisioned, ImageError> {
    usable(facts, reference, docker_arch(std::env::consts::ARCH))?;
    if let Some(value) = facts.env.get("CUDA_VERSION")
        && let Some(found) = major_minor(value)
        && found != toolkit.version
    {
        let (reference, value) = (reference.to_owned(), value.clone());
        return Err(ImageError::OtherVersion { reference, claimed: toolkit.version, found, value });
    }
    let roots = if facts.roots.is_empty() {
        vec![PathBuf::from(format!("/usr/local/cuda-{}", toolkit.version)), "/usr/local/cuda".into()]
    } else {
        facts.roots.clone()
    };
    let mut absent = Vec::new();
    if !facts.nvcc {
        absent.push((Family::Nvcc, "a base or runtime image carries no nvcc: use the -devel- image".to_owned()));
    }
    if !facts.nvrtc {
        let reason = "a base image carries no libnvrtc: use the -runtime- or -devel- image";
        absent.push((Family::Nvrtc, reason.to_owned()));
    }
    Ok(Provisioned {
        toolkit: toolkit.clone(),
        source: Source {
            kind: SourceKind::Image,
            reference: reference.to_owned(),
            digest: Some(facts.digests.first().unwrap_or(&facts.id).clone()),
            image: Some(source(facts)),
        },
        place: Place::Image { id: facts.id.clone(), reference: reference.to_owned() },
        dir: None,
        roots,
        hashes: BTreeMap::new(),
        absent,
        notes: notes(toolkit, facts),
    })
}

/// What of an image goes into the record.
fn source(facts: &ImageFacts) -> ImageSource {
    let digest = |name: &String| name.split_once('@').map(|(_, digest)| digest.to_owned());
    ImageSource {
        id: facts.id.clone(),
        index_digest: facts.index_digest.clone().or_else(|| facts.digests.first().and_then(digest)),
        platform_digest: facts.platform_digest.clone(),
        glibc: facts.glibc.clone(),
        require_cuda: facts.env.get("NVIDIA_REQUIRE_CUDA").filter(|require| !require.is_empty()).cloned(),
        compat: facts.compat.as_ref().map(|folder| folder.display().to_string()),
    }
}

/// Gives wheels or a folder the user space of the image that their entry names as `base:`.
pub fn on_base(provisioned: Provisioned, facts: &ImageFacts, reference: &str) -> Result<Provisioned, ImageError> {
    usable(facts, reference, docker_arch(std::env::consts::ARCH))?;
    let mut notes = provisioned.notes;
    notes.extend(self::notes(&provisioned.toolkit, facts));
    let place = Place::Image { id: facts.id.clone(), reference: reference.to_owned() };
    Ok(Provisioned { place, notes, ..provisioned })
}

fn usable(facts: &ImageFacts, reference: &str, host: &str) -> Result<(), ImageError> {
    let reference = reference.to_owned();
    if facts.arch != host {
        return Err(ImageError::OtherProcessor { reference, found: facts.arch.clone(), host: host.to_owned() });
    }
    match facts.env.get("LD_PRELOAD") {
        Some(value) if !value.is_empty() => Err(ImageError::Preload { reference, value: value.clone() }),
        Some(_) | None => Ok(()),
    }
}

/// The name that images have for a processor.
fn docker_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn notes(toolkit: &Toolkit, facts: &ImageFacts) -> Vec<String> {
    let name = &toolkit.name;
    let mut notes = Vec::new();
    if let Some(compat) = &facts.compat {
        notes.push(format!(
            "{name}: its image carries forward-compatibility libraries ({}): whether one was loaded is in the cells",
            compat.display()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::matrix::ToolkitSource;

    const REFERENCE: &str = "nvidia/cuda:12.6.3-devel-ubuntu22.04";

    fn entry() -> Toolkit {
        let source = ToolkitSource::Image(REFERENCE.into());
        Toolkit { name: "12.6".into(), version: Version::new(12, 6), source, base: None }
    }

    fn facts(env: &[(&str, &str)]) -> ImageFacts {
        ImageFacts {
            id: "sha256:aa".into(),
            arch: docker_arch(std::env::consts::ARCH).into(),
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            nvcc: true,
            nvrtc: true,
            ..ImageFacts::default()
        }
    }

    #[test]
    fn a_devel_image_has_everything_and_is_named_by_its_digest() {
        assert_eq!(default_references("nvidia/cuda", "12.6.3")[0], REFERENCE);
        let digests = vec!["nvidia/cuda@sha256:bb".to_owned()];
        let facts = ImageFacts { digests, ..facts(&[("CUDA_VERSION", "12.6.3")]) };
        let expected = Provisioned {
            toolkit: entry(),
            source: Source {
                kind: SourceKind::Image,
                reference: REFERENCE.into(),
                digest: Some("nvidia/cuda@sha256:bb".into()),
                image: Some(ImageSource {
                    id: "sha256:aa".into(),
                    index_digest: Some("sha256:bb".into()),
                    ..ImageSource::default()
                }),
            },
            place: Place::Image { id: "sha256:aa".into(), reference: REFERENCE.into() },
            dir: None,
            roots: vec!["/usr/local/cuda-12.6".into(), "/usr/local/cuda".into()],
            hashes: BTreeMap::new(),
            absent: vec![],
            notes: vec![],
        };
        assert_eq!(provisioned(&entry(), &facts, REFERENCE), Ok(expected));
    }

    #[test]
    fn what_an_image_lacks_is_foreseen_and_what_may_interfere_is_noted() {
        let facts = ImageFacts {
            nvcc: false,
            nvrtc: false,
            roots: vec!["/opt/cuda".into()],
            compat: Some("/usr/local/cuda/compat".into()),
            ..facts(&[("NVIDIA_REQUIRE_CUDA", "cuda>=12.6 brand=tesla,driver>=470"), ("LD_PRELOAD", "")])
        };
        let found = provisioned(&entry(), &facts, "base").unwrap();
        let families: Vec<_> = found.absent.iter().map(|(family, _)| *family).collect();
        assert_eq!(families, [Family::Nvcc, Family::Nvrtc]);
        assert_eq!(found.roots, [PathBuf::from("/opt/cuda")]);
        assert_eq!(found.source.digest.as_deref(), Some("sha256:aa"));
        let image = ImageSource {
            id: "sha256:aa".into(),
            require_cuda: Some("cuda>=12.6 brand=tesla,driver>=470".into()),
            compat: Some("/usr/local/cuda/compat".into()),
            ..ImageSource::default()
        };
        assert_eq!(found.source.image, Some(image));
        assert_eq!(
            found.notes,
            ["12.6: its image carries forward-compatibility libraries (/usr/local/cuda/compat): whether one was \
                 loaded is in the cells",]
        );
    }

    #[test]
    fn a_preload_another_version_and_another_processor_are_refused() {
        let refuse = |facts: &ImageFacts| provisioned(&entry(), facts, "i").unwrap_err().to_string();
        let refused = [
            refuse(&facts(&[("LD_PRELOAD", "/x.so")])),
            refuse(&facts(&[("CUDA_VERSION", "12.4.1")])),
            refuse(&ImageFacts { arch: "s390x".into(), ..facts(&[]) }),
        ];
        let host = docker_arch(std::env::consts::ARCH);
        assert_eq!(
            refused,
            [
                "image `i` sets LD_PRELOAD=/x.so, which would be loaded into everything that is measured: name an image \
                 without it"
                    .to_owned(),
                "image `i` holds toolkit 12.4 (CUDA_VERSION=12.4.1), and its entry says 12.6: correct `version` or \
                 `image` in the matrix"
                    .to_owned(),
                format!("image `i` is for s390x, this machine is {host}: pull it with `--platform linux/{host}`"),
            ]
        );
    }
}
