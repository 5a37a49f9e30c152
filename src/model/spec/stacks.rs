//! `stacks:`, from what is written to resolved entries. Its main function is [`lower`].

use super::error::Complaint;
use super::lower::Lower;
use super::node::Node;
use super::raw::RawStack;
use crate::model::matrix::Toolkit;
use crate::model::stack::{Python, Stack, normalised};

/// The stacks in the order written. `toolkits` are those that they run with: none where that is not known.
pub(super) fn lower(lower: &mut Lower<'_>, raw: Vec<RawStack>, node: &Node, toolkits: &[Toolkit]) -> Vec<Stack> {
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
        let packages: Vec<_> = raw.packages.iter().map(|package| normalised(package)).zip(places).collect();
        lower.distinct(packages, "the package", "name each package of a stack once");
        let stack = Stack { name: raw.name, python, packages: raw.packages, base: raw.base };
        // Where some toolkit can share a container with it, the others' cells are left out, each with this reason.
        let apart: Vec<_> = toolkits.iter().filter_map(|toolkit| stack.apart_from(toolkit)).collect();
        if let Some(first) = apart.first()
            && apart.len() == toolkits.len()
        {
            let complaint = Complaint::new(format!("no toolkit can run on this `base`: {first}"));
            let cure = "leave `base` out here, or add a toolkit from wheels or a `dir`: {name: …, version: \"12.6\"}";
            lower.complain(node.place("base"), complaint.help(cure));
        }
        stacks.push(stack);
    }
    lower.distinct(named, "the stack", "give one of them another name");
    stacks
}
