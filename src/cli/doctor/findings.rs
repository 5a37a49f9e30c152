//! Judges what was gathered: pure, so that every kind of machine can be put before it. The main function is
//! [`findings`].

use super::attach;
use super::facts::{CacheFolder, Downloads, Engine, Facts};
use super::finding::Finding;
use crate::compat::catalogue;
use crate::model::record::GpuMode;
use crate::model::units;
use crate::model::version::Version;
use crate::toolkit::wheels::UNPACKED;

/// The oldest C library of the images that toolkits come in (centos7), and what releases of `ctk-bench` are built for.
const OLDEST_GLIBC: Version = Version::new(2, 17);

/// Everything that is to be said of a machine, in the order in which the main job needs it.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = engine(&facts.engine);
    found.extend(bench(facts));
    found.extend(driver(facts));
    found.extend(attach::findings(facts));
    found.push(matrix(&facts.matrix));
    found.push(pip(facts));
    found.extend(cache(facts));
    found
}

fn engine(engine: &Engine) -> Vec<Finding> {
    const ENGINE: &str = "engine";
    match engine {
        Engine::Docker { version, api, notes } => {
            let mut found = vec![Finding::ok(ENGINE, format!("Docker's API {api}, version {version}"))];
            found.extend(notes.iter().map(|note| Finding::note(ENGINE, note.clone())));
            found
        }
        Engine::Absent(why) => {
            vec![Finding::note(ENGINE, format!("{why}; without it, child processes take the place of containers"))]
        }
        Engine::Refuses(why) => {
            vec![Finding::problem(ENGINE, why.clone()).cure("mend that, or say --engine process")]
        }
    }
}

fn bench(facts: &Facts) -> Vec<Finding> {
    const BENCH: &str = "ctk-bench";
    let (path, floor) = match &facts.bench {
        Ok((path, floor)) => (path, *floor),
        // The text has its cure.
        Err(why) => return vec![Finding::problem(BENCH, why.clone())],
    };
    let host: Option<Version> = facts.glibc.as_deref().and_then(|text| text.parse().ok());
    let on = facts.glibc.as_deref().unwrap_or("an unknown version");
    let Some(floor) = floor else {
        return vec![Finding::note(BENCH, format!("{path}: which glibc it needs cannot be read; this host has {on}"))];
    };
    if host.is_some_and(|host| floor > host) {
        let says = format!("{path} needs glibc {floor}, and this host has {on}");
        return vec![
            Finding::problem(BENCH, says).cure("build it on this machine, or use the released one (glibc 2.17)"),
        ];
    }
    let mut found = vec![Finding::ok(BENCH, format!("{path} needs glibc {floor}, and this host has {on}"))];
    if floor > OLDEST_GLIBC {
        found.push(
            Finding::note(BENCH, format!("images with a C library older than {floor} cannot start it"))
                .cure("for those, use the released ctk-bench (glibc 2.17) with --bench"),
        );
    }
    found
}

fn driver(facts: &Facts) -> Vec<Finding> {
    const DRIVER: &str = "driver";
    if !facts.host.present() && facts.gpu.is_none() {
        return vec![Finding::ok(
            DRIVER,
            "no NVIDIA driver on this host: everything is built and inspected, and nothing launched",
        )];
    }
    let mut found = Vec::new();
    if let (Some(libcuda), Some(module)) = (&facts.libcuda, &facts.module)
        && libcuda != module
    {
        found.push(
            Finding::problem(DRIVER, format!("libcuda is {libcuda}, and the loaded kernel module is {module}"))
                .cure("reboot, or reload the module: until then every call fails with 803"),
        );
    }
    let version = facts.gpu.as_ref().map(|(gpu, _)| &gpu.driver).or(facts.module.as_ref()).or(facts.libcuda.as_ref());
    let branch = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    let cuda = facts.gpu.as_ref().map(|(gpu, _)| gpu.cuda).or_else(|| branch.and_then(catalogue::driver_cuda));
    let shown = version.map_or("of an unknown version", String::as_str);
    found.push(match cuda {
        Some(cuda) => Finding::ok(DRIVER, format!("{shown}, CUDA {cuda}: {}", takes(cuda))),
        None => Finding::note(DRIVER, format!("{shown}: which CUDA version it implements is not known")),
    });
    match &facts.gpu {
        Some((gpu, mode)) => {
            let fake = if *mode == GpuMode::Fake { ", a test driver's" } else { "" };
            found.push(Finding::ok("gpu", format!("{} (compute capability {}){fake}", gpu.name, gpu.cc)));
        }
        None if facts.host.kernel_driver && !matches!(facts.engine, Engine::Docker { .. }) => {
            found.push(
                Finding::problem("gpu", "NVIDIA's kernel driver is here, and ctk-bench sees no GPU")
                    .cure("look at nvidia-smi; --gpu none builds and inspects without it"),
            );
        }
        None => found.push(Finding::note("gpu", "the driver shows no GPU")),
    }
    found
}

/// What drivers of a CUDA version take.
fn takes(cuda: Version) -> String {
    let Some(isa) = catalogue::max_ptx_isa(cuda) else {
        return "newer than the table, so PTX and cubins of every toolkit in it".into();
    };
    let newer: Vec<String> = catalogue::toolkits()
        .iter()
        .filter(|toolkit| toolkit.ptx_isa.value > isa)
        .map(|toolkit| toolkit.version.to_string())
        .collect();
    let refused = if newer.is_empty() {
        String::new()
    } else {
        format!(", so that PTX of toolkits {} fails with 222", newer.join(", "))
    };
    format!("PTX up to ISA {isa}{refused}; cubins of toolkits up to {}.x", cuda.major)
}

fn matrix(matrix: &Result<Downloads, String>) -> Finding {
    const MATRIX: &str = "matrix";
    match matrix {
        Err(why) => Finding::problem(MATRIX, why.clone()).cure("ctk-matrix plan shows every error at its place"),
        Ok(Downloads { origin, toolkits, missing }) if missing.is_empty() => {
            Finding::ok(MATRIX, format!("{origin}: all of its {toolkits} toolkits are on this machine"))
        }
        Ok(Downloads { origin, toolkits, missing }) => {
            let bytes = units::bytes(missing.iter().map(|(_, bytes)| bytes).sum());
            let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
            Finding::ok(
                MATRIX,
                format!("{origin}: of its {toolkits} toolkits {} are to be fetched, {bytes}", names.join(", ")),
            )
        }
    }
}

/// Whether something has to be fetched.
fn fetches(facts: &Facts) -> bool {
    facts.matrix.as_ref().is_ok_and(|downloads| !downloads.missing.is_empty())
}

fn pip(facts: &Facts) -> Finding {
    match &facts.pip {
        Ok(version) => Finding::ok("pip", version.clone()),
        // The text has its cure.
        Err(why) if fetches(facts) => Finding::problem("pip", why.clone()),
        Err(why) => Finding::note("pip", format!("{why}; nothing that the matrix names has to be fetched")),
    }
}

fn cache(facts: &Facts) -> Vec<Finding> {
    const CURE: &str = "set CTK_MATRIX_CACHE to a folder that you may write, on a disk with enough space";
    let CacheFolder { folder, writable, free, toolkits } = match &facts.cache {
        Ok(cache) => cache,
        Err(why) => return vec![Finding::problem("cache", why.clone())],
    };
    let held = if toolkits.is_empty() { "no toolkit yet".into() } else { format!("toolkits {}", toolkits.join(", ")) };
    let says = format!("{folder}: {held}");
    let mut found = vec![match (writable, fetches(facts)) {
        (true, _) => Finding::ok("cache", says),
        (false, true) => Finding::problem("cache", format!("{folder} may not be written")).cure(CURE),
        (false, false) => Finding::note("cache", format!("{says}; it may not be written")),
    }];
    let downloads: u64 = facts.matrix.iter().flat_map(|matrix| &matrix.missing).map(|(_, bytes)| bytes).sum();
    let needed = downloads.saturating_mul(UNPACKED);
    if let Some(free) = *free {
        let says = format!("{} free for the cache, {} needed", units::bytes(free), units::bytes(needed));
        found.push(if free < needed { Finding::problem("disk", says).cure(CURE) } else { Finding::ok("disk", says) });
    }
    found
}
