//! A toolkit version: `major.minor`, as NVIDIA numbers CUDA Toolkits.
//! Its main type is [`Version`]; the patch level is not part of it, because compatibility rules do not use it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A CUDA version such as `12.6`. Ordered numerically, so that 12.10 would come after 12.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The major version, which is the border of the minor-version compatibility promise.
    pub major: u16,
    /// The minor version.
    pub minor: u16,
}

impl Version {
    /// `major.minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Reads the integer that `cuDriverGetVersion` gives: `1000 * major + 10 * minor`.
    #[must_use]
    pub fn from_driver_api(number: i32) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        Some(Self { major: u16::try_from(number / 1000).ok()?, minor: u16::try_from(number % 1000 / 10).ok()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The text is not `major.minor`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version: write it as \"12.6\", a major and a minor number")]
pub struct NotAVersion(pub String);

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let number = |part: &str| {
            let plain = !part.is_empty() && part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
            let leading_zero = part.len() > 1 && part.starts_with('0');
            if plain && !leading_zero { part.parse().ok() } else { None }
        };
        let (major, minor) = text.split_once('.').ok_or_else(|| NotAVersion(text.into()))?;
        match (number(major), number(minor)) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(NotAVersion(text.into())),
        }
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_order_by_number_and_not_by_text() {
        assert!(Version::new(12, 9) < Version::new(12, 10));
        assert_eq!("12.10".parse(), Ok(Version::new(12, 10)));
    }

    #[test]
    fn what_is_not_major_dot_minor_is_refused() {
        for text in ["12", "12.", ".6", "12.6.3", "12.06", "v12.6", "12.6 ", "", "12.-1", "99999.1"] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_driver_api_number_is_read() {
        assert_eq!(Version::from_driver_api(13000), Some(Version::new(13, 0)));
        assert_eq!(Version::from_driver_api(12080), Some(Version::new(12, 8)));
        assert_eq!(Version::from_driver_api(-1), None);
    }
}
