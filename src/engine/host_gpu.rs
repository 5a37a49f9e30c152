//! What the host has of a GPU: device nodes, what `/proc/driver/nvidia` says, and the driver's libraries.
//! Its main type is [`HostGpu`]. Nothing here opens a driver; it only looks at names.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The libraries that belong to the driver and that CUDA opens by name, by the part before `.so`
/// (`compute_libs` and `utility_libs` of NVIDIA's container toolkit, without `OpenCL`).
const STEMS: [&str; 13] = [
    "libcuda",
    "libcudadebugger",
    "libnvidia-allocator",
    "libnvidia-cfg",
    "libnvidia-fatbinaryloader",
    "libnvidia-gpucomp",
    "libnvidia-ml",
    "libnvidia-nvvm",
    "libnvidia-nvvm70",
    "libnvidia-pkcs11",
    "libnvidia-pkcs11-openssl3",
    "libnvidia-ptxjitcompiler",
    "libnvidia-tileiras",
];

/// Folders that hold libcuda on common systems, after `LD_LIBRARY_PATH` and `/etc/ld.so.conf`.
const USUAL_FOLDERS: [&str; 7] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib64/nvidia",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
];

/// What the host has of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostGpu {
    /// Whether NVIDIA's kernel driver is there.
    pub kernel_driver: bool,
    /// `/dev/nvidiactl`, `/dev/nvidia-uvm` and their like, needed whichever GPU is used.
    pub control_nodes: Vec<PathBuf>,
    /// `/dev/nvidia0` and up.
    pub gpu_nodes: Vec<PathBuf>,
    /// The GPUs that `/proc/driver/nvidia` describes.
    pub gpus: Vec<GpuNode>,
    /// The libcuda that the loader would find.
    pub libcuda: Option<PathBuf>,
    /// The driver's libraries beside it.
    pub libraries: Vec<PathBuf>,
}

/// Which device node a GPU has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuNode {
    /// `GPU-…`.
    pub uuid: String,
    /// The number in `/dev/nvidiaN`.
    pub minor: u32,
}

/// Whether NVIDIA's kernel driver is on this host: a run that then finds no GPU inside its containers has failed.
#[must_use]
pub fn host_has_gpu() -> bool {
    has_kernel_driver(Path::new("/"))
}

fn has_kernel_driver(root: &Path) -> bool {
    root.join("proc/driver/nvidia").exists() || root.join("dev/nvidiactl").exists()
}

impl HostGpu {
    /// Looks at this host. `libcuda` is the one to use; none to look where the loader looks.
    #[must_use]
    pub fn detect(libcuda: Option<PathBuf>) -> Self {
        Self::detect_below(Path::new("/"), libcuda.or_else(find_libcuda))
    }

    fn detect_below(root: &Path, libcuda: Option<PathBuf>) -> Self {
        let (control_nodes, gpu_nodes) = nodes(root);
        Self {
            kernel_driver: has_kernel_driver(root),
            control_nodes,
            gpu_nodes,
            gpus: gpus(root),
            libraries: libcuda.as_deref().map(driver_libraries).unwrap_or_default(),
            libcuda,
        }
    }

    /// Whether there is anything to attach.
    #[must_use]
    pub fn present(&self) -> bool {
        self.kernel_driver || self.libcuda.is_some()
    }

    /// The device nodes for one GPU by UUID, or all of them: for an index, for a MIG device (its parent is not told
    /// by its UUID), for a UUID that `/proc` does not show, and where nothing is wanted.
    #[must_use]
    pub fn nodes_for(&self, wanted: Option<&str>) -> Vec<PathBuf> {
        let one = wanted
            .and_then(|wanted| self.gpus.iter().find(|gpu| gpu.uuid == wanted))
            .and_then(|gpu| self.gpu_nodes.iter().find(|node| node.ends_with(format!("nvidia{}", gpu.minor))));
        let gpus = one.map_or_else(|| self.gpu_nodes.clone(), |node| vec![node.clone()]);
        self.control_nodes.iter().cloned().chain(gpus).collect()
    }
}

/// Control nodes, and one node a GPU.
fn nodes(root: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let control = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"].map(|name| root.join("dev").join(name));
    let mut control: Vec<PathBuf> = control.into_iter().filter(|node| node.exists()).collect();
    // MIG devices are opened through these.
    control.extend(entries(&root.join("dev/nvidia-caps")));
    let gpu = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.strip_prefix("nvidia")
            .is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
    };
    (control, entries(&root.join("dev")).into_iter().filter(gpu).collect())
}

fn gpus(root: &Path) -> Vec<GpuNode> {
    let folders = entries(&root.join("proc/driver/nvidia/gpus"));
    let read = |folder: PathBuf| {
        let text = fs::read_to_string(folder.join("information")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            Some(line?.trim_start().strip_prefix(':')?.trim().to_owned())
        };
        Some(GpuNode { uuid: field("GPU UUID")?, minor: field("Device Minor")?.parse().ok()? })
    };
    folders.into_iter().filter_map(read).collect()
}

/// The libcuda that the loader would find: `LD_LIBRARY_PATH`, the folders of `/etc/ld.so.conf`, the usual folders.
/// Only the name `libcuda.so.1` counts: the toolkit's stub is called `libcuda.so`.
#[must_use]
pub fn find_libcuda() -> Option<PathBuf> {
    let listed = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = env::split_paths(&listed).filter(|folder| folder.is_absolute());
    folders
        .chain(configured_folders())
        .chain(USUAL_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join("libcuda.so.1"))
        .find(|library| library.is_file())
}

/// Whether the loader finds libraries in `folder` by itself.
pub(crate) fn is_searched(folder: &Path) -> bool {
    let usual = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].map(PathBuf::from);
    usual.into_iter().chain(configured_folders()).any(|searched| searched == folder)
}

fn configured_folders() -> Vec<PathBuf> {
    let files = std::iter::once(PathBuf::from("/etc/ld.so.conf")).chain(entries(Path::new("/etc/ld.so.conf.d")));
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    texts
        .flat_map(|text| {
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
            lines.filter(|line| line.starts_with('/')).map(PathBuf::from).collect::<Vec<_>>()
        })
        .collect()
}

/// The driver's libraries in the folder of `libcuda`, under every name that something asks for them by: `.so.1`, and
/// the full version. Libraries of another driver version, left behind by an upgrade, are not among them.
#[must_use]
pub fn driver_libraries(libcuda: &Path) -> Vec<PathBuf> {
    let Some(folder) = libcuda.parent() else { return Vec::new() };
    let real = fs::canonicalize(libcuda).unwrap_or_else(|_| libcuda.to_owned());
    let version = real.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix("libcuda.so."));
    let belongs = |path: &PathBuf| {
        let Some((stem, suffix)) = path.file_name().and_then(OsStr::to_str).and_then(|name| name.split_once(".so."))
        else {
            return false;
        };
        let soname = suffix.bytes().all(|byte| byte.is_ascii_digit());
        STEMS.contains(&stem) && (soname || Some(suffix) == version) && path.is_file()
    };
    entries(folder).into_iter().filter(belongs).collect()
}

/// The paths in a folder, sorted; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(read) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A host with two GPUs, whose device nodes are plain files.
    fn host(root: &Path) -> HostGpu {
        let touch = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        for node in ["nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia-modeset", "null"] {
            touch(&format!("dev/{node}"));
        }
        for (bus, uuid, minor) in [("0000:01:00.0", "GPU-aaaa", 1), ("0000:02:00.0", "GPU-bbbb", 0)] {
            let folder = root.join("proc/driver/nvidia/gpus").join(bus);
            fs::create_dir_all(&folder).unwrap();
            let text = format!("Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n");
            fs::write(folder.join("information"), text).unwrap();
        }
        HostGpu::detect_below(root, None)
    }

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect()
    }

    #[test]
    fn a_uuid_picks_its_own_node_by_minor_number() {
        let root = tempfile::tempdir().unwrap();
        let host = host(root.path());
        assert!(host.kernel_driver && host.present());
        assert_eq!(names(&host.nodes_for(Some("GPU-aaaa"))), ["nvidiactl", "nvidia-uvm", "nvidia1"]);
        for wanted in [None, Some("0"), Some("MIG-cccc")] {
            assert_eq!(names(&host.nodes_for(wanted)), ["nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"]);
        }
    }

    #[test]
    fn libraries_of_the_drivers_own_version_are_taken_under_each_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::write(dir.path().join(name), "").unwrap();
        for name in ["libcuda.so.580.159.04", "libcuda.so.570.1", "libnvidia-gpucomp.so.580.159.04", "libc.so.6"] {
            file(name);
        }
        file("libnvidia-ptxjitcompiler.so.580.159.04");
        symlink("libcuda.so.580.159.04", dir.path().join("libcuda.so.1")).unwrap();
        symlink("libcuda.so.1", dir.path().join("libcuda.so")).unwrap();
        symlink("libnvidia-ptxjitcompiler.so.580.159.04", dir.path().join("libnvidia-ptxjitcompiler.so.1")).unwrap();
        symlink("gone", dir.path().join("libnvidia-ml.so.1")).unwrap();
        assert_eq!(
            names(&driver_libraries(&dir.path().join("libcuda.so.1"))),
            [
                "libcuda.so.1",
                "libcuda.so.580.159.04",
                "libnvidia-gpucomp.so.580.159.04",
                "libnvidia-ptxjitcompiler.so.1",
                "libnvidia-ptxjitcompiler.so.580.159.04",
            ]
        );
    }

    #[test]
    fn a_host_without_the_kernel_driver_has_nothing_to_attach() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(HostGpu::detect_below(root.path(), None), HostGpu::default());
        assert!(!HostGpu::default().present());
    }
}
