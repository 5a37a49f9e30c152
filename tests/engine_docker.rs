//! Jobs in real containers: what they may do, how each way to end is told, and that nothing is left.
//! Without a Docker daemon these tests say that they did not run; `CTK_TEST_REQUIRE_DOCKER=1` makes that a failure.

mod engine_support;

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use bollard::query_parameters::{CreateImageOptionsBuilder, ListContainersOptionsBuilder, RemoveImageOptions};
use ctk_matrix::engine::attach::Attach;
use ctk_matrix::engine::docker::{Docker, Fate};
use ctk_matrix::engine::host_gpu::host_has_gpu;
use ctk_matrix::engine::job::{BenchTask, EngineError, JobEnd, JobEvent, JobExit, JobSpec};
use ctk_matrix::model::place::Place;
use ctk_matrix::model::wire::Request;
use engine_support::{Bench, Tar, job, request};
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};

/// The engine with this script as its `ctk-bench`; none if there is no daemon.
async fn docker(bench: &Bench) -> Option<Docker> {
    match Docker::connect(bench.path()).await {
        Ok(docker) => Some(docker),
        Err(EngineError::Absent(why)) => {
            assert!(std::env::var_os("CTK_TEST_REQUIRE_DOCKER").is_none(), "Docker is required: {why}");
            eprintln!("not run: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A second client, so that what the engine says is checked by something else.
fn client() -> bollard::Docker {
    bollard::Docker::connect_with_defaults().unwrap()
}

async fn left(run: &str) -> Vec<String> {
    let filters = HashMap::from([("label", vec![format!("ctk-matrix.run={run}")])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    client().list_containers(Some(options)).await.unwrap().into_iter().filter_map(|found| found.id).collect()
}

/// Runs a job to its end and sees to it that no container is left.
async fn run(docker: &Docker, spec: &JobSpec) -> Result<JobEnd, EngineError> {
    let (events, _seen) = mpsc::unbounded_channel();
    let (_user, cancel) = watch::channel(false);
    let end = docker.run(spec, events, cancel).await;
    assert_eq!(left(&spec.run).await, [""; 0], "a container is left");
    end
}

/// Runs a job and interrupts it when `moment` comes; gives its end and how long it took from the interruption.
async fn interrupted(docker: &Docker, spec: &JobSpec, moment: Moment) -> (Result<JobEnd, EngineError>, Duration) {
    let (events, mut seen) = mpsc::unbounded_channel();
    let (user, cancel) = watch::channel(false);
    let interrupt = async {
        match moment {
            Moment::After(time) => tokio::time::sleep(time).await,
            Moment::Output => while !matches!(seen.recv().await, Some(JobEvent::Output(_)) | None) {},
        }
        user.send(true).unwrap();
        Instant::now()
    };
    let (end, sent) = tokio::join!(docker.run(spec, events, cancel), interrupt);
    let took = sent.elapsed();
    assert_eq!(left(&spec.run).await, [""; 0], "a container is left");
    (end, took)
}

enum Moment {
    After(Duration),
    Output,
}

async fn import(tag: &str, tar: Vec<u8>, changes: &[&str]) -> String {
    let changes = changes.iter().map(|change| (*change).to_owned()).collect();
    let repo = format!("ctk-matrix-test-{}", std::process::id());
    let options = CreateImageOptionsBuilder::new().from_src("-").repo(&repo).tag(tag).changes(changes).build();
    let client = client();
    let mut answers = Box::pin(client.create_image(Some(options), Some(bollard::body_full(tar.into())), None));
    while let Some(answer) = answers.next().await {
        answer.unwrap();
    }
    format!("{repo}:{tag}")
}

fn text(end: &JobEnd) -> String {
    String::from_utf8_lossy(&end.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_has_no_more_rights_than_it_needs() {
    let bench = Bench::script(
        r#"
        grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\t ' ' '
        echo "user $(id -u):$(id -g) in $(pwd)"
        touch /x 2>/dev/null && echo 'root is writable'
        touch /usr/x 2>/dev/null && echo '/usr is writable'
        echo "interfaces: $(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | tr '\n' ' ')"
        for dir in /tmp /ctk/work "$HOME"; do
            printf '#!/bin/sh\necho runs' > "$dir/a" && chmod +x "$dir/a"
            echo "$dir: $("$dir/a" 2>/dev/null || echo 'does not run')"
        done
        echo "pids: $(cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null)"
        echo "memory: $(cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null)"
        echo "core: $(ulimit -c)"
        [ -e /dev/shm ] && echo 'shared memory'
        [ -t 0 ] || [ -t 1 ] && echo 'a terminal'
        [ "$(head -c 1 | wc -c)" = 0 ] && echo 'no input'
        env | grep -v -E '^(HOSTNAME|PWD|OLDPWD|_|SHLVL)=' | sort
        "#,
    );
    let Some(docker) = docker(&bench).await else { return };
    let end = run(&docker, &job("rights")).await.unwrap();
    let expected = "CapBnd: 0000000000000000\n\
        CapEff: 0000000000000000\n\
        NoNewPrivs: 1\n\
        Seccomp: 2\n\
        user 65534:65534 in /\n\
        interfaces: lo \n\
        /tmp: does not run\n\
        /ctk/work: runs\n\
        /ctk/work/home: runs\n\
        pids: 77\n\
        memory: 536870912\n\
        core: 0\n\
        no input\n\
        CUDA_CACHE_DISABLE=1\n\
        HOME=/ctk/work/home\n\
        LANG=C.UTF-8\n\
        NVIDIA_DRIVER_CAPABILITIES=compute,utility\n\
        NVIDIA_VISIBLE_DEVICES=void\n\
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
        TMPDIR=/tmp\n";
    let order = |text: &str| {
        // The kernel's own order of the capability lines is of no interest.
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(order(&text(&end)), order(expected), "{}", end.stderr);
    assert_eq!((end.exit, end.stdout_cut), (JobExit::Code(0), false));
    assert!(end.start_ms > 0.0 && end.run_ms > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_signals_and_memory_are_told_apart() {
    let bench = Bench::script(
        r#"
        echo "out $5"; echo "err $5" >&2
        case "$5" in
        code) exit 3;;
        crash) kill -SEGV $$; sleep 9;;
        oom) head -c 300m /dev/zero | tail -n 1;;
        child) (head -c 300m /dev/zero | tail -n 1); exit 0;;
        esac
        "#,
    );
    let Some(docker) = docker(&bench).await else { return };
    let ends = [
        ("code", JobExit::Code(3)),
        ("crash", JobExit::Signal(11)),
        ("oom", JobExit::Oom { code: 137 }),
        ("child", JobExit::Oom { code: 0 }),
    ];
    for (name, exit) in ends {
        let mut spec = job(name);
        spec.task = BenchTask::Probe { nonce: "00".into(), device: Some(name.into()) };
        spec.limits.memory = 64 << 20;
        let end = run(&docker, &spec).await.unwrap();
        assert_eq!((end.exit, text(&end)), (exit, format!("out {name}\n")));
        assert!(end.stderr.starts_with(&format!("err {name}\n")), "{}", end.stderr);
    }
}

const STUBBORN: &str = "trap '' TERM; echo started; while :; do sleep 1; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ignores_sigterm_ends_at_its_deadline_with_its_output_kept() {
    let bench = Bench::script(STUBBORN);
    let Some(docker) = docker(&bench).await else { return };
    let mut spec = job("deadline");
    spec.deadline = Duration::from_secs(1);
    let end = run(&docker, &spec).await.unwrap();
    assert_eq!((end.exit, text(&end).as_str()), (JobExit::Timeout, "started\n"));
    assert!(end.run_ms < 5000.0, "{}", end.run_ms);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_in_mid_run_ends_a_stubborn_job_within_six_seconds() {
    let bench = Bench::script(STUBBORN);
    let Some(docker) = docker(&bench).await else { return };
    let (end, took) = interrupted(&docker, &job("cancel"), Moment::Output).await;
    assert_eq!(end.map(|end| (end.exit, text(&end))), Ok((JobExit::Cancelled, "started\n".into())));
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_at_any_moment_leaves_no_container() {
    let bench = Bench::script("exec sleep 30");
    let Some(docker) = docker(&bench).await else { return };
    for step in 0..16_u64 {
        let moment = Moment::After(Duration::from_millis(step * step * 2));
        let (end, took) = interrupted(&docker, &job(&format!("early-{step}")), moment).await;
        assert_eq!(end.map(|end| end.exit), Ok(JobExit::Cancelled));
        assert!(took < Duration::from_secs(6), "step {step}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_still_removes_its_container() {
    let bench = Bench::script("exec sleep 30");
    let Some(docker) = docker(&bench).await else { return };
    let spec = job("dropped");
    let (events, mut seen) = mpsc::unbounded_channel();
    let (_user, cancel) = watch::channel(false);
    tokio::select! {
        _ = docker.run(&spec, events, cancel) => panic!("it ended"),
        started = seen.recv() => assert_eq!(started, Some(JobEvent::Started)),
    }
    let until = Instant::now() + Duration::from_secs(10);
    while !left(&spec.run).await.is_empty() {
        assert!(Instant::now() < until, "a container is left");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_beyond_the_cap_is_cut_and_the_last_of_stderr_is_kept() {
    let bench = Bench::script("head -c 80m /dev/zero | tr '\\0' x; yes err | head -n 50000 >&2; echo END >&2");
    let Some(docker) = docker(&bench).await else { return };
    let end = run(&docker, &job("flood")).await.unwrap();
    assert_eq!((end.exit, end.stdout.len(), end.stdout_cut), (JobExit::Code(0), 64 << 20, true));
    assert!(end.stdout.iter().all(|byte| *byte == b'x'));
    assert_eq!(end.stderr.len(), 64 << 10);
    assert!(end.stderr.ends_with("err\nEND\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_is_a_start_failure_in_the_engines_words() {
    let bench = Bench::script("exit 0");
    let Some(docker) = docker(&bench).await else { return };
    let mut spec = job("no-image");
    spec.place = Place::Image { id: format!("sha256:{}", "0".repeat(64)), reference: "none:1".into() };
    let error = run(&docker, &spec).await.unwrap_err();
    assert!(matches!(&error, EngineError::Start { text } if text.starts_with("no such image: none:1")), "{error}");

    // The image is there, and cannot run a script: it has no shell.
    let image = import("no-shell", Tar::default().finish(), &[]).await;
    let id = docker.inspect_image(&image).await.unwrap().unwrap().id;
    spec.place = Place::Image { id, reference: image.clone() };
    let error = run(&docker, &spec).await.unwrap_err();
    client().remove_image(&image, None::<RemoveImageOptions>, None).await.unwrap();
    assert!(matches!(&error, EngineError::Start { text } if text.contains("needs an image with glibc")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_request_without_a_gpu_runtime_is_a_start_failure() {
    let bench = Bench::script("exit 0");
    let Some(docker) = docker(&bench).await else { return };
    if host_has_gpu() || docker.features().runtimes.iter().any(|name| name == "nvidia") {
        eprintln!("not run: this engine has a GPU runtime");
        return;
    }
    let starts = |attach| {
        let spec = JobSpec { attach, ..job("gpu") };
        let docker = &docker;
        async move { run(docker, &spec).await.unwrap_err() }
    };
    let EngineError::Start { text } = starts(Attach::Request { uuid: None }).await else { panic!("no start failure") };
    assert!(text.contains("could not select device driver \"\" with capabilities: [[gpu"), "{text}");
    let EngineError::Start { text } = starts(Attach::Runtime { uuid: None }).await else { panic!("no start failure") };
    assert!(text.contains("nvidia"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_that_cannot_run_is_told_before_anything_starts() {
    let bench = Bench::script("exit 0");
    if docker(&bench).await.is_none() {
        return;
    }
    let absent = Docker::connect(bench.dir.path().join("none")).await.map(drop).unwrap_err();
    assert!(matches!(&absent, EngineError::Setup(text) if text.contains("--bench")), "{absent}");
    fs::set_permissions(bench.path(), std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();
    let private = Docker::connect(bench.path()).await.map(drop).unwrap_err();
    assert!(matches!(&private, EngineError::Setup(text) if text.contains("chmod a+rx")), "{private}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_and_its_toolkit_are_seen_at_the_containers_own_paths() {
    let bench = Bench::script("cat \"$3\"; echo; cat /ctk/toolkit/nvvm/marker; touch /ctk/toolkit/x 2>&1 || true");
    let Some(docker) = docker(&bench).await else { return };
    let toolkit = bench.dir.path().join("toolkit");
    fs::create_dir_all(toolkit.join("nvvm")).unwrap();
    fs::write(toolkit.join("nvvm/marker"), "12.6").unwrap();
    // The container's user must get in.
    fs::set_permissions(bench.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut spec = job("request");
    spec.task = BenchTask::Run {
        request: Box::new(request(&toolkit)),
        toolkit_dir: Some(toolkit.clone()),
        folders: Vec::new(),
    };
    let end = run(&docker, &spec).await.unwrap();
    let text = text(&end);
    let (first, rest) = text.split_once('\n').unwrap();
    let mut expected = request(std::path::Path::new("/ctk/toolkit"));
    expected.work = "/ctk/work".into();
    assert_eq!(serde_json::from_str::<Request>(first).unwrap(), expected);
    assert!(rest.starts_with("12.6touch:") && rest.contains("Read-only file system"), "{rest}");
    assert_eq!(end.mapped, [("/ctk/toolkit".into(), toolkit)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drivers_libraries_are_mounted_where_the_loader_looks() {
    let bench = Bench::script("echo \"$LD_LIBRARY_PATH\"; ls /ctk/driver; cat /ctk/driver/libcuda.so.1");
    let Some(docker) = docker(&bench).await else { return };
    let library = bench.dir.path().join("libcuda.so.1");
    fs::write(bench.dir.path().join("libcuda.so.580.1"), "driver").unwrap();
    std::os::unix::fs::symlink("libcuda.so.580.1", &library).unwrap();
    let libraries = ctk_matrix::engine::host_gpu::driver_libraries(&library);
    let mut spec = job("driver");
    spec.attach = Attach::Devices { nodes: vec![], libraries };
    let end = run(&docker, &spec).await.unwrap();
    assert_eq!(text(&end), "/ctk/driver\nlibcuda.so.1\nlibcuda.so.580.1\ndriver", "{}", end.stderr);
    assert_eq!(end.mapped, [("/ctk/driver".into(), bench.dir.path().into())]);
}

/// The host's shell and the libraries that it needs, as an image's file system.
fn shell() -> Vec<u8> {
    let listed = std::process::Command::new("ldd").arg("/bin/sh").output().unwrap().stdout;
    let listed = String::from_utf8(listed).unwrap();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    let files = libraries.chain(["/bin/sh"]);
    files.fold(Tar::default(), |tar, file| tar.file(&file[1..], &fs::read(file).unwrap())).finish()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_brings_its_own_files_and_none_of_its_variables_that_meddle() {
    let bench = Bench::script("read -r first < /ctk/toolkit/marker; echo \"$first\" > \"$HOME/a\" && export -p");
    let Some(docker) = docker(&bench).await else { return };
    let toolkit = bench.dir.path().join("toolkit");
    fs::create_dir(&toolkit).unwrap();
    fs::write(toolkit.join("marker"), "12.6\n").unwrap();
    let image = import(
        "shell",
        shell(),
        &[
            "ENV CUDA_VERSION=12.6.3 CUDA_FORCE_PTX_JIT=1 NVIDIA_VISIBLE_DEVICES=all NVCC_APPEND_FLAGS=-g LD_AUDIT=x",
            "ENV PATH=/usr/local/cuda/bin:/bin HOME=/nowhere",
            "ENTRYPOINT [\"/none\"]",
            "WORKDIR /gone",
            "USER root",
        ],
    )
    .await;
    let facts = docker.inspect_image(&image).await.unwrap().unwrap();
    let mut spec = job("image");
    spec.place = Place::Image { id: facts.id, reference: image.clone() };
    spec.task =
        BenchTask::Run { request: Box::new(request(&toolkit)), toolkit_dir: Some(toolkit), folders: Vec::new() };
    let end = run(&docker, &spec).await;
    client().remove_image(&image, None::<RemoveImageOptions>, None).await.unwrap();
    let end = end.unwrap();
    let text = text(&end).replace('\'', "").replace("export ", "");
    let ours = |line: &&str| !["HOSTNAME", "PWD", "OLDPWD"].iter().any(|name| line.starts_with(name));
    let mut seen: Vec<&str> = text.lines().filter(ours).collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            "CUDA_CACHE_DISABLE=1",
            "CUDA_VERSION=12.6.3",
            "HOME=/ctk/work/home",
            "LANG=C.UTF-8",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            "NVIDIA_VISIBLE_DEVICES=void",
            "PATH=/usr/local/cuda/bin:/bin",
            "TMPDIR=/tmp",
        ],
        "{}",
        end.stderr
    );
    assert_eq!(end.exit, JobExit::Code(0), "{}", end.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_read_without_being_started() {
    let bench = Bench::script("exit 0");
    let Some(docker) = docker(&bench).await else { return };
    let cuda = "usr/local/cuda-12.6";
    let libc = b"\x7fELF GNU C Library (Ubuntu GLIBC 2.35-0ubuntu3.8) stable release version 2.35.\n";
    let runtime = || {
        Tar::default()
            .link("usr/local/cuda", "/etc/alternatives/cuda")
            .link("etc/alternatives/cuda", "/usr/local/cuda-12.6")
            .link(&format!("{cuda}/lib64"), "targets/x86_64-linux/lib")
            .file(&format!("{cuda}/targets/x86_64-linux/lib/libnvrtc.so.12.6.85"), b"")
            .link(&format!("{cuda}/targets/x86_64-linux/lib/libnvrtc.so.12"), "libnvrtc.so.12.6.85")
            .link("lib", "usr/lib")
            .file("usr/lib/x86_64-linux-gnu/libc.so.6", libc)
    };
    let changes = ["ENV CUDA_VERSION=12.6.3", "ENTRYPOINT [\"/opt/nvidia/nvidia_entrypoint.sh\"]"];
    let devel =
        runtime().file(&format!("{cuda}/bin/nvcc"), b"").file(&format!("{cuda}/compat/libcuda.so.1"), b"").finish();
    let images = [
        import("devel", devel, &changes).await,
        import("runtime", runtime().finish(), &changes).await,
        // A link that leads nowhere, and a C library that is not glibc.
        import("bare", Tar::default().link("usr/local/cuda", "/gone").file("lib64/libc.so.6", b"musl").finish(), &[])
            .await,
    ];
    let mut facts = Vec::new();
    for image in &images {
        facts.push(docker.inspect_image(image).await.unwrap().unwrap());
        client().remove_image(image, None::<RemoveImageOptions>, None).await.unwrap();
    }
    let [devel, runtime, bare] = &facts[..] else { unreachable!("three images") };
    assert_eq!(devel.roots, [std::path::PathBuf::from("/usr/local/cuda-12.6")]);
    assert_eq!((devel.nvcc, devel.nvrtc, devel.glibc.as_deref()), (true, true, Some("2.35")));
    assert_eq!(devel.compat.as_deref(), Some(std::path::Path::new("/usr/local/cuda-12.6/compat")));
    assert_eq!(devel.env.get("CUDA_VERSION").map(String::as_str), Some("12.6.3"));
    assert_eq!(devel.entrypoint, ["/opt/nvidia/nvidia_entrypoint.sh"]);
    assert!(devel.id.starts_with("sha256:") && !devel.arch.is_empty() && devel.digests.is_empty());
    assert_eq!((runtime.nvcc, runtime.nvrtc, runtime.compat.clone()), (false, true, None));
    assert_eq!((bare.roots.as_slice(), bare.nvcc, bare.nvrtc, bare.glibc.clone()), (&[][..], false, false, None));
    assert_eq!(docker.inspect_image("ctk-matrix-test/absent:1").await, Ok(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn gc_removes_what_has_no_living_owner_and_nothing_else() {
    let bench = Bench::script("exec sleep 30");
    let Some(docker) = docker(&bench).await else { return };
    let spec = job("living");
    let (events, mut seen) = mpsc::unbounded_channel();
    let (user, cancel) = watch::channel(false);
    let collect = async {
        assert_eq!(seen.recv().await, Some(JobEvent::Started));
        let living = left(&spec.run).await.remove(0);
        let found = client().inspect_container(&living, None).await.unwrap();
        let labels = found.config.unwrap().labels.unwrap();
        // The same owner, had it started a tick later: a process that is no more.
        let mut fields: Vec<String> = labels["ctk-matrix.owner"].split(' ').map(str::to_owned).collect();
        fields[1] = (fields[1].parse::<u64>().unwrap() + 1).to_string();
        let orphan_run = format!("{}-orphan", spec.run);
        let orphan = bollard::models::ContainerCreateBody {
            image: found.image,
            entrypoint: Some(vec!["/none".into()]),
            labels: Some(HashMap::from([
                ("ctk-matrix.run".into(), orphan_run.clone()),
                ("ctk-matrix.job".into(), "orphan".into()),
                ("ctk-matrix.owner".into(), fields.join(" ")),
            ])),
            ..Default::default()
        };
        let orphan = client().create_container(None, orphan).await.unwrap().id;
        let fates = |items: Vec<ctk_matrix::engine::docker::GcItem>| {
            let of = |id: &str| items.iter().find(|item| item.id == id).map(|item| item.fate.clone());
            [of(&living), of(&orphan)]
        };
        let kept = Some(Fate::Kept("its run goes on".into()));
        assert_eq!(fates(docker.gc(true).await.unwrap()), [kept.clone(), Some(Fate::WouldRemove)]);
        assert_eq!(fates(docker.gc(false).await.unwrap()), [kept, Some(Fate::Removed)]);
        assert_eq!(left(&orphan_run).await, [""; 0]);
        assert_eq!(left(&spec.run).await, std::slice::from_ref(&living));
        user.send(true).unwrap();
    };
    let (end, ()) = tokio::join!(docker.run(&spec, events, cancel), collect);
    assert_eq!(end.map(|end| end.exit), Ok(JobExit::Cancelled));
}
