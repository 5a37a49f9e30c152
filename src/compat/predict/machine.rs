//! A driver with a GPU, as far as it decides what can be loaded. Its main type is [`Machine`].

use crate::compat::catalogue;
use crate::model::arch::Arch;
use crate::model::fleet::{DriverVersion, FleetEntry, GpuClass, gpu_model};
use crate::model::record::Gpu;
use crate::model::version::Version;

/// Whether the driver compiles PTX, as the environment of the process tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jit {
    /// It does, where there is no machine code.
    #[default]
    Usual,
    /// It takes no machine code: `CUDA_FORCE_PTX_JIT=1`.
    Forced,
    /// It takes no PTX: `CUDA_DISABLE_PTX_JIT=1`.
    Disabled,
    /// Its compiler, `libnvidia-ptxjitcompiler.so.1`, is not there.
    Missing,
}

impl Jit {
    /// What the process's environment says. `get` looks a variable up.
    #[must_use]
    pub fn of_environment(get: impl Fn(&str) -> Option<String>) -> Self {
        let on = |names: [&str; 2]| names.iter().any(|name| get(name).is_some_and(|value| value == "1"));
        if on(["CUDA_DISABLE_PTX_JIT", "CUDA_DISABLE_JIT"]) {
            Self::Disabled
        } else if on(["CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT"]) {
            Self::Forced
        } else {
            Self::Usual
        }
    }
}

/// A driver with a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// The driver's version; none where it could not be read.
    pub driver: Option<DriverVersion>,
    /// The CUDA version that the driver implements.
    pub cuda: Version,
    /// The GPU's compute capability.
    pub cc: Arch,
    /// What the GPU is sold as, where that is known.
    pub class: Option<GpuClass>,
    /// Whether PTX is compiled.
    pub jit: Jit,
}

impl Machine {
    /// The machine with this GPU, which its driver described.
    #[must_use]
    pub fn of_gpu(gpu: &Gpu) -> Self {
        let class = gpu_model(&gpu.name).map(|model| model.class);
        Self { driver: gpu.driver.parse().ok(), cuda: gpu.cuda, cc: gpu.cc, class, jit: Jit::Usual }
    }

    /// The machine that a line of `fleet:` describes; none where the driver or the GPU is not known.
    #[must_use]
    pub fn of_fleet(entry: &FleetEntry) -> Option<Self> {
        let driver: DriverVersion = entry.driver.parse().ok()?;
        let cuda = cuda_of_branch(driver.branch())?;
        Some(Self { driver: Some(driver), cuda, cc: entry.cc()?, class: entry.class(), jit: Jit::Usual })
    }

    /// The highest PTX ISA that the driver compiles.
    #[must_use]
    pub fn max_ptx_isa(&self) -> Version {
        catalogue::max_ptx_isa(self.cuda).unwrap_or_else(|| {
            // From 13.0 on the ISA's minor number is the toolkit's, and its major number is 4 less.
            let newest = catalogue::drivers().last().map(|driver| driver.cuda.value);
            if newest.is_some_and(|newest| self.cuda > newest) {
                return Version::new(self.cuda.major.saturating_sub(4), self.cuda.minor);
            }
            let older = catalogue::drivers().iter().rev().find(|driver| driver.cuda.value <= self.cuda);
            older.map_or(Version::new(0, 0), |driver| driver.max_ptx_isa.value)
        })
    }

    /// Whether the driver knows GPUs of this capability, and if not, whether it no longer does.
    #[must_use]
    pub fn knows_gpu(&self) -> Known {
        // The last branch for Maxwell, Pascal and Volta is 580.
        const LAST_BEFORE_TURING: Version = Version::new(13, 0);
        if self.cc < Arch::new(7, 5) && self.cuda > LAST_BEFORE_TURING {
            return Known::NoLonger;
        }
        // The driver of CUDA 12.7 was the first for sm_100, before any toolkit compiled for it.
        let first = match (self.cc.major, self.cc.minor) {
            (10, 0) => Some(Version::new(12, 7)),
            _ => catalogue::toolkits().iter().find(|toolkit| toolkit.knows(self.cc)).map(|toolkit| toolkit.version),
        };
        match first {
            // 11.8 is the oldest that is known: what it compiles for may be older.
            Some(first) if first > Version::new(11, 8) && self.cuda < first => Known::NotYet(first),
            Some(first) if first == Version::new(11, 8) && self.cc >= Arch::new(8, 9) && self.cuda < first => {
                Known::NotYet(first)
            }
            _ => Known::Yes,
        }
    }
}

/// Whether a driver knows a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It does.
    Yes,
    /// It is older than the GPU: the first CUDA version that knows it.
    NotYet(Version),
    /// It is too new for the GPU.
    NoLonger,
}

/// The CUDA version of a driver branch. A branch between two known ones is taken for the older: that is what its
/// siblings for other systems are (536 and 537 on Windows are 535).
#[must_use]
pub fn cuda_of_branch(branch: u32) -> Option<Version> {
    let known = catalogue::drivers().iter().rev().find(|driver| driver.branch <= branch)?;
    Some(known.cuda.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fleet::OLDEST_BRANCH;

    fn machine(driver: &str, gpu: &str) -> Machine {
        Machine::of_fleet(&FleetEntry { driver: driver.into(), gpu: gpu.into() }).unwrap()
    }

    #[test]
    fn a_driver_stands_for_a_cuda_version_and_a_highest_ptx_isa() {
        let shown = |driver: &str| {
            let machine = machine(driver, "T4");
            (machine.cuda.to_string(), machine.max_ptx_isa().to_string())
        };
        assert_eq!(shown("535.104.05"), ("12.2".into(), "8.2".into()));
        assert_eq!(shown("537.13"), ("12.2".into(), "8.2".into()));
        assert_eq!(shown("565.57.01"), ("12.7".into(), "8.6".into()));
        assert_eq!(shown("580.159.04"), ("13.0".into(), "9.0".into()));
        let newer = Machine { cuda: Version::new(13, 7), ..machine("620", "T4") };
        assert_eq!(newer.max_ptx_isa(), Version::new(9, 7));
        assert_eq!(catalogue::drivers()[0].branch, OLDEST_BRANCH);
        assert_eq!(cuda_of_branch(390), None);
    }

    #[test]
    fn a_driver_knows_gpus_of_its_time() {
        assert_eq!(machine("535", "B200").knows_gpu(), Known::NotYet(Version::new(12, 7)));
        assert_eq!(machine("565", "B200").knows_gpu(), Known::Yes);
        assert_eq!(machine("565", "RTX 5090").knows_gpu(), Known::NotYet(Version::new(12, 8)));
        assert_eq!(machine("515", "H100").knows_gpu(), Known::NotYet(Version::new(11, 8)));
        assert_eq!(machine("470", "T4").knows_gpu(), Known::Yes);
        assert_eq!(machine("580", "V100").knows_gpu(), Known::Yes);
        assert_eq!(machine("590", "V100").knows_gpu(), Known::NoLonger);
        assert_eq!(machine("590", "T4").knows_gpu(), Known::Yes);
    }

    #[test]
    fn the_environment_can_force_and_forbid_the_jit() {
        let with = |name: &'static str, value: &'static str| {
            Jit::of_environment(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(with("CUDA_FORCE_PTX_JIT", "1"), Jit::Forced);
        assert_eq!(with("CUDA_DISABLE_PTX_JIT", "1"), Jit::Disabled);
        assert_eq!(with("CUDA_DISABLE_PTX_JIT", "0"), Jit::Usual);
    }
}
