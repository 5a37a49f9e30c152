//! What is known of every CUDA Toolkit from 11.8 to 13.5 and of the drivers, with how and where it is known from.
//! Its main type is [`ToolkitFacts`]. The data is `toolkits.json` beside this file: it is compiled in, read once, and
//! held against itself by the tests below.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

use crate::model::arch::Arch;
use crate::model::version::Version;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    serde_json::from_str(include_str!("toolkits.json")).expect("the file is compiled in, and a test reads it")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    toolkits: Vec<ToolkitFacts>,
    drivers: Vec<DriverFacts>,
    not_published: Vec<NotPublished>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotPublished {
    version: Version,
    reason: String,
    #[expect(dead_code, reason = "kept in the file, so that the claim can be checked")]
    how: How,
    #[expect(dead_code, reason = "kept in the file, so that the claim can be checked")]
    source: String,
}

/// How a datum is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Read from the files themselves, or seen on a GPU.
    Measured,
    /// NVIDIA or the project in question says so.
    Documented,
    /// Others say so.
    Secondary,
    /// It follows from what is measured or documented.
    Inferred,
}

/// One value with how and where it is known from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    /// The value.
    pub value: T,
    /// How it is known.
    pub how: How,
    /// Where from, in a few words.
    pub source: String,
}

/// What is known of one toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitFacts {
    /// Its version.
    pub version: Version,
    /// The PTX ISA that its compilers write, whatever the target.
    pub ptx_isa: Fact<Version>,
    /// The architectures that it compiles for.
    pub targets: Fact<Targets>,
    /// Which ELF ABI its cubins have.
    pub cubin_abi: CubinAbi,
    /// Its runtime compilation library.
    pub nvrtc: NvrtcFacts,
    /// The host compilers that its nvcc accepts.
    pub host_compilers: HostCompilers,
    /// The drivers that it needs.
    pub driver: DriverNeed,
    /// The newest tag of nvidia/cuda without its suffix, `12.6.3`; none if no image was ever seen.
    pub image: Fact<Option<String>>,
    wheels: Fact<Vec<WheelPin>>,
}

/// The architectures that a toolkit compiles for. In the file: `50 52 90 90a`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets(Vec<Arch>);

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let targets = text.split(' ').map(|digits| {
            Arch::from_digits(digits).ok_or_else(|| serde::de::Error::custom(format!("`{digits}` is no architecture")))
        });
        Ok(Self(targets.collect::<Result<_, _>>()?))
    }
}

impl Targets {
    /// Generic, chip-specific and family targets, by number.
    #[must_use]
    pub fn all(&self) -> &[Arch] {
        &self.0
    }

    /// The generic ones.
    pub fn generic(&self) -> impl Iterator<Item = Arch> {
        self.0.iter().copied().filter(|arch| arch.mark.is_none())
    }
}

/// Which ELF ABI a toolkit's cubins have: 7 (named by the toolkit in `e_version`) or 8.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CubinAbi {
    /// The highest SM number whose cubins have ABI 7; none if all have ABI 8.
    pub last_7: Option<u32>,
    /// How it is known.
    pub how: How,
    /// Where from, in a few words.
    pub source: String,
}

/// A toolkit's runtime compilation library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvrtcFacts {
    /// The library's file name: `libnvrtc.so.12`.
    pub soname: String,
    /// The library that it opens by name at the first compilation: `libnvrtc-builtins.so.12.6`.
    pub builtins: String,
    /// The target without an option: `sm_52`.
    pub default_target: String,
    /// Whether the wheel's library finds the one with the builtins beside itself (13.0's does not).
    pub finds_builtins: bool,
    /// How it is known.
    pub how: How,
    /// Where from, in a few words.
    pub source: String,
}

/// The newest host compilers that nvcc accepts without `-allow-unsupported-compiler`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCompilers {
    /// gcc, major version.
    pub gcc_max: u32,
    /// clang, major version.
    pub clang_max: u32,
    /// How it is known.
    pub how: How,
    /// Where from, in a few words.
    pub source: String,
}

/// The drivers that a toolkit needs, on Linux x86-64.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverNeed {
    /// The branch that came out with the toolkit.
    pub branch: u32,
    /// The first driver with full support; only a branch where no more is known.
    pub full: String,
    /// The first driver under minor-version compatibility.
    pub floor: String,
    /// How `full` is known.
    pub how: How,
    /// Where `full` is known from, in a few words.
    pub source: String,
}

/// One wheel, for x86-64 Linux.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelPin {
    /// What it is for.
    pub role: Role,
    /// The package's name.
    pub package: String,
    /// The exact version.
    pub version: String,
    /// The size of the wheel file, bytes.
    pub bytes: u64,
    /// The SHA-256 of the wheel file.
    pub sha256: String,
}

/// What a wheel is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// libnvrtc and its builtins.
    Nvrtc,
    /// nvcc, ptxas, fatbinary, nvlink and cudafe++ (13.x).
    Nvcc,
    /// ptxas and libNVVM, and no nvcc (11.8 and 12.x, although the package is named after nvcc).
    Ptxas,
    /// nvcc's own headers, `crt/` (13.x).
    Crt,
    /// cicc and libdevice (13.x).
    Nvvm,
    /// The CUDA runtime's headers and library.
    Headers,
}

impl WheelPin {
    /// As pip takes it: `nvidia-cuda-nvrtc-cu12==12.6.85`.
    #[must_use]
    pub fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }
}

impl ToolkitFacts {
    /// Whether the toolkit compiles for `arch`.
    #[must_use]
    pub fn knows(&self, arch: Arch) -> bool {
        self.targets.value.all().contains(&arch)
    }

    /// The wheels that a run needs: NVRTC alone for 11.8 and 12.x, where the wheels
    /// carry no nvcc and the kernel includes no header; everything that nvcc needs for 13.x.
    #[must_use]
    pub fn wheels(&self) -> Vec<&WheelPin> {
        let nvcc = self.wheels_carry_nvcc();
        self.all_wheels().iter().filter(|pin| nvcc || pin.role == Role::Nvrtc).collect()
    }

    /// Every wheel that is pinned for the toolkit, those that a run does not need included.
    #[must_use]
    pub fn all_wheels(&self) -> &[WheelPin] {
        &self.wheels.value
    }

    /// Whether nvcc is in the wheels: in 13.x it is, in 11.8 and 12.x it is not.
    #[must_use]
    pub fn wheels_carry_nvcc(&self) -> bool {
        self.all_wheels().iter().any(|pin| pin.role == Role::Nvcc)
    }

    /// The ELF ABI of the cubins that it makes for `arch`.
    #[must_use]
    pub fn cubin_abi(&self, arch: Arch) -> u8 {
        if self.cubin_abi.last_7.is_some_and(|last| arch.number() <= last) { 7 } else { 8 }
    }
}

/// What is known of one driver branch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFacts {
    /// The first number of the driver's version: 580.
    pub branch: u32,
    /// The CUDA version that it implements.
    pub cuda: Fact<Version>,
    /// The highest PTX ISA that its compiler takes.
    pub max_ptx_isa: Fact<Version>,
}

/// Every known toolkit, oldest first.
#[must_use]
pub fn toolkits() -> &'static [ToolkitFacts] {
    &CATALOGUE.toolkits
}

/// What is known of the toolkit `version`.
#[must_use]
pub fn facts(version: Version) -> Option<&'static ToolkitFacts> {
    toolkits().iter().find(|toolkit| toolkit.version == version)
}

/// The versions of every known toolkit, oldest first.
#[must_use]
pub fn versions() -> Vec<Version> {
    toolkits().iter().map(|toolkit| toolkit.version).collect()
}

/// Every known driver branch, oldest first.
#[must_use]
pub fn drivers() -> &'static [DriverFacts] {
    &CATALOGUE.drivers
}

/// The CUDA version that the drivers of `branch` implement.
#[must_use]
pub fn driver_cuda(branch: u32) -> Option<Version> {
    drivers().iter().find(|driver| driver.branch == branch).map(|driver| driver.cuda.value)
}

/// The highest PTX ISA that a driver of the CUDA version `cuda` takes.
#[must_use]
pub fn max_ptx_isa(cuda: Version) -> Option<Version> {
    drivers().iter().find(|driver| driver.cuda.value == cuda).map(|driver| driver.max_ptx_isa.value)
}

/// Why there is no toolkit `version` although its number lies between others; none if no such reason is known.
#[must_use]
pub fn not_published(version: Version) -> Option<&'static str> {
    CATALOGUE.not_published.iter().find(|entry| entry.version == version).map(|entry| entry.reason.as_str())
}

/// Why nothing is known of the toolkit `version`, as a sentence's end; none if it is known.
#[must_use]
pub fn unknown(version: Version) -> Option<String> {
    if facts(version).is_some() {
        return None;
    }
    if let Some(reason) = not_published(version) {
        return Some(reason.into());
    }
    let known = versions();
    let (oldest, newest) = (known.first()?, known.last()?);
    let of_major = known.iter().rev().find(|known| known.major == version.major);
    Some(match of_major {
        _ if version < *oldest => format!("CUDA {version} is older than {oldest}, the oldest that is known"),
        _ if version > *newest => format!("CUDA {version} is not known: the newest known is {newest}"),
        Some(last) => {
            format!("CUDA {version} is not known: {} ends at {last}, and the newest known is {newest}", last.major)
        }
        None => format!("CUDA {version} is not known: the newest known is {newest}"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn known(text: &str) -> &'static ToolkitFacts {
        facts(version(text)).unwrap()
    }

    #[test]
    fn every_toolkit_from_11_8_to_13_5_is_there_once_and_in_order() {
        let shown: Vec<_> = versions().iter().map(ToString::to_string).collect();
        let expected = "11.8 12.0 12.1 12.2 12.3 12.4 12.5 12.6 12.8 12.9 13.0 13.1 13.2 13.3 13.4 13.5";
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn ptx_isas_never_fall_and_are_not_the_toolkit_s_minor() {
        assert!(toolkits().windows(2).all(|pair| pair[0].ptx_isa.value <= pair[1].ptx_isa.value));
        let isa = |text| known(text).ptx_isa.value.to_string();
        let shown = ["11.8", "12.0", "12.5", "12.6", "12.8", "12.9", "13.0", "13.5"].map(isa);
        assert_eq!(shown, ["7.8", "8.0", "8.5", "8.5", "8.7", "8.8", "9.0", "9.5"]);
    }

    #[test]
    fn library_names_follow_from_the_version() {
        for toolkit in toolkits() {
            let version = toolkit.version;
            // NVRTC's soname stopped at 11.2 for the rest of CUDA 11.
            let soname = if version.major == 11 { "11.2".into() } else { version.major.to_string() };
            assert_eq!(toolkit.nvrtc.soname, format!("libnvrtc.so.{soname}"));
            assert_eq!(toolkit.nvrtc.builtins, format!("libnvrtc-builtins.so.{version}"));
            let target = toolkit.nvrtc.default_target.strip_prefix("sm_").and_then(Arch::from_digits).unwrap();
            assert!(toolkit.knows(target), "{version}");
        }
        let without: Vec<_> = toolkits().iter().filter(|toolkit| !toolkit.nvrtc.finds_builtins).collect();
        assert_eq!(without, [known("13.0")]);
    }

    #[test]
    fn architectures_are_sorted_and_come_and_go_as_measured() {
        for toolkit in toolkits() {
            let numbers: Vec<_> = toolkit.targets.value.generic().map(Arch::number).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{}", toolkit.version);
            for marked in toolkit.targets.value.all() {
                assert!(toolkit.knows(Arch { mark: None, ..*marked }), "{} {marked}", toolkit.version);
            }
            let without_gpu = toolkit.knows(Arch::WITHOUT_GPU);
            assert!(without_gpu, "{}", toolkit.version);
        }
        let who = |arch: &str| {
            let arch: Arch = arch.parse().unwrap();
            let who: Vec<_> = toolkits().iter().filter(|t| t.knows(arch)).map(|t| t.version.to_string()).collect();
            (who.len(), who.first().cloned().unwrap_or_default(), who.last().cloned().unwrap_or_default())
        };
        assert_eq!(who("3.5"), (1, "11.8".into(), "11.8".into()));
        assert_eq!(who("7.0"), (10, "11.8".into(), "12.9".into()));
        assert_eq!(who("9.0a"), (15, "12.0".into(), "13.5".into()));
        assert_eq!(who("10.1"), (2, "12.8".into(), "12.9".into()));
        assert_eq!(who("10.0f"), (7, "12.9".into(), "13.5".into()));
        assert_eq!(who("10.7"), (2, "13.4".into(), "13.5".into()));
        assert_eq!(who("9.0f"), (0, String::new(), String::new()));
    }

    #[test]
    fn cubins_change_their_abi_with_the_architecture_and_then_for_all() {
        let abi = |text: &str, arch: &str| known(text).cubin_abi(arch.parse().unwrap());
        assert_eq!((abi("12.6", "9.0"), abi("12.9", "9.0a"), abi("12.9", "10.0"), abi("13.0", "7.5")), (7, 7, 8, 8));
    }

    #[test]
    fn drivers_are_sorted_and_every_toolkit_s_branch_is_one_of_them() {
        assert!(drivers().windows(2).all(|pair| pair[0].branch < pair[1].branch));
        assert!(drivers().windows(2).all(|pair| pair[0].max_ptx_isa.value <= pair[1].max_ptx_isa.value));
        for toolkit in toolkits() {
            let need = &toolkit.driver;
            assert_eq!(driver_cuda(need.branch), Some(toolkit.version));
            assert_eq!(max_ptx_isa(toolkit.version), Some(toolkit.ptx_isa.value), "{}", toolkit.version);
            assert_eq!(need.full.split('.').next(), Some(need.branch.to_string().as_str()));
            let floor = match toolkit.version.major {
                11 => "450.80.02",
                12 => "525.60.13",
                _ => "580.65.06",
            };
            assert_eq!(need.floor, floor);
        }
        assert_eq!(max_ptx_isa(version("12.7")), Some(version("8.6")));
        assert_eq!((driver_cuda(580), driver_cuda(581)), (Some(version("13.0")), None));
    }

    #[test]
    fn image_tags_are_patch_levels_of_their_toolkit() {
        for toolkit in toolkits() {
            if let Some(tag) = &toolkit.image.value {
                assert!(tag.starts_with(&format!("{}.", toolkit.version)), "{tag}");
            }
        }
        assert_eq!(known("12.6").image.value.as_deref(), Some("12.6.3"));
        assert_eq!(known("13.5").image.value, None);
    }

    #[test]
    fn every_wheel_is_pinned_by_a_whole_hash_and_belongs_to_its_toolkit() {
        let mut hashes = BTreeSet::new();
        for toolkit in toolkits() {
            let roles: Vec<_> = toolkit.all_wheels().iter().map(|pin| pin.role).collect();
            let thirteen = [Role::Nvrtc, Role::Nvcc, Role::Crt, Role::Nvvm, Role::Headers];
            let before = [Role::Nvrtc, Role::Ptxas, Role::Headers];
            assert_eq!(roles, if toolkit.version.major == 13 { thirteen.as_slice() } else { before.as_slice() });
            for pin in toolkit.all_wheels() {
                assert!(pin.version.starts_with(&format!("{}.", toolkit.version)), "{}", pin.requirement());
                assert_eq!(pin.package.ends_with(&format!("-cu{}", toolkit.version.major)), toolkit.version.major < 13);
                assert!(
                    pin.sha256.len() == 64
                        && pin.sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
                );
                assert!(hashes.insert(&pin.sha256), "{} is there twice", pin.requirement());
                assert!(pin.bytes > 100_000);
            }
        }
    }

    #[test]
    fn a_run_downloads_nvrtc_alone_where_the_wheels_have_no_nvcc() {
        let requirements = |text: &str| known(text).wheels().iter().map(|pin| pin.requirement()).collect::<Vec<_>>();
        assert_eq!(requirements("12.6"), ["nvidia-cuda-nvrtc-cu12==12.6.85"]);
        assert_eq!(
            requirements("13.0"),
            [
                "nvidia-cuda-nvrtc==13.0.88",
                "nvidia-cuda-nvcc==13.0.88",
                "nvidia-cuda-crt==13.0.88",
                "nvidia-nvvm==13.0.88",
                "nvidia-cuda-runtime==13.0.96"
            ]
        );
    }

    #[test]
    fn what_is_not_in_the_catalogue_has_a_reason() {
        let reason = |text: &str| unknown(version(text)).unwrap_or_default();
        assert!(reason("12.7").contains("no toolkit, image or wheel"), "{}", reason("12.7"));
        assert_eq!(reason("12.10"), "CUDA 12.10 is not known: 12 ends at 12.9, and the newest known is 13.5");
        assert_eq!(reason("13.6"), "CUDA 13.6 is not known: the newest known is 13.5");
        assert_eq!(reason("11.7"), "CUDA 11.7 is older than 11.8, the oldest that is known");
        assert_eq!(unknown(version("12.6")), None);
    }

    #[test]
    fn an_unknown_key_in_the_file_is_an_error() {
        let text = include_str!("toolkits.json").replacen("\"gcc_max\"", "\"gcc_most\": 1, \"gcc_max\"", 1);
        let error = serde_json::from_str::<Catalogue>(&text).unwrap_err().to_string();
        assert!(error.starts_with("unknown field `gcc_most`"), "{error}");
    }
}
