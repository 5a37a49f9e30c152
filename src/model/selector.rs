//! A set of toolkit versions, as written wherever a toolkit is named: `12.4`, `12.x`, `>=12.4 <13`, `oldest`.
//! Its main type is [`Selector`].

use std::fmt;
use std::str::FromStr;

use super::version::Version;

/// A comparison in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
}

/// A set of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Exact(Version),
    Major(u16),
    Oldest,
    Newest,
    Range(Vec<(Comparison, Version)>),
}

impl Selector {
    /// Whether `version` is in the set. `among` are the versions that `oldest` and `newest` choose from.
    #[must_use]
    pub fn matches(&self, version: Version, among: &[Version]) -> bool {
        match &self.kind {
            Kind::Exact(exact) => *exact == version,
            Kind::Major(major) => *major == version.major,
            Kind::Oldest => among.iter().min() == Some(&version),
            Kind::Newest => among.iter().max() == Some(&version),
            Kind::Range(bounds) => bounds.iter().all(|(comparison, bound)| match comparison {
                Comparison::Less => version < *bound,
                Comparison::AtMost => version <= *bound,
                Comparison::Equal => version == *bound,
                Comparison::AtLeast => version >= *bound,
                Comparison::Greater => version > *bound,
            }),
        }
    }

    /// The one version that is meant, if the text names just one.
    #[must_use]
    pub fn exact(&self) -> Option<Version> {
        if let Kind::Exact(version) = self.kind { Some(version) } else { None }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text is not a set of versions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a toolkit version or range: write \"12.4\", \"12.x\", \">=12.4 <13\", \"oldest\" or \"newest\"")]
pub struct NotASelector(pub String);

impl FromStr for Selector {
    type Err = NotASelector;

    fn from_str(text: &str) -> Result<Self, NotASelector> {
        let kind = parse(text).ok_or_else(|| NotASelector(text.into()))?;
        Ok(Self { text: text.into(), kind })
    }
}

fn parse(text: &str) -> Option<Kind> {
    match text {
        "oldest" => return Some(Kind::Oldest),
        "newest" => return Some(Kind::Newest),
        _ => {}
    }
    if let Ok(version) = text.parse() {
        return Some(Kind::Exact(version));
    }
    if let Some(major) = text.strip_suffix(".x") {
        return number(major).map(Kind::Major);
    }
    let bounds: Option<Vec<_>> = text.split_whitespace().map(bound).collect();
    bounds.filter(|bounds| !bounds.is_empty()).map(Kind::Range)
}

fn number(text: &str) -> Option<u16> {
    let plain = !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn bound(text: &str) -> Option<(Comparison, Version)> {
    let (comparison, rest) = if let Some(rest) = text.strip_prefix(">=") {
        (Comparison::AtLeast, rest)
    } else if let Some(rest) = text.strip_prefix("<=") {
        (Comparison::AtMost, rest)
    } else if let Some(rest) = text.strip_prefix('>') {
        (Comparison::Greater, rest)
    } else if let Some(rest) = text.strip_prefix('<') {
        (Comparison::Less, rest)
    } else {
        (Comparison::Equal, text.strip_prefix('=')?)
    };
    // A bare major is the start of it: `<13` is `<13.0`.
    let version = rest.parse().ok().or_else(|| number(rest).map(|major| Version::new(major, 0)))?;
    Some((comparison, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(selector: &str, among: &str) -> String {
        let among: Vec<Version> = among.split(' ').map(|text| text.parse().unwrap()).collect();
        let selector: Selector = selector.parse().unwrap();
        let chosen: Vec<_> = among.iter().filter(|v| selector.matches(**v, &among)).map(ToString::to_string).collect();
        chosen.join(" ")
    }

    #[test]
    fn each_form_chooses_its_versions() {
        let among = "11.8 12.0 12.4 12.9 13.0 13.5";
        assert_eq!(chosen("12.4", among), "12.4");
        assert_eq!(chosen("12.x", among), "12.0 12.4 12.9");
        assert_eq!(chosen(">=12.4 <13", among), "12.4 12.9");
        assert_eq!(chosen(">12.4", among), "12.9 13.0 13.5");
        assert_eq!(chosen("<=12.0", among), "11.8 12.0");
        assert_eq!(chosen("=13.5", among), "13.5");
        assert_eq!(chosen("oldest", among), "11.8");
        assert_eq!(chosen("newest", among), "13.5");
    }

    #[test]
    fn what_is_no_set_of_versions_is_refused() {
        for text in ["", "  ", "x", "12.x.x", ">=", ">= 12.4", "12.4 13.0", "latest", "~12.4", ".x"] {
            assert!(text.parse::<Selector>().is_err(), "{text:?}");
        }
    }
}
