//! `ctk-matrix plan`: what would be done, without doing it.

use std::fmt::Write as _;

use super::args::{PlanArguments, PlanFormat};
use super::context;
use super::exit::{Code, Failure};
use super::foresight::Foreseen;
use crate::compat::predict::Predictor;
use crate::model::arch::Arch;
use crate::model::matrix::ToolkitSource;
use crate::model::plan::Plan;
use crate::model::units;
use crate::run::provision::wheels;
use crate::toolkit::Cache;

/// Prints the plan.
pub(crate) fn plan(arguments: &PlanArguments) -> Result<Code, Failure> {
    let native = match &arguments.native {
        Some(text) => text.parse().map_err(|error| Failure::new(Code::Usage, format!("--native: {error}")))?,
        None => Arch::WITHOUT_GPU,
    };
    let matrix = context::matrix(&arguments.matrix)?;
    let plan = context::plan(&matrix, &arguments.matrix, native)?;
    let foreseen = Foreseen::of(&plan, &Predictor::new(&plan.kernels), None);
    context::print(&match arguments.format {
        PlanFormat::Json => format!("{:#}\n", foreseen.json(&plan)),
        PlanFormat::Text => text(&plan, &foreseen),
    })
}

fn text(plan: &Plan, foreseen: &Foreseen) -> String {
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
