//! `ctk-matrix plan`: what would be done, without doing it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::args::{PlanArguments, PlanFormat};
use super::context;
use super::exit::{Code, Failure};
use super::foresight::Foreseen;
use crate::compat::predict::Predictor;
use crate::model::arch::Arch;
use crate::model::matrix::ToolkitSource;
use crate::model::plan::Plan;
use crate::model::stack::{Python, Stack};
use crate::model::units;
use crate::run::provision::wheels;
use crate::toolkit::Cache;
use crate::toolkit::stack::is_cached;

/// Prints the plan.
pub(crate) fn plan(arguments: &PlanArguments) -> Result<Code, Failure> {
    let native = match &arguments.native {
        Some(text) => text.parse().map_err(|error| Failure::new(Code::Usage, format!("--native: {error}")))?,
        None => Arch::WITHOUT_GPU,
    };
    let matrix = context::matrix(&arguments.matrix)?;
    let plan = context::plan(&matrix, &arguments.matrix, native)?;
    let foreseen = Foreseen::of(&plan, &Predictor::new(&plan.kernels), None);
    let cached = cached(&plan)?;
    context::print(&match arguments.format {
        PlanFormat::Json => format!("{:#}\n", with_stacks(foreseen.json(&plan), &plan, &cached)),
        PlanFormat::Text => text(&plan, &foreseen, &cached),
    })
}

/// Whether the cache has the packages of each stack.
fn cached(plan: &Plan) -> Result<Vec<bool>, Failure> {
    let Ok(cache) = Cache::locate() else { return Ok(vec![false; plan.stacks.len()]) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::caused(Code::Engine, "cannot start the runtime", error))?;
    let mut cached = Vec::new();
    for stack in &plan.stacks {
        cached.push(runtime.block_on(is_cached(stack, &cache)));
    }
    Ok(cached)
}

fn with_stacks(mut value: Value, plan: &Plan, cached: &[bool]) -> Value {
    if !plan.stacks.is_empty() {
        let stack = |(stack, cached): (&Stack, &bool)| json!({"name": stack.name, "python": stack.python.to_string(), "packages": stack.packages, "cached": cached});
        value["stacks"] = plan.stacks.iter().zip(cached).map(stack).collect();
    }
    value
}

/// `lesson: Python 3.11 with numpy==1.26.4: in the cache`.
fn stack_line(stack: &Stack, cached: bool) -> String {
    let name = &stack.name;
    match &stack.python {
        Python::Host => format!("{name}: python3 of the machine or image, with what is installed for it"),
        Python::Version(version) => {
            let state = if cached {
                "in the cache"
            } else {
                "pip resolves it when the run comes to it, and its size is said then"
            };
            format!("{name}: Python {version} with {}: {state}", stack.packages.join(", "))
        }
    }
}

fn text(plan: &Plan, foreseen: &Foreseen, cached: &[bool]) -> String {
    let mut out = format!(
        "{} cells in {} jobs, from {} (native is {})\n",
        plan.cells.len(),
        plan.jobs.len(),
        plan.origin,
        plan.native
    );
    out.push_str("\ntoolkits\n");
    let cache = Cache::locate().ok();
    let mut total = 0;
    for toolkit in &plan.toolkits {
        let from = match &toolkit.source {
            ToolkitSource::Dir(dir) => format!("the folder {}", dir.display()),
            ToolkitSource::Image(reference) => format!("the image {reference}"),
            ToolkitSource::Unsaid => match wheels(toolkit.version) {
                None => "an nvidia/cuda image that is on this machine".to_owned(),
                Some(wheels) => {
                    let bytes = cache.as_ref().map_or(wheels.bytes(), |cache| wheels.download_size(cache));
                    total += bytes;
                    let size = if bytes == 0 { "in the cache".to_owned() } else { units::bytes(bytes) };
                    format!("an nvidia/cuda image that is on this machine, else wheels ({size})")
                }
            },
        };
        let _ = writeln!(out, "  {}: {from}", toolkit.name);
    }
    let _ = writeln!(out, "  at most {} to download", units::bytes(total));
    if !plan.stacks.is_empty() {
        out.push_str("\nstacks\n");
    }
    for (stack, cached) in plan.stacks.iter().zip(cached) {
        let _ = writeln!(out, "  {}", stack_line(stack, *cached));
    }
    out.push_str("\ncells\n");
    for (index, cell) in plan.cells.iter().enumerate() {
        let _ = write!(out, "  {}", cell.id);
        if let Some(expected) = &cell.expectation {
            let _ = write!(out, "  expected: {}", expected.outcome);
            if let Some(stage) = expected.stage {
                let _ = write!(out, " at {stage}");
            }
            if let Some(code) = &expected.code {
                let _ = write!(out, " with {code}");
            }
            let _ = write!(out, " ({})", expected.reason);
        }
        out.push_str(&foreseen.text(index));
        out.push('\n');
    }
    if !plan.claims.is_empty() {
        out.push_str("\nclaims\n");
    }
    for claim in &plan.claims {
        let _ = write!(out, "  {}: ", claim.says);
        if let Some(observe) = &claim.observe {
            let _ = writeln!(out, "{observe}, of {} cells", claim.cells.len());
        }
        if let Some(test) = &claim.packages {
            let what = if test.boundary.is_some() { "boundary by " } else { "" };
            let _ = writeln!(out, "{what}{}, of {}", test.action, test.packages.join(", "));
        }
    }
    if !plan.excluded.is_empty() {
        out.push_str("\nleft out\n");
        for excluded in &plan.excluded {
            let _ = write!(out, "  {}: {}", excluded.axes.id(), excluded.reason);
            if let Some(link) = &excluded.link {
                let _ = write!(out, " ({link})");
            }
            out.push('\n');
        }
    }
    out
}
