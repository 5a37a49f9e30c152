//! Jobs as child processes: what they see, how each way to end is told, and that nothing of them is left.

mod engine_support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ctk_matrix::engine::attach::Attach;
use ctk_matrix::engine::job::{BenchTask, EngineError, JobEnd, JobEvent, JobExit, JobSpec};
use ctk_matrix::engine::process::Process;
use ctk_matrix::model::place::Place;
use ctk_matrix::model::wire::Request;
use engine_support::{Bench, job, request};
use tokio::sync::{mpsc, watch};

async fn run(bench: &Bench, spec: &JobSpec) -> Result<JobEnd, EngineError> {
    loop {
        let (events, _seen) = mpsc::unbounded_channel();
        let (_user, cancel) = watch::channel(false);
        match Process::new(&bench.path()).unwrap().run(spec, events, cancel).await {
            // Another test's fork holds the script, which was just written, open for a moment.
            Err(EngineError::Start { text }) if text.contains("Text file busy") => tokio::task::yield_now().await,
            end => return end,
        }
    }
}

fn text(end: &JobEnd) -> String {
    end.output.noise.clone()
}

/// Whether a process lives; one that has ended and was not waited for does not.
fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

fn gone_within(pid: &str, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while lives(pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    !lives(pid)
}

#[tokio::test]
async fn a_child_has_an_environment_and_a_working_folder_of_its_own() {
    let bench = Bench::script(
        r#"
        env | grep -v -E '^(PATH|PWD|OLDPWD|_|SHLVL)=' | sed "s|$(pwd)|WORK|" | sort
        touch "$HOME/a" "$TMPDIR/b" c && ls
        [ "$(cut -d' ' -f5 /proc/$$/stat)" = "$$" ] && echo 'a process group of its own'
        [ "$(head -c 1 | wc -c)" = 0 ] && echo 'no input'
        pwd
        "#,
    );
    let mut spec = job("environment");
    spec.env.insert("CUDA_MODULE_LOADING".into(), "EAGER".into());
    let end = run(&bench, &spec).await.unwrap();
    let text = text(&end);
    let (seen, work) = text.trim_end().rsplit_once('\n').unwrap();
    let expected = "CUDA_CACHE_DISABLE=1\n\
        CUDA_MODULE_LOADING=EAGER\n\
        CUDA_VISIBLE_DEVICES=\n\
        HOME=WORK/home\n\
        LANG=C.UTF-8\n\
        TMPDIR=WORK/tmp\n\
        c\n\
        home\n\
        tmp\n\
        a process group of its own\n\
        no input";
    assert_eq!((seen, end.exit), (expected, JobExit::Code(0)), "{}", end.stderr);
    assert!(work.starts_with('/') && !Path::new(work).exists(), "{work} is left");
}

#[tokio::test]
async fn codes_and_signals_are_told_apart() {
    let bench = Bench::script("echo out; echo err >&2; [ \"$5\" = code ] && exit 3; kill -SEGV $$");
    for (name, exit) in [("code", JobExit::Code(3)), ("crash", JobExit::Signal(11))] {
        let mut spec = job(name);
        spec.task = BenchTask::Probe { nonce: "00".into(), device: Some(name.into()) };
        let end = run(&bench, &spec).await.unwrap();
        assert_eq!((end.exit, text(&end).as_str(), end.stderr.as_str()), (exit, "out\n", "err\n"));
    }
}

#[tokio::test]
async fn a_job_that_ignores_sigterm_ends_at_its_deadline_with_all_that_it_started() {
    let bench = Bench::script("trap '' TERM; sleep 60 & echo $!; while :; do sleep 1; done");
    let mut spec = job("deadline");
    spec.deadline = Duration::from_millis(300);
    let end = run(&bench, &spec).await.unwrap();
    assert_eq!(end.exit, JobExit::Timeout);
    assert!((2200.0..5000.0).contains(&end.run_ms), "{}", end.run_ms);
    assert!(gone_within(text(&end).trim(), Duration::from_secs(2)), "a grandchild lives on");
}

#[tokio::test]
async fn a_program_that_ends_takes_its_children_with_it() {
    let bench = Bench::script("sleep 60 & echo $!; exit 0");
    let begun = Instant::now();
    let end = run(&bench, &job("orphans")).await.unwrap();
    assert_eq!(end.exit, JobExit::Code(0));
    assert!(gone_within(text(&end).trim(), Duration::from_secs(2)), "a child lives on");
    assert!(begun.elapsed() < Duration::from_secs(10), "it waited for the child's pipes");
}

#[tokio::test]
async fn an_interruption_ends_a_job_at_once_and_says_so() {
    let bench = Bench::script("echo $$; exec sleep 60");
    let (events, mut seen) = mpsc::unbounded_channel();
    let (user, cancel) = watch::channel(false);
    let process = Process::new(&bench.path()).unwrap();
    let spec = job("cancel");
    let interrupt = async {
        while !matches!(seen.recv().await, Some(JobEvent::Output(_)) | None) {}
        user.send(true).unwrap();
        Instant::now()
    };
    let (end, sent) = tokio::join!(process.run(&spec, events, cancel), interrupt);
    let end = end.unwrap();
    assert_eq!(end.exit, JobExit::Cancelled);
    assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
    assert!(!lives(text(&end).trim()));
}

#[tokio::test]
async fn of_a_flood_the_first_and_the_last_are_kept_and_it_does_not_stop_the_job() {
    let bench =
        Bench::script("echo FIRST; head -c 80m /dev/zero; yes err | head -n 50000 >&2; echo LAST; echo END >&2");
    let end = run(&bench, &job("flood")).await.unwrap();
    assert_eq!((end.exit, end.output.cut), (JobExit::Code(0), false));
    assert!(end.output.noise.len() < 2 << 20 && end.output.noise.starts_with("FIRST\n\0"));
    assert!(end.output.noise.contains(" bytes are left out here]\n") && end.output.noise.ends_with("\0LAST\n"));
    assert_eq!(end.stderr.len(), 64 << 10);
    assert!(end.stderr.ends_with("err\nEND\n"));
}

#[tokio::test]
async fn a_request_names_the_hosts_own_paths() {
    let bench = Bench::script("cat \"$3\"");
    let toolkit = bench.dir.path().join("toolkit");
    fs::create_dir(&toolkit).unwrap();
    let mut spec = job("request");
    spec.task = BenchTask::Run {
        request: Box::new(request(&toolkit)),
        toolkit_dir: Some(toolkit.clone()),
        folders: Vec::new(),
    };
    let end = run(&bench, &spec).await.unwrap();
    let read: Request = serde_json::from_str(&end.output.noise).unwrap();
    assert!(read.work.is_absolute());
    assert_eq!(Request { work: "".into(), ..read }, request(&toolkit));
    assert_eq!(end.mapped, []);
}

#[tokio::test]
async fn a_driver_in_an_odd_folder_is_put_on_the_search_path() {
    let bench = Bench::script("echo \"$LD_LIBRARY_PATH\"; env | grep CUDA_VISIBLE_DEVICES; true");
    let library = bench.dir.path().join("libcuda.so.1");
    let mut spec = job("driver");
    spec.attach = Attach::Devices { nodes: vec![], libraries: vec![library] };
    let end = run(&bench, &spec).await.unwrap();
    assert_eq!(text(&end), format!("{}\n", bench.dir.path().display()));
}

#[tokio::test]
async fn what_a_child_process_cannot_do_is_refused_with_the_cure() {
    let bench = Bench::script("exit 0");
    let mut spec = job("image");
    spec.place = Place::Image { id: "sha256:0".into(), reference: "nvidia/cuda:12.6".into() };
    let error = run(&bench, &spec).await.unwrap_err();
    assert_eq!(error, EngineError::Setup("the image nvidia/cuda:12.6 needs containers: use --engine docker".into()));
    let spec = JobSpec { attach: Attach::Runtime { uuid: None }, ..job("runtime") };
    assert!(matches!(run(&bench, &spec).await, Err(EngineError::Start { .. })));
    fs::write(bench.path(), "#!/none/such\n").unwrap();
    assert!(matches!(run(&bench, &job("interpreter")).await, Err(EngineError::Start { .. })));
}

#[tokio::test]
async fn memory_and_processes_are_limited_or_a_note_says_why_not() {
    let bench = Bench::script("head -c 300m /dev/zero | tail -n 1 | wc -c; exit 0");
    let mut spec = job("memory");
    spec.limits.memory = 64 << 20;
    let end = run(&bench, &spec).await.unwrap();
    let unlimited = end.notes.iter().any(|note| note.starts_with("memory and processes are not limited: "));
    let expected = if unlimited { JobExit::Code(0) } else { JobExit::Oom { code: 0 } };
    assert_eq!(end.exit, expected, "{:?}", end.notes);
}
