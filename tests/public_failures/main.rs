//! Failures that people reported in public, as scenes made of the facts that they gave: driver, toolkit, image, GPU,
//! text. For each, the rule that says so beforehand and its remedy, and for those with a code or a text, what the
//! report would explain. Where a report does not say a number, the scene names one that fits and says so.

mod building;
mod loading;
mod machines;
mod packages;

use ctk_matrix::compat::explain::explain;
use ctk_matrix::compat::predict::load::{Load, Piece, PieceKind, load};
use ctk_matrix::compat::predict::machine::Machine;
use ctk_matrix::compat::predict::{Predictor, ToolkitSide, find};
use ctk_matrix::model::axes::Axes;
use ctk_matrix::model::fleet::FleetEntry;
use ctk_matrix::model::outcome::{Code, Stage};
use ctk_matrix::model::path::Form;
use ctk_matrix::model::record::Predicted;
use ctk_matrix::model::version::Version;

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn machine(driver: &str, gpu: &str) -> Machine {
    Machine::of_fleet(&FleetEntry { driver: driver.into(), gpu: gpu.into() }).unwrap()
}

fn ptx(isa: &str, target: &str) -> Piece {
    Piece { kind: PieceKind::Ptx(version(isa)), arch: target.parse().unwrap(), zstd: false }
}

fn cubin(toolkit: &str, target: &str) -> Piece {
    Piece { kind: PieceKind::Cubin(version(toolkit)), arch: target.parse().unwrap(), zstd: false }
}

/// The driver refuses with this error, by this rule.
#[track_caller]
fn refused(form: Form, pieces: &[Piece], machine: &Machine, error: u32, rule: &str) {
    let said = load(form, pieces, machine);
    assert_eq!((said.loads, said.error, said.rule), (false, Some(error), rule));
}

fn loads(form: Form, pieces: &[Piece], machine: &Machine) -> bool {
    let Load { loads, .. } = load(form, pieces, machine);
    loads
}

/// What will come of a cell that a toolkit builds.
fn cell(toolkit: &str, path: &str, arch: &str, machine: Option<&Machine>) -> Predicted {
    let (path, arch) = (path.parse().unwrap(), arch.parse().unwrap());
    let axes = Axes { toolkit: toolkit.into(), path, kernel: "k".into(), arch, stack: None };
    Predictor::default().cell(&axes, &ToolkitSide::whole(version(toolkit)), machine).expect("the rules speak of it")
}

/// The rule is in the table, and its remedy says this.
#[track_caller]
fn remedy(rule: Option<&str>, id: &str, says: &str) {
    assert_eq!(rule, Some(id));
    let rule = find(id).unwrap();
    assert!(rule.remedy.contains(says), "{id}: {}", rule.remedy);
}

/// The code or the text is explained, with a remedy that says this.
#[track_caller]
fn explained(stage: Option<Stage>, code: Option<&Code>, text: &str, says: &str) {
    let explanation = explain(stage, code, text).unwrap_or_else(|| panic!("{text:?} is not explained"));
    assert!(explanation.remedy.contains(says), "{}: {}", explanation.what, explanation.remedy);
}
