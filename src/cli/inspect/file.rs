//! A file: PTX, a cubin, a fatbin, or a library, object or program with fatbins in it. It is read piece by piece, so
//! that a library of any size takes a few megabytes of memory.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::super::context::print;
use super::super::exit::{Code, Failure};
use crate::compat::artifact::survey::{Form, Group, Survey};
use crate::compat::artifact::{EntryKind, KernelEntry, Source};
use crate::compat::reach::{Reach, reach};
use crate::model::units;
use crate::report::text::visible;

/// Raised when a field of the output is renamed or taken out.
const SCHEMA: u32 = 1;
/// Kernels that are named for people; programs get all.
const NAMED: usize = 20;

/// A file of a size that was looked up before.
struct OnDisk {
    file: File,
    bytes: u64,
}

impl Source for OnDisk {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
}

/// Inspects a file of this size.
pub(super) fn inspect(path: &Path, bytes: u64, as_json: bool) -> Result<Code, Failure> {
    let unreadable = |error| Failure::caused(Code::Usage, format!("cannot read {}", path.display()), error);
    let source = OnDisk { file: File::open(path).map_err(unreadable)?, bytes };
    let survey = Survey::of(&source)
        .map_err(|error| Failure::caused(Code::NotAsExpected, format!("cannot inspect {}", path.display()), error))?;
    let reach = reach(&survey);
    let name = path.display().to_string();
    let out = if as_json {
        format!("{:#}\n", to_json(&name, bytes, &survey, &reach))
    } else {
        text(&name, bytes, &survey, &reach)
    };
    print(&out)?;
    Ok(if survey.damaged.is_empty() { Code::AsExpected } else { Code::NotAsExpected })
}

fn kind(kind: EntryKind) -> String {
    match kind {
        EntryKind::Ptx => "ptx".into(),
        EntryKind::Cubin => "cubin".into(),
        EntryKind::LtoIr => "lto-ir".into(),
        EntryKind::Other(number) => format!("kind-{number}"),
    }
}

const fn form(form: Form) -> &'static str {
    match form {
        Form::Ptx => "ptx",
        Form::Cubin => "cubin",
        Form::Fatbin => "fatbin",
        Form::Host => "host",
    }
}

fn to_json(name: &str, bytes: u64, survey: &Survey, reach: &[Reach]) -> Value {
    let group = |group: &Group| {
        json!({
            "kind": kind(group.kind),
            "arch": group.target(),
            "ptx_isa": group.ptx_isa,
            "abi": group.abi,
            "compression": group.compression.map(|compression| compression.to_string()),
            "count": group.count,
            "bytes": group.bytes,
            "unpacked_bytes": group.unpacked_bytes,
            "producer": group.producer,
        })
    };
    let kernel = |kernel: &KernelEntry| {
        json!({
            "name": kernel.name,
            "registers": kernel.registers,
            "stack_bytes": kernel.stack_bytes,
            "shared_bytes": kernel.shared_bytes,
        })
    };
    let runs = |reach: &&Reach| {
        json!({
            "cc": reach.gpu.to_string(),
            "fatbins": reach.fatbins,
            "drivers_from": reach.from,
            "drivers_until": reach.until,
            "by": reach.by,
            "compiled": reach.compiled,
        })
    };
    json!({
        "schema": SCHEMA,
        "file": name,
        "bytes": bytes,
        "form": form(survey.form),
        "sections": survey.sections.iter().map(|section| json!({
            "name": section.name, "bytes": section.bytes, "fatbins": section.fatbins,
        })).collect::<Vec<_>>(),
        "fatbins": survey.fatbins,
        "parts": survey.groups.iter().map(group).collect::<Vec<_>>(),
        "kernels": survey.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "damaged": survey.damaged.iter().map(|damaged| json!({
            "fatbin": damaged.fatbin, "part": damaged.part, "error": damaged.error.to_string(),
        })).collect::<Vec<_>>(),
        "runs_on": reach.iter().filter(|reach| reach.fatbins > 0).map(|reach| runs(&reach)).collect::<Vec<_>>(),
        "runs_not_on": reach.iter().filter(|reach| reach.fatbins == 0).map(|reach| reach.gpu.to_string()).collect::<Vec<_>>(),
    })
}

fn text(name: &str, bytes: u64, survey: &Survey, reach: &[Reach]) -> String {
    let parts: u64 = survey.groups.iter().map(|group| group.count).sum();
    let what = match survey.form {
        Form::Ptx => "PTX".to_owned(),
        Form::Cubin => "a cubin: machine code for one architecture".to_owned(),
        Form::Fatbin => format!("a fatbin of {parts} {}", units_of("part", parts)),
        Form::Host => {
            format!("a host's file with {} {} of {parts} parts", survey.fatbins, units_of("fatbin", survey.fatbins))
        }
    };
    let mut out = format!("{}: {what}, {}\n", visible(name), units::bytes(bytes));
    for section in &survey.sections {
        let (fatbins, size) = (section.fatbins, units::bytes(section.bytes));
        let _ = writeln!(out, "  section {}: {fatbins} {}, {size}", section.name, units_of("fatbin", fatbins));
    }
    groups(&mut out, survey);
    kernels(&mut out, &survey.kernels);
    for damaged in &survey.damaged {
        let _ = writeln!(out, "\ndamaged: part {} of fatbin {}: {}", damaged.part, damaged.fatbin, damaged.error);
    }
    runs(&mut out, survey, reach);
    out
}

fn units_of(word: &str, count: u64) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

fn groups(out: &mut String, survey: &Survey) {
    out.push_str("\nkind    architecture  PTX ISA  ELF ABI  compression  count       size   unpacked  made by\n");
    for group in &survey.groups {
        let optional = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let (isa, abi) =
            (optional(group.ptx_isa.map(|isa| isa.to_string())), optional(group.abi.map(|abi| abi.to_string())));
        let compression = optional(group.compression.map(|compression| compression.to_string()));
        let unpacked = if group.compression.is_some() { units::bytes(group.unpacked_bytes) } else { "-".into() };
        let _ = writeln!(
            out,
            "{:<7} {:<13} {isa:<8} {abi:<8} {compression:<12} {:>5} {:>10} {unpacked:>10}  {}",
            kind(group.kind),
            group.target(),
            group.count,
            units::bytes(group.bytes),
            visible(group.producer.as_deref().unwrap_or("not said")),
        );
    }
}

fn kernels(out: &mut String, kernels: &[KernelEntry]) {
    if kernels.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{} {}", kernels.len(), units_of("kernel", kernels.len() as u64));
    for kernel in kernels.iter().take(NAMED) {
        let _ = write!(out, "  {}", visible(&kernel.name));
        if let (Some(registers), Some(stack), Some(shared)) =
            (kernel.registers, kernel.stack_bytes, kernel.shared_bytes)
        {
            let _ = write!(out, ": {registers} registers, {stack} B stack, {shared} B shared");
        }
        out.push('\n');
    }
    if kernels.len() > NAMED {
        let _ = writeln!(out, "  … and {} more, which --json lists", kernels.len() - NAMED);
    }
}

fn runs(out: &mut String, survey: &Survey, reach: &[Reach]) {
    let (on, not_on): (Vec<&Reach>, Vec<&Reach>) = reach.iter().partition(|reach| reach.fatbins > 0);
    if on.is_empty() {
        out.push_str("\nit runs on no GPU that is known, with no driver that is known\n");
        return;
    }
    let library = survey.fatbins > 1;
    out.push_str("\nruns on  drivers           ");
    out.push_str(if library { "fatbins        by\n" } else { "by\n" });
    for reach in on {
        let from = reach.from.unwrap_or_default();
        let drivers = match reach.until {
            Some(until) => format!("{from} to {until}"),
            None => format!("{from} and later"),
        };
        let _ = write!(out, "{:<8} {drivers:<17} ", reach.gpu.to_string());
        if library {
            let _ = write!(out, "{:<14} ", format!("{} of {}", reach.fatbins, survey.fatbins));
        }
        let compiled = if reach.compiled { ", PTX compiled by the driver" } else { "" };
        let _ = writeln!(out, "{}{compiled}", reach.by.join(" "));
    }
    if !not_on.is_empty() {
        let list: Vec<String> = not_on.iter().map(|reach| reach.gpu.to_string()).collect();
        let _ = writeln!(out, "nothing in it runs on {}", list.join(", "));
    }
}
