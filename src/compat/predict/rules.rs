//! What a rule is, and how it is found by its id. Its main type is [`Rule`]; the table lies beside this file, and so do
//! the functions that apply the rules and name the one that decided.

use super::table::RULES;
use crate::compat::catalogue::How;

/// A rule of compatibility.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its name in reports: `ptx-isa`.
    pub id: &'static str,
    /// What it says, in one sentence.
    pub says: &'static str,
    /// What to do where it stands in the way.
    pub remedy: &'static str,
    /// How it is known.
    pub how: How,
    /// Where it is known from.
    pub source: &'static str,
    /// When that was looked at: `2026-12-01`.
    pub date: &'static str,
}

/// Every rule.
#[must_use]
pub const fn rules() -> &'static [Rule] {
    RULES
}

/// The rule with this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_says_everything_and_has_an_id_of_its_own() {
        let mut ids = BTreeSet::new();
        for rule in rules() {
            assert!(ids.insert(rule.id), "{} is there twice", rule.id);
            assert!(rule.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", rule.id);
            for said in [rule.says, rule.remedy, rule.source] {
                assert!(
                    !said.is_empty() && said.trim() == said && !said.ends_with('.') && !said.contains("  "),
                    "{said}"
                );
            }
            assert_eq!(rule.date.len(), "2026-12-01".len());
            assert_eq!(find(rule.id), Some(rule));
        }
        assert_eq!(find("no-such-rule"), None);
    }
}
