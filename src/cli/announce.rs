//! Says what a run will download before it does, and refuses what the user did not allow.
//! The main function is [`announce`].

use std::path::Path;

use super::exit::{Code, Failure};
use crate::engine::Engine;
use crate::model::plan::Plan;
use crate::model::units;
use crate::run::images::Downloads;
use crate::run::provision::Provisioner;

/// Disk that an image needs while it is unpacked, as a multiple of what is downloaded, in halves. 2.92 GB of the
/// 11.8.0-devel image are 7.37 GB on disk (2.5 times, moby issue 46425), and the compressed layers lie beside them.
const UNPACKED_HALVES: u64 = 7;

/// The lines that say what will be fetched. With `--max-download`, what is known to be more is refused, and pulls
/// whose size nobody knows are held to the rest.
pub(crate) async fn announce(
    provisioner: &mut Provisioner,
    plan: &Plan,
    max: Option<u64>,
) -> Result<Vec<String>, Failure> {
    let downloads = provisioner.downloads(&plan.toolkits).await;
    if let Some(max) = max {
        let known = downloads.known();
        let rest = max.checked_sub(known).ok_or_else(|| {
            let text = format!(
                "--max-download is {}, and {} would be fetched ({}): allow more, or narrow the run with --select",
                units::bytes(max),
                units::bytes(known),
                each(&downloads).join(", ")
            );
            Failure::new(Code::Usage, text)
        })?;
        provisioner.images.allow(rest);
    }
    let free = match &provisioner.engine {
        Engine::Docker(docker) if !downloads.images.is_empty() => docker.data_root().await.and_then(|root| free(&root)),
        Engine::Docker(_) | Engine::Process(_) => None,
    };
    Ok(lines(&downloads, max, free))
}

fn each(downloads: &Downloads) -> Vec<String> {
    let wheels = downloads.wheels.iter().map(|(name, bytes)| format!("{name} {}", units::bytes(*bytes)));
    let images = downloads.images.iter();
    let images = images.filter_map(|image| Some(format!("{} {}", image.toolkit, units::bytes(image.bytes?))));
    wheels.chain(images).collect()
}

fn lines(downloads: &Downloads, max: Option<u64>, free: Option<u64>) -> Vec<String> {
    let mut lines = Vec::new();
    let wheels: u64 = downloads.wheels.iter().map(|(_, bytes)| bytes).sum();
    if wheels > 0 {
        let parts = Downloads { images: Vec::new(), ..downloads.clone() };
        lines.push(format!("to download: {} of NVIDIA's wheels ({})", units::bytes(wheels), each(&parts).join(", ")));
    }
    let known: Vec<_> = downloads.images.iter().filter_map(|image| Some((image, image.bytes?))).collect();
    if !known.is_empty() {
        let total: u64 = known.iter().map(|(_, bytes)| bytes).sum();
        let parts: Vec<String> =
            known.iter().map(|(image, bytes)| format!("{} {}", image.reference, units::bytes(*bytes))).collect();
        let disk = total.saturating_mul(UNPACKED_HALVES) / 2;
        let room = match free {
            Some(free) if free < disk => format!("; the engine has only {} free", units::bytes(free)),
            Some(free) => format!(" of the {} that the engine has free", units::bytes(free)),
            None => String::new(),
        };
        let (total, parts) = (units::bytes(total), parts.join(", "));
        lines.push(format!("to pull: {total} of images ({parts}), about {} of disk{room}", units::bytes(disk)));
    }
    for image in downloads.images.iter().filter(|image| image.bytes.is_none()) {
        let limit = max.map_or(String::new(), |_| "; --max-download holds while it is pulled".into());
        lines.push(format!(
            "to pull: {}, of a size that is not known beforehand: the engine does not tell it, and `docker manifest \
             inspect` gave no answer{limit}",
            image.reference
        ));
    }
    lines
}

/// What is free where the engine keeps its images, if that is on this machine.
fn free(root: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(root).ok()?;
    facts.f_bavail.checked_mul(facts.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::images::ImageDownload;

    #[test]
    fn sizes_are_said_where_they_are_known_and_their_absence_is_said_too() {
        let image =
            |reference: &str, bytes| ImageDownload { toolkit: "12.6".into(), reference: reference.into(), bytes };
        let downloads = Downloads {
            wheels: vec![("12.0".into(), 23_400_000)],
            images: vec![image("a:1", Some(2_920_000_000)), image("b:1", None)],
        };
        let wheels = "to download: 23.4 MB of NVIDIA's wheels (12.0 23.4 MB)";
        let unknown = "to pull: b:1, of a size that is not known beforehand: the engine does not tell it, and `docker \
                       manifest inspect` gave no answer";
        assert_eq!(
            lines(&downloads, None, Some(53_000_000_000)),
            [
                wheels,
                "to pull: 2.92 GB of images (a:1 2.92 GB), about 10.2 GB of disk of the 53.0 GB that the engine has free",
                unknown
            ]
        );
        assert_eq!(
            lines(&downloads, Some(1), Some(1_000_000_000)),
            [
                wheels.to_owned(),
                "to pull: 2.92 GB of images (a:1 2.92 GB), about 10.2 GB of disk; the engine has only 1.00 GB free"
                    .into(),
                format!("{unknown}; --max-download holds while it is pulled"),
            ]
        );
        assert_eq!(lines(&Downloads::default(), None, None), [""; 0]);
        assert_eq!(downloads.known(), 2_943_400_000);
    }
}
