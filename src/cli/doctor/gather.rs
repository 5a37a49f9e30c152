//! Looks at this machine: the engine, the driver, pip, the cache. Nothing is changed; where there is a GPU, a container
//! is started for each way to bring it there, and removed again. The main function is [`gather`].

use std::fs;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};
use tokio::sync::watch;

use super::super::args::MatrixArguments;
use super::super::{context, elf, host};
use super::attach::{WAYS, not_offered};
use super::facts::{CacheFolder, Downloads, Engine as EngineFact, Facts};
use crate::engine::attach::{EngineFeatures, GpuChoice};
use crate::engine::docker::Docker;
use crate::engine::host_gpu::HostGpu;
use crate::engine::job::EngineError;
use crate::engine::process::Process;
use crate::engine::{Engine, EngineChoice};
use crate::model::arch::Arch;
use crate::model::record::{Gpu, GpuMode};
use crate::run::gpu::{GpuSetup, Search};
use crate::run::images::{Images, NVIDIA};
use crate::run::names::PathNames;
use crate::run::provision::{Provisioner, SourceChoice, wheels};
use crate::toolkit::{Cache, Pip};

/// Everything that [`super::findings`] needs.
pub(super) async fn gather(arguments: &MatrixArguments) -> Facts {
    let bench = context::bench(None).map_err(|failure| failure.to_string());
    // Without it there is still an engine to look at, which starts nothing then.
    let stand_in = bench.clone().ok().or_else(|| std::env::current_exe().ok()).unwrap_or_default();
    let docker = Docker::connect(stand_in.clone()).await;
    let (engine, features) = match &docker {
        Ok(docker) => {
            let info = docker.info();
            let fact = EngineFact::Docker {
                version: info.version.clone().unwrap_or_else(|| "unknown".into()),
                api: info.api.clone().unwrap_or_else(|| "unknown".into()),
                notes: docker.notes().to_vec(),
            };
            (fact, docker.features().clone())
        }
        Err(EngineError::Absent(why)) => (EngineFact::Absent(why.clone()), EngineFeatures::default()),
        Err(error) => (EngineFact::Refuses(error.to_string()), EngineFeatures::default()),
    };
    let gpu_host = HostGpu::detect(None);
    let usable = match docker {
        Ok(docker) => Some(Engine::Docker(docker)),
        Err(_) => Process::new(&stand_in).ok().map(Engine::Process),
    };
    let (gpu, tried) = match (&usable, &bench) {
        (Some(engine), Ok(_)) if gpu_host.present() => gpus(engine, &features, &gpu_host, &stand_in).await,
        _ => (None, Vec::new()),
    };
    let cache = Cache::locate().map_err(|error| error.to_string());
    let names = context::path_names(cache.as_ref().ok().map(Cache::root));
    let matrix = match (&usable, &cache) {
        (Some(engine), Ok(cache)) => downloads(arguments, engine, cache, &names).await,
        (None, _) => Err("what it needs cannot be told without ctk-bench".into()),
        (_, Err(why)) => Err(why.clone()),
    };
    let shown = |path: &Path| names.translate_text(&path.display().to_string(), &[]);
    Facts {
        engine,
        features,
        libcuda: gpu_host.libcuda.as_deref().and_then(libcuda_version),
        module: fs::read_to_string("/proc/driver/nvidia/version").ok().as_deref().and_then(module_version),
        host: gpu_host,
        gpu,
        tried,
        bench: bench.map(|path| (shown(&path), elf::glibc_floor(&path))),
        glibc: host::host().glibc,
        pip: Pip::default().version().await.map_err(|error| error.to_string()),
        matrix,
        cache: cache.map(|cache| folder(&cache)),
    }
}

/// The GPU, and what comes of each way to bring it into a container on the host's user space.
async fn gpus(
    engine: &Engine,
    features: &EngineFeatures,
    host: &HostGpu,
    bench: &Path,
) -> (Option<(Gpu, GpuMode)>, Vec<(&'static str, Result<(), String>)>) {
    let Ok(processes) = Engine::connect(EngineChoice::Process, bench.to_owned()).await else {
        return (None, Vec::new());
    };
    let env = super::super::run::handed_on();
    let (_keep, cancel) = watch::channel(false);
    let (device, run) = (host::visible_device(), host::run_id());
    let search = |choice| Search {
        engine,
        host: &processes,
        choice,
        device: device.as_deref(),
        run: &run,
        env: &env,
        cancel: &cancel,
    };
    let found = GpuSetup::find(&search(GpuChoice::Auto)).await;
    let gpu = found.as_ref().ok().and_then(|(setup, _)| Some((setup.gpu()?.clone(), setup.mode())));
    let mut tried = Vec::new();
    if gpu.is_some() && matches!(engine, Engine::Docker(_)) {
        for way in WAYS.into_iter().filter(|way| not_offered(*way, features, host).is_none()) {
            let search = search(way);
            let result = match GpuSetup::find(&search).await {
                Ok((setup, _)) => setup.attach_userland(&search).await.map(drop).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            tried.push((way.name(), result));
        }
    }
    (gpu, tried)
}

/// What the matrix needs from the network.
async fn downloads(
    arguments: &MatrixArguments,
    engine: &Engine,
    cache: &Cache,
    names: &PathNames,
) -> Result<Downloads, String> {
    let matrix = context::matrix(arguments).map_err(|failure| failure.to_string())?;
    let plan = context::plan(&matrix, arguments, Arch::WITHOUT_GPU).map_err(|failure| failure.to_string())?;
    let provisioner = Provisioner {
        cache: cache.clone(),
        pip: Pip::default(),
        source: SourceChoice::Auto,
        engine: engine.clone(),
        images: Images::of(NVIDIA.into()),
        lock: None,
        bench_glibc: None,
    };
    let missing = provisioner.downloads(&plan.toolkits).await.wheels;
    let origin = names.translate_text(&plan.origin, &[]);
    Ok(Downloads { origin, toolkits: plan.toolkits.len(), missing })
}

fn folder(cache: &Cache) -> CacheFolder {
    let root = cache.root();
    // It may not be there yet, and then counts where it will be made.
    let there = root.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let toolkits = crate::compat::catalogue::versions()
        .into_iter()
        .filter(|version| wheels(*version).is_some_and(|wheels| wheels.is_cached(cache)))
        .map(|version| version.to_string())
        .collect();
    CacheFolder {
        // The name that reports have for it is a variable, which says nothing here.
        folder: context::path_names(None).translate_text(&root.display().to_string(), &[]),
        writable: access(there, Access::WRITE_OK).is_ok(),
        free: statvfs(there).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)),
        toolkits,
    }
}

/// The version in the name of the file that `libcuda.so.1` leads to.
fn libcuda_version(libcuda: &Path) -> Option<String> {
    let real = fs::canonicalize(libcuda).ok()?;
    let version = real.file_name()?.to_str()?.strip_prefix("libcuda.so.")?.to_owned();
    version.contains('.').then_some(version)
}

/// The version in `/proc/driver/nvidia/version`: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  …`.
fn module_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let version = |word: &&str| {
        word.contains('.')
            && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    line.split_whitespace().find(version).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_s_version_is_read_from_both_kinds_of_modules() {
        let of = |line: &str| module_version(&format!("{line}\nGCC version: gcc version 12.2.0 (Debian)\n"));
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (root@x)";
        assert_eq!([of(closed), of(open)], ["535.104.05", "580.159.04"].map(|text| Some(text.to_owned())));
        assert_eq!(module_version("nothing"), None);
    }

    #[test]
    fn libcuda_s_version_is_in_the_name_of_the_file_behind_the_link() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("libcuda.so.1");
        fs::write(dir.path().join("libcuda.so.580.159.04"), "").unwrap();
        std::os::unix::fs::symlink("libcuda.so.580.159.04", &link).unwrap();
        assert_eq!(libcuda_version(&link).as_deref(), Some("580.159.04"));
        fs::remove_file(&link).unwrap();
        fs::write(&link, "").unwrap();
        assert_eq!(libcuda_version(&link), None);
    }
}
