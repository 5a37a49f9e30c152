//! What lies between a program and the driver: forward compatibility, the runtime, the libraries that are really
//! loaded. Every function gives the rule that stands in the way, where one does.

use super::machine::Machine;
use crate::model::fleet::{DriverVersion, GpuClass};
use crate::model::outcome::{Code, Outcome, Stage};
use crate::model::record::Predicted;
use crate::model::version::Version;

/// What a cuda-compat package does under a driver branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compat {
    /// It works: the driver is then as one of the package's CUDA version.
    Works,
    /// The driver is of that CUDA version itself.
    NotNeeded,
    /// It is not supported.
    NotSupported,
    /// NVIDIA's table does not have the pair.
    NotListed,
}

/// The columns of NVIDIA's table. Branches that are not in it are at their end of life, or short-lived.
pub(crate) const BRANCHES: [u32; 7] = [535, 570, 580, 590, 595, 610, 615];

/// NVIDIA's table: `C` works, `N` is not needed, `X` is not supported. Forward compatibility guide, as of CUDA 13.4.
pub(crate) const TABLE: [((u16, u16), &[u8; 7]); 12] = [
    ((13, 4), b"CCCCCCN"),
    ((13, 3), b"CCCCCNX"),
    ((13, 2), b"CCCCNXX"),
    ((13, 1), b"CCCNXXX"),
    ((13, 0), b"CCNXXXX"),
    ((12, 9), b"CCXXXXX"),
    ((12, 8), b"CNXXXXX"),
    ((12, 6), b"CXXXXXX"),
    ((12, 5), b"CXXXXXX"),
    ((12, 4), b"CXXXXXX"),
    ((12, 3), b"CXXXXXX"),
    ((12, 2), b"NXXXXXX"),
];

/// What the cuda-compat package of `package` does under a driver of `branch`.
#[must_use]
pub fn compat(package: Version, branch: u32) -> Compat {
    let row = TABLE.iter().find(|((major, minor), _)| Version::new(*major, *minor) == package);
    let column = BRANCHES.iter().position(|known| *known == branch);
    match row.zip(column).map(|((_, row), column)| row[column]) {
        Some(b'C') => Compat::Works,
        Some(b'N') => Compat::NotNeeded,
        Some(_) => Compat::NotSupported,
        None => Compat::NotListed,
    }
}

/// What becomes of `cuInit` where the cuda-compat libraries of `package` come first on the loader's path, and the
/// machine as they make it where they work.
pub fn with_compat(package: Version, machine: &Machine) -> Result<Machine, Predicted> {
    let refused = |rule, number| {
        super::predicted(Outcome::Fail, Some(Stage::DriverInit), Some(crate::compat::codes::driver(number)), rule)
    };
    if machine.class == Some(GpuClass::Consumer) {
        return Err(refused("forward-compat-hardware", 804));
    }
    let listed = machine.driver.map_or(Compat::NotListed, |driver| compat(package, driver.branch()));
    match listed {
        // The very version of the driver's own libraries, perhaps of another release.
        Compat::NotNeeded => Ok(*machine),
        Compat::Works => Ok(Machine { cuda: package, ..*machine }),
        Compat::NotListed if package > machine.cuda => Ok(Machine { cuda: package, ..*machine }),
        Compat::NotSupported | Compat::NotListed => Err(refused("forward-compat", 803)),
    }
}

/// The rule by which the CUDA runtime of `toolkit` refuses to start, where it does. No driver at all is version 0.
#[must_use]
pub fn runtime(toolkit: Version, driver: Option<DriverVersion>) -> Option<&'static str> {
    let floor = match toolkit.major {
        ..=11 => DriverVersion([450, 80, 2]),
        12 => DriverVersion([525, 60, 13]),
        _ => DriverVersion([580, 0, 0]),
    };
    driver.is_none_or(|driver| driver < floor).then_some("runtime-floor")
}

/// A function of the driver or of NVRTC that is not in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: &'static str,
    /// The first CUDA version that has it.
    pub since: Version,
    /// The first CUDA version that has not got it any more.
    pub until: Option<Version>,
}

/// Functions whose first or last version was measured: `cuda.h` of 11.8, 12.0, 12.4, 12.9, and NVRTC of 11.7 to 13.5.
/// A version is the first of those in which the function was seen.
pub const SYMBOLS: [Symbol; 7] = [
    Symbol { name: "cuLibraryLoadData", since: Version::new(12, 0), until: None },
    Symbol { name: "cuLibraryEnumerateKernels", since: Version::new(12, 4), until: None },
    Symbol { name: "cuModuleEnumerateFunctions", since: Version::new(12, 4), until: None },
    Symbol { name: "cuCtxCreate_v4", since: Version::new(12, 5), until: None },
    Symbol { name: "cuLogsRegisterCallback", since: Version::new(12, 9), until: None },
    Symbol { name: "nvrtcGetNVVM", since: Version::new(11, 4), until: Some(Version::new(13, 0)) },
    Symbol { name: "nvrtcSetFlowCallback", since: Version::new(12, 8), until: None },
];

/// The rule by which a library of `version` has not got the function, where it has not. A function that is not listed
/// is taken to be there.
#[must_use]
pub fn symbol(name: &str, version: Version) -> Option<&'static str> {
    let symbol = SYMBOLS.iter().find(|symbol| symbol.name == name)?;
    let there = version >= symbol.since && symbol.until.is_none_or(|until| version < until);
    (!there).then_some("symbol-floor")
}

/// The rule by which the NVRTC that was opened is not the toolkit's, where it is not.
#[must_use]
pub fn nvrtc(toolkit: Version, loaded: Version) -> Option<&'static str> {
    (toolkit != loaded).then_some("nvrtc-library")
}

/// The rule by which NVRTC of `toolkit` cannot compile, where the builtins that the loader finds are not its own.
#[must_use]
pub fn builtins(toolkit: Version, found: Option<Version>) -> Option<&'static str> {
    (found != Some(toolkit)).then_some("nvrtc-builtins")
}

/// The rule about the libcuda that was opened, where it is not the host's: `opened` is its path in the container,
/// `version` its own and `module` the kernel module's.
#[must_use]
pub fn libcuda(opened: &str, version: Option<DriverVersion>, module: Option<DriverVersion>) -> Option<&'static str> {
    if opened.contains("/stubs/") {
        return Some("stub-libcuda");
    }
    if opened.contains("/compat/") {
        return Some("libcuda-path");
    }
    match (version, module) {
        (Some(version), Some(module)) if version != module => Some("driver-mismatch"),
        _ => None,
    }
}

/// The rule by which a container that started has no GPU, where it has none.
#[must_use]
pub fn visible(asked: bool, devices: usize) -> Option<&'static str> {
    (asked && devices == 0).then_some("gpu-visible")
}

/// The rule by which green tests prove nothing, where none ran on a GPU.
#[must_use]
pub fn tests(ran_on_gpu: usize, wanted: bool) -> Option<&'static str> {
    (wanted && ran_on_gpu == 0).then_some("tests-ran")
}

/// A Python package that a release of another one broke, and that does not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingCap {
    /// The package, and its newest version that has the fault.
    pub package: (&'static str, (u32, u32, u32)),
    /// The other package, and the first version that breaks it.
    pub breaks: (&'static str, (u32, u32)),
    /// What is missing.
    pub why: &'static str,
}

/// Such packages.
pub const MISSING_CAPS: [MissingCap; 1] = [MissingCap {
    package: ("numba-cuda", (0, 30, 4)),
    breaks: ("numpy", (2, 5)),
    why: "it uses np.row_stack, which NumPy 2.5 removed",
}];

/// The rules about a set of resolved packages, by name and version: a missing upper bound, CUDA majors mixed.
#[must_use]
pub fn packages(resolved: &[(&str, &str)]) -> Vec<&'static str> {
    let version = |name: &str| {
        let (_, version) = resolved.iter().find(|(found, _)| *found == name)?;
        let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
        Some((numbers.next()?, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)))
    };
    let mut rules = Vec::new();
    let broken = MISSING_CAPS.iter().any(|cap| {
        let (package, other) = (version(cap.package.0), version(cap.breaks.0));
        package
            .zip(other)
            .is_some_and(|(package, other)| package <= cap.package.1 && (other.0, other.1) >= cap.breaks.1)
    });
    if broken {
        rules.push("pin-cap");
    }
    let majors: std::collections::BTreeSet<u32> =
        resolved.iter().filter_map(|(name, version)| major(name, version)).collect();
    if majors.len() > 1 {
        rules.push("cuda-majors-mixed");
    }
    rules
}

/// The CUDA major that a package is for, where its name or version says so.
fn major(name: &str, version: &str) -> Option<u32> {
    let first = || version.split('.').next().and_then(|part| part.parse().ok());
    match name {
        "cuda-bindings" | "cuda-python" | "nvidia-cuda-nvrtc" | "nvidia-cuda-runtime" | "nvidia-cuda-nvcc" => first(),
        _ => {
            let after = |mark| name.rsplit_once(mark).map(|(_, rest)| rest);
            let digits = after("-cuda").or_else(|| after("-cu"))?;
            let digits = digits.trim_end_matches('x');
            (digits.len() == 2).then(|| digits.parse().ok()).flatten()
        }
    }
}

/// The code of an error of the runtime for which the driver has none.
#[must_use]
pub fn insufficient_driver() -> Code {
    Code { name: "cudaErrorInsufficientDriver".into(), number: 35 }
}
