//! Whether a toolkit builds for an architecture, and what it then makes. Its main function is `build`; beside it are
//! the rules about host compilers and C libraries.

use super::load::{Piece, PieceKind};
use super::{ToolkitSide, predicted};
use crate::compat::catalogue::{self, ToolkitFacts};
use crate::compat::codes;
use crate::model::arch::{Arch, Mark};
use crate::model::outcome::{Outcome, Stage};
use crate::model::path::{Family, Form, PathId};
use crate::model::record::Predicted;
use crate::model::version::Version;

/// What was measured of a toolkit that is not in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// The PTX ISA that it writes.
    pub ptx_isa: Version,
    /// Those of the known architectures that it compiles for.
    pub targets: Vec<Arch>,
    /// The file name of its NVRTC.
    pub soname: String,
}

/// What the toolkit makes by this path, or the failure to build. A toolkit that is neither in the catalogue nor
/// measured builds for everything, as far as anyone knows.
pub(super) fn build(path: PathId, arch: Arch, toolkit: &ToolkitSide<'_>) -> Result<Vec<Piece>, Predicted> {
    let version = toolkit.version;
    let facts = catalogue::facts(version);
    let measured = toolkit.measured;
    let unmeasured = measured.filter(|measured| !measured.targets.contains(&arch)).map(|_| "toolkit-arch");
    if let Some(rule) = facts.and_then(|facts| not_built(facts, arch)).or(unmeasured) {
        let code = match path.family {
            Family::Nvrtc if rule == "family-arch" => codes::nvrtc(6),
            Family::Nvrtc => codes::nvrtc(5),
            Family::Driver | Family::Nvcc | Family::CudaCore | Family::Cupy | Family::Numba | Family::Pycuda => {
                crate::model::outcome::Code { name: "EXIT".into(), number: 1 }
            }
        };
        return Err(predicted(Outcome::Fail, Some(Stage::Build), Some(code), rule));
    }
    let isa = match (facts, measured) {
        (Some(facts), _) => facts.ptx_isa.value,
        (None, Some(measured)) => measured.ptx_isa,
        (None, None) => newest_isa(version),
    };
    let ptx = Piece { kind: PieceKind::Ptx(isa), arch, zstd: false };
    // nvcc 13 compresses with zstd by default; which is only done where it gains, so a small kernel is plain.
    let cubin = Piece { kind: PieceKind::Cubin(version), arch, zstd: false };
    Ok(match path.form {
        Form::Ptx => vec![ptx],
        Form::Cubin => vec![cubin],
        Form::Fatbin => vec![cubin, ptx],
    })
}

/// From 13.0 on the PTX ISA's minor number is the toolkit's, and its major number is 4 less.
fn newest_isa(version: Version) -> Version {
    Version::new(version.major.saturating_sub(4), version.minor)
}

/// The rule by which the toolkit does not build for `arch`, where it does not.
fn not_built(facts: &ToolkitFacts, arch: Arch) -> Option<&'static str> {
    if facts.knows(arch) {
        return None;
    }
    let generic = Arch { mark: None, ..arch };
    if arch.mark == Some(Mark::Family)
        && facts.knows(generic)
        && arch.major < 10
        && facts.version >= Version::new(12, 9)
    {
        return Some("family-arch");
    }
    let older = catalogue::toolkits().iter().any(|other| other.version < facts.version && other.knows(arch));
    Some(if older { "toolkit-arch-dropped" } else { "toolkit-arch" })
}

/// A host compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostCompiler {
    /// gcc of this major version.
    Gcc(u32),
    /// clang of this major version.
    Clang(u32),
}

/// The rule by which the toolkit's nvcc refuses the host compiler, where it does.
#[must_use]
pub fn host_compiler(version: Version, compiler: HostCompiler) -> Option<&'static str> {
    let limits = &catalogue::facts(version)?.host_compilers;
    let refused = match compiler {
        HostCompiler::Gcc(major) => major > limits.gcc_max,
        HostCompiler::Clang(major) => major > limits.clang_max,
    };
    refused.then_some("host-compiler")
}

/// The rule by which the toolkit's headers contradict the C library's, where they do.
#[must_use]
pub fn host_headers(version: Version, glibc: Version) -> Option<&'static str> {
    (glibc >= Version::new(2, 41) && version < Version::new(13, 0)).then_some("host-headers")
}

/// The rule by which a program that asks for glibc `needs` does not start where there is `has`, if it does not.
#[must_use]
pub fn glibc_floor(needs: Version, has: Version) -> Option<&'static str> {
    (needs > has).then_some("glibc-floor")
}

/// The rule by which NVRTC cannot compile a source that includes `cuda_fp16.h`, where the runtime's headers are not
/// there.
#[must_use]
pub fn nvrtc_headers(version: Version, runtime_headers: bool) -> Option<&'static str> {
    (version >= Version::new(12, 2) && !runtime_headers).then_some("nvrtc-headers")
}

/// The rule by which a linker of one toolkit does not take PTX of another, where it does not.
#[must_use]
pub fn linker(linker: Version, ptx_isa: Version) -> Option<&'static str> {
    let takes = catalogue::facts(linker)?.ptx_isa.value;
    (ptx_isa > takes).then_some("linker-isa")
}
