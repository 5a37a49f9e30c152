//! The keys of a matrix file and what may stand under each, as one table. Its main type is [`Shape`]; [`MATRIX`] is
//! the table. It says again what the types in `raw.rs` say, because `serde` stops at the first error; a test compares
//! the two.

use super::error::Complaint;
use super::requirement;
use super::{Known, error::Severity};
use super::{check, fleet};

/// A check of one word.
pub(super) type WordCheck = fn(&str, &Known<'_>) -> Result<(), Complaint>;
/// A check of one number.
pub(super) type NumberCheck = fn(u64) -> Result<(), Complaint>;

/// What may stand in one place.
#[derive(Debug)]
pub(super) enum Shape {
    /// A map with these keys.
    Map(&'static [Field]),
    /// A list, which may be empty.
    List(&'static Shape),
    /// One value or a list. Without a value there is nothing to do, or a rule matches nothing: which, says the mark.
    Values(&'static Shape, Severity),
    /// A word, or a map with these keys.
    WordOrMap(WordCheck, &'static [Field]),
    /// A word. Without quotes it must not look like a number to YAML.
    Word(WordCheck),
    /// A word that has a message of its own for a bare number.
    WordOrNumber(WordCheck),
    /// A whole number.
    Number(NumberCheck),
}

/// A key of a map.
#[derive(Debug)]
pub(super) struct Field {
    /// The key.
    pub(super) name: &'static str,
    /// Whether it must be there.
    pub(super) required: bool,
    /// Whether the rest of the map can be looked at without it.
    pub(super) needed: bool,
    /// What stands under it.
    pub(super) shape: Shape,
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, required: true, needed: true, shape }
}

/// A word that must be there; where it is not, an empty one stands in for it while the rest is looked at.
const fn word(name: &'static str, check: WordCheck) -> Field {
    Field { name, required: true, needed: false, shape: Shape::Word(check) }
}

const fn optional(name: &'static str, shape: Shape) -> Field {
    Field { name, required: false, needed: false, shape }
}

const fn axis(item: &'static Shape) -> Shape {
    Shape::Values(item, Severity::Empty)
}

const fn set(item: &'static Shape) -> Shape {
    Shape::Values(item, Severity::Invalid)
}

/// The whole file.
pub(super) const MATRIX: Shape = Shape::Map(&[
    required("version", Shape::Number(check::format)),
    required("toolkits", axis(&Shape::WordOrMap(check::versions, TOOLKIT))),
    optional("paths", axis(&Shape::Word(check::path))),
    optional("kernels", axis(&Shape::WordOrMap(check::kernel_name, KERNEL))),
    optional("arch", axis(&Shape::Word(check::arch_or_native))),
    optional("stacks", axis(&Shape::Map(STACK))),
    optional("exclude", Shape::List(&Shape::Map(EXCLUDE))),
    optional("include", Shape::List(&Shape::Map(INCLUDE))),
    optional("expect", Shape::List(&Shape::Map(EXPECT))),
    optional("claims", Shape::List(&Shape::Map(CLAIM))),
    optional("fleet", Shape::List(&Shape::Map(FLEET))),
    optional("measure", Shape::Map(MEASURE)),
    optional("limits", Shape::Map(LIMITS)),
]);

const TOOLKIT: &[Field] = &[
    optional("name", Shape::Word(check::toolkit_name)),
    word("version", check::version),
    optional("dir", Shape::Word(check::some_text)),
    optional("image", Shape::Word(check::image)),
    optional("base", Shape::Word(check::image)),
];

const KERNEL: &[Field] = &[
    required("file", Shape::Word(check::kernel_file)),
    word("entry", check::entry),
    optional("options", Shape::List(&Shape::Word(check::some_text))),
    optional("name", Shape::Word(check::kernel_name)),
];

const STACK: &[Field] = &[
    required("name", Shape::Word(check::stack_name)),
    required("python", Shape::Word(check::python)),
    optional("packages", Shape::List(&Shape::Word(check::package))),
    optional("base", Shape::Word(check::image)),
];

const PATH: Field = optional("path", set(&Shape::Word(check::path)));
// Whether there is such a toolkit or kernel is known only when the file has been read.
const TOOLKIT_SET: Field = optional("toolkit", set(&Shape::Word(check::some_text)));
const KERNEL_SET: Field = optional("kernel", set(&Shape::Word(check::some_text)));
const ARCH_SET: Field = optional("arch", set(&Shape::Word(check::arch)));
const STACK_SET: Field = optional("stack", set(&Shape::Word(check::some_text)));

const EXCLUDE: &[Field] = &[
    TOOLKIT_SET,
    PATH,
    KERNEL_SET,
    ARCH_SET,
    STACK_SET,
    word("reason", check::some_text),
    optional("link", Shape::Word(check::some_text)),
];

const INCLUDE: &[Field] =
    &[optional("toolkit", set(&Shape::WordOrMap(check::some_text, TOOLKIT))), PATH, KERNEL_SET, ARCH_SET];

const EXPECT: &[Field] = &[
    TOOLKIT_SET,
    PATH,
    KERNEL_SET,
    ARCH_SET,
    STACK_SET,
    word("outcome", check::outcome),
    optional("stage", Shape::Word(check::stage)),
    optional("code", Shape::WordOrNumber(check::code)),
    word("reason", check::some_text),
];

// One of the keys after `cells` and `observe`, or these two: which, is looked at when the file has been read.
const CLAIM: &[Field] = &[
    word("says", check::some_text),
    optional("cells", Shape::Map(CLAIM_CELLS)),
    optional("observe", Shape::Map(OBSERVE)),
    optional("resolve", Shape::Map(RESOLVE)),
    optional("import", Shape::Map(IMPORT)),
    optional("compile", Shape::Map(COMPILE)),
    optional("boundary", Shape::Map(BOUNDARY)),
];

const CLAIM_CELLS: &[Field] =
    &[TOOLKIT_SET, PATH, KERNEL_SET, ARCH_SET, optional("stack", set(&Shape::Word(check::some_text)))];

const OBSERVE: &[Field] = &[
    word("outcome", check::outcome),
    optional("stage", Shape::Word(check::stage)),
    optional("code", Shape::WordOrNumber(check::code)),
    optional("text", Shape::Word(check::some_text)),
];

const PYTHON: Field = optional("python", Shape::WordOrNumber(requirement::python));
const PACKAGES: Field = optional("packages", set(&Shape::Word(requirement::requirement)));
const FAILS_WITH: Field = optional("fails_with", Shape::Word(check::some_text));
const MODULE: Field = optional("module", Shape::Word(requirement::module));
const WITH: Field = optional("with", Shape::Word(requirement::compiler));
const CAPABILITY: Field = optional("capability", Shape::Word(check::arch));

const RESOLVE: &[Field] =
    &[PYTHON, PACKAGES, FAILS_WITH, optional("gives", set(&Shape::Word(requirement::requirement)))];
const IMPORT: &[Field] = &[PYTHON, PACKAGES, FAILS_WITH, word("module", requirement::module)];
const COMPILE: &[Field] = &[PYTHON, PACKAGES, FAILS_WITH, word("with", requirement::compiler), CAPABILITY];
const BOUNDARY: &[Field] = &[
    PYTHON,
    PACKAGES,
    FAILS_WITH,
    MODULE,
    WITH,
    CAPABILITY,
    word("pin", requirement::pin),
    optional("last_good", Shape::Word(requirement::version)),
    optional("first_bad", Shape::Word(requirement::version)),
];
const FLEET: &[Field] = &[required("driver", Shape::Word(fleet::driver)), required("gpu", Shape::Word(fleet::gpu))];

const MEASURE: &[Field] = &[
    optional("warmup", Shape::Number(check::warmup)),
    optional("timed", Shape::Number(check::timed)),
    optional("process", Shape::Word(check::process)),
];

const LIMITS: &[Field] = &[
    optional("timeout", Shape::WordOrNumber(check::timeout)),
    optional("memory", Shape::WordOrNumber(check::memory)),
    optional("pids", Shape::Number(check::pids)),
];

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::spec::json_schema;

    /// Every key with its place and whether it must be there, by the table.
    fn by_table(shape: &Shape, at: &str, keys: &mut Vec<String>) {
        match shape {
            Shape::Map(fields) | Shape::WordOrMap(_, fields) => {
                for field in *fields {
                    let key = format!("{at}/{}", field.name);
                    keys.push(format!("{key}{}", if field.required { "!" } else { "" }));
                    by_table(&field.shape, &key, keys);
                }
            }
            Shape::List(item) | Shape::Values(item, _) => by_table(item, at, keys),
            Shape::Word(_) | Shape::WordOrNumber(_) | Shape::Number(_) => {}
        }
    }

    /// The same by the schema, which is made from the types.
    fn by_types(root: &Value, schema: &Value, at: &str, keys: &mut Vec<String>) {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            by_types(root, &root["$defs"][name], at, keys);
        }
        for choice in schema["anyOf"].as_array().into_iter().flatten() {
            by_types(root, choice, at, keys);
        }
        if schema["items"].is_object() {
            by_types(root, &schema["items"], at, keys);
        }
        for (name, value) in schema["properties"].as_object().into_iter().flatten() {
            let required = schema["required"].as_array().is_some_and(|list| list.contains(&name.as_str().into()));
            let key = format!("{at}/{name}");
            keys.push(format!("{key}{}", if required { "!" } else { "" }));
            by_types(root, value, &key, keys);
        }
    }

    #[test]
    fn the_table_and_the_types_have_the_same_keys() {
        let (mut table, mut types) = (Vec::new(), Vec::new());
        by_table(&MATRIX, "", &mut table);
        let schema = json_schema();
        by_types(&schema, &schema, "", &mut types);
        table.sort();
        types.sort();
        types.dedup();
        assert!(table.contains(&"/toolkits/version!".to_owned()), "{table:?}");
        assert_eq!(table, types);
    }
}
