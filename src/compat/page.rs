//! `docs/compatibility.md`: the catalogue and the rules as one page. Its main function is [`page`]; a test holds the
//! committed page in step.

use std::fmt::Write as _;

use super::catalogue::{self, How, ToolkitFacts};
use super::predict::rules;
use super::predict::surroundings::{BRANCHES, Compat, TABLE, compat};
use crate::model::arch::Arch;
use crate::model::fleet::{GPUS, GpuClass};
use crate::model::version::Version;

const OPENING: &str = "\
# What works with what

<!-- Printed by `ctk-matrix toolkit table` from the catalogue. Change src/compat, not this page. -->

The tables that predictions are made from. A value is *measured* (read off the files themselves, or seen on a GPU), \
*documented* (NVIDIA or the project in question says so), *secondary* (others say so) or *inferred*.
";

/// The page.
#[must_use]
pub fn page() -> String {
    let mut out = String::from(OPENING);
    toolkits(&mut out);
    architectures(&mut out);
    drivers(&mut out);
    forward(&mut out);
    gpus(&mut out);
    rule_table(&mut out);
    out
}

fn how(how: How) -> &'static str {
    match how {
        How::Measured => "measured",
        How::Documented => "documented",
        How::Secondary => "secondary",
        How::Inferred => "inferred",
    }
}

fn table(out: &mut String, title: &str, text: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let _ = write!(out, "\n## {title}\n\n{text}\n\n");
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(&header.iter().map(|name| (*name).into()).collect::<Vec<_>>()));
    out.push_str(&line(&vec!["---".into(); header.len()]));
    for row in rows {
        out.push_str(&line(&row));
    }
}

fn toolkits(out: &mut String) {
    let row = |facts: &ToolkitFacts| {
        let need = &facts.driver;
        vec![
            facts.version.to_string(),
            format!("{} ({})", facts.ptx_isa.value, how(facts.ptx_isa.how)),
            format!("`{}`", facts.nvrtc.soname),
            format!("{} / {}", facts.host_compilers.gcc_max, facts.host_compilers.clang_max),
            format!("{} ({})", need.full, how(need.how)),
            need.floor.clone(),
            facts.image.value.clone().unwrap_or_else(|| "-".into()),
            if facts.wheels_carry_nvcc() { "yes" } else { "no" }.into(),
        ]
    };
    let header = [
        "toolkit",
        "PTX ISA",
        "NVRTC",
        "newest gcc / clang",
        "driver with full support",
        "oldest driver",
        "newest image",
        "nvcc in the wheels",
    ];
    let text = "The oldest driver is that of minor-version compatibility, which covers machine code and not PTX.";
    table(out, "Toolkits", text, &header, catalogue::toolkits().iter().map(row));
}

fn architectures(out: &mut String) {
    let mut all: Vec<Arch> =
        catalogue::toolkits().iter().flat_map(|facts| facts.targets.value.all().to_vec()).collect();
    all.sort_unstable_by_key(|arch| (arch.number(), arch.mark));
    all.dedup();
    let row = |arch: &Arch| {
        let by: Vec<Version> =
            catalogue::toolkits().iter().filter(|facts| facts.knows(*arch)).map(|facts| facts.version).collect();
        let (first, last) = (by.first().copied(), by.last().copied());
        let newest = catalogue::toolkits().last().map(|facts| facts.version);
        let shown = |version: Option<Version>| version.map_or_else(String::new, |version| version.to_string());
        let first = if first == Some(Version::new(11, 8)) { "11.8 or older".into() } else { shown(first) };
        let last = if last == newest { "still there".into() } else { shown(last) };
        vec![format!("`{}`", arch.sm()), first, last]
    };
    let text = "`a` is code for exactly that capability, `f` for its family.";
    table(out, "Architectures", text, &["target", "first toolkit", "last toolkit"], all.iter().map(row));
}

fn drivers(out: &mut String) {
    let rows = catalogue::drivers().iter().map(|driver| {
        vec![
            driver.branch.to_string(),
            driver.cuda.value.to_string(),
            format!("{} ({})", driver.max_ptx_isa.value, how(driver.max_ptx_isa.how)),
        ]
    });
    let text = "A driver compiles PTX up to the ISA of its own CUDA version.";
    table(out, "Drivers", text, &["branch", "CUDA", "highest PTX ISA"], rows);
}

fn forward(out: &mut String) {
    let mut header = vec!["package".to_owned()];
    header.extend(BRANCHES.iter().map(ToString::to_string));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = TABLE.iter().map(|((major, minor), _)| {
        let mut row = vec![format!("cuda-compat-{major}-{minor}")];
        row.extend(BRANCHES.iter().map(|branch| {
            match compat(Version::new(*major, *minor), *branch) {
                Compat::Works => "works",
                Compat::NotNeeded => "not needed",
                Compat::NotSupported => "not supported",
                Compat::NotListed => "-",
            }
            .into()
        }));
        row
    });
    let text = "By driver branch, on data-centre GPUs and some workstation GPUs only. From NVIDIA's forward \
                compatibility guide, as of CUDA 13.4; other branches are at their end of life.";
    table(out, "Forward-compatibility packages", text, &header, rows);
}

fn gpus(out: &mut String) {
    let rows = GPUS.iter().map(|model| {
        let class = match model.class {
            GpuClass::DataCentre => "data centre",
            GpuClass::Consumer => "consumer",
            GpuClass::Workstation => "workstation",
        };
        vec![model.name.into(), model.cc.to_string(), class.into()]
    });
    let text = "What `fleet:` takes by name. Others are named by their compute capability.";
    table(out, "GPUs", text, &["name", "compute capability", "class"], rows);
}

fn rule_table(out: &mut String) {
    let rows = rules().iter().map(|rule| {
        let known = format!("{}: {} ({})", how(rule.how), rule.source, rule.date);
        vec![format!("`{}`", rule.id), bar(rule.says), bar(rule.remedy), bar(&known)]
    });
    let text = "What `predicted` and `fleet` in reports refer to by `rule`.";
    table(out, "Rules", text, &["rule", "says", "remedy", "known from"], rows);
}

/// Text in a cell of a table: a star or a bar would be markup.
fn bar(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "&lt;")
}
