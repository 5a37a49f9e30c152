//! The text of a matrix file as a small tree that still knows where everything stands.
//! Its main type is [`Node`]; spans are byte ranges of the text. What a plain scalar means to YAML is [`Reading`].

use std::ops::Range;

/// One value of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Where it stands. For a list or map, where it begins.
    pub(super) span: Range<usize>,
    /// What it is.
    pub(super) kind: Kind,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// A scalar.
    Scalar {
        /// Its text, without quotes and with escapes resolved.
        text: String,
        /// Whether it was written without quotes, so that YAML may read it as a number.
        plain: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map. Keys are distinct.
    Map(Vec<Pair>),
    /// An alias: it has been complained about, and there is no more to say.
    Refused,
}

/// A key of a map and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// The key.
    pub(super) key: String,
    /// Where the key stands.
    pub(super) span: Range<usize>,
    /// Its value.
    pub(super) value: Node,
}

/// What YAML makes of a plain scalar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reading {
    /// No value at all.
    Nothing,
    /// A truth value.
    Bool,
    /// A whole number that is not negative.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// Text.
    Text,
}

impl Reading {
    /// The rules of the YAML 1.2 core schema, as `serde_yaml` applies them to a scalar without quotes.
    pub(super) fn of(plain: &str) -> Self {
        if matches!(plain, "" | "~" | "null" | "Null" | "NULL") {
            return Self::Nothing;
        }
        if matches!(plain, "true" | "True" | "TRUE" | "false" | "False" | "FALSE") {
            return Self::Bool;
        }
        let unsigned = plain.strip_prefix('+').unwrap_or(plain);
        if let Some(number) = integer(unsigned) {
            return Self::Integer(number);
        }
        if let Some(number) = plain.strip_prefix('-').and_then(integer) {
            return Self::Number(-(number as f64));
        }
        match unsigned {
            ".inf" | ".Inf" | ".INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan" | ".NaN" | ".NAN" => Self::Number(f64::NAN),
            _ if leading_zeros(plain) => Self::Text,
            _ if plain.starts_with('+') && unsigned.starts_with(['+', '-']) => Self::Text,
            _ => unsigned.parse().ok().filter(|number: &f64| number.is_finite()).map_or(Self::Text, Self::Number),
        }
    }
}

fn integer(text: &str) -> Option<u64> {
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
        }
    }
    text.parse().ok().filter(|_| !text.starts_with('+') && !leading_zeros(text))
}

/// `007` is text in YAML 1.2.
fn leading_zeros(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl Node {
    /// The value under `key`, if this is a map that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(pairs) => pairs.iter().find(|pair| pair.key == key).map(|pair| &pair.value),
            Kind::Scalar { .. } | Kind::List(_) | Kind::Refused => None,
        }
    }

    /// Where the value under `key` stands, or this node if it has none.
    pub(super) fn place(&self, key: &str) -> Range<usize> {
        self.get(key).map_or_else(|| self.span.clone(), |node| node.span.clone())
    }

    /// The items of a list; a single value stands for a list of one.
    pub(super) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            Kind::Scalar { .. } | Kind::Map(_) | Kind::Refused => std::slice::from_ref(self),
        }
    }

    /// What it is, for a message.
    pub(super) fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
            Kind::Refused => "an alias",
            Kind::Scalar { plain: false, .. } => "text",
            Kind::Scalar { text, plain: true } => match Reading::of(text) {
                Reading::Nothing => "nothing",
                Reading::Bool => "a truth value",
                Reading::Integer(_) | Reading::Number(_) => "a number",
                Reading::Text => "text",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_without_quotes_means_what_serde_yaml_makes_of_it() {
        for text in [
            "12.10", "12", "+12", "-3", "0x1f", "0o17", "0b101", "1e3", ".5", "5.", "007", "-007", "0", "-0", "~",
            "null", "", "true", "False", "yes", "12.x", "inf", "-.inf", ".nan", "++1", "+-1", "0x", "0x+1", "1_000",
            "12.4-dir", "1e400", "NaN", "+.inf", "0x-1", "+0x10",
        ] {
            let theirs = match serde_yaml::from_str::<serde_yaml::Value>(text).unwrap() {
                serde_yaml::Value::Null => "nothing",
                serde_yaml::Value::Bool(_) => "a truth value",
                serde_yaml::Value::Number(_) => "a number",
                serde_yaml::Value::String(_) => "text",
                other => panic!("{text}: {other:?}"),
            };
            let ours = Node { span: 0..0, kind: Kind::Scalar { text: text.into(), plain: true } };
            assert_eq!(ours.describe(), theirs, "{text:?}");
        }
    }
}
