//! What the doctor knows of a machine. Its main type is [`Facts`]: gathered by [`super::gather`], judged by
//! [`super::findings`], which needs no machine.

use crate::engine::attach::EngineFeatures;
use crate::engine::host_gpu::HostGpu;
use crate::model::record::{Gpu, GpuMode};
use crate::model::version::Version;

/// What is known of a machine.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) engine: Engine,
    /// What the engine says of itself; nothing where there is none.
    pub(super) features: EngineFeatures,
    /// Device nodes and driver libraries.
    pub(super) host: HostGpu,
    /// The version of the libcuda that the loader finds, from its file's name.
    pub(super) libcuda: Option<String>,
    /// The version of the kernel module.
    pub(super) module: Option<String>,
    /// The GPU that the driver showed, and whose driver it is.
    pub(super) gpu: Option<(Gpu, GpuMode)>,
    /// What came of each way to bring the GPU into a container, by its name; nothing where there is no GPU to bring.
    pub(super) tried: Vec<(&'static str, Result<(), String>)>,
    /// The program for the containers: where it is, and the newest GLIBC version that it asks for; or why there is
    /// none.
    pub(super) bench: Result<(String, Option<Version>), String>,
    /// The host's C library.
    pub(super) glibc: Option<String>,
    /// What `pip --version` said, or why there is none.
    pub(super) pip: Result<String, String>,
    /// The matrix and what it needs from the network, or why it cannot be read.
    pub(super) matrix: Result<Downloads, String>,
    /// Where wheels go.
    pub(super) cache: Result<CacheFolder, String>,
}

/// What jobs run on.
#[derive(Debug, Clone)]
pub(super) enum Engine {
    /// Containers.
    Docker { version: String, api: String, notes: Vec<String> },
    /// There is no engine: child processes take its place.
    Absent(String),
    /// There is one, and it cannot be used.
    Refuses(String),
}

/// What a matrix needs from the network.
#[derive(Debug, Clone)]
pub(super) struct Downloads {
    /// The matrix: `built-in`, or a file.
    pub(super) origin: String,
    /// How many toolkits it names.
    pub(super) toolkits: usize,
    /// Those that are neither in the cache nor an image on this machine, with the size of their wheels, bytes.
    pub(super) missing: Vec<(String, u64)>,
}

/// The folder that wheels are unpacked into.
#[derive(Debug, Clone)]
pub(super) struct CacheFolder {
    pub(super) folder: String,
    /// Whether it, or the folder it will be made in, may be written.
    pub(super) writable: bool,
    /// Bytes that are free there.
    pub(super) free: Option<u64>,
    /// Toolkits that are in it.
    pub(super) toolkits: Vec<String>,
}
