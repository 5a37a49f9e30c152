//! Holds the fake driver to what a real one was seen to do, with real images of three toolkits.
//! Each test tells a child process what to call and compares all that the driver answered.
//!
//! The measured cases are those of an H200 with driver 580.159.04; the rest follow NVIDIA's rules.
#![cfg(all(feature = "host", feature = "bench"))]

#[path = "fake-driver/client.rs"]
mod client;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use client::driver;

/// The child's side. Does nothing unless another test started it.
#[test]
#[ignore = "the other tests run it, each in a process of its own"]
fn client() {
    client::carry_out();
}

/// This folder, also where the test program was carried to another machine.
fn here() -> PathBuf {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    root.join("tests/fake-driver")
}

fn image(name: &str) -> String {
    let path = here().join("images").join(name);
    assert!(path.exists(), "{} is missing", path.display());
    path.display().to_string()
}

/// An image that is made for one test, beside the others of that test.
struct Made(tempfile::TempDir);

impl Made {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path: PathBuf = self.0.path().join(name);
        fs::write(&path, bytes).expect("a temporary folder takes a file");
        path.display().to_string()
    }

    /// A shipped image's text with one replacement, which must be possible.
    fn edited(&self, name: &str, from: &str, to: &str) -> String {
        let text = fs::read_to_string(image(name)).expect("PTX is text");
        assert!(text.contains(from), "{name} has no {from}");
        self.file(
            &format!("{}-{name}", to.replace(|other: char| !other.is_ascii_alphanumeric(), "_")),
            text.replace(from, to),
        )
    }
}

/// The codes that a driver with these settings gives for images, in their order.
fn codes(settings: &[(&str, &str)], images: &[String]) -> Vec<String> {
    let loads: Vec<String> = images.iter().map(|image| format!("load {image}")).collect();
    let answers = driver(settings).answers(&format!("init; context; {}", loads.join("; ")));
    let codes = answers.lines().skip(2).map(|line| line.split(' ').next().unwrap_or_default().to_owned());
    codes.collect()
}

/// What one image's load gives.
fn load(settings: &[(&str, &str)], image: &str) -> String {
    let answers = driver(settings).answers(&format!("init; context; load {image}"));
    answers.lines().nth(2).expect("three answers").to_owned()
}

/// Loads the kernel and makes its buffers.
fn ready(image: &str) -> String {
    format!("init; context; load {image}; function vectorAdd; buffers 1000; stream; poison")
}

const READY: &str = "0\n0 0\n0\n0\n[0, 0, 0, 0, 0]\n0\n0\n";

#[test]
fn the_protocol_s_inputs_give_the_protocol_s_output() {
    let script = format!(
        "init; version; context; load {}; function vectorAdd; buffers 4194915; stream; launch; sync; check; hash",
        image("ptx-8.4-sm_52.ptx")
    );
    assert_eq!(
        driver(&[]).answers(&script),
        "0\n0 13000\n0 0\n0\n0\n[0, 0, 0, 0, 0]\n0\n0\n0\nright\n\
         11d347a4e363c4fe2a3d89bdaa23574198fda2e1a01d819d249c465b7f4d895d\n"
    );
}

#[test]
fn an_h200_with_driver_580_takes_what_the_real_one_took() {
    let made = Made::new();
    let version = |to: &str| made.edited("ptx-8.4-sm_52.ptx", ".version 8.4", &format!(".version {to}"));
    let target = |to: &str| made.edited("ptx-8.4-sm_52.ptx", ".target sm_52", &format!(".target {to}"));
    let cubin = fs::read(image("cubin-12.4-sm_90.cubin")).expect("the image is there");
    let cases = [
        (version("8.0"), "0"),
        (version("8.5"), "0"),
        (version("8.8"), "0"),
        (version("8.9"), "222"),
        (version("9.0"), "0"),
        (version("9.1"), "222"),
        (version("9.5"), "222"),
        (version("10.0"), "222"),
        (target("sm_80"), "0"),
        (image("ptx-8.4-sm_90.ptx"), "0"),
        (image("ptx-8.4-sm_90a.ptx"), "0"),
        (image("ptx-9.0-sm_75.ptx"), "0"),
        (image("ptx-9.0-sm_100.ptx"), "218"),
        (image("ptx-9.0-sm_100a.ptx"), "218"),
        (image("cubin-12.4-sm_90.cubin"), "0"),
        (image("cubin-12.4-sm_90a.cubin"), "0"),
        (image("cubin-13.0-sm_90.cubin"), "0"),
        (image("cubin-13.0-sm_90a.cubin"), "0"),
        (image("cubin-12.4-sm_75.cubin"), "209"),
        (image("cubin-12.4-sm_80.cubin"), "209"),
        (image("cubin-12.4-sm_89.cubin"), "209"),
        (image("cubin-12.9-sm_100.cubin"), "209"),
        (image("cubin-12.9-sm_120.cubin"), "209"),
        (image("fatbin-12.4-sm_80-sm_90-ptx_90.fatbin"), "0"),
        (image("fatbin-13.0-sm_75-sm_90-ptx_90.fatbin"), "0"),
        (image("fatbin-12.4-sm_80.fatbin"), "209"),
        (made.file("empty", ""), "200"),
        (made.file("text", "hello\n"), "200"),
        (made.file("half.ptx", &fs::read(image("ptx-8.4-sm_52.ptx")).expect("the image is there")[..700]), "218"),
        (made.file("host.elf", [&b"\x7fELF\x02\x01\x01\x00"[..], &[0; 200]].concat()), "200"),
    ];
    assert_eq!(cubin[7], 0x33, "the 12.4 image is of the old ABI");
    let (images, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    assert_eq!(codes(&[], &images), expected, "{images:#?}");
}

#[test]
fn a_cubin_that_is_cut_off_never_comes_back() {
    let made = Made::new();
    let cubin = fs::read(image("cubin-12.4-sm_90.cubin")).expect("the image is there");
    let half = made.file("half.cubin", &cubin[..1000]);
    let ended = driver(&[]).patience(Duration::from_secs(2)).run(&format!("init; context; load {half}; version"));
    assert_eq!((ended.answers.as_str(), ended.status), ("0\n0 0\n", None));
}

#[test]
fn ptx_that_is_cut_off_is_taken_where_ptxas_takes_it() {
    let script = format!("init; context; prefixes {}", image("ptx-9.0-sm_75.ptx"));
    let answers = driver(&[]).answers(&script);
    // ptxas 13.0.88, run on each of the 1191 prefixes, took the same ones: those of a whole header without a kernel, and
    // the whole text without the line ends after its last brace.
    assert_eq!(
        answers.lines().nth(2),
        Some(
            "[0, 200, 218], taken without the last [1010, 1009, 993, 992, 991, 990, 988, 987, 986, 985, 984, 983, 982, \
             981, 980, 979, 978, 977, 976, 975, 974, 973, 972, 971, 970, 969, 2, 1, 0] bytes"
        )
    );
}

#[test]
fn the_error_log_has_the_compiler_s_words_and_keeps_to_its_room() {
    let made = Made::new();
    let edited = |from: &str, to: &str| made.edited("ptx-9.0-sm_75.ptx", from, to);
    let aborted = "ptxas fatal   : Ptx assembly aborted due to errors";
    assert_eq!(
        load(&[], &edited(".version 9.0", ".version 9.5")),
        format!(
            "222 ptxas application ptx input, line 9; fatal   : Unsupported .version 9.5; current version is '9.0' | {aborted}"
        )
    );
    assert_eq!(
        load(&[], &image("ptx-9.0-sm_100.ptx")),
        "218 ptxas fatal   : SM version specified by .target is higher than default SM version assumed"
    );
    assert_eq!(
        load(&[], &edited("ret;", "ret")),
        format!(
            "218 ptxas application ptx input, line 56; fatal   : Parsing error near '}}': syntax error | {aborted}"
        )
    );
    assert_eq!(
        load(&[], &edited("st.global", "store.global")),
        format!(
            "218 ptxas application ptx input, line 51; error   : Not a name of any known instruction: 'store' | {aborted}"
        )
    );
    assert_eq!(
        load(&[], &edited(".version 9.0", ".version 6.0")),
        format!(
            "218 ptxas application ptx input, line 10; error   : PTX .version 6.0 does not support .target sm_75 | {aborted}"
        )
    );
    assert_eq!(load(&[], &made.file("text", "hello")), "200 Binary format for key='0', ident='' is not recognized");
    let script = format!("init; context; load {} 21", image("ptx-9.0-sm_100.ptx"));
    assert_eq!(driver(&[]).answers(&script).lines().nth(2), Some("218 ptxas fatal   : SM v"));
}

#[test]
fn each_branch_takes_ptx_up_to_its_own_isa() {
    let made = Made::new();
    let isas = ["7.8", "8.0", "8.2", "8.4", "8.5", "8.6", "8.7", "8.8", "9.0", "9.1", "9.5"];
    let images = isas.map(|isa| made.edited("ptx-8.4-sm_52.ptx", ".version 8.4", &format!(".version {isa}")));
    let highest = |branch: &str| {
        let codes = codes(&[("CTK_FAKE_DRIVER", branch)], &images);
        let taken = codes.iter().take_while(|code| *code == "0").count();
        assert!(codes[taken..].iter().all(|code| code == "222"), "{branch}: {codes:?}");
        isas[taken - 1]
    };
    let branches =
        ["525.60.13", "535.54.03", "550.54.14", "560.28.03", "565.57.01", "570.26", "575.51.03", "590.44.01"];
    assert_eq!(branches.map(highest), ["8.0", "8.2", "8.4", "8.5", "8.6", "8.7", "8.8", "9.1"]);
}

#[test]
fn machine_code_runs_within_its_major_version_and_marked_code_only_where_it_is_made_for() {
    let cubins = [
        "12.4-sm_75",
        "12.4-sm_80",
        "12.4-sm_89",
        "12.4-sm_90a",
        "12.9-sm_100",
        "12.9-sm_100a",
        "12.9-sm_120",
        "13.0-sm_75",
        "13.0-sm_100a",
        "13.0-sm_100f",
    ];
    let images = cubins.map(|name| image(&format!("cubin-{name}.cubin")));
    let taken = |gpu: &str| {
        let codes = codes(&[("CTK_FAKE_GPU", gpu)], &images);
        let name = |(name, code): (&'static str, String)| match code.as_str() {
            "0" => Some(name),
            "209" => None,
            other => panic!("{name} gives {other}"),
        };
        cubins.into_iter().zip(codes).filter_map(name).collect::<Vec<_>>()
    };
    assert_eq!(taken("T4"), ["12.4-sm_75", "13.0-sm_75"]);
    assert_eq!(taken("A100"), ["12.4-sm_80"]);
    assert_eq!(taken("L4"), ["12.4-sm_80", "12.4-sm_89"]);
    assert_eq!(taken("H200"), ["12.4-sm_90a"]);
    assert_eq!(taken("B200"), ["12.9-sm_100", "12.9-sm_100a", "13.0-sm_100a", "13.0-sm_100f"]);
    assert_eq!(taken("B300"), ["12.9-sm_100", "13.0-sm_100f"]);
    assert_eq!(taken("RTX5090"), ["12.9-sm_120"]);
}

#[test]
fn ptx_with_a_mark_compiles_only_for_its_gpu_or_family() {
    let names = ["8.4-sm_90a", "9.0-sm_100a", "9.0-sm_100f", "9.0-sm_120f", "9.0-sm_100"];
    let images = names.map(|name| image(&format!("ptx-{name}.ptx")));
    let on = |gpu: &str| codes(&[("CTK_FAKE_GPU", gpu)], &images);
    assert_eq!(on("H200"), ["0", "218", "218", "218", "218"]);
    assert_eq!(on("B200"), ["218", "0", "0", "218", "0"]);
    assert_eq!(on("B300"), ["218", "218", "0", "218", "0"]);
    assert_eq!(on("RTX5090"), ["218", "218", "218", "0", "0"]);
    assert_eq!(
        load(&[("CTK_FAKE_GPU", "RTX5090")], &images[2]),
        "218 ptxas fatal   : Program with .target 'sm_100f' cannot be compiled to different SM-family architecture"
    );
    assert_eq!(
        load(&[("CTK_FAKE_GPU", "B200")], &images[0]),
        "218 ptxas fatal   : Program with .target 'sm_90a' cannot be compiled to future architecture"
    );
}

#[test]
fn machine_code_of_a_later_major_version_is_refused_and_of_a_later_minor_one_is_not() {
    let images = ["cubin-12.4-sm_90.cubin", "cubin-13.0-sm_90.cubin"].map(image);
    assert_eq!(codes(&[("CTK_FAKE_DRIVER", "525.60.13")], &images), ["0", "200"]);
    assert_eq!(codes(&[("CTK_FAKE_DRIVER", "520.61.05")], &images), ["200", "200"]);
    let blackwell = [("CTK_FAKE_DRIVER", "575.51.03"), ("CTK_FAKE_GPU", "B200")];
    assert_eq!(codes(&blackwell, &["cubin-12.9-sm_100.cubin", "cubin-13.0-sm_100.cubin"].map(image)), ["0", "200"]);
}

#[test]
fn a_fatbin_gives_its_best_machine_code_else_its_ptx() {
    // Attribute 5 is the SM number that the taken member was made for, 6 that of the code that runs.
    let taken = |settings: &[(&str, &str)], name: &str| {
        let script = format!("init; context; load {}; function vectorAdd; attribute 5; attribute 6", image(name));
        driver(settings).answers(&script).lines().skip(2).collect::<Vec<_>>().join(", ")
    };
    let both = "fatbin-12.4-sm_80-sm_90-ptx_90.fatbin";
    assert_eq!(taken(&[], both), "0, 0, 0 90, 0 90");
    assert_eq!(taken(&[("CTK_FAKE_GPU", "L4")], both), "0, 0, 0 80, 0 80");
    assert_eq!(taken(&[("CTK_FAKE_GPU", "B200")], both), "0, 0, 0 90, 0 100");
    assert_eq!(taken(&[("CUDA_FORCE_PTX_JIT", "1")], "fatbin-12.4-ptx_52-plain.fatbin"), "0, 0, 0 52, 0 90");
    assert_eq!(taken(&[("CTK_FAKE_GPU", "B200")], "fatbin-13.0-sm_90a-sm_100f.fatbin"), "0, 0, 0 100, 0 100");
    let codes = |settings: &[(&str, &str)], name: &str| codes(settings, &[image(name)]).concat();
    assert_eq!(codes(&[("CTK_FAKE_GPU", "T4")], both), "209");
    assert_eq!(codes(&[("CTK_FAKE_GPU", "B200"), ("CUDA_DISABLE_PTX_JIT", "1")], both), "223");
    assert_eq!(codes(&[("CTK_FAKE_GPU", "A100")], "fatbin-13.0-sm_90a-sm_100f.fatbin"), "209");
    let family = |gpu: &str| codes(&[("CTK_FAKE_GPU", gpu)], "fatbin-13.0-ptx_100f.fatbin");
    assert_eq!(["B200", "B300", "RTX5090"].map(family), ["0", "0", "209"]);
    let text = "fatbin-13.0-ptx_75.fatbin";
    assert_eq!(codes(&[], text), "0");
    assert_eq!(codes(&[("CTK_FAKE_DRIVER", "575.51.03")], text), "222");
}

#[test]
fn zstd_is_not_unpacked_before_driver_550_54_14() {
    // Real zstd fatbins come from 13.x, whose PTX such a driver would refuse first: the ISA in the container is lowered.
    let mut bytes = fs::read(image("fatbin-13.0-ptx_75.fatbin")).expect("the image is there");
    assert_eq!(bytes[16 + 24..16 + 28], [0, 0, 9, 0]);
    bytes[16 + 26] = 8;
    let made = Made::new();
    let lowered = [made.file("lowered.fatbin", bytes)];
    assert_eq!(codes(&[("CTK_FAKE_DRIVER", "550.40.07")], &lowered), ["200"]);
    assert_eq!(codes(&[("CTK_FAKE_DRIVER", "550.54.14")], &lowered), ["0"]);
}

#[test]
fn names_and_register_counts_are_the_image_s_own() {
    let made = Made::new();
    let other = made.edited("ptx-8.4-sm_52.ptx", "vectorAdd", "other");
    let script = format!(
        "init; context; load {other}; function vectorAdd; function other; \
         load {}; function other; function vectorAdd; attribute 4; \
         load {}; function vectorAdd; attribute 4; attribute 99; unload; function vectorAdd",
        image("cubin-12.4-sm_90.cubin"),
        image("fatbin-13.0-sm_75-sm_90-ptx_90.fatbin"),
    );
    // The 400 at the end is a module that is not there any more. cuobjdump gives 12 registers for both.
    assert_eq!(driver(&[]).answers(&script), "0\n0 0\n0\n500\n0\n0\n500\n0\n0 12\n0\n0\n0 12\n1 0\n0\n400\n");
    let turing = format!("init; context; load {}; function vectorAdd; attribute 4", image("cubin-12.4-sm_75.cubin"));
    assert_eq!(driver(&[("CTK_FAKE_GPU", "T4")]).answers(&turing), "0\n0 0\n0\n0\n0 8\n");
}

#[test]
fn the_kernel_writes_what_the_grid_covers_and_no_more() {
    let script =
        format!("{}; launch 2 256; sync; check; launch; sync; check; time", ready(&image("cubin-12.4-sm_90.cubin")));
    let answers = driver(&[]).answers(&script);
    let (begin, rest) = answers.split_at(READY.len());
    // Of 1000 elements 512 are computed, and the poison stays in the others.
    let rest: Vec<&str> = rest.lines().collect();
    assert_eq!(begin, READY);
    assert!(rest[2].starts_with("488 wrong, at 512 "), "{rest:?}");
    assert_eq!([&rest[..2], &rest[3..]].concat(), ["0", "0", "0", "0", "right", "0 within the clock's"]);
}

#[test]
fn what_a_launch_does_wrong_shows_at_the_next_synchronisation_and_stays() {
    let ready = ready(&image("cubin-12.4-sm_90.cubin"));
    let after = |commands: &str| driver(&[]).answers(&format!("{ready}; {commands}")).split_off(READY.len());
    // An address in no allocation; then nothing in this context works any more.
    assert_eq!(
        after("skew 400000000; launch; sync; sync; allocate 4; context; check"),
        "skewed\n0\n700\n700\n700\n700 0\n700\n"
    );
    assert_eq!(after("skew 2; launch; check; sync"), "skewed\n0\n716\n716\n");
    assert_eq!(after("launch 0 256; launch 1 2048; sync; check"), "1\n1\n0\n1000 wrong, at 0 3fdb22f0\n");
    let made = Made::new();
    let other = made.edited("ptx-8.4-sm_52.ptx", "vectorAdd", "other");
    let script = format!("init; context; load {other}; function other; buffers 8; launch; sync");
    assert_eq!(driver(&[]).answers(&script), "0\n0 0\n0\n0\n[0, 0, 0, 0, 0]\n0\n719\n");
}

#[test]
fn calls_need_a_start_and_a_context_and_a_context_is_a_thread_s_own() {
    let load = format!("load {}", image("cubin-12.4-sm_90.cubin"));
    let script = format!(
        "devices; context; version; init; {load}; context 1; context; elsewhere {load}; {load}; release; {load}; release"
    );
    assert_eq!(driver(&[]).answers(&script), "3\n3 3\n0 13000\n0\n201\n101 0\n0 0\n201\n0\n0\n709\n201\n");
}

#[test]
fn the_gpus_are_those_of_the_environment() {
    let devices = |settings: &[(&str, &str)]| driver(settings).answers("init; devices");
    let uuid = "66616b652d6472697665722d677075";
    let h200 = format!("[NVIDIA H200 9.0 62914560 3201000 6016 {uuid}00]");
    let two = ("CTK_FAKE_GPU", "H200,T4");
    assert_eq!(devices(&[]), format!("0\n0 {h200}\n"));
    assert_eq!(devices(&[two]), format!("0\n0 {h200} [Tesla T4 7.5 4194304 5001000 256 {uuid}01]\n"));
    let visible = |list: &'static str| devices(&[two, ("CUDA_VISIBLE_DEVICES", list)]);
    assert_eq!(visible("1"), format!("0\n0 [Tesla T4 7.5 4194304 5001000 256 {uuid}01]\n"));
    assert_eq!(visible("GPU-66616b65-2d64-7269-7665-722d67707500,7,1"), format!("0\n0 {h200}\n"));
    assert_eq!(visible(""), "100\n3\n");
    assert_eq!(devices(&[("CTK_FAKE_GPU", "none")]), "100\n3\n");
    // A driver older than the GPU.
    assert_eq!(devices(&[("CTK_FAKE_GPU", "B200"), ("CTK_FAKE_DRIVER", "550.54.14")]), "100\n3\n");
    let given = [("CTK_FAKE_UUID", "GPU-00112233-4455-6677-8899-aabbccddeeff")];
    assert_eq!(devices(&given), "0\n0 [NVIDIA H200 9.0 62914560 3201000 6016 00112233445566778899aabbccddeeff]\n");
}

#[test]
fn a_module_is_judged_for_the_gpu_whose_context_is_current() {
    let cubin = |arch: &str| image(&format!("cubin-12.4-sm_{arch}.cubin"));
    let (hopper, turing) = (cubin("90"), cubin("75"));
    let script = format!("init; context 1; load {turing}; load {hopper}; context 0; load {turing}; load {hopper}");
    let two = driver(&[("CTK_FAKE_GPU", "H200,T4")]);
    assert_eq!(two.answers(&script), "0\n0 0\n0\n209\n0 0\n209\n0\n");
}

#[test]
fn a_mistake_in_the_environment_is_told_and_nothing_works() {
    let cases = [
        (("CTK_FAKE_FAULT", "wrong-bits"), "no fault `wrong-bits`; known: wrong-bit wrong-bit-late wrong-bit-large"),
        (("CTK_FAKE_FAULT", "oom@ptx"), "`oom@ptx`: this fault meets the process, not a module"),
        (("CTK_FAKE_FAULT", "sticky@ptxx"), "`sticky@ptxx`: no filter `ptxx`"),
        (("CTK_FAKE_FAULT", "sticky:3"), "`sticky:3`: only a wrong bit has an index"),
        (("CTK_FAKE_GPU", "H100"), "no GPU `H100`; known: T4 A100 L4 H200 B200 B300 RTX5090 none"),
        (("CTK_FAKE_DRIVER", "585.1"), "no driver branch 585; known: 450"),
        (("CTK_FAKE_UUID", "12"), "`12` is no UUID"),
    ];
    for (setting, why) in cases {
        let ended = driver(&[setting]).run("init; version");
        assert_eq!(ended.answers, "999\n999 0\n", "{setting:?}");
        assert!(ended.stderr.contains(&format!("fake driver: {why}")), "{setting:?}: {}", ended.stderr);
    }
}

#[test]
fn faults_of_the_start_are_the_real_codes() {
    let init = |fault: &str| driver(&[("CTK_FAKE_FAULT", fault)]).answers("init; devices");
    assert_eq!(["no-device", "stub", "mismatch"].map(init), ["100\n3\n", "34\n3\n", "803\n3\n"]);
    let hung =
        driver(&[("CTK_FAKE_FAULT", "init-hang")]).patience(Duration::from_secs(2)).run("version; init; version");
    assert_eq!((hung.answers.as_str(), hung.status), ("0 13000\n", None));
    let memory = driver(&[("CTK_FAKE_FAULT", "oom")]).answers("init; context; allocate 4");
    assert_eq!(memory, "0\n0 0\n2\n");
    // More than the GPU has, without any fault.
    assert_eq!(driver(&[("CTK_FAKE_GPU", "T4")]).answers("init; context; allocate 20000000000"), "0\n0 0\n2\n");
    let noisy =
        driver(&[("CTK_FAKE_FAULT", "noise")]).run(&format!("init; context; load {}", image("ptx-9.0-sm_75.ptx")));
    assert_eq!(noisy.answers, "0\n0 0\n0\n");
    assert!(noisy.stdout.contains("prints on stdout\n") && noisy.stdout.contains("half a line"), "{}", noisy.stdout);
}

#[test]
fn faults_of_a_launch_spoil_the_output_of_the_modules_that_they_name() {
    let ptx = image("ptx-8.4-sm_52.ptx");
    let cubin = image("cubin-13.0-sm_90.cubin");
    // Two launches, each checked.
    let after = |fault: &str, image: &str| {
        let script = format!("{}; launch; sync; check; poison; launch; sync; check", ready(image));
        let answers = driver(&[("CTK_FAKE_FAULT", fault)]).answers(&script).split_off(READY.len());
        let lines: Vec<&str> = answers.lines().collect();
        format!("{} / {}", lines[2], lines[6])
    };
    assert_eq!(after("", &ptx), "right / right");
    assert_eq!(after("wrong-bit", &ptx), "1 wrong, at 500 00000001 / 1 wrong, at 500 00000001");
    assert_eq!(after("wrong-bit:999", &ptx), "1 wrong, at 999 00000001 / 1 wrong, at 999 00000001");
    assert_eq!(after("wrong-bit-late:0", &ptx), "right / 1 wrong, at 0 00000001");
    assert!(after("no-write", &ptx).starts_with("1000 wrong, at 0 "));
    assert_eq!(after("wrong-bit@cubin", &ptx), "right / right");
    assert_eq!(after("wrong-bit:7@cubin", &cubin), "1 wrong, at 7 00000001 / 1 wrong, at 7 00000001");
    assert_eq!(after("wrong-bit:7@producer:12.4", &cubin), "right / right");
    assert_eq!(after("wrong-bit:7@producer:12.4", &ptx), "1 wrong, at 7 00000001 / 1 wrong, at 7 00000001");
    assert_eq!(
        after("no-write@fatbin,wrong-bit:7@cubin@producer:13.0", &cubin),
        "1 wrong, at 7 00000001 / 1 wrong, at 7 00000001"
    );
}

#[test]
fn faults_that_end_a_context_or_a_process_do_so_where_they_say() {
    use std::os::unix::process::ExitStatusExt as _;
    let ready = ready(&image("cubin-12.4-sm_90.cubin"));
    let run = |fault: &str, commands: &str| {
        let driver = driver(&[("CTK_FAKE_FAULT", fault)]).patience(Duration::from_secs(2));
        let mut ended = driver.run(&format!("{ready}; {commands}"));
        let end = ended.status.map(|status| status.signal());
        (ended.answers.split_off(READY.len().min(ended.answers.len())), end)
    };
    let whole = Some(None);
    assert_eq!(run("sticky", "launch; sync; sync; allocate 4"), ("0\n700\n700\n700\n".into(), whole));
    assert_eq!(run("lost", "launch; sync; devices; context"), ("0\n999\n999\n999 999\n".into(), whole));
    assert_eq!(run("hang-launch", "launch; sync; version"), ("0\n".into(), None));
    assert_eq!(run("crash-launch", "version; launch; version"), ("0 13000\n".into(), Some(Some(6))));
    let load = |fault: &str| driver(&[("CTK_FAKE_FAULT", fault)]).patience(Duration::from_secs(2)).run(&ready);
    let crashed = load("crash-load@cubin");
    assert_eq!((crashed.answers.as_str(), crashed.status.and_then(|status| status.signal())), ("0\n0 0\n", Some(11)));
    let hung = load("hang-load@cubin");
    assert_eq!((hung.answers.as_str(), hung.status), ("0\n0 0\n", None));
    assert_eq!(load("hang-load@ptx,crash-load@fatbin").answers, READY);
}

#[test]
fn the_driver_shares_no_code_with_the_crate() {
    let mut folders = vec![here()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("source is text");
                assert!(!text.contains("ctk_matrix::"), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen} files");
}
