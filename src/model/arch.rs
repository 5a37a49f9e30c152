//! A compute capability to build for, with the mark that ties machine code to one chip (`a`) or family (`f`).
//! Its main type is [`Arch`]; it is written `9.0`, `9.0a`, and spelled `sm_90a` for compilers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an architecture's code may use beyond the generic instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// `a`: code for exactly this compute capability.
    Specific,
    /// `f`: code for this compute capability's family.
    Family,
}

/// A compute capability, such as `9.0`, with an optional [`Mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    /// Compute capability, major.
    pub major: u16,
    /// Compute capability, minor: one digit.
    pub minor: u8,
    /// `a`, `f` or none.
    pub mark: Option<Mark>,
}

impl Arch {
    /// What is built for where there is no GPU: the lowest that every toolkit from 12.0 to 13.5 builds, and the
    /// capability of the T4 on which the lesson behind this project ran.
    pub const WITHOUT_GPU: Self = Self::new(7, 5);

    /// The generic architecture `major.minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u8) -> Self {
        Self { major, minor, mark: None }
    }

    /// The number compilers use: 9.0 is 90, 12.1 is 121.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.major as u32 * 10 + self.minor as u32
    }

    /// Reads the digits and the mark of `sm_90a` or `compute_90a` (that is, `90a`).
    #[must_use]
    pub fn from_digits(text: &str) -> Option<Self> {
        let (digits, mark) = split_mark(text);
        let number: u32 = if digits.len() >= 2 && digits.len() <= 4 { digits.parse().ok()? } else { return None };
        Some(Self { major: u16::try_from(number / 10).ok()?, minor: u8::try_from(number % 10).ok()?, mark })
    }

    /// `sm_90a`: machine code for this architecture.
    #[must_use]
    pub fn sm(self) -> String {
        format!("sm_{}", self.digits())
    }

    /// `compute_90a`: PTX for this architecture.
    #[must_use]
    pub fn compute(self) -> String {
        format!("compute_{}", self.digits())
    }

    fn digits(self) -> String {
        format!("{}{}", self.number(), self.suffix())
    }

    const fn suffix(self) -> &'static str {
        match self.mark {
            None => "",
            Some(Mark::Specific) => "a",
            Some(Mark::Family) => "f",
        }
    }
}

fn split_mark(text: &str) -> (&str, Option<Mark>) {
    if let Some(rest) = text.strip_suffix('a') {
        (rest, Some(Mark::Specific))
    } else if let Some(rest) = text.strip_suffix('f') {
        (rest, Some(Mark::Family))
    } else {
        (text, None)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}{}", self.major, self.minor, self.suffix())
    }
}

/// The text is not a compute capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a compute capability: write it as \"9.0\" or \"9.0a\"")]
pub struct NotAnArch(pub String);

impl FromStr for Arch {
    type Err = NotAnArch;

    fn from_str(text: &str) -> Result<Self, NotAnArch> {
        let (number, mark) = split_mark(text);
        let parsed = number.split_once('.').and_then(|(major, minor)| {
            let digits = |part: &str, most: usize| {
                !part.is_empty() && part.len() <= most && part.bytes().all(|byte| byte.is_ascii_digit())
            };
            (digits(major, 2) && digits(minor, 1)).then_some(())?;
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()?, mark })
        });
        parsed.ok_or_else(|| NotAnArch(text.into()))
    }
}

impl Serialize for Arch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Arch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arch_is_spelled_for_people_and_for_compilers() {
        let arch: Arch = "9.0a".parse().unwrap();
        assert_eq!(
            (arch.to_string(), arch.sm(), arch.compute()),
            ("9.0a".into(), "sm_90a".into(), "compute_90a".into())
        );
        assert_eq!(Arch::from_digits("121f").unwrap().to_string(), "12.1f");
        assert_eq!(Arch::from_digits("75"), Some(Arch::new(7, 5)));
    }

    #[test]
    fn what_is_not_a_compute_capability_is_refused() {
        for text in ["9", "90", "9.00", "sm_90", "9.0b", "", ".5", "9.", "native"] {
            assert!(text.parse::<Arch>().is_err(), "{text:?}");
        }
    }
}
