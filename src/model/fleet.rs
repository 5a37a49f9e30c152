//! Machines that are not here: a driver and a GPU each. Its main type is [`FleetEntry`], one line of `fleet:`, with
//! the [`GPUS`] that can be named instead of a compute capability.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::arch::Arch;

/// The oldest driver branch that the rules speak of: the floor of CUDA 11's minor-version compatibility.
pub const OLDEST_BRANCH: u32 = 450;

/// What a GPU is sold as, which decides whether it may use forward-compatibility libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuClass {
    /// For data centres.
    DataCentre,
    /// `GeForce` and `TITAN`.
    Consumer,
    /// RTX and Quadro: some are qualified for forward compatibility, and some are not.
    Workstation,
}

/// A GPU that can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuModel {
    /// Its name without `NVIDIA`, `Tesla` or `GeForce`.
    pub name: &'static str,
    /// Its compute capability.
    pub cc: Arch,
    /// What it is sold as.
    pub class: GpuClass,
}

const fn model(name: &'static str, major: u16, minor: u8, class: GpuClass) -> GpuModel {
    GpuModel { name, cc: Arch::new(major, minor), class }
}

/// GPUs by name. NVIDIA's table of compute capabilities (developer.nvidia.com/cuda-gpus), read 2026-12.
pub const GPUS: [GpuModel; 39] = [
    model("K80", 3, 7, GpuClass::DataCentre),
    model("M60", 5, 2, GpuClass::DataCentre),
    model("P100", 6, 0, GpuClass::DataCentre),
    model("P40", 6, 1, GpuClass::DataCentre),
    model("P4", 6, 1, GpuClass::DataCentre),
    model("GTX 1080", 6, 1, GpuClass::Consumer),
    model("GTX 1080 Ti", 6, 1, GpuClass::Consumer),
    model("V100", 7, 0, GpuClass::DataCentre),
    model("TITAN V", 7, 0, GpuClass::Consumer),
    model("T4", 7, 5, GpuClass::DataCentre),
    model("RTX 2080", 7, 5, GpuClass::Consumer),
    model("RTX 2080 Ti", 7, 5, GpuClass::Consumer),
    model("Quadro RTX 6000", 7, 5, GpuClass::Workstation),
    model("A100", 8, 0, GpuClass::DataCentre),
    model("A30", 8, 0, GpuClass::DataCentre),
    model("A2", 8, 6, GpuClass::DataCentre),
    model("A10", 8, 6, GpuClass::DataCentre),
    model("A10G", 8, 6, GpuClass::DataCentre),
    model("A16", 8, 6, GpuClass::DataCentre),
    model("A40", 8, 6, GpuClass::DataCentre),
    model("RTX A6000", 8, 6, GpuClass::Workstation),
    model("RTX 3080", 8, 6, GpuClass::Consumer),
    model("RTX 3090", 8, 6, GpuClass::Consumer),
    model("L4", 8, 9, GpuClass::DataCentre),
    model("L40", 8, 9, GpuClass::DataCentre),
    model("L40S", 8, 9, GpuClass::DataCentre),
    model("RTX 6000 Ada", 8, 9, GpuClass::Workstation),
    model("RTX 4080", 8, 9, GpuClass::Consumer),
    model("RTX 4090", 8, 9, GpuClass::Consumer),
    model("H100", 9, 0, GpuClass::DataCentre),
    model("H200", 9, 0, GpuClass::DataCentre),
    model("GH200", 9, 0, GpuClass::DataCentre),
    model("B200", 10, 0, GpuClass::DataCentre),
    model("GB200", 10, 0, GpuClass::DataCentre),
    model("B300", 10, 3, GpuClass::DataCentre),
    model("GB300", 10, 3, GpuClass::DataCentre),
    model("RTX PRO 6000", 12, 0, GpuClass::Workstation),
    model("RTX 5080", 12, 0, GpuClass::Consumer),
    model("RTX 5090", 12, 0, GpuClass::Consumer),
];

/// The GPU that a name means. `NVIDIA`, `Tesla`, `GeForce`, case, spaces and dashes do not count, nor does what a
/// driver adds to a name (`H100 80GB HBM3`).
#[must_use]
pub fn gpu_model(name: &str) -> Option<&'static GpuModel> {
    let bare = |text: &str| -> String {
        let text = text.to_lowercase().replace(['-', '_'], " ");
        let words = text.split_whitespace().filter(|word| !["nvidia", "tesla", "geforce"].contains(word));
        words.collect::<Vec<_>>().join(" ")
    };
    let wanted = bare(name);
    let compact = wanted.replace(' ', "");
    let exact = GPUS.iter().find(|model| bare(model.name).replace(' ', "") == compact);
    // The longest, so that `RTX 2080 Ti` is not the `RTX 2080`.
    exact.or_else(|| {
        let starts = |model: &&GpuModel| wanted.starts_with(&format!("{} ", bare(model.name)));
        GPUS.iter().filter(starts).max_by_key(|model| model.name.len())
    })
}

/// A driver's version, `535.104.05`: what follows the branch may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverVersion(pub [u32; 3]);

impl DriverVersion {
    /// The first number.
    #[must_use]
    pub const fn branch(self) -> u32 {
        self.0[0]
    }
}

/// The text is no driver's version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a driver version: write it as \"535.104.05\" or by its branch, \"535\"")]
pub struct NotADriver(pub String);

impl FromStr for DriverVersion {
    type Err = NotADriver;

    fn from_str(text: &str) -> Result<Self, NotADriver> {
        let mut numbers = [0; 3];
        let parts: Vec<&str> = text.split('.').collect();
        let digits = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if parts.len() > numbers.len() || !parts.iter().all(digits) {
            return Err(NotADriver(text.into()));
        }
        for (slot, part) in numbers.iter_mut().zip(parts) {
            *slot = part.parse().map_err(|_| NotADriver(text.into()))?;
        }
        Ok(Self(numbers))
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [branch, minor, patch] = self.0;
        write!(f, "{branch}.{minor:02}.{patch:02}")
    }
}

/// One machine of `fleet:`. Both texts are kept as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FleetEntry {
    /// The driver's version.
    pub driver: String,
    /// The GPU's name, or its compute capability.
    pub gpu: String,
}

impl FleetEntry {
    /// The GPU's compute capability; none where the text names no GPU.
    #[must_use]
    pub fn cc(&self) -> Option<Arch> {
        let written = self.gpu.parse::<Arch>().ok().filter(|arch| arch.mark.is_none());
        written.or_else(|| gpu_model(&self.gpu).map(|model| model.cc))
    }

    /// What the GPU is sold as; none where only its compute capability is known.
    #[must_use]
    pub fn class(&self) -> Option<GpuClass> {
        gpu_model(&self.gpu).map(|model| model.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cc(gpu: &str) -> Option<String> {
        FleetEntry { driver: "580".into(), gpu: gpu.into() }.cc().map(|cc| cc.to_string())
    }

    #[test]
    fn a_gpu_is_known_by_the_name_on_its_box_by_what_its_driver_says_and_by_its_capability() {
        for (gpu, expected) in [
            ("T4", "7.5"),
            ("Tesla T4", "7.5"),
            ("NVIDIA H100 80GB HBM3", "9.0"),
            ("NVIDIA A100-SXM4-80GB", "8.0"),
            ("rtx5090", "12.0"),
            ("NVIDIA GeForce RTX 2080 Ti", "7.5"),
            ("l40s", "8.9"),
            ("8.9", "8.9"),
        ] {
            assert_eq!(cc(gpu).as_deref(), Some(expected), "{gpu}");
        }
        for gpu in ["", "T5", "9.0a", "H1000", "NVIDIA"] {
            assert_eq!(cc(gpu), None, "{gpu}");
        }
        assert_eq!(gpu_model("GeForce GTX 1080 Ti").map(|model| model.name), Some("GTX 1080 Ti"));
    }

    #[test]
    fn driver_versions_are_read_by_number() {
        let read = |text: &str| text.parse::<DriverVersion>().map(|driver| driver.0).ok();
        assert_eq!(read("535.104.05"), Some([535, 104, 5]));
        assert_eq!(read("570.26"), Some([570, 26, 0]));
        assert_eq!(read("580"), Some([580, 0, 0]));
        for text in ["", "535.", "535.104.05.1", "v535", "535.-1", "99999"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
