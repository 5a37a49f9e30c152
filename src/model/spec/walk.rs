//! Holds the tree of a file against the table of its keys and finds every error of key and type. Its main function is
//! [`walk`]: it returns what is sound, so that the checks that follow see the rest of a faulty file too.

use serde_yaml::Value;

use super::Known;
use super::error::{Complaint, Findings, Severity, quoted};
use super::node::{Kind, Node, Pair, Reading};
use super::shape::{Field, NumberCheck, Shape, WordCheck};
use crate::model::nearest::{listed, nearest};

/// The sound part of `node`: without unknown keys, faulty values, and maps that lack a key without which they say
/// nothing.
pub(super) fn walk(node: &Node, shape: &Shape, known: &Known<'_>, findings: &mut Findings) -> Option<Node> {
    let fields: &[Field] = if let Shape::Map(fields) = shape { fields } else { &[] };
    let mut walk = Walk { known, findings };
    // The root is kept whatever it lacks: each of its sections can be looked at alone.
    walk.map(node, fields, WHOLE).map(|(node, _)| node)
}

/// The same tree as `serde_yaml` has it. Only of a sound tree: where a word may stand, a number has been refused.
pub(super) fn value(node: &Node) -> Value {
    match &node.kind {
        Kind::List(items) => Value::Sequence(items.iter().map(value).collect()),
        Kind::Refused => Value::Null,
        Kind::Map(pairs) => {
            Value::Mapping(pairs.iter().map(|pair| (pair.key.as_str().into(), value(&pair.value))).collect())
        }
        Kind::Scalar { text, plain } => match Reading::of(text) {
            Reading::Integer(number) if *plain => Value::from(number),
            _ => Value::from(text.as_str()),
        },
    }
}

/// How messages name the root.
const WHOLE: &str = "the file";

struct Walk<'a> {
    known: &'a Known<'a>,
    findings: &'a mut Findings,
}

impl Walk<'_> {
    fn shape(&mut self, node: &Node, shape: &Shape, name: &str) -> Option<Node> {
        if self.findings.full() {
            return None;
        }
        match (shape, &node.kind) {
            (_, Kind::Refused) => None,
            (Shape::Map(fields) | Shape::WordOrMap(_, fields), Kind::Map(_)) => {
                let (map, whole) = self.map(node, fields, name)?;
                whole.then_some(map)
            }
            (Shape::Values(_, severity), Kind::List(items)) if items.is_empty() => {
                let complaint = match severity {
                    Severity::Empty => Complaint::new(format!("`{name}` is empty, so there is nothing to run")).empty(),
                    Severity::Invalid => Complaint::new(format!("`{name}` is an empty list, which matches nothing"))
                        .help("leave the key out to match everything"),
                };
                self.findings.add(node.span.clone(), complaint);
                None
            }
            (Shape::List(item) | Shape::Values(item, _), Kind::List(items)) => Some(self.list(node, items, item, name)),
            (Shape::Values(..), Kind::Scalar { text, plain: true }) if Reading::of(text) == Reading::Nothing => {
                self.wrong_type(node, shape, name)
            }
            (Shape::Values(item, _), _) => self.shape(node, item, name),
            (Shape::Word(check) | Shape::WordOrMap(check, _), Kind::Scalar { text, plain }) => {
                self.word(node, text, *plain, *check, name)
            }
            (Shape::WordOrNumber(check), Kind::Scalar { text, plain })
                if !(*plain && matches!(Reading::of(text), Reading::Nothing | Reading::Bool)) =>
            {
                self.checked(node, check(text, self.known))
            }
            (Shape::Number(check), Kind::Scalar { text, plain: true }) => self.number(node, text, *check, name),
            (Shape::Number(_), Kind::Scalar { text, plain: false })
                if matches!(Reading::of(text), Reading::Integer(_)) =>
            {
                let complaint = Complaint::new(format!("`{name}` must be a number, and quotes make it text"));
                self.findings.add(node.span.clone(), complaint.help(format!("write {text} without quotes")));
                None
            }
            _ => self.wrong_type(node, shape, name),
        }
    }

    /// The sound part of a map, and whether it has all that it must have.
    fn map(&mut self, node: &Node, fields: &[Field], name: &str) -> Option<(Node, bool)> {
        let Kind::Map(pairs) = &node.kind else {
            self.wrong_type(node, &Shape::Map(&[]), name);
            return None;
        };
        let mut sound = Vec::with_capacity(pairs.len());
        let used = |field: &&Field| pairs.iter().any(|pair| pair.key == field.name);
        let unused = || listed(fields.iter().filter(|field| !used(field)).map(|field| field.name));
        let mut free = None;
        for pair in pairs {
            if self.findings.full() {
                break;
            }
            let Some(field) = fields.iter().find(|field| field.name == pair.key) else {
                self.unknown_key(pair, fields, free.get_or_insert_with(unused));
                continue;
            };
            if let Some(value) = self.shape(&pair.value, &field.shape, field.name) {
                sound.push(Pair { key: pair.key.clone(), span: pair.span.clone(), value });
            }
        }
        for field in fields.iter().filter(|field| field.required) {
            if used(&field) {
                continue;
            }
            // A misspelt key is reported as such, and not as a missing one too.
            let misspelt = |pair: &Pair| {
                fields.iter().all(|field| field.name != pair.key)
                    && nearest(&pair.key, fields.iter().map(|field| field.name)) == Some(field.name)
            };
            if !pairs.iter().take(2 * fields.len()).any(misspelt) {
                let place = pairs.first().map_or_else(|| node.span.clone(), |pair| pair.span.clone());
                let complaint = Complaint::new(format!("{} lacks the key `{}`", owner(name), field.name));
                self.findings.add(place, complaint);
            }
        }
        let mut whole = true;
        for field in fields.iter().filter(|field| field.required) {
            if sound.iter().any(|pair: &Pair| pair.key == field.name) {
                continue;
            }
            if field.needed {
                whole = false;
                continue;
            }
            let empty = Kind::Scalar { text: String::new(), plain: false };
            let value = Node { span: node.span.clone(), kind: empty };
            sound.push(Pair { key: field.name.into(), span: node.span.clone(), value });
        }
        Some((Node { span: node.span.clone(), kind: Kind::Map(sound) }, whole))
    }

    /// `free` lists the keys that may still be written.
    fn unknown_key(&mut self, pair: &Pair, fields: &[Field], free: &str) {
        let complaint = Complaint::new(format!("unknown key {}", quoted(&pair.key)));
        let complaint = match nearest(&pair.key, fields.iter().map(|field| field.name)) {
            Some(near) => complaint.help(format!("did you mean `{near}`?")),
            None if free.is_empty() => complaint,
            None => complaint.help(format!("keys that may stand here: {free}")),
        };
        self.findings.add(pair.span.clone(), complaint);
    }

    fn list(&mut self, node: &Node, items: &[Node], item: &Shape, name: &str) -> Node {
        let items = items.iter().filter_map(|node| self.shape(node, item, name)).collect();
        Node { span: node.span.clone(), kind: Kind::List(items) }
    }

    fn word(&mut self, node: &Node, text: &str, plain: bool, check: WordCheck, name: &str) -> Option<Node> {
        let number = match Reading::of(text) {
            _ if !plain => None,
            Reading::Integer(number) => Some(number as f64),
            Reading::Number(number) => Some(number),
            Reading::Text => None,
            Reading::Nothing | Reading::Bool => return self.wrong_type(node, &Shape::Word(check), name),
        };
        let Some(number) = number else { return self.checked(node, check(text, self.known)) };
        let shown = number.to_string();
        let loss = if shown == text { String::new() } else { format!(": it would become {shown}") };
        let complaint = Complaint::new(format!("{} has no quotes, so YAML reads it as a number{loss}", quoted(text)));
        self.findings.add(node.span.clone(), complaint.help(format!("write \"{text}\"")));
        None
    }

    fn number(&mut self, node: &Node, text: &str, check: NumberCheck, name: &str) -> Option<Node> {
        match Reading::of(text) {
            Reading::Integer(number) => self.checked(node, check(number)),
            Reading::Number(_) => {
                let complaint = Complaint::new(format!("`{name}` must be a whole number, and not {}", quoted(text)));
                self.findings.add(node.span.clone(), complaint);
                None
            }
            Reading::Nothing | Reading::Bool | Reading::Text => self.wrong_type(node, &Shape::Number(check), name),
        }
    }

    fn checked(&mut self, node: &Node, checked: Result<(), Complaint>) -> Option<Node> {
        match checked {
            Ok(()) => Some(node.clone()),
            Err(complaint) => {
                self.findings.add(node.span.clone(), complaint);
                None
            }
        }
    }

    fn wrong_type(&mut self, node: &Node, shape: &Shape, name: &str) -> Option<Node> {
        let wanted = match shape {
            Shape::Map(_) => "a map (`key: value`)",
            Shape::List(_) => "a list (`[…]`)",
            Shape::Values(..) => "one value or a list (`[…]`)",
            Shape::WordOrMap(..) => "text or a map",
            Shape::Word(_) | Shape::WordOrNumber(_) => "text",
            Shape::Number(_) => "a number",
        };
        let complaint = Complaint::new(format!("{} must be {wanted}, and not {}", thing(name), node.describe()));
        let complaint = match node.describe() {
            "nothing" => complaint.help("write a value, or leave the key out"),
            _ => complaint,
        };
        self.findings.add(node.span.clone(), complaint);
        None
    }
}

/// How a message names the value under a key; the whole file has none.
fn thing(name: &str) -> String {
    if name == WHOLE { name.to_owned() } else { format!("`{name}`") }
}

/// How a message names a map that lacks something. Only items of lists have keys that must be there.
fn owner(name: &str) -> String {
    if name == WHOLE { name.to_owned() } else { format!("this item of `{name}`") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::spec::raw::RawMatrix;
    use crate::model::spec::{builtin, places, shape};
    use crate::model::version::Version;

    /// The file's types, filled from its text and filled from the walked tree.
    fn both_ways(text: &str) -> (RawMatrix, RawMatrix) {
        let known = Known { versions: &[Version::new(12, 4), Version::new(12, 6)], not_published: &|_| None };
        let mut findings = Findings::default();
        let tree = places::tree(text, &mut findings).unwrap();
        let root = walk(&tree, &shape::MATRIX, &known, &mut findings).unwrap();
        (serde_yaml::from_str(text).unwrap(), serde_yaml::from_value(value(&root)).unwrap())
    }

    #[test]
    fn a_sound_file_means_the_same_by_its_text_and_by_its_tree() {
        let everything = "version: 1\ntoolkits: ['12.4', {name: n, version: '12.6', dir: /d}, {name: i, version: '12.6', image: i}]\n\
            paths: nvcc\nkernels: [vector_add, {file: a.cu, entry: a, options: ['-O', '1'], name: b}]\narch: ['9.0']\n\
            exclude: [{toolkit: '12.4', path: [nvcc], kernel: a, arch: '9.0', reason: 'two\n  lines', link: l}]\n\
            include: [{toolkit: [{name: n, version: '12.6'}, '12.4']}]\n\
            expect: [{outcome: fail, stage: load, code: A_1, reason: \"\\u00e9\"}]\n\
            measure: {warmup: 0x10, timed: 10}\nlimits: {timeout: 1s, memory: 8GiB, pids: +7}\n";
        for text in [everything, "version: 1\ntoolkits: \"12.4\"\npaths:\n- 'nvcc'\n"] {
            let (from_text, from_tree) = both_ways(text);
            assert_eq!(from_text, from_tree);
        }
        assert_eq!(both_ways(everything).0.limits.pids, Some(7));
        let shipped =
            both_ways(&builtin::MATRIX_YAML.replace("\"12.0\", ", "").replace("\"12.9\", \"13.0\"", "\"12.4\""));
        assert_eq!(shipped.0, shipped.1);
    }
}
