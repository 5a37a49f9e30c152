//! `--select AXIS=VALUE`: which cells of a plan are wanted. Its main type is [`Selection`].
//! Values of one axis are alternatives; different axes must all hold.

use std::fmt;
use std::str::FromStr;

use crate::model::arch::Arch;
use crate::model::axes::{AXIS_NAMES, Axes};
use crate::model::nearest::{listed, suggestion};
use crate::model::path::PathPattern;
use crate::model::selector::Selector;
use crate::model::version::Version;

/// The cells that are wanted; the default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    terms: Vec<Term>,
}

/// One `AXIS=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    axis: Axis,
    value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Arch,
    Kernel,
    Path,
    Stack,
    Toolkit,
}

/// The text is not `AXIS=VALUE`: an error of usage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotATerm {
    /// There is no such axis.
    #[error("there is no axis `{axis}`: {cure}")]
    Axis {
        /// What was written.
        axis: String,
        /// The nearest axis, or all.
        cure: String,
    },
    /// There is no value.
    #[error("`{0}` selects nothing: write AXIS=VALUE, such as toolkit=12.6 or path=nvrtc")]
    Value(String),
}

impl FromStr for Term {
    type Err = NotATerm;

    fn from_str(text: &str) -> Result<Self, NotATerm> {
        let (axis, value) = text.split_once('=').ok_or_else(|| NotATerm::Value(text.into()))?;
        let axis = match axis {
            "arch" => Axis::Arch,
            "kernel" => Axis::Kernel,
            "path" => Axis::Path,
            "stack" => Axis::Stack,
            "toolkit" => Axis::Toolkit,
            _ => return Err(NotATerm::Axis { axis: axis.into(), cure: suggestion(axis, AXIS_NAMES) }),
        };
        if value.is_empty() {
            return Err(NotATerm::Value(text.into()));
        }
        Ok(Self { axis, value: value.into() })
    }
}

impl Axis {
    const ALL: [Self; 5] = [Self::Arch, Self::Kernel, Self::Path, Self::Stack, Self::Toolkit];

    const fn name(self) -> &'static str {
        match self {
            Self::Arch => "arch",
            Self::Kernel => "kernel",
            Self::Path => "path",
            Self::Stack => "stack",
            Self::Toolkit => "toolkit",
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.axis.name(), self.value)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            write!(f, "{}--select {term}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromIterator<Term> for Selection {
    fn from_iter<I: IntoIterator<Item = Term>>(terms: I) -> Self {
        Self { terms: terms.into_iter().collect() }
    }
}

impl Selection {
    /// Reads the values of `--select`.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Self, NotATerm> {
        texts.iter().map(|text| text.as_ref().parse()).collect()
    }

    /// The selection, ready to be asked about the cells of one matrix, whose versions are `among`.
    pub(super) fn filter<'a>(&'a self, among: &'a [Version], native: Arch) -> Filter<'a> {
        let wanted = self.terms.iter().map(|term| (term, Wanted::of(term, native))).collect();
        Filter { wanted, among }
    }
}

/// A [`Selection`] whose values have been read.
pub(super) struct Filter<'a> {
    wanted: Vec<(&'a Term, Wanted<'a>)>,
    among: &'a [Version],
}

enum Wanted<'a> {
    Arch(Arch),
    Kernel(&'a str),
    Path(PathPattern),
    Stack(&'a str),
    Toolkit(&'a str, Option<Selector>),
    /// A value that cannot be one of its axis.
    Nothing,
}

impl<'a> Wanted<'a> {
    fn of(term: &'a Term, native: Arch) -> Self {
        let value = term.value.as_str();
        match term.axis {
            Axis::Arch if value == "native" => Self::Arch(native),
            Axis::Arch => value.parse().map_or(Self::Nothing, Self::Arch),
            Axis::Kernel => Self::Kernel(value),
            Axis::Path => value.parse().map_or(Self::Nothing, Self::Path),
            Axis::Stack => Self::Stack(value),
            Axis::Toolkit => Self::Toolkit(value, value.parse().ok()),
        }
    }

    fn matches(&self, axes: &Axes, version: Version, among: &[Version]) -> bool {
        match self {
            Self::Arch(arch) => *arch == axes.arch,
            Self::Kernel(kernel) => *kernel == axes.kernel,
            Self::Path(pattern) => pattern.matches(axes.path),
            Self::Stack(stack) => axes.stack.as_deref() == Some(stack),
            Self::Toolkit(name, selector) => {
                *name == axes.toolkit || selector.as_ref().is_some_and(|selector| selector.matches(version, among))
            }
            Self::Nothing => false,
        }
    }
}

impl Filter<'_> {
    /// Whether the cell at `axes`, whose toolkit has `version`, is wanted.
    pub(super) fn matches(&self, axes: &Axes, version: Version) -> bool {
        Axis::ALL.into_iter().all(|axis| {
            let mut wanted = self.wanted.iter().filter(|(term, _)| term.axis == axis).peekable();
            wanted.peek().is_none() || wanted.any(|(_, wanted)| wanted.matches(axes, version, self.among))
        })
    }

    /// The first term that no cell matches, as an error text that says what there is. `cells` are those of the whole
    /// matrix, with the versions of their toolkits.
    pub(super) fn unmatched<'c>(&self, cells: impl Iterator<Item = (&'c Axes, Version)> + Clone) -> Option<String> {
        let (term, _) = self
            .wanted
            .iter()
            .find(|(_, wanted)| !cells.clone().any(|(axes, version)| wanted.matches(axes, version, self.among)))?;
        let mut values: Vec<String> = Vec::new();
        for (axes, _) in cells {
            let mut add = |value: String| {
                if !values.contains(&value) {
                    values.push(value);
                }
            };
            match term.axis {
                Axis::Arch => add(axes.arch.to_string()),
                Axis::Kernel => add(axes.kernel.clone()),
                Axis::Path => {
                    add(axes.path.family.name().to_owned());
                    add(axes.path.to_string());
                }
                Axis::Stack => axes.stack.iter().for_each(|stack| add(stack.clone())),
                Axis::Toolkit => add(axes.toolkit.clone()),
            }
        }
        let axis = term.axis.name();
        Some(if values.is_empty() {
            format!("--select {term} matches nothing: the matrix has no {axis}")
        } else {
            let words = || values.iter().map(String::as_str);
            let near = crate::model::nearest::nearest(&term.value, words());
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            format!("--select {term} matches nothing: {near}the matrix has {axis} {}", listed(words()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_axis_is_told_with_the_nearest_one() {
        let refused = |text: &str| text.parse::<Term>().unwrap_err().to_string();
        assert_eq!(refused("tolkit=12.6"), "there is no axis `tolkit`: did you mean `toolkit`?");
        assert_eq!(
            refused("gpu=x"),
            "there is no axis `gpu`: write one of `arch`, `kernel`, `path`, `stack`, `toolkit`"
        );
        let usage = "selects nothing: write AXIS=VALUE, such as toolkit=12.6 or path=nvrtc";
        assert_eq!(refused("12.6"), format!("`12.6` {usage}"));
        assert_eq!(refused("toolkit="), format!("`toolkit=` {usage}"));
    }

    #[test]
    fn each_axis_has_its_name_among_the_axis_names() {
        assert_eq!(Axis::ALL.map(Axis::name), AXIS_NAMES);
    }
}
