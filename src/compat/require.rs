//! `NVIDIA_REQUIRE_CUDA` and its like: parsed by its own grammar, evaluated against a host, and whether an attach mode
//! would check it at all. Its main type is [`Requirement`].
//!
//! The grammar is libnvidia-container's (`src/cli/dsl.c`): blanks part alternatives, commas join conditions that must
//! all hold, and a condition is `cuda`, `driver`, `arch` or `brand`, one of `= != < <= > >=`, and a value. The hook's
//! message always names the first condition of the whole text, whichever failed.

use std::cmp::Ordering;
use std::fmt;

use crate::model::arch::Arch;
use crate::model::fleet::{DriverVersion, gpu_model};
use crate::model::version::Version;

/// What an image requires of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    alternatives: Vec<Vec<Condition>>,
}

/// One condition, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    field: Field,
    operator: Operator,
    value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Cuda,
    Driver,
    Arch,
    Brand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer operators first, since the shorter ones are their beginnings.
const OPERATORS: [(&str, Operator); 6] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

const FIELDS: [(&str, Field); 4] =
    [("cuda", Field::Cuda), ("driver", Field::Driver), ("arch", Field::Arch), ("brand", Field::Brand)];

/// The text is no requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no condition: write cuda, driver, arch or brand, one of = != < <= > >=, and a value")]
pub struct NotACondition(pub String);

/// What a requirement is held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The CUDA version that the driver implements.
    pub cuda: Version,
    /// The driver's version; none where it is not known.
    pub driver: Option<DriverVersion>,
    /// The GPU's compute capability; none where it is not known.
    pub cc: Option<Arch>,
    /// The GPU's brand as NVML has it, in lower case; none where it is not known.
    pub brand: Option<&'static str>,
}

/// Whether a host is what was required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// One alternative holds.
    Satisfied,
    /// None holds. The condition that the hook's message names, and those that fail, of the alternative that is
    /// nearest to holding.
    Unsatisfied {
        /// `cuda>=12.6`.
        named: String,
        /// `cuda>=12.6`, or several.
        failing: Vec<String>,
    },
    /// None holds for sure, and some would with facts that are not known.
    Unknown,
}

impl Requirement {
    /// Reads the value of an `NVIDIA_REQUIRE_…` variable. An empty one requires nothing.
    pub fn parse(text: &str) -> Result<Self, NotACondition> {
        let alternatives = text.split_whitespace().map(|all| all.split(',').map(condition).collect());
        Ok(Self { alternatives: alternatives.collect::<Result<_, _>>()? })
    }

    /// What an image without `NVIDIA_REQUIRE_CUDA` and with `CUDA_VERSION` is taken to require.
    #[must_use]
    pub fn of_cuda_version(version: Version) -> Self {
        let condition =
            Condition { field: Field::Cuda, operator: Operator::GreaterOrEqual, value: version.to_string() };
        Self { alternatives: vec![vec![condition]] }
    }

    /// Holds the requirement against a host.
    #[must_use]
    pub fn answer(&self, host: &Host) -> Answer {
        let Some(named) = self.alternatives.first().and_then(|all| all.first()) else { return Answer::Satisfied };
        let mut open = false;
        let mut nearest: Option<Vec<String>> = None;
        for all in &self.alternatives {
            let held: Vec<_> = all.iter().map(|condition| (condition, condition.holds(host))).collect();
            let failing: Vec<String> =
                held.iter().filter(|(_, held)| *held == Some(false)).map(|(one, _)| one.to_string()).collect();
            match (failing.is_empty(), held.iter().any(|(_, held)| held.is_none())) {
                (true, false) => return Answer::Satisfied,
                (true, true) => open = true,
                (false, _) if nearest.as_ref().is_none_or(|nearest| failing.len() < nearest.len()) => {
                    nearest = Some(failing);
                }
                (false, _) => {}
            }
        }
        if open {
            return Answer::Unknown;
        }
        Answer::Unsatisfied { named: named.to_string(), failing: nearest.unwrap_or_default() }
    }
}

fn condition(text: &str) -> Result<Condition, NotACondition> {
    let wrong = || NotACondition(text.into());
    let (name, field) = FIELDS.into_iter().find(|(name, _)| text.starts_with(name)).ok_or_else(wrong)?;
    let rest = &text[name.len()..];
    let (sign, operator) = OPERATORS.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(wrong)?;
    let value = &rest[sign.len()..];
    let ordered = !matches!(operator, Operator::Equal | Operator::NotEqual);
    let valid = match field {
        Field::Brand => !ordered && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        Field::Cuda | Field::Driver | Field::Arch => numbers(value).is_some(),
    };
    if valid { Ok(Condition { field, operator, value: value.into() }) } else { Err(wrong()) }
}

/// Up to three numbers; what is not there is 0.
fn numbers(text: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    for (place, part) in text.split('.').enumerate() {
        let digits = !part.is_empty() && part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit());
        *numbers.get_mut(place)? = if digits { part.parse().ok()? } else { return None };
    }
    Some(numbers)
}

impl Condition {
    /// Whether it holds; none where the host's fact is not known.
    fn holds(&self, host: &Host) -> Option<bool> {
        let has = match self.field {
            Field::Cuda => [u32::from(host.cuda.major), u32::from(host.cuda.minor), 0],
            Field::Driver => host.driver?.0,
            Field::Arch => [u32::from(host.cc?.major), u32::from(host.cc?.minor), 0],
            Field::Brand => {
                let same = host.brand? == self.value;
                return Some(same == (self.operator == Operator::Equal));
            }
        };
        let order = has.cmp(&numbers(&self.value)?);
        Some(match self.operator {
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => order != Ordering::Greater,
            Operator::Greater => order == Ordering::Greater,
            Operator::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = FIELDS.iter().find(|(_, field)| *field == self.field).map_or("", |(name, _)| name);
        let operator = OPERATORS.iter().find(|(_, sign)| *sign == self.operator).map_or("", |(sign, _)| sign);
        write!(f, "{field}{operator}{}", self.value)
    }
}

/// The brand that NVML gives for a GPU of this name, where it is known: `tesla` up to Turing's data-centre GPUs,
/// `nvidia` for later ones, `geforce` and `geforcertx`, `quadrortx` and `nvidiartx`.
#[must_use]
pub fn brand(gpu: &str) -> Option<&'static str> {
    use crate::model::fleet::GpuClass::{Consumer, DataCentre, Workstation};
    let model = gpu_model(gpu)?;
    let turing = Arch::new(7, 5);
    Some(match model.class {
        DataCentre if model.cc <= turing => "tesla",
        DataCentre => "nvidia",
        Consumer if model.name.starts_with("RTX") => "geforcertx",
        Consumer if model.name.starts_with("TITAN") => "titan",
        Consumer => "geforce",
        Workstation if model.cc <= turing => "quadrortx",
        Workstation => "nvidiartx",
    })
}

/// How a GPU reaches a container, as far as it decides who checks requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A device request to an engine of this version (`--gpus`).
    Request {
        /// Major and minor; none where it is not known.
        docker: Option<(u32, u32)>,
    },
    /// The `nvidia` runtime of a container toolkit of this version.
    Runtime {
        /// Major and minor; none where it is not known.
        toolkit: Option<(u32, u32)>,
    },
    /// A CDI device.
    Cdi,
    /// Device nodes and mounted libraries.
    Devices,
}

/// Whether requirements are checked when the container starts; none where that depends on what is not known.
///
/// The legacy hook checks them. CDI does not, and it is what `--gpus` tries first from Docker 29.2 on, and what the
/// `nvidia` runtime does by default from container toolkit 1.18 on. `NVIDIA_DISABLE_REQUIRE` turns every check off.
#[must_use]
pub fn enforced(way: Way, disable_require: bool) -> Option<bool> {
    if disable_require {
        return Some(false);
    }
    match way {
        Way::Request { docker: Some(version) } if version < (29, 2) => Some(true),
        Way::Runtime { toolkit: Some(version) } => Some(version < (1, 18)),
        Way::Request { .. } | Way::Runtime { toolkit: None } => None,
        Way::Cdi | Way::Devices => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nvidia/cuda:12.6.3 has it, shortened to a few of its alternatives.
    const OF_12_6: &str = "cuda>=12.6 brand=unknown,driver>=470,driver<471 brand=tesla,driver>=470,driver<471 \
                           brand=nvidia,driver>=535,driver<536 brand=tesla,driver>=535,driver<536";

    fn host(cuda: &str, driver: &str, gpu: &str) -> Host {
        let (cc, brand) = (gpu_model(gpu).map(|model| model.cc), brand(gpu));
        Host { cuda: cuda.parse().unwrap(), driver: driver.parse().ok(), cc, brand }
    }

    fn answer(text: &str, host: &Host) -> Answer {
        Requirement::parse(text).unwrap().answer(host)
    }

    fn unsatisfied(named: &str, failing: &[&str]) -> Answer {
        Answer::Unsatisfied { named: named.into(), failing: failing.iter().map(|text| (*text).into()).collect() }
    }

    #[test]
    fn one_alternative_is_enough_and_all_its_conditions_are_needed() {
        assert_eq!(answer(OF_12_6, &host("13.0", "580.159.04", "H200")), Answer::Satisfied);
        assert_eq!(answer(OF_12_6, &host("12.2", "535.104.05", "T4")), Answer::Satisfied);
        assert_eq!(answer(OF_12_6, &host("12.4", "550.54.14", "T4")), unsatisfied("cuda>=12.6", &["cuda>=12.6"]));
        // GeForce has no alternative of its own from 12.5 on.
        let geforce = host("12.2", "535.104.05", "RTX 4090");
        assert_eq!(answer(OF_12_6, &geforce), unsatisfied("cuda>=12.6", &["cuda>=12.6"]));
    }

    #[test]
    fn what_is_not_known_of_the_host_is_not_guessed() {
        let unknown = Host { brand: None, ..host("12.2", "535.104.05", "T4") };
        assert_eq!(answer(OF_12_6, &unknown), Answer::Unknown);
        assert_eq!(answer("driver>=535", &Host { driver: None, ..unknown.clone() }), Answer::Unknown);
        assert_eq!(answer("cuda>=12.2", &unknown), Answer::Satisfied);
    }

    #[test]
    fn operators_compare_numbers_and_not_text() {
        let host = host("12.10", "550.54.14", "L4");
        for (text, holds) in [
            ("cuda>=12.9", true),
            ("cuda>12.10", false),
            ("cuda=12.10", true),
            ("cuda!=12.10", false),
            ("driver<550.54.15", true),
            ("driver<=550.54.14", true),
            ("driver>550", true),
            ("arch>=8.9", true),
            ("arch<8.9", false),
            ("brand=nvidia", true),
            ("brand!=nvidia", false),
            ("", true),
            ("cuda>=99,arch>=8.0 cuda>=12", true),
        ] {
            assert_eq!(answer(text, &host) == Answer::Satisfied, holds, "{text}");
        }
    }

    #[test]
    fn what_is_no_condition_is_named() {
        for text in
            ["cuda", "cuda>=", "cuda>=12.x", "gpu=1", "brand>tesla", "cuda>=12.6,", "cuda >=12", "driver>=1.2.3.4"]
        {
            assert!(Requirement::parse(text).is_err(), "{text}");
        }
        assert_eq!(Requirement::parse("cuda>=12.6 oops").unwrap_err(), NotACondition("oops".into()));
    }

    #[test]
    fn an_old_image_requires_its_own_version() {
        let required = Requirement::of_cuda_version(Version::new(11, 0));
        assert_eq!(required.answer(&host("10.2", "440.33.01", "T4")), unsatisfied("cuda>=11.0", &["cuda>=11.0"]));
    }

    #[test]
    fn whether_anybody_checks_depends_on_the_way() {
        let request = |docker| enforced(Way::Request { docker }, false);
        assert_eq!((request(Some((28, 5))), request(Some((29, 2))), request(None)), (Some(true), None, None));
        let runtime = |toolkit| enforced(Way::Runtime { toolkit }, false);
        assert_eq!((runtime(Some((1, 17))), runtime(Some((1, 18))), runtime(None)), (Some(true), Some(false), None));
        assert_eq!((enforced(Way::Cdi, false), enforced(Way::Devices, false)), (Some(false), Some(false)));
        assert_eq!(enforced(Way::Request { docker: Some((20, 10)) }, true), Some(false));
    }
}
