//! Says beforehand what will come of a cell: by rules with an id each, listed by [`rules()`]. Its main type is
//! [`Predictor`], which reads the kernels' artifacts once and then answers for cell after cell.
//!
//! The driver family is judged by what its artifact holds, whatever the cell's toolkit; the others by what the
//! catalogue knows of the toolkit.

mod agree;
pub mod build;
pub mod image;
pub mod load;
pub mod machine;
mod rules;
pub mod surroundings;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use self::load::{Load, Piece, load, pieces};
use self::machine::{Known, Machine};
use crate::compat::artifact::{self, ArtifactError};
use crate::compat::catalogue;
use crate::compat::codes;
use crate::model::axes::Axes;
use crate::model::fleet::FleetEntry;
use crate::model::kernel::{Kernel, Prebuilt};
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::outcome::{Code, Outcome, Stage};
use crate::model::path::{Family, Form};
use crate::model::record::{FleetPrediction, Predicted};
use crate::model::version::Version;

pub use self::agree::agrees;
pub use self::build::Measured;
pub use self::rules::{Rule, find, rules};

/// What a source lacks: the family, and the rule that says so.
pub type Absent = (Family, &'static str);

/// What an entry's source is known to lack before it is provided. Where nothing is said, wheels are what there is for
/// sure.
#[must_use]
pub fn planned_absent(toolkit: &Toolkit) -> Vec<Absent> {
    match &toolkit.source {
        ToolkitSource::Unsaid => match catalogue::facts(toolkit.version) {
            Some(facts) if !facts.wheels_carry_nvcc() => vec![(Family::Nvcc, "wheels-carry")],
            Some(_) | None => Vec::new(),
        },
        ToolkitSource::Image(reference) => {
            image::Variant::of_reference(reference).map_or_else(Vec::new, image::Variant::absent)
        }
        ToolkitSource::Dir(_) => Vec::new(),
    }
}

/// A cell's toolkit, as far as it decides.
#[derive(Debug, Clone, Copy)]
pub struct ToolkitSide<'a> {
    /// Its version.
    pub version: Version,
    /// What it comes without.
    pub absent: &'a [Absent],
    /// What was measured of it, where the catalogue does not know it.
    pub measured: Option<&'a Measured>,
}

impl ToolkitSide<'_> {
    /// A toolkit that comes whole.
    #[must_use]
    pub const fn whole(version: Version) -> Self {
        Self { version, absent: &[], measured: None }
    }
}

/// Says what will come of cells.
#[derive(Debug, Clone, Default)]
pub struct Predictor {
    kernels: HashMap<String, KernelFacts>,
}

/// What is known of a kernel.
#[derive(Debug, Clone)]
struct KernelFacts {
    launches: bool,
    prebuilt: BTreeMap<Form, Made>,
}

/// An artifact, read.
#[derive(Debug, Clone)]
enum Made {
    /// It can be loaded, or not, by what it holds.
    Whole(Form, Vec<Piece>),
    /// The driver is not given it.
    Broken,
    /// The driver does not know what it is.
    Unknown,
    /// It is PTX that no compiler takes.
    BadPtx,
}

impl Predictor {
    /// Reads the kernels' artifacts.
    #[must_use]
    pub fn new(kernels: &[Kernel]) -> Self {
        let facts = |kernel: &Kernel| KernelFacts {
            launches: kernel.launch.is_some(),
            prebuilt: kernel.prebuilt.iter().map(|(form, prebuilt)| (*form, of_prebuilt(prebuilt))).collect(),
        };
        Self { kernels: kernels.iter().map(|kernel| (kernel.name.clone(), facts(kernel))).collect() }
    }

    /// What will come of a cell. Without a machine nothing is loaded. Nothing is said of the Python libraries: what
    /// they compile with, and for, is their own choice.
    #[must_use]
    pub fn cell(&self, axes: &Axes, toolkit: &ToolkitSide<'_>, machine: Option<&Machine>) -> Option<Predicted> {
        let path = axes.path;
        if let Some((_, rule)) = toolkit.absent.iter().find(|(family, _)| *family == path.family) {
            return Some(predicted(Outcome::Skip, None, None, rule));
        }
        if let Some(refused) = machine.and_then(driver_init) {
            return Some(refused);
        }
        let facts = self.kernels.get(&axes.kernel);
        let made = match path.family {
            Family::Driver => match facts.and_then(|facts| facts.prebuilt.get(&path.form)) {
                Some(made) => made.clone(),
                None => return Some(predicted(Outcome::Skip, None, None, "artifact-form")),
            },
            Family::Nvrtc | Family::Nvcc => match build::build(path, axes.arch, toolkit) {
                Ok(pieces) => Made::Whole(path.form, pieces),
                Err(refused) => return Some(refused),
            },
            Family::CudaCore | Family::Cupy | Family::Numba | Family::Pycuda => return None,
        };
        let launches = facts.is_some_and(|facts| facts.launches);
        Some(made.on(machine, launches))
    }

    /// What the rules say of the cell on each machine of the fleet. Whether these machines' toolkits come with nvcc
    /// is not known, and no reason to say nothing.
    #[must_use]
    pub fn fleet(&self, axes: &Axes, version: Version, fleet: &[FleetEntry]) -> Vec<FleetPrediction> {
        let say = |entry: &FleetEntry| {
            let machine = Machine::of_fleet(entry)?;
            Some(of_fleet(entry, self.cell(axes, &ToolkitSide::whole(version), Some(&machine))?))
        };
        fleet.iter().filter_map(say).collect()
    }
}

/// What the rules say of an artifact that was really built, on each machine of the fleet.
#[must_use]
pub fn fleet_of_artifact(bytes: &[u8], launches: bool, fleet: &[FleetEntry]) -> Vec<FleetPrediction> {
    let made = of_bytes(bytes);
    let say = |entry: &FleetEntry| {
        let machine = Machine::of_fleet(entry)?;
        let predicted = driver_init(&machine).unwrap_or_else(|| made.on(Some(&machine), launches));
        Some(of_fleet(entry, predicted))
    };
    fleet.iter().filter_map(say).collect()
}

fn of_fleet(entry: &FleetEntry, predicted: Predicted) -> FleetPrediction {
    FleetPrediction { driver: entry.driver.clone(), gpu: entry.gpu.clone(), predicted }
}

/// Whether the driver shows the GPU at all.
fn driver_init(machine: &Machine) -> Option<Predicted> {
    let rule = match machine.knows_gpu() {
        Known::Yes => return None,
        Known::NotYet(_) => "gpu-too-new",
        Known::NoLonger => "gpu-dropped",
    };
    Some(predicted(Outcome::Fail, Some(Stage::DriverInit), Some(codes::driver(100)), rule))
}

fn of_prebuilt(prebuilt: &Prebuilt) -> Made {
    STANDARD.decode(&prebuilt.base64).map_or(Made::Unknown, |bytes| of_bytes(&bytes))
}

fn of_bytes(bytes: &[u8]) -> Made {
    match artifact::read(bytes) {
        Ok(contents) => Made::Whole(contents.form, pieces(&contents)),
        Err(ArtifactError::Truncated { .. } | ArtifactError::OtherMachine(_)) => Made::Broken,
        Err(ArtifactError::Malformed { form, .. }) if form != "PTX" => Made::Broken,
        Err(ArtifactError::Malformed { .. }) => Made::BadPtx,
        Err(ArtifactError::Empty | ArtifactError::Unrecognised(_) | ArtifactError::OtherAbi { .. }) => Made::Unknown,
    }
}

impl Made {
    fn on(&self, machine: Option<&Machine>, launches: bool) -> Predicted {
        let Some(machine) = machine else {
            return match self {
                Self::Whole(..) => predicted(Outcome::Built, None, None, "no-gpu"),
                Self::Broken => predicted(Outcome::Fail, Some(Stage::Build), None, "artifact-whole"),
                Self::Unknown | Self::BadPtx => predicted(Outcome::Fail, Some(Stage::Build), None, "artifact-form"),
            };
        };
        let said = match self {
            Self::Whole(form, pieces) => load(*form, pieces, machine),
            Self::Broken => Load { error: None, loads: false, rule: "artifact-whole" },
            Self::Unknown => Load { error: Some(200), loads: false, rule: "artifact-form" },
            Self::BadPtx => Load { error: Some(218), loads: false, rule: "artifact-form" },
        };
        if said.loads {
            let outcome = if launches { Outcome::Pass } else { Outcome::Loaded };
            return predicted(outcome, None, None, said.rule);
        }
        predicted(Outcome::Fail, Some(Stage::Load), said.error.map(codes::driver), said.rule)
    }
}

fn predicted(outcome: Outcome, stage: Option<Stage>, code: Option<Code>, rule: &str) -> Predicted {
    Predicted { outcome, stage, code, rule: rule.into(), agrees: None }
}
