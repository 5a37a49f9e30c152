//! How a GPU reaches a job. Its main types are [`Attach`], one way, and [`GpuChoice`], what the user asked for.
//!
//! [`candidates`] puts the ways in the order in which they are tried. Which one works is only known inside: a container
//! may start and still have no GPU.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::cdi;
use super::host_gpu::HostGpu;
use crate::model::place::Place;

/// One way for a GPU to reach a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    /// It does not.
    None,
    /// A device request: `docker run --gpus`.
    Request {
        /// The GPU's UUID; none for all.
        uuid: Option<String>,
    },
    /// The `nvidia` runtime.
    Runtime {
        /// The GPU's UUID; none for all.
        uuid: Option<String>,
    },
    /// A CDI device.
    Cdi {
        /// `nvidia.com/gpu=0`.
        device: String,
    },
    /// Device nodes, and the driver's libraries mounted read-only.
    Devices {
        /// `/dev/nvidiactl` and its like.
        nodes: Vec<PathBuf>,
        /// The driver's libraries on the host, each under the name that it is asked for by.
        libraries: Vec<PathBuf>,
    },
}

impl Attach {
    /// The word used on the command line and in reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Request { .. } => "request",
            Self::Runtime { .. } => "runtime",
            Self::Cdi { .. } => "cdi",
            Self::Devices { .. } => "devices",
        }
    }

    /// The host's folder that the driver's libraries are taken from; none unless they are mounted or named by hand.
    #[must_use]
    pub fn library_folder(&self) -> Option<&Path> {
        match self {
            Self::Devices { libraries, .. } => libraries.first().and_then(|library| library.parent()),
            Self::None | Self::Request { .. } | Self::Runtime { .. } | Self::Cdi { .. } => None,
        }
    }
}

/// `--gpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuChoice {
    /// Every way that may work, none if the host has no GPU.
    #[default]
    Auto,
    /// The same, and it is an error if there is no GPU.
    Required,
    /// No GPU, though the host may have one.
    None,
    /// Only a device request.
    Request,
    /// Only the `nvidia` runtime.
    Runtime,
    /// Only a CDI device.
    Cdi,
    /// Only device nodes and mounted libraries.
    Devices,
}

impl GpuChoice {
    /// Every choice, in the order in which help lists them.
    pub const ALL: [Self; 7] =
        [Self::Auto, Self::Required, Self::None, Self::Request, Self::Runtime, Self::Cdi, Self::Devices];

    /// The word used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Required => "required",
            Self::None => "none",
            Self::Request => "request",
            Self::Runtime => "runtime",
            Self::Cdi => "cdi",
            Self::Devices => "devices",
        }
    }
}

/// The text is not a [`GpuChoice`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a way to attach a GPU: one of auto, required, none, request, runtime, cdi, devices")]
pub struct NotAGpuChoice(pub String);

impl FromStr for GpuChoice {
    type Err = NotAGpuChoice;

    fn from_str(text: &str) -> Result<Self, NotAGpuChoice> {
        Self::ALL.into_iter().find(|choice| choice.name() == text).ok_or_else(|| NotAGpuChoice(text.into()))
    }
}

/// What an engine says of itself that decides how a GPU can be attached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineFeatures {
    /// Whether it starts containers at all. A child process sees the host's devices as they are.
    pub containers: bool,
    /// The version of its API, `(1, 41)`.
    pub api: (u32, u32),
    /// Its runtimes, by name.
    pub runtimes: Vec<String>,
    /// The runtime that it uses when none is named.
    pub default_runtime: Option<String>,
    /// Where it looks for CDI specifications; empty if CDI is off.
    pub cdi_dirs: Vec<PathBuf>,
    /// The CDI devices that it lists itself (API 1.50 on).
    pub discovered: Vec<String>,
}

/// The first API that has a CDI device driver (Docker 25).
pub(crate) const CDI_API: (u32, u32) = (1, 44);

/// The ways to try, in order, each after the one before failed to start or showed no GPU inside. Empty if what was
/// asked for cannot be: then the run ends before anything starts. `wanted` is an index or UUID; an index is left to the
/// program inside, because CUDA's order of GPUs is not that of the device nodes.
#[must_use]
pub fn candidates(
    choice: GpuChoice,
    place: &Place,
    features: &EngineFeatures,
    host: &HostGpu,
    wanted: Option<&str>,
) -> Vec<Attach> {
    let uuid = wanted.filter(|wanted| wanted.starts_with("GPU-") || wanted.starts_with("MIG-")).map(str::to_owned);
    let request = features.containers.then(|| Attach::Request { uuid: uuid.clone() });
    let runtime = (features.containers && features.runtimes.iter().any(|name| name == "nvidia"))
        .then_some(Attach::Runtime { uuid });
    let devices = (!host.libraries.is_empty())
        .then(|| Attach::Devices { nodes: host.nodes_for(wanted), libraries: host.libraries.clone() });
    let cdi = || {
        if !features.containers {
            return None;
        }
        let listed =
            if features.discovered.is_empty() { cdi::listed(&features.cdi_dirs) } else { features.discovered.clone() };
        cdi::choose(&listed, wanted).map(|device| Attach::Cdi { device })
    };
    let ways = match choice {
        GpuChoice::None => vec![Some(Attach::None)],
        GpuChoice::Request => vec![request],
        GpuChoice::Runtime => vec![runtime],
        GpuChoice::Cdi => vec![cdi()],
        GpuChoice::Devices => vec![devices],
        GpuChoice::Auto if !host.present() => vec![Some(Attach::None)],
        GpuChoice::Auto | GpuChoice::Required => {
            let cdi = if features.api >= CDI_API { cdi() } else { None };
            // A host without NVIDIA's kernel driver has nothing for the engine's own ways to find; a libcuda that
            // was named by hand can still be mounted.
            let own = host.kernel_driver;
            match place {
                Place::Image { .. } if own => vec![request, runtime, cdi, devices],
                // The container toolkit's hooks write below `/usr`, which is bound read-only: their start fails.
                Place::Userland if own => vec![devices, cdi, runtime, request],
                Place::Image { .. } | Place::Userland => vec![devices],
            }
        }
    };
    ways.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docker() -> EngineFeatures {
        EngineFeatures {
            containers: true,
            api: (1, 50),
            runtimes: vec!["nvidia".into(), "runc".into()],
            default_runtime: Some("runc".into()),
            cdi_dirs: vec![],
            discovered: vec!["nvidia.com/gpu=0".into(), "nvidia.com/gpu=all".into()],
        }
    }

    fn gpu_host() -> HostGpu {
        HostGpu {
            kernel_driver: true,
            control_nodes: vec!["/dev/nvidiactl".into()],
            gpu_nodes: vec!["/dev/nvidia0".into()],
            gpus: vec![],
            libcuda: Some("/usr/lib/libcuda.so.1".into()),
            libraries: vec!["/usr/lib/libcuda.so.1".into()],
        }
    }

    fn image() -> Place {
        Place::Image { id: "sha256:0".into(), reference: "nvidia/cuda:12.6".into() }
    }

    fn names(ways: &[Attach]) -> Vec<&'static str> {
        ways.iter().map(Attach::name).collect()
    }

    fn order(choice: GpuChoice, place: &Place, features: &EngineFeatures, host: &HostGpu) -> Vec<&'static str> {
        names(&candidates(choice, place, features, host, None))
    }

    #[test]
    fn images_try_the_engine_first_and_the_userland_tries_device_nodes_first() {
        let (features, host) = (docker(), gpu_host());
        assert_eq!(order(GpuChoice::Auto, &image(), &features, &host), ["request", "runtime", "cdi", "devices"]);
        assert_eq!(
            order(GpuChoice::Auto, &Place::Userland, &features, &host),
            ["devices", "cdi", "runtime", "request"]
        );
    }

    #[test]
    fn what_the_engine_cannot_do_is_not_tried() {
        let old = EngineFeatures { api: (1, 41), runtimes: vec!["runc".into()], ..docker() };
        assert_eq!(order(GpuChoice::Auto, &image(), &old, &gpu_host()), ["request", "devices"]);
        assert_eq!(order(GpuChoice::Runtime, &image(), &old, &gpu_host()), [""; 0]);
        // Asked for by name, CDI is tried whatever the engine's version.
        assert_eq!(order(GpuChoice::Cdi, &image(), &old, &gpu_host()), ["cdi"]);
    }

    #[test]
    fn a_host_without_a_gpu_runs_without_one_unless_it_is_required() {
        let (features, host) = (docker(), HostGpu::default());
        assert_eq!(order(GpuChoice::Auto, &image(), &features, &host), ["none"]);
        assert_eq!(order(GpuChoice::Required, &image(), &features, &host), [""; 0]);
        assert_eq!(order(GpuChoice::None, &image(), &features, &gpu_host()), ["none"]);
    }

    #[test]
    fn a_libcuda_without_a_kernel_driver_is_mounted_and_nothing_else() {
        let host = HostGpu { kernel_driver: false, control_nodes: vec![], gpu_nodes: vec![], ..gpu_host() };
        let ways = candidates(GpuChoice::Auto, &image(), &docker(), &host, None);
        assert_eq!(ways, [Attach::Devices { nodes: vec![], libraries: vec!["/usr/lib/libcuda.so.1".into()] }]);
    }

    #[test]
    fn a_child_process_has_only_the_hosts_own_devices() {
        let process = EngineFeatures::default();
        assert_eq!(order(GpuChoice::Auto, &Place::Userland, &process, &gpu_host()), ["devices"]);
        assert_eq!(order(GpuChoice::Cdi, &Place::Userland, &process, &gpu_host()), [""; 0]);
    }

    #[test]
    fn a_uuid_is_handed_on_and_an_index_is_left_to_the_program_inside() {
        let uuid = "GPU-11111111-2222-3333-4444-555555555555";
        let ways = |wanted| candidates(GpuChoice::Request, &image(), &docker(), &gpu_host(), Some(wanted));
        assert_eq!(ways(uuid), [Attach::Request { uuid: Some(uuid.into()) }]);
        assert_eq!(ways("1"), [Attach::Request { uuid: None }]);
    }

    #[test]
    fn every_choice_reads_back_from_its_name() {
        for choice in GpuChoice::ALL {
            assert_eq!(choice.name().parse(), Ok(choice));
        }
        assert_eq!("gpu".parse::<GpuChoice>(), Err(NotAGpuChoice("gpu".into())));
    }
}
