//! `ctk-matrix toolkit`: lists the toolkits that are known, and puts them into the cache.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use tokio::sync::mpsc;

use super::args::ToolkitArguments;
use super::context::print;
use super::exit::{Code, Failure};
use super::signals::Signals;
use crate::compat::catalogue;
use crate::model::event::{ProvisionStep, RunEvent};
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::selector::Selector;
use crate::model::units;
use crate::model::version::Version;
use crate::report::progress::{Progress, ProgressMode};
use crate::run::provision::wheels;
use crate::toolkit::{Ask, Cache, Pip, provision};

/// Lists or fetches.
pub(crate) fn toolkit(arguments: ToolkitArguments) -> Result<Code, Failure> {
    let cache = Cache::locate().map_err(|error| Failure::new(Code::Engine, error))?;
    match arguments {
        ToolkitArguments::List => list(&cache),
        ToolkitArguments::Table => print(&crate::compat::page::page()),
        ToolkitArguments::Fetch { versions, quiet } => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| Failure::caused(Code::Engine, "cannot start the runtime", error))?;
            runtime.block_on(fetch(&cache, &chosen(&versions)?, quiet))
        }
    }
}

fn list(cache: &Cache) -> Result<Code, Failure> {
    let mut out = String::from("toolkit  PTX ISA  nvcc in wheels  wheels              image\n");
    for facts in catalogue::toolkits() {
        let state = match wheels(facts.version) {
            Some(wheels) if wheels.is_cached(cache) => "in the cache".to_owned(),
            Some(wheels) => format!("{} to fetch", units::bytes(wheels.bytes())),
            None => "none".to_owned(),
        };
        let image = facts.image.value.as_deref().unwrap_or("none seen");
        let nvcc = if facts.wheels_carry_nvcc() { "yes" } else { "no" };
        let version = facts.version.to_string();
        let isa = facts.ptx_isa.value.to_string();
        let _ = writeln!(out, "{version:<9}{isa:<9}{nvcc:<16}{state:<20}{image}");
    }
    print(&out)
}

fn chosen(texts: &[String]) -> Result<Vec<Version>, Failure> {
    let all = catalogue::versions();
    let mut chosen = Vec::new();
    for text in texts {
        let selector: Selector = text.parse().map_err(|error| Failure::new(Code::Usage, error))?;
        let found: Vec<Version> = all.iter().copied().filter(|version| selector.matches(*version, &all)).collect();
        if found.is_empty() {
            let why = selector.exact().and_then(catalogue::unknown);
            let why = why.unwrap_or_else(|| format!("`{text}` names no toolkit that is known"));
            return Err(Failure::new(Code::Usage, why));
        }
        chosen.extend(found);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

async fn fetch(cache: &Cache, versions: &[Version], quiet: bool) -> Result<Code, Failure> {
    let signals =
        Signals::listen().map_err(|error| Failure::caused(Code::Engine, "cannot listen for signals", error))?;
    let mode = match (quiet, std::io::stderr().is_terminal()) {
        (true, _) => ProgressMode::Quiet,
        (false, true) => ProgressMode::Bars,
        (false, false) => ProgressMode::Lines,
    };
    let (tell, mut told) = mpsc::unbounded_channel();
    let showing = tokio::spawn(async move {
        let mut progress = Progress::new(mode);
        while let Some(event) = told.recv().await {
            progress.event(&event);
        }
        progress.finish();
    });
    let mut failed = Vec::new();
    for version in versions {
        let toolkit =
            Toolkit { name: version.to_string(), version: *version, source: ToolkitSource::Unsaid, base: None };
        let name = toolkit.name.clone();
        let send = |step: ProvisionStep| drop(tell.send(RunEvent::Provision { toolkit: name.clone(), step }));
        let note = |text: String| drop(tell.send(RunEvent::Note(text)));
        let (wheels, pip, cancel) = (wheels(*version), Pip::default(), signals.cancelled());
        let ask =
            Ask { toolkit: &toolkit, wheels: wheels.as_ref(), cache, pip: &pip, progress: &send, note: &note, cancel };
        if let Err(error) = provision(ask).await {
            failed.push(format!("{version}: {error}"));
        }
        if let Some(code) = signals.code() {
            return Ok(code);
        }
    }
    drop(tell);
    // It ends when the channel is closed.
    let _ = showing.await;
    if failed.is_empty() { Ok(Code::AsExpected) } else { Err(Failure::new(Code::Engine, failed.join("\n"))) }
}
