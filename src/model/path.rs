//! The ways to get a kernel onto the GPU. Its main type is [`PathId`]: a [`Family`] (who makes the artifact) and a
//! [`Form`] (what is handed to the driver). Each Python library is a family with one path, which has its name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Who makes the artifact that the driver loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// An artifact made beforehand: the same bytes in every container.
    Driver,
    /// The toolkit's runtime compilation library.
    Nvrtc,
    /// The toolkit's offline compiler driver.
    Nvcc,
    /// cuda.core, of NVIDIA's own Python packages: an explicit compile to machine code.
    CudaCore,
    /// CuPy's `RawKernel`: compiled at its first launch.
    Cupy,
    /// numba-cuda: the kernel written again in Python, compiled at its first launch.
    Numba,
    /// `PyCUDA`'s `SourceModule`: compiled by nvcc as a process.
    Pycuda,
}

/// What is handed to `cuModuleLoadDataEx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// PTX text, which the driver compiles.
    Ptx,
    /// Machine code for one architecture.
    Cubin,
    /// A container of PTX and machine code, from which the driver picks.
    Fatbin,
}

/// One way to get the kernel onto the GPU, such as `nvrtc-cubin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId {
    /// Who makes the artifact.
    pub family: Family,
    /// What is loaded.
    pub form: Form,
}

impl Family {
    /// Every family, in report order.
    pub const ALL: [Self; 7] =
        [Self::Driver, Self::Nvrtc, Self::Nvcc, Self::CudaCore, Self::Cupy, Self::Numba, Self::Pycuda];

    /// The word used in `matrix.yaml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Nvrtc => "nvrtc",
            Self::Nvcc => "nvcc",
            Self::CudaCore => "cuda-core",
            Self::Cupy => "cupy",
            Self::Numba => "numba",
            Self::Pycuda => "pycuda",
        }
    }

    /// Whether it is a Python library: such a path needs a stack.
    #[must_use]
    pub const fn is_python(self) -> bool {
        match self {
            Self::Driver | Self::Nvrtc | Self::Nvcc => false,
            Self::CudaCore | Self::Cupy | Self::Numba | Self::Pycuda => true,
        }
    }

    /// Whether it compiles in its first launch, and not when it is told to build.
    #[must_use]
    pub const fn compiles_late(self) -> bool {
        match self {
            Self::Cupy | Self::Numba => true,
            Self::Driver | Self::Nvrtc | Self::Nvcc | Self::CudaCore | Self::Pycuda => false,
        }
    }
}

impl Form {
    /// The word used in a path's name; also the usual file extension.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ptx => "ptx",
            Self::Cubin => "cubin",
            Self::Fatbin => "fatbin",
        }
    }
}

impl PathId {
    /// Every path, in report order. NVRTC makes no fatbin; the Python libraries load machine code.
    pub const ALL: [Self; 12] = [
        Self { family: Family::Driver, form: Form::Ptx },
        Self { family: Family::Driver, form: Form::Cubin },
        Self { family: Family::Driver, form: Form::Fatbin },
        Self { family: Family::Nvrtc, form: Form::Ptx },
        Self { family: Family::Nvrtc, form: Form::Cubin },
        Self { family: Family::Nvcc, form: Form::Ptx },
        Self { family: Family::Nvcc, form: Form::Cubin },
        Self { family: Family::Nvcc, form: Form::Fatbin },
        Self { family: Family::CudaCore, form: Form::Cubin },
        Self { family: Family::Cupy, form: Form::Cubin },
        Self { family: Family::Numba, form: Form::Cubin },
        Self { family: Family::Pycuda, form: Form::Cubin },
    ];
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.family.is_python() {
            return f.write_str(self.family.name());
        }
        write!(f, "{}-{}", self.family.name(), self.form.name())
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names neither a path nor, where one may stand, a family.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a path")]
pub struct NotAPath(pub String);

impl FromStr for PathId {
    type Err = NotAPath;

    fn from_str(text: &str) -> Result<Self, NotAPath> {
        Self::ALL.into_iter().find(|path| path.to_string() == text).ok_or_else(|| NotAPath(text.into()))
    }
}

/// A family or an exact path, as `paths:`, `exclude:` and `--select path=` take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathPattern {
    /// All paths of a family.
    Family(Family),
    /// One path.
    Exact(PathId),
}

impl PathPattern {
    /// Whether the pattern covers `path`.
    #[must_use]
    pub fn matches(self, path: PathId) -> bool {
        match self {
            Self::Family(family) => family == path.family,
            Self::Exact(exact) => exact == path,
        }
    }
}

impl FromStr for PathPattern {
    type Err = NotAPath;

    fn from_str(text: &str) -> Result<Self, NotAPath> {
        match Family::ALL.into_iter().find(|family| family.name() == text) {
            Some(family) => Ok(Self::Family(family)),
            None => text.parse().map(Self::Exact),
        }
    }
}

impl Serialize for PathId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PathId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_read_back_from_its_name() {
        for path in PathId::ALL {
            assert_eq!(path.to_string().parse(), Ok(path));
        }
    }

    #[test]
    fn a_family_covers_its_paths_and_no_others() {
        let nvcc: PathPattern = "nvcc".parse().unwrap();
        let covered: Vec<_> =
            PathId::ALL.into_iter().filter(|path| nvcc.matches(*path)).map(|path| path.to_string()).collect();
        assert_eq!(covered, ["nvcc-ptx", "nvcc-cubin", "nvcc-fatbin"]);
        assert!("nvrtc-fatbin".parse::<PathPattern>().is_err());
        let cupy: PathPattern = "cupy".parse().unwrap();
        assert_eq!(PathId::ALL.into_iter().filter(|path| cupy.matches(*path)).count(), 1);
        assert!("cupy-cubin".parse::<PathPattern>().is_err());
    }
}
