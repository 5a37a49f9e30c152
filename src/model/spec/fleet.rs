//! `fleet:`, from what is written to machines that are known. Its main function is [`lower`].

use super::Known;
use super::error::{Complaint, quoted};
use super::lower::Lower;
use super::node::Node;
use super::raw::RawFleetEntry;
use crate::model::fleet::{DriverVersion, FleetEntry, GPUS, OLDEST_BRANCH};
use crate::model::nearest::nearest;

/// More machines than that are a mistake in the file: each is predicted for every cell.
const MOST_MACHINES: usize = 100;

/// The machines in the order written, each once.
pub(super) fn lower(lower: &mut Lower<'_>, raw: Vec<RawFleetEntry>, node: &Node) -> Vec<FleetEntry> {
    let places = node.items().iter().map(|item| item.span.clone());
    let fleet: Vec<_> = raw.into_iter().map(|raw| FleetEntry { driver: raw.driver, gpu: raw.gpu }).collect();
    let names = fleet.iter().map(|entry| format!("driver {} with {}", entry.driver, entry.gpu));
    lower.distinct(names.zip(places), "the machine", "name it once");
    if fleet.len() > MOST_MACHINES {
        let complaint = Complaint::new(format!("`fleet` lists more than {MOST_MACHINES} machines"));
        lower.complain(node.span.clone(), complaint);
    }
    fleet
}

/// A driver's version.
pub(super) fn driver(text: &str, _: &Known<'_>) -> Result<(), Complaint> {
    let driver: DriverVersion = text.parse().map_err(|_| {
        Complaint::new(format!("{} is not a driver version", quoted(text)))
            .help("write it as \"535.104.05\", or by its branch, \"535\"")
    })?;
    if driver.branch() < OLDEST_BRANCH {
        let complaint = Complaint::new(format!("driver {} is older than all that are known", quoted(text)));
        return Err(complaint.help(format!("known are branches from {OLDEST_BRANCH} on")));
    }
    Ok(())
}

/// A GPU by name or compute capability.
pub(super) fn gpu(text: &str, _: &Known<'_>) -> Result<(), Complaint> {
    let entry = FleetEntry { driver: String::new(), gpu: text.into() };
    if entry.cc().is_some() {
        return Ok(());
    }
    let complaint = Complaint::new(format!("{} is no GPU that is known", quoted(text)));
    Err(match nearest(text, GPUS.iter().map(|model| model.name)) {
        Some(near) => complaint.help(format!("did you mean `{near}`? or write its compute capability: \"7.5\"")),
        None => complaint.help("write its compute capability: \"7.5\""),
    })
}
