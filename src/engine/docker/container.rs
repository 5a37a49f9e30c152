//! What a job's container is: the body of the engine's create call, with no more rights than the job needs.
//! The main function is [`body`].

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, DeviceMapping, DeviceRequest, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
    ResourcesUlimits,
};

use super::super::attach::Attach;
use super::super::handover::{Handover, View};
use super::super::job::{EngineError, JobSpec};
use super::super::owner::Owner;
use super::{LABEL_JOB, LABEL_OWNER, LABEL_RUN, upload};

const BENCH: &str = "/ctk/bin/ctk-bench";
const REQUEST: &str = "/ctk/in/request.json";
const TOOLKIT: &str = "/ctk/toolkit";
const WORK: &str = "/ctk/work";
const HOME: &str = "/ctk/work/home";
/// Where the driver's libraries are mounted for [`Attach::Devices`].
pub(super) const DRIVER: &str = "/ctk/driver";

/// `nobody` on every distribution.
const USER: &str = "65534:65534";
/// Where programs are looked for where the image does not say it.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How a container sees what it is handed.
pub(super) fn view() -> View<'static> {
    View {
        bench: Path::new(BENCH),
        request: Some(Path::new(REQUEST)),
        toolkit: Some(Path::new(TOOLKIT)),
        work: Path::new(WORK),
    }
}

/// The file system that a container starts from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Base {
    /// The image's id.
    pub(super) image: String,
    /// The image's environment.
    pub(super) env: BTreeMap<String, String>,
    /// The host's folders, and where they are bound.
    pub(super) folders: Vec<(PathBuf, &'static str)>,
    /// Whether the engine labels files for `SELinux`.
    pub(super) selinux: bool,
    /// Whether the engine sees no files of this machine: then a volume takes the place of binds.
    pub(super) upload: bool,
    /// Whether the engine is Podman, which has other log drivers.
    pub(super) podman: bool,
}

/// A name that nobody can guess, so that nobody can take it first.
pub(super) fn unguessable_name() -> Result<String, EngineError> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes)
        .map_err(|error| EngineError::Setup(format!("the system gives no random numbers: {error}")))?;
    Ok(bytes.iter().fold("ctk-matrix-".to_owned(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    }))
}

/// The labels by which a container is found again.
pub(super) fn labels(run: &str, job: &str) -> HashMap<String, String> {
    let mut labels = HashMap::from([(LABEL_RUN.into(), run.into()), (LABEL_JOB.into(), job.into())]);
    // Without an owner, `gc` leaves the container alone.
    let owner = Owner::this_process().map_or_else(|| "unknown".into(), |owner| owner.to_string());
    labels.insert(LABEL_OWNER.into(), owner);
    labels
}

/// The container of a job.
pub(super) fn body(spec: &JobSpec, base: &Base, handover: &Handover, bench: &Path) -> ContainerCreateBody {
    let mut command = handover.command.clone();
    let arguments = command.split_off(1);
    let mut host = least_privilege(spec, base);
    host.mounts = Some(if base.upload { vec![upload::volume()] } else { mounts(spec, base, handover, bench) });
    attach(&spec.attach, &mut host);
    let mut job_labels = labels(&spec.run, &spec.job);
    if base.upload {
        // On the engine's machine this process looks like one that is gone, and `gc` there would remove the container.
        job_labels.insert(LABEL_OWNER.into(), "remote".into());
    }
    ContainerCreateBody {
        image: Some(base.image.clone()),
        entrypoint: Some(command),
        cmd: Some(arguments),
        env: Some(environment(spec, base)),
        user: Some(USER.into()),
        // The engine makes the working folder in the image, and runc 1.1 then keeps that folder's mode over the tmpfs's:
        // the work folder could not be written to.
        working_dir: Some("/".into()),
        tty: Some(false),
        open_stdin: Some(false),
        network_disabled: Some(true),
        // An image may ask for another signal, or for its own idea of health.
        stop_signal: Some("SIGTERM".into()),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }),
        labels: Some(job_labels),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

fn least_privilege(spec: &JobSpec, base: &Base) -> HostConfig {
    let memory = i64::try_from(spec.limits.memory).unwrap_or(i64::MAX);
    // What is written to a tmpfs counts as the container's memory.
    let share = |part: u64, most: u64| (spec.limits.memory / part).min(most);
    let tmpfs = |exec: &str, size: u64| format!("rw,{exec},nosuid,nodev,size={size},mode=1777");
    let mut security = vec!["no-new-privileges".to_owned()];
    if base.selinux {
        // Relabelling the host's own /usr for a container would break the host.
        security.push("label=disable".into());
    }
    HostConfig {
        network_mode: Some("none".into()),
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(security),
        privileged: Some(false),
        pids_limit: Some(i64::from(spec.limits.pids)),
        memory: Some(memory),
        // Equal to the memory: no swap.
        memory_swap: Some(memory),
        ipc_mode: Some("none".into()),
        // Without an init, the job is process 1 and a signal that it sends itself is ignored.
        init: Some(true),
        auto_remove: Some(false),
        tmpfs: Some(HashMap::from([
            ("/tmp".into(), tmpfs("noexec", share(2, 2 << 30))),
            (WORK.into(), tmpfs("exec", share(2, 8 << 30))),
            (HOME.into(), tmpfs("exec", share(4, 1 << 30))),
        ])),
        ulimits: Some(ulimits(base.podman)),
        log_config: Some(log(base.podman)),
        ..HostConfig::default()
    }
}

/// No core dumps. Podman asks for a million open files and four million processes where nothing is said, and cannot start
/// a container where it may not raise its own limits so far.
fn ulimits(podman: bool) -> Vec<ResourcesUlimits> {
    /// More than a compiler or the driver takes, and less than every login has.
    const ENOUGH: i64 = 4096;
    let limits: &[(&str, i64)] =
        if podman { &[("core", 0), ("nofile", ENOUGH), ("nproc", ENOUGH)] } else { &[("core", 0)] };
    let limit = |(name, value): &(&str, i64)| ResourcesUlimits {
        name: Some((*name).into()),
        soft: Some(*value),
        hard: Some(*value),
    };
    limits.iter().map(limit).collect()
}

/// Where output goes until it is read: 128 MiB of it at most.
fn log(podman: bool) -> HostConfigLogConfig {
    let options: &[(&str, &str)] =
        if podman { &[("max-size", "128m")] } else { &[("max-size", "64m"), ("max-file", "2"), ("compress", "false")] };
    HostConfigLogConfig {
        typ: Some(if podman { "k8s-file" } else { "local" }.into()),
        config: Some(options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()),
    }
}

fn mounts(spec: &JobSpec, base: &Base, handover: &Handover, bench: &Path) -> Vec<Mount> {
    let bind = |host: &Path, inside: &str| Mount {
        typ: Some(MountType::BIND),
        source: Some(host.display().to_string()),
        target: Some(inside.into()),
        read_only: Some(true),
        ..Mount::default()
    };
    let mut mounts: Vec<Mount> = base.folders.iter().map(|(host, inside)| bind(host, inside)).collect();
    mounts.push(bind(bench, BENCH));
    mounts.extend(handover.request.iter().map(|file| bind(file, REQUEST)));
    mounts.extend(handover.toolkit.iter().map(|folder| bind(folder, TOOLKIT)));
    mounts.extend(handover.folders.iter().map(|(folder, inside)| bind(folder, &inside.display().to_string())));
    if let Attach::Devices { libraries, .. } = &spec.attach {
        for library in libraries {
            let name = library.file_name().unwrap_or_default().display();
            let real = std::fs::canonicalize(library).unwrap_or_else(|_| library.clone());
            mounts.push(bind(&real, &format!("{DRIVER}/{name}")));
        }
    }
    mounts
}

fn attach(attach: &Attach, host: &mut HostConfig) {
    match attach {
        Attach::None => {}
        Attach::Request { uuid } => {
            host.device_requests = Some(vec![DeviceRequest {
                driver: Some(String::new()),
                // A count and device ids exclude each other; -1 is all.
                count: uuid.is_none().then_some(-1),
                device_ids: uuid.clone().map(|uuid| vec![uuid]),
                capabilities: Some(vec![vec!["gpu".into(), "compute".into(), "utility".into()]]),
                options: None,
            }]);
        }
        Attach::Runtime { .. } => host.runtime = Some("nvidia".into()),
        Attach::Cdi { device } => {
            host.device_requests = Some(vec![DeviceRequest {
                driver: Some("cdi".into()),
                device_ids: Some(vec![device.clone()]),
                ..DeviceRequest::default()
            }]);
        }
        Attach::Devices { nodes, .. } => {
            let mapping = |node: &PathBuf| DeviceMapping {
                path_on_host: Some(node.display().to_string()),
                path_in_container: Some(node.display().to_string()),
                cgroup_permissions: Some("rwm".into()),
            };
            host.devices = Some(nodes.iter().map(mapping).collect());
        }
    }
}

/// The environment, sorted. A name without `=` takes the image's variable away.
fn environment(spec: &JobSpec, base: &Base) -> Vec<String> {
    let mut env: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for name in base.env.keys().filter(|name| meddles(name)) {
        env.insert(name, None);
    }
    let mut set = |name, value: &str| env.insert(name, Some(value.to_owned()));
    set("HOME", HOME);
    set("TMPDIR", "/tmp");
    set("LANG", "C.UTF-8");
    set("PATH", base.env.get("PATH").map_or(PATH, String::as_str));
    set("CUDA_CACHE_DISABLE", "1");
    // With a default runtime of `nvidia`, an image that asks for GPUs would get them unasked by us; `void` is none.
    let visible = match &spec.attach {
        Attach::Request { uuid } | Attach::Runtime { uuid } => uuid.as_deref().unwrap_or("all"),
        Attach::None | Attach::Cdi { .. } | Attach::Devices { .. } => "void",
    };
    set("NVIDIA_VISIBLE_DEVICES", visible);
    set("NVIDIA_DRIVER_CAPABILITIES", "compute,utility");
    if let Attach::Devices { .. } = spec.attach {
        let further = base.env.get("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
        set("LD_LIBRARY_PATH", &further.map_or_else(|| DRIVER.into(), |path| format!("{DRIVER}:{path}")));
    }
    for (name, value) in &spec.env {
        env.insert(name, Some(value.clone()));
    }
    let line = |(name, value): (&str, Option<String>)| value.map_or_else(|| name.into(), |v| format!("{name}={v}"));
    env.into_iter().map(line).collect()
}

/// Whether an image's variable changes what the loader, the driver or nvcc does. What names the image's toolkit, and
/// what the container toolkit checks the driver against, is the image's own affair.
fn meddles(name: &str) -> bool {
    let driver = name.starts_with("CUDA_") && !matches!(name, "CUDA_VERSION" | "CUDA_HOME" | "CUDA_PATH");
    let toolkit = name.starts_with("NVIDIA_") && !name.starts_with("NVIDIA_REQUIRE_");
    let loader = name.starts_with("LD_") && name != "LD_LIBRARY_PATH";
    driver || toolkit || loader || name.starts_with("NVCC_") || name == "GLIBC_TUNABLES"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::job::BenchTask;
    use crate::model::matrix::Limits;
    use crate::model::place::Place;

    fn spec(attach: Attach) -> JobSpec {
        JobSpec {
            run: "r".into(),
            job: "j".into(),
            place: Place::Userland,
            task: BenchTask::Probe { nonce: "00".into(), device: None },
            attach,
            limits: Limits { timeout_ms: 1000, memory: 1 << 30, pids: 64 },
            deadline: Duration::from_secs(1),
            env: BTreeMap::from([("CUDA_VISIBLE_DEVICES".into(), "0".into())]),
        }
    }

    fn made(attach: Attach, env: &[(&str, &str)]) -> ContainerCreateBody {
        let spec = spec(attach);
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let base = Base { image: "sha256:1".into(), env, ..Base::default() };
        let handover = Handover::prepare(&spec.task, view()).unwrap();
        body(&spec, &base, &handover, Path::new("/opt/ctk-bench"))
    }

    #[test]
    fn an_images_variables_that_meddle_are_taken_away_and_its_own_affairs_stay() {
        let image = [
            ("CUDA_FORCE_PTX_JIT", "1"),
            ("CUDA_VERSION", "12.6.3"),
            ("CUDA_VISIBLE_DEVICES", "7"),
            ("LD_AUDIT", "x"),
            ("NVCC_APPEND_FLAGS", "-O0"),
            ("NVIDIA_REQUIRE_CUDA", "cuda>=12.6"),
            ("NVIDIA_VISIBLE_DEVICES", "all"),
            ("PATH", "/usr/local/cuda/bin:/bin"),
        ];
        assert_eq!(
            made(Attach::None, &image).env.unwrap(),
            [
                "CUDA_CACHE_DISABLE=1",
                "CUDA_FORCE_PTX_JIT",
                "CUDA_VISIBLE_DEVICES=0",
                "HOME=/ctk/work/home",
                "LANG=C.UTF-8",
                "LD_AUDIT",
                "NVCC_APPEND_FLAGS",
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
                "NVIDIA_VISIBLE_DEVICES=void",
                "PATH=/usr/local/cuda/bin:/bin",
                "TMPDIR=/tmp",
            ]
        );
    }

    #[test]
    fn each_way_to_attach_a_gpu_has_its_own_fields() {
        let host = |attach| made(attach, &[]).host_config.unwrap();
        let request = |attach| host(attach).device_requests.unwrap().remove(0);
        let all = request(Attach::Request { uuid: None });
        assert_eq!((all.count, all.device_ids), (Some(-1), None));
        let one = request(Attach::Request { uuid: Some("GPU-1".into()) });
        assert_eq!((one.count, one.device_ids), (None, Some(vec!["GPU-1".into()])));
        let cdi = request(Attach::Cdi { device: "nvidia.com/gpu=0".into() });
        assert_eq!((cdi.driver.as_deref(), cdi.count, cdi.options), (Some("cdi"), None, None));
        assert_eq!(host(Attach::Runtime { uuid: None }).runtime.as_deref(), Some("nvidia"));
    }

    #[test]
    fn device_nodes_come_with_the_drivers_libraries_in_one_folder() {
        let attach = Attach::Devices { nodes: vec!["/dev/nvidia0".into()], libraries: vec!["/x/libcuda.so.1".into()] };
        let body = made(attach, &[("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")]);
        assert!(body.env.unwrap().contains(&"LD_LIBRARY_PATH=/ctk/driver:/usr/local/nvidia/lib64".to_owned()));
        let host = body.host_config.unwrap();
        let mounts = host.mounts.unwrap();
        assert!(mounts.iter().all(|mount| mount.read_only == Some(true)));
        let targets: Vec<_> = mounts.into_iter().filter_map(|mount| mount.target).collect();
        assert_eq!(targets, [BENCH, "/ctk/driver/libcuda.so.1"]);
        assert_eq!(host.devices.unwrap()[0].path_in_container.as_deref(), Some("/dev/nvidia0"));
    }
}
