//! Machines of every kind put before the doctor, without any of them being there.

use super::facts::{CacheFolder, Downloads, Engine, Facts};
use super::findings::findings;
use super::{ready, text, to_json};
use crate::engine::attach::EngineFeatures;
use crate::engine::host_gpu::HostGpu;
use crate::model::arch::Arch;
use crate::model::record::{Gpu, GpuMode};
use crate::model::version::Version;

/// A machine with Docker, without a GPU, with everything in the cache.
fn machine() -> Facts {
    Facts {
        engine: Engine::Docker { version: "28.5.2".into(), api: "1.51".into(), notes: vec![] },
        features: EngineFeatures {
            containers: true,
            api: (1, 51),
            runtimes: vec!["runc".into()],
            cdi_dirs: vec!["/nonexistent".into()],
            ..EngineFeatures::default()
        },
        host: HostGpu::default(),
        libcuda: None,
        module: None,
        gpu: None,
        tried: vec![],
        bench: Ok(("$HOME/.cargo/bin/ctk-bench".into(), Some(Version::new(2, 17)))),
        glibc: Some("2.36".into()),
        pip: Ok("pip 23.0.1, python 3.11".into()),
        matrix: Ok(Downloads { origin: "built-in".into(), toolkits: 5, missing: vec![] }),
        cache: Ok(CacheFolder {
            folder: "$HOME/.cache/ctk-matrix".into(),
            writable: true,
            free: Some(50_000_000_000),
            toolkits: vec!["12.0".into(), "13.0".into()],
        }),
    }
}

/// The same with an H200 and driver 580.
fn with_gpu() -> Facts {
    let gpu = Gpu {
        name: "NVIDIA H200".into(),
        uuid: "GPU-1".into(),
        cc: Arch::new(9, 0),
        driver: "580.159.04".into(),
        cuda: Version::new(13, 0),
        l2_bytes: 62_914_560,
        peak_gbps: None,
    };
    Facts {
        host: HostGpu {
            kernel_driver: true,
            libcuda: Some("/usr/lib/libcuda.so.1".into()),
            libraries: vec!["/usr/lib/libcuda.so.1".into()],
            ..HostGpu::default()
        },
        libcuda: Some("580.159.04".into()),
        module: Some("580.159.04".into()),
        gpu: Some((gpu, GpuMode::Real)),
        tried: vec![
            ("request", Err("could not select device driver \"\" with capabilities: [[gpu]]".into())),
            ("devices", Ok(())),
        ],
        ..machine()
    }
}

/// The problems, and whether the main job can run.
fn problems(facts: &Facts) -> Vec<String> {
    let found = findings(facts);
    let shown: Vec<_> = text(&found).lines().filter(|line| line.starts_with("problem")).map(str::to_owned).collect();
    assert_eq!(shown.is_empty(), ready(&found));
    shown
}

#[test]
fn a_machine_without_a_gpu_is_ready_and_says_what_it_has() {
    let expected = "\
ok       engine     Docker's API 1.51, version 28.5.2
ok       ctk-bench  $HOME/.cargo/bin/ctk-bench needs glibc 2.17, and this host has 2.36
ok       driver     no NVIDIA driver on this host: everything is built and inspected, and nothing launched
ok       attach     request: not needed without a GPU
ok       attach     runtime: not needed without a GPU; the engine has no runtime `nvidia` (it has runc)
ok       attach     cdi: not needed without a GPU; no CDI specification lists a device nvidia.com/gpu
ok       attach     devices: not needed without a GPU; no libcuda.so.1 is where this host's loader looks
ok       matrix     built-in: all of its 5 toolkits are on this machine
ok       pip        pip 23.0.1, python 3.11
ok       cache      $HOME/.cache/ctk-matrix: toolkits 12.0, 13.0
ok       disk       50.0 GB free for the cache, 0 B needed

the main job can run: ctk-matrix run
";
    assert_eq!(text(&findings(&machine())), expected);
}

#[test]
fn with_a_gpu_each_way_to_it_says_why_it_works_or_not() {
    let found = text(&findings(&with_gpu()));
    let expected = "\
ok       driver     580.159.04, CUDA 13.0: PTX up to ISA 9.0, so that PTX of toolkits 13.1, 13.2, 13.3, 13.4, 13.5 fails with 222; cubins of toolkits up to 13.x
ok       gpu        NVIDIA H200 (compute capability 9.0)
note     attach     request: could not select device driver \"\" with capabilities: [[gpu]]
                    remedy: install it and restart the daemon, or use --gpu devices (the engine knows no way to give a GPU to a container)
note     attach     runtime: the engine has no runtime `nvidia` (it has runc)
                    remedy: install the NVIDIA Container Toolkit, then nvidia-ctk runtime configure --runtime=docker, and restart the daemon
note     attach     cdi: no CDI specification lists a device nvidia.com/gpu
                    remedy: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml; Docker before 28.2 also needs features.cdi
ok       attach     devices: a container on the host's user space sees the GPU
";
    let middle: Vec<_> = found.lines().skip(2).take(9).map(|line| format!("{line}\n")).collect();
    assert_eq!(middle.concat(), expected);
    assert_eq!(problems(&with_gpu()), [""; 0]);
    let json = to_json(&with_gpu(), &findings(&with_gpu()));
    assert_eq!((&json["ready"], &json["attach"]), (&true.into(), &serde_json::json!(["devices"])));
    assert_eq!(json["gpu"]["driver"], "580.159.04");
}

#[test]
fn what_keeps_the_main_job_from_running_is_a_problem_with_its_cure() {
    let no_way = Facts { tried: vec![("devices", Err("it started, and shows no GPU".into()))], ..with_gpu() };
    assert_eq!(problems(&no_way), ["problem  attach     this host has a GPU, and no way brings it into a container"]);
    let stale = Facts { module: Some("570.1".into()), ..with_gpu() };
    assert_eq!(problems(&stale), ["problem  driver     libcuda is 580.159.04, and the loaded kernel module is 570.1"]);
    let refused = Facts { engine: Engine::Refuses("/var/run/docker.sock may not be opened".into()), ..machine() };
    assert_eq!(problems(&refused), ["problem  engine     /var/run/docker.sock may not be opened"]);
    let no_bench = Facts { bench: Err("there is no ctk-bench".into()), ..machine() };
    assert_eq!(problems(&no_bench), ["problem  ctk-bench  there is no ctk-bench"]);
    let newer = Facts { bench: Ok(("b".into(), Some(Version::new(2, 39)))), ..machine() };
    assert_eq!(problems(&newer), ["problem  ctk-bench  b needs glibc 2.39, and this host has 2.36"]);
    let no_matrix = Facts { matrix: Err("matrix.yaml:1:1: wrong".into()), ..machine() };
    assert_eq!(problems(&no_matrix), ["problem  matrix     matrix.yaml:1:1: wrong"]);
}

#[test]
fn pip_the_cache_and_the_disk_matter_where_something_has_to_be_fetched() {
    let poor = |missing: Vec<(String, u64)>| Facts {
        pip: Err("`python3 -m pip` does not exist".into()),
        matrix: Ok(Downloads { origin: "matrix.yaml".into(), toolkits: 2, missing }),
        cache: Ok(CacheFolder { folder: "/c".into(), writable: false, free: Some(100_000_000), toolkits: vec![] }),
        ..machine()
    };
    assert_eq!(problems(&poor(vec![])), [""; 0]);
    assert_eq!(
        problems(&poor(vec![("12.6".into(), 26_000_000)])),
        [
            "problem  pip        `python3 -m pip` does not exist",
            "problem  cache      /c may not be written",
            "problem  disk       100 MB free for the cache, 104 MB needed",
        ]
    );
}

#[test]
fn an_absent_engine_leaves_child_processes() {
    let absent = Facts {
        engine: Engine::Absent("there is no socket at /var/run/docker.sock".into()),
        features: EngineFeatures::default(),
        ..with_gpu()
    };
    assert_eq!(problems(&absent), [""; 0]);
    let found = text(&findings(&absent));
    assert!(found.contains("child processes take the place of containers"), "{found}");
    assert!(!found.contains("attach"), "{found}");
}
