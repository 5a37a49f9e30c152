//! `ctk-matrix doctor`: what works on this machine, what does not, and what to do about it. The exit code is 0 if the
//! main job can run, else 5.

mod attach;
mod facts;
mod finding;
mod findings;
mod gather;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::DoctorArguments;
use super::context::print;
use super::exit::{Code, Failure};
use crate::report::text::visible;
use facts::{Engine, Facts};
use finding::{Finding, State};

/// Raised when a field of the output is renamed or taken out.
const SCHEMA: u32 = 1;

/// Looks at this machine.
pub(crate) fn doctor(arguments: &DoctorArguments) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::caused(Code::Engine, "cannot start the runtime", error))?;
    let facts = runtime.block_on(gather::gather(&arguments.matrix));
    let findings = findings::findings(&facts);
    print(&if arguments.json { format!("{:#}\n", to_json(&facts, &findings)) } else { text(&findings) })?;
    Ok(if ready(&findings) { Code::AsExpected } else { Code::Engine })
}

fn ready(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.state != State::Problem)
}

fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for Finding { subject, state, says, remedy } in findings {
        let _ = writeln!(out, "{:<8} {subject:<10} {}", state.name(), visible(says));
        if let Some(remedy) = remedy {
            let _ = writeln!(out, "{:<19} remedy: {}", "", visible(remedy));
        }
    }
    let problems = findings.iter().filter(|finding| finding.state == State::Problem).count();
    match problems {
        0 => out.push_str("\nthe main job can run: ctk-matrix run\n"),
        1 => out.push_str("\nthe main job cannot run: there is 1 problem\n"),
        _ => drop(writeln!(out, "\nthe main job cannot run: there are {problems} problems")),
    }
    out
}

fn to_json(facts: &Facts, findings: &[Finding]) -> Value {
    let engine = match &facts.engine {
        Engine::Docker { version, api, .. } => json!({ "kind": "docker", "version": version, "api": api }),
        Engine::Absent(_) => json!({ "kind": "process" }),
        Engine::Refuses(_) => Value::Null,
    };
    json!({
        "schema": SCHEMA,
        "ready": ready(findings),
        "engine": engine,
        "gpu": facts.gpu.as_ref().map(|(gpu, _)| gpu),
        "gpu_mode": facts.gpu.as_ref().map(|(_, mode)| mode),
        "attach": facts.tried.iter().filter(|(_, result)| result.is_ok()).map(|(way, _)| *way).collect::<Vec<_>>(),
        "glibc": facts.glibc,
        "findings": findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
    })
}
