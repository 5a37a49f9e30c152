//! Which ways bring a GPU into a container here, and why each other one does not. The main function is [`findings`].

use super::facts::{Engine, Facts};
use super::finding::Finding;
use crate::compat::explain::explain;
use crate::engine::attach::{CDI_API, EngineFeatures, GpuChoice, candidates};
use crate::engine::host_gpu::HostGpu;
use crate::model::outcome::Stage;
use crate::model::place::Place;

/// The ways, in the order in which they are shown.
pub(super) const WAYS: [GpuChoice; 4] = [GpuChoice::Request, GpuChoice::Runtime, GpuChoice::Cdi, GpuChoice::Devices];

const ATTACH: &str = "attach";

/// Why this engine and host do not offer a way at all, and the cure; none if only a try can tell.
pub(super) fn not_offered(way: GpuChoice, features: &EngineFeatures, host: &HostGpu) -> Option<(String, &'static str)> {
    if way == GpuChoice::Cdi && features.containers && features.api < CDI_API {
        let (major, minor) = features.api;
        let why = format!("the engine speaks API {major}.{minor}, which has no CDI");
        return Some((why, "update the engine to Docker 25 or later"));
    }
    if !candidates(way, &Place::Userland, features, host, None).is_empty() {
        return None;
    }
    Some(match way {
        GpuChoice::Runtime => (
            format!("the engine has no runtime `nvidia` (it has {})", list(&features.runtimes)),
            "install the NVIDIA Container Toolkit, then nvidia-ctk runtime configure --runtime=docker, and restart \
             the daemon",
        ),
        GpuChoice::Cdi => (
            "no CDI specification lists a device nvidia.com/gpu".into(),
            "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml; Docker before 28.2 also needs features.cdi",
        ),
        GpuChoice::Devices => {
            ("no libcuda.so.1 is where this host's loader looks".into(), "install NVIDIA's driver on this host")
        }
        GpuChoice::Request | GpuChoice::Auto | GpuChoice::Required | GpuChoice::None => {
            ("the engine starts no containers".into(), "start Docker")
        }
    })
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// One finding for each way.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    if !matches!(facts.engine, Engine::Docker { .. }) {
        return Vec::new();
    }
    let mut found: Vec<Finding> = WAYS.into_iter().map(|way| one(way, facts)).collect();
    let works = facts.tried.iter().any(|(_, result)| result.is_ok());
    if facts.host.kernel_driver && !works {
        found.push(Finding::problem(ATTACH, "this host has a GPU, and no way brings it into a container").cure(
            "mend one of the ways above; --gpu none builds and inspects without it, --engine process uses it \
                 without containers",
        ));
    }
    found
}

fn one(way: GpuChoice, facts: &Facts) -> Finding {
    let name = way.name();
    let tried = facts.tried.iter().find(|(tried, _)| *tried == name).map(|(_, result)| result);
    match (tried, not_offered(way, &facts.features, &facts.host)) {
        (Some(Ok(())), _) => Finding::ok(ATTACH, format!("{name}: a container on the host's user space sees the GPU")),
        (_, Some((why, cure))) if facts.host.present() => Finding::note(ATTACH, format!("{name}: {why}")).cure(cure),
        // Without a GPU there is nothing to be mended.
        (_, Some((why, _))) => Finding::ok(ATTACH, format!("{name}: not needed without a GPU; {why}")),
        (Some(Err(why)), None) => {
            let finding = Finding::note(ATTACH, format!("{name}: {why}"));
            match explain(Some(Stage::Start), None, why) {
                Some(known) => finding.cure(format!("{} ({})", known.remedy, known.what)),
                None => finding,
            }
        }
        (None, None) => Finding::ok(ATTACH, format!("{name}: not needed without a GPU")),
    }
}
