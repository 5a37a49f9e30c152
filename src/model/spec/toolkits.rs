//! `toolkits:`, from what is written to resolved entries. Its main function is [`lower`]; [`entries`] serves
//! `include:` too.

use std::ops::Range;
use std::path::Path;

use super::error::{Complaint, quoted};
use super::lower::Lower;
use super::node::Node;
use super::raw::{RawToolkit, RawToolkitEntry};
use super::{Known, check};
use crate::model::matrix::{Toolkit, ToolkitSource};
use crate::model::selector::Selector;
use crate::model::version::Version;

/// A hundred times the versions that there are; more is a mistake in the file.
const MOST_TOOLKITS: usize = 2000;

/// The toolkits in the order written; a range stands for its versions, oldest first.
pub(super) fn lower(lower: &mut Lower<'_>, raw: Vec<RawToolkit>, node: &Node) -> Vec<Toolkit> {
    let mut named: Vec<(String, Range<usize>)> = Vec::new();
    let mut toolkits = Vec::new();
    for (raw, node) in raw.into_iter().zip(node.items()) {
        let found = entries(lower, raw, node);
        let place = if node.get("name").is_some() { node.place("name") } else { node.place("version") };
        named.extend(found.iter().map(|toolkit| (toolkit.name.clone(), place.clone())));
        toolkits.extend(found);
        if toolkits.len() > MOST_TOOLKITS {
            let complaint = Complaint::new(format!("`toolkits` stands for more than {MOST_TOOLKITS} toolkits"));
            lower.complain(node.span.clone(), complaint);
            break;
        }
    }
    lower.distinct(named, "the toolkit", "leave one out, or give it a name: {name: …, version: …}");
    toolkits
}

/// The toolkits that one item stands for.
pub(super) fn entries(lower: &mut Lower<'_>, raw: RawToolkit, node: &Node) -> Vec<Toolkit> {
    match raw {
        RawToolkit::Versions(text) => versions(&text, lower.known).into_iter().map(unsaid).collect(),
        RawToolkit::Entry(raw) => entry(lower, raw, node).into_iter().collect(),
    }
}

/// The known versions that a text chooses, oldest first.
pub(super) fn versions(text: &str, known: &Known<'_>) -> Vec<Version> {
    let Ok(selector) = text.parse::<Selector>() else { return Vec::new() };
    let mut chosen: Vec<_> =
        known.versions.iter().copied().filter(|version| selector.matches(*version, known.versions)).collect();
    chosen.sort_unstable();
    chosen
}

/// An entry of which only the version is known.
fn unsaid(version: Version) -> Toolkit {
    Toolkit { name: version.to_string(), version, source: ToolkitSource::Unsaid, base: None }
}

fn entry(lower: &mut Lower<'_>, raw: RawToolkitEntry, node: &Node) -> Option<Toolkit> {
    // The walk has checked the text.
    let version: Version = raw.version.parse().ok()?;
    // What lies in a folder or an image can be measured; wheels are pinned for known versions only.
    if raw.dir.is_none()
        && raw.image.is_none()
        && let Err(complaint) = check::published(version, lower.known)
    {
        lower.complain(node.place("version"), complaint);
        return None;
    }
    let name = raw.name.unwrap_or_else(|| version.to_string());
    // A name that reads as a set of versions would mean two things in rules and in `--select`.
    if let Ok(selector) = name.parse::<Selector>()
        && selector.exact() != Some(version)
    {
        let complaint = Complaint::new(format!("the name {} reads as other versions than {version}", quoted(&name)));
        lower.complain(node.place("name"), complaint.help(format!("add a word: \"{version}-mine\"")));
    }
    if raw.image.is_some() && raw.dir.is_some() {
        let complaint = Complaint::new("a toolkit comes from `dir` or from `image`, and not from both");
        lower.complain(node.place("image"), complaint.help("write two entries, each with a name"));
    }
    if raw.image.is_some() && raw.base.is_some() {
        let complaint = Complaint::new("`base` is for a toolkit from wheels or a folder: this one has its own image");
        lower.complain(node.place("base"), complaint.help("leave `base` or `image` out"));
    }
    let source = match (raw.dir, raw.image) {
        (Some(dir), _) => ToolkitSource::Dir(lower.input.dir.join(Path::new(&dir))),
        (None, Some(image)) => ToolkitSource::Image(image),
        (None, None) => ToolkitSource::Unsaid,
    };
    Some(Toolkit { name, version, source, base: raw.base })
}
