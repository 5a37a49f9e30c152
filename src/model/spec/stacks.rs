//! `stacks:`, from what is written to resolved entries. Its main function is [`lower`].

use super::error::Complaint;
use super::lower::Lower;
use super::node::Node;
use super::raw::RawStack;
use crate::model::stack::{Python, Stack, normalised};

/// The stacks in the order written.
pub(super) fn lower(lower: &mut Lower<'_>, raw: Vec<RawStack>, node: &Node) -> Vec<Stack> {
    let mut named = Vec::new();
    let mut stacks = Vec::new();
    for (raw, node) in raw.into_iter().zip(node.items()) {
        named.push((raw.name.clone(), node.place("name")));
        let python = if raw.python == "host" { Python::Host } else { Python::Version(raw.python) };
        if python == Python::Host && !raw.packages.is_empty() {
            let complaint = Complaint::new("`python: host` takes what is installed for it, and nothing is installed");
            let cure = "leave `packages` out, or name the Python by its version: then it gets a folder of its own";
            lower.complain(node.place("packages"), complaint.help(cure));
        }
        if python != Python::Host && raw.packages.is_empty() {
            let complaint = Complaint::new("this stack has no packages");
            lower.complain(
                node.place("name"),
                complaint.help("add `packages: [\"numpy==1.26.4\"]`, or say `python: host`"),
            );
        }
        let items = node.get("packages").map(Node::items).unwrap_or_default();
        let places = items.iter().map(|item| item.span.clone());
        let names: Vec<_> = raw.packages.iter().map(|package| normalised(package)).zip(places).collect();
        lower.distinct(names, "the package", "name each package of a stack once");
        stacks.push(Stack { name: raw.name, python, packages: raw.packages });
    }
    lower.distinct(named, "the stack", "give one of them another name");
    stacks
}
