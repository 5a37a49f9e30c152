//! `ctk.lock`: what a matrix stood for when it was locked, so that a later run uses the same bytes or says that it
//! cannot. Its main types are [`Lock`] and [`Change`] (one line of the difference between two of them).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::locked_stack::LockedStack;
use super::version::Version;

/// The version of the file's layout.
pub const LOCK_SCHEMA: u32 = 1;

/// The whole file. Maps are sorted, so that a version control system shows only what changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// [`LOCK_SCHEMA`].
    pub schema: u32,
    /// Toolkit entries, by name.
    pub toolkits: BTreeMap<String, LockedToolkit>,
    /// Images that entries name as `base:`, by reference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bases: BTreeMap<String, LockedImage>,
    /// Stacks of Python packages, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stacks: BTreeMap<String, LockedStack>,
}

/// One toolkit entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
pub enum LockedToolkit {
    /// It comes from an image.
    Image {
        /// The toolkit's version.
        version: Version,
        /// The image.
        image: LockedImage,
    },
    /// It comes from NVIDIA's wheels.
    Wheels {
        /// The toolkit's version.
        version: Version,
        /// The wheels.
        wheels: Vec<LockedFile>,
    },
    /// It comes from a folder, whose contents are this machine's own affair and are not locked.
    Dir {
        /// The toolkit's version.
        version: Version,
    },
}

impl LockedToolkit {
    /// The toolkit's version.
    #[must_use]
    pub fn version(&self) -> Version {
        match self {
            Self::Image { version, .. } | Self::Wheels { version, .. } | Self::Dir { version } => *version,
        }
    }

    /// Where it comes from, in a word or two.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        match self {
            Self::Image { .. } => "an image",
            Self::Wheels { .. } => "wheels",
            Self::Dir { .. } => "a folder",
        }
    }
}

/// An image, pinned to its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedImage {
    /// Its name and tag.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What the tag stood for in its registry. None for an image that was built or loaded here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_digest: Option<String>,
    /// The digest of this platform's manifest, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_digest: Option<String>,
    /// The image's id. It decides only where there is no digest: another kind of image store gives another id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
}

/// A wheel, pinned to its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedFile {
    /// `nvidia-cuda-nvrtc-cu12`.
    pub name: String,
    /// `12.6.85`.
    pub version: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes.
    pub sha256: String,
}

/// One line of the difference between two locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `toolkit 12.6`.
    pub entry: String,
    /// The field below it; empty for the whole entry.
    pub field: String,
    /// What it was; none if it is new.
    pub old: Option<String>,
    /// What it is; none if it is gone.
    pub new: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, field, old, new } = self;
        match (old, new) {
            (Some(old), Some(new)) => write!(f, "~ {entry}: {field}: {old} -> {new}"),
            (Some(old), None) => write!(f, "- {entry}: {field}: {old}"),
            (None, Some(new)) => write!(f, "+ {entry}: {field}: {new}"),
            (None, None) => write!(f, "  {entry}: {field}"),
        }
    }
}

impl Lock {
    /// One that holds nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self { schema: LOCK_SCHEMA, toolkits: BTreeMap::new(), bases: BTreeMap::new(), stacks: BTreeMap::new() }
    }

    /// Takes over from `old` what this one cannot tell: sizes that an index no longer tells and, where it was made of a
    /// selection, what was not selected.
    pub fn keep(&mut self, old: &Self, selection: bool) {
        for (name, new) in &mut self.stacks {
            if let Some(old) = old.stacks.get(name) {
                let same = new.python == old.python && new.asked == old.asked;
                new.keep(old, selection && same);
            }
        }
        if selection {
            fn both<T: Clone>(old: &BTreeMap<String, T>, new: &mut BTreeMap<String, T>) {
                let rest = old.iter().filter(|(name, _)| !new.contains_key(*name));
                let rest: Vec<_> = rest.map(|(name, entry)| (name.clone(), entry.clone())).collect();
                new.extend(rest);
            }
            both(&old.toolkits, &mut self.toolkits);
            both(&old.bases, &mut self.bases);
            both(&old.stacks, &mut self.stacks);
        }
    }

    /// What would have to change in this lock to make it `new`, in the order of the file. The size of a stack's package
    /// alone is no change: an index tells it or not, and the hash says that the file is the same.
    #[must_use]
    pub fn changes(&self, new: &Self) -> Vec<Change> {
        let (old, new) = (self.flat(), new.flat());
        let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).cloned().collect();
        let same_file = |(entry, field): &(String, String)| {
            let package = field.strip_suffix(".bytes").filter(|_| entry.starts_with("stack "));
            let hash = package.map(|package| (entry.clone(), format!("{package}.sha256")));
            hash.is_some_and(|hash| old.contains_key(&hash) && old.get(&hash) == new.get(&hash))
        };
        keys.into_iter()
            .filter(|key| old.get(key) != new.get(key) && !same_file(key))
            .map(|key| Change { old: old.get(&key).cloned(), new: new.get(&key).cloned(), entry: key.0, field: key.1 })
            .collect()
    }

    /// Every value by its entry and field.
    fn flat(&self) -> BTreeMap<(String, String), String> {
        let mut flat = BTreeMap::new();
        // A lock is plain data, which always becomes JSON.
        let Ok(Value::Object(whole)) = serde_json::to_value(self) else { return flat };
        for (kind, word) in [("toolkits", "toolkit"), ("bases", "base"), ("stacks", "stack")] {
            let Some(Value::Object(entries)) = whole.get(kind) else { continue };
            for (name, entry) in entries {
                flatten(&format!("{word} {name}"), "", entry, &mut flat);
            }
        }
        flat
    }
}

fn flatten(entry: &str, field: &str, value: &Value, flat: &mut BTreeMap<(String, String), String>) {
    let below = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(entry, &below(name), value, flat);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                // A wheel is told by its name, so that one more is not a change of all after it.
                let name = item.get("name").and_then(Value::as_str).map_or_else(|| index.to_string(), Into::into);
                flatten(entry, &below(&name), item, flat);
            }
        }
        Value::String(text) => drop(flat.insert((entry.into(), field.into()), text.clone())),
        other => drop(flat.insert((entry.into(), field.into()), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::locked_stack::{LockedPackage, LockedPackages};

    fn wheel(name: &str, version: &str) -> LockedFile {
        LockedFile { name: name.into(), version: version.into(), bytes: 1, sha256: "00".into() }
    }

    fn lock(entries: Vec<(&str, LockedToolkit)>) -> Lock {
        let toolkits = entries.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect();
        Lock { toolkits, ..Lock::empty() }
    }

    #[test]
    fn a_difference_names_entry_field_and_both_values() {
        let image = |digest: &str| LockedToolkit::Image {
            version: Version::new(12, 6),
            image: LockedImage {
                reference: "nvidia/cuda:12.6.3-devel-ubuntu22.04".into(),
                index_digest: Some(digest.into()),
                platform_digest: None,
                image_id: None,
            },
        };
        let wheels = |wheels| LockedToolkit::Wheels { version: Version::new(13, 0), wheels };
        let old = lock(vec![("12.6", image("sha256:a")), ("13.0", wheels(vec![wheel("b", "1")]))]);
        let new = lock(vec![("12.6", image("sha256:c")), ("13.0", wheels(vec![wheel("a", "1"), wheel("b", "2")]))]);
        let lines: Vec<String> = old.changes(&new).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "~ toolkit 12.6: image.index_digest: sha256:a -> sha256:c",
                "+ toolkit 13.0: wheels.a.bytes: 1",
                "+ toolkit 13.0: wheels.a.name: a",
                "+ toolkit 13.0: wheels.a.sha256: 00",
                "+ toolkit 13.0: wheels.a.version: 1",
                "~ toolkit 13.0: wheels.b.version: 1 -> 2",
            ]
        );
        assert_eq!(new.changes(&new), []);
    }

    #[test]
    fn the_size_of_the_same_file_is_no_change() {
        let lock = |bytes, sha256: &str| {
            let package = LockedPackage { name: "a".into(), version: "1".into(), bytes, sha256: Some(sha256.into()) };
            let packages = LockedPackages { python: "3.12".into(), packages: vec![package], sources: Vec::new() };
            let (machine, image) = (Some(packages), None);
            let stack = LockedStack { python: "3.12".into(), asked: vec!["a".into()], machine, image };
            Lock { stacks: BTreeMap::from([("s".into(), stack)]), ..Lock::empty() }
        };
        assert_eq!(lock(None, "00").changes(&lock(Some(7), "00")), []);
        assert_eq!(lock(Some(8), "00").changes(&lock(Some(7), "00")), []);
        let lines: Vec<String> =
            lock(None, "00").changes(&lock(Some(7), "01")).iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["+ stack s: machine.packages.a.bytes: 7", "~ stack s: machine.packages.a.sha256: 00 -> 01"]);
        // A toolkit's wheel always has its size.
        let wheels = |bytes| LockedToolkit::Wheels {
            version: Version::new(13, 0),
            wheels: vec![LockedFile { bytes, ..wheel("b", "1") }],
        };
        let toolkit = |bytes| Lock { toolkits: BTreeMap::from([("13.0".into(), wheels(bytes))]), ..Lock::empty() };
        assert_eq!(toolkit(1).changes(&toolkit(2)).len(), 1);
    }

    #[test]
    fn a_lock_with_a_stack_reads_back_and_an_unknown_field_is_refused() {
        let package = LockedPackage { name: "a".into(), version: "1".into(), bytes: None, sha256: Some("00".into()) };
        let packages = LockedPackages { python: "3.12".into(), packages: vec![package], sources: Vec::new() };
        let (machine, image) = (Some(packages), None);
        let stack = LockedStack { python: "3.12".into(), asked: vec!["a".into()], machine, image };
        let lock = Lock { stacks: BTreeMap::from([("s".into(), stack)]), ..Lock::empty() };
        let text = serde_json::to_string(&lock).unwrap();
        assert_eq!(serde_json::from_str::<Lock>(&text).unwrap(), lock);
        assert!(serde_json::from_str::<Lock>(&text.replace("\"python\"", "\"pythno\"")).is_err());
    }
}
