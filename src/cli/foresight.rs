//! What the rules say of a plan, for `plan` and for the expectations of a run. Its main type is [`Foreseen`].

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::compat::predict::machine::Machine;
use crate::compat::predict::{Predictor, ToolkitSide, find, planned_absent};
use crate::model::arch::Arch;
use crate::model::expand::to_json;
use crate::model::fleet::FleetEntry;
use crate::model::matrix::{ArchChoice, Expectation, Matrix};
use crate::model::outcome::Outcome;
use crate::model::plan::Plan;
use crate::model::record::{FleetPrediction, Predicted};

/// What the rules say of each cell of a plan, in the plan's order.
pub(crate) struct Foreseen {
    /// On this machine.
    pub(crate) here: Vec<Option<Predicted>>,
    /// On each machine of the fleet.
    pub(crate) fleet: Vec<Vec<FleetPrediction>>,
}

impl Foreseen {
    /// Asks the rules. Without a machine nothing is loaded here.
    pub(crate) fn of(plan: &Plan, predictor: &Predictor, machine: Option<&Machine>) -> Self {
        let mut toolkits = vec![0; plan.cells.len()];
        for job in &plan.jobs {
            for cell in &job.cells {
                toolkits[*cell] = job.toolkit;
            }
        }
        let absent: Vec<_> = plan.toolkits.iter().map(planned_absent).collect();
        let side = |at: usize| {
            let (version, absent) = (plan.toolkits[at].version, absent[at].as_slice());
            ToolkitSide { version, absent, measured: None }
        };
        let cells = || plan.cells.iter().zip(&toolkits);
        let here = cells().map(|(cell, at)| predictor.cell(&cell.axes, &side(*at), machine)).collect();
        let fleet =
            cells().map(|(cell, at)| predictor.fleet(&cell.axes, plan.toolkits[*at].version, &plan.fleet)).collect();
        Self { here, fleet }
    }

    /// The plan as `ctk-matrix plan --format json` prints it.
    pub(crate) fn json(&self, plan: &Plan) -> Value {
        let mut value = to_json(plan);
        let cells = value["cells"].as_array_mut().into_iter().flatten();
        for ((cell, here), fleet) in cells.zip(&self.here).zip(&self.fleet) {
            if let Some(here) = here {
                cell["predicted"] = json!(here);
            }
            if !fleet.is_empty() {
                cell["fleet"] = json!(fleet);
            }
        }
        value
    }

    /// ` predicted: fail at load with X (222), by ptx-isa`, and a line for each machine of the fleet.
    pub(crate) fn text(&self, index: usize) -> String {
        let here = self.here[index].as_ref();
        let mut out = here.map(|here| format!("  predicted: {}", words(here))).unwrap_or_default();
        for one in &self.fleet[index] {
            let _ = write!(out, "\n    {} with driver {}: {}", one.gpu, one.driver, words(&one.predicted));
        }
        out
    }

    /// Makes predicted failures the expectations of cells that have none.
    pub(crate) fn adopt(&self, plan: &mut Plan, only: impl Fn(Arch) -> bool) {
        for (cell, predicted) in plan.cells.iter_mut().zip(&self.here) {
            let Some(predicted) = predicted else { continue };
            if cell.expectation.is_none() && predicted.outcome == Outcome::Fail && only(cell.axes.arch) {
                let says = find(&predicted.rule).map_or("", |rule| rule.says);
                cell.expectation = Some(Expectation {
                    outcome: Outcome::Fail,
                    stage: predicted.stage,
                    code: predicted.code.as_ref().map(|code| code.name.clone()),
                    reason: format!("predicted by {}: {says}", predicted.rule),
                });
            }
        }
    }
}

/// Whether only the fleet asked for this architecture.
pub(crate) fn of_fleet_alone(matrix: &Matrix, native: Arch) -> impl Fn(Arch) -> bool {
    let mut asked = match &matrix.arch {
        ArchChoice::Native => vec![native],
        ArchChoice::List(list) => list.clone(),
    };
    asked.extend(matrix.include.iter().filter_map(|rule| rule.arch));
    let fleet: Vec<Arch> = matrix.fleet.iter().filter_map(FleetEntry::cc).collect();
    move |arch| fleet.contains(&arch) && !asked.contains(&arch)
}

fn words(predicted: &Predicted) -> String {
    let stage = predicted.stage.map(|stage| format!(" at {stage}")).unwrap_or_default();
    let code = predicted.code.as_ref().map(|code| format!(" with {code}")).unwrap_or_default();
    format!("{}{stage}{code}, by {}", predicted.outcome, predicted.rule)
}
