//! An image on this machine: what it asks of the driver, and what it carries. It is looked into without being started.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::context::print;
use super::super::exit::{Code, Failure};
use crate::compat::catalogue::{self, ToolkitFacts};
use crate::engine::docker::Docker;
use crate::model::arch::Arch;
use crate::model::place::ImageFacts;
use crate::model::units;
use crate::model::version::Version;
use crate::report::text::{clipped, visible};

/// Raised when a field of the output is renamed or taken out.
const SCHEMA: u32 = 1;
/// The variables that decide which driver it takes, which GPUs it sees and which libraries it loads.
const ASKS: [&str; 9] = [
    "CUDA_VERSION",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_REQUIRE_JETPACK",
    "NVIDIA_DISABLE_REQUIRE",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "CUDA_CACHE_DISABLE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
];
/// Of a value that is longer than this, only the beginning is shown to people.
const LONGEST: usize = 160;

/// Inspects the image of this reference.
pub(super) fn inspect(reference: &str, as_json: bool) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::caused(Code::Engine, "cannot start the runtime", error))?;
    let facts = runtime.block_on(async {
        // Nothing is started, so any program will do for the one that would be.
        let bench = std::env::current_exe()
            .map_err(|error| Failure::caused(Code::Engine, "cannot find this program's own path", error))?;
        let no_file = |error| {
            Failure::caused(
                Code::Engine,
                format!("there is no file {reference}, and no engine to ask for an image"),
                error,
            )
        };
        let docker = Docker::connect(bench).await.map_err(no_file)?;
        docker.inspect_image(reference).await.map_err(|error| Failure::new(Code::Engine, error))
    })?;
    let Some(facts) = facts else {
        let text =
            format!("there is no file and no image on this machine called {reference}: pull it, or check the name");
        return Err(Failure::new(Code::Usage, text));
    };
    print(&if as_json { format!("{:#}\n", to_json(reference, &facts)) } else { text(reference, &facts) })
}

/// The toolkit that the image says it holds.
fn toolkit(facts: &ImageFacts) -> Option<Version> {
    let mut parts = facts.env.get("CUDA_VERSION")?.split('.');
    format!("{}.{}", parts.next()?, parts.next()?).parse().ok()
}

/// The `cuda>=` of the first alternative of the requirement, which the tools name when they refuse.
fn required(facts: &ImageFacts) -> Option<Version> {
    let first = facts.env.get("NVIDIA_REQUIRE_CUDA")?.split_whitespace().next()?;
    first.split(',').find_map(|term| term.strip_prefix("cuda>=")?.parse().ok())
}

fn asks(facts: &ImageFacts) -> BTreeMap<&str, &str> {
    ASKS.iter().filter_map(|name| Some((*name, facts.env.get(*name)?.as_str()))).collect()
}

fn archs(known: &ToolkitFacts) -> Vec<String> {
    known.targets.value.all().iter().map(Arch::to_string).collect()
}

fn to_json(reference: &str, facts: &ImageFacts) -> Value {
    let toolkit = toolkit(facts);
    let known = toolkit.and_then(catalogue::facts);
    json!({
        "schema": SCHEMA,
        "image": reference,
        "id": facts.id,
        "digests": facts.digests,
        "bytes": facts.bytes,
        "arch": facts.arch,
        "glibc": facts.glibc,
        "entrypoint": facts.entrypoint,
        "asks": asks(facts),
        "requires_cuda": required(facts),
        "carries": {
            "toolkit": toolkit,
            "folders": facts.roots,
            "nvcc": facts.nvcc,
            "nvrtc": facts.nvrtc,
            "compat": facts.compat,
        },
        "drivers": known.map(|known| json!({ "full": known.driver.full, "floor": known.driver.floor })),
        "ptx_isa": known.map(|known| known.ptx_isa.value),
        "compiles_for": known.map(archs),
    })
}

fn text(reference: &str, facts: &ImageFacts) -> String {
    let yes_no = |has: bool| if has { "yes" } else { "no" };
    let mut out =
        format!("{}: an image for {}, {}\n", visible(reference), visible(&facts.arch), units::bytes(facts.bytes));
    let _ = writeln!(out, "  id          {}", visible(&facts.id));
    for digest in &facts.digests {
        let _ = writeln!(out, "  digest      {}", visible(digest));
    }
    let _ = writeln!(out, "  glibc       {}", visible(facts.glibc.as_deref().unwrap_or("none found")));
    if !facts.entrypoint.is_empty() {
        let _ = writeln!(out, "  entrypoint  {}, which ctk-matrix overrides", visible(&facts.entrypoint.join(" ")));
    }
    out.push_str("\nasks\n");
    let asks = asks(facts);
    if asks.is_empty() {
        out.push_str("  nothing: it sets none of NVIDIA's variables\n");
    }
    for (name, value) in asks {
        let _ = writeln!(out, "  {name}={}", clipped(value, LONGEST));
    }
    out.push_str("\ncarries\n");
    let folders: Vec<String> = facts.roots.iter().map(|root| visible(&root.display().to_string())).collect();
    let _ = writeln!(out, "  toolkit     {}", if folders.is_empty() { "none found".into() } else { folders.join(" ") });
    let _ = writeln!(out, "  nvcc        {}\n  NVRTC       {}", yes_no(facts.nvcc), yes_no(facts.nvrtc));
    let compat = facts.compat.as_ref().map_or("none".into(), |compat| visible(&compat.display().to_string()));
    let _ = writeln!(out, "  compat      {compat}");
    runs(&mut out, facts);
    out
}

fn runs(out: &mut String, facts: &ImageFacts) {
    out.push_str("\nruns on\n");
    let toolkit = toolkit(facts);
    match toolkit.and_then(catalogue::facts) {
        Some(known) => {
            let need = &known.driver;
            let _ = writeln!(
                out,
                "  drivers from {} on in full, from {} on under minor-version compatibility, without its PTX ({})",
                need.full, need.floor, known.ptx_isa.value
            );
            let _ = writeln!(out, "  GPUs for which its toolkit compiles: {}", archs(known).join(" "));
        }
        None => match toolkit.and_then(catalogue::unknown) {
            Some(why) => drop(writeln!(out, "  {why}")),
            None => out.push_str("  what its own user space runs on: it does not say which toolkit it holds\n"),
        },
    }
    if let Some(version) = required(facts) {
        let _ = writeln!(
            out,
            "  NVIDIA's hook starts it on drivers for CUDA {version} or later, or by another alternative of \
             NVIDIA_REQUIRE_CUDA; CDI checks nothing"
        );
    }
    if facts.compat.is_some() {
        out.push_str(
            "  its compat libraries let data-center GPUs run it on older drivers; on others they fail with 804\n",
        );
    }
    if facts.env.get("LD_PRELOAD").is_some_and(|value| !value.is_empty()) {
        out.push_str("  ctk-matrix does not use it: LD_PRELOAD would be loaded into everything that is measured\n");
    }
}
