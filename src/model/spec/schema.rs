//! The JSON schema of a matrix file, for editors: made from the types in `raw.rs`. Its main function is [`json_schema()`].

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::check::{self, EXPECTABLE};
use super::raw::{OneOrMany, RawMatrix};
use crate::model::matrix::Processes;
use crate::model::outcome::{Outcome, Stage};

/// The JSON schema of a matrix file. It is committed as `docs/matrix.schema.json`.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(RawMatrix).to_value();
    without_null(&mut schema);
    schema
}

/// `serde` takes nothing for a value that may be left out; a matrix file may not say it.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("default");
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(only)] = choices.as_mut_slice() {
                    let only = std::mem::take(only);
                    map.remove("anyOf");
                    // The description of the key says more than that of its type.
                    for (key, value) in only {
                        map.entry(key).or_insert(value);
                    }
                }
            }
            map.values_mut().for_each(without_null);
        }
        Value::Array(list) => list.iter_mut().for_each(without_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// One path or family, or a list of them.
pub(super) fn paths(generator: &mut SchemaGenerator) -> Schema {
    // The shape is that of the type; only the words are added to it.
    let mut schema = OneOrMany::<String>::json_schema(generator).to_value();
    add_words(&mut schema, &check::path_words());
    schema.try_into().unwrap_or_default()
}

fn add_words(schema: &mut Value, words: &[String]) {
    if schema["type"] == "string" {
        schema["enum"] = words.into();
    }
    for choice in schema.get_mut("anyOf").and_then(Value::as_array_mut).into_iter().flatten() {
        add_words(choice, words);
    }
    if let Some(items) = schema.get_mut("items") {
        add_words(items, words);
    }
}

/// An outcome that can be expected.
pub(super) fn outcome(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": EXPECTABLE.map(Outcome::name)})
}

/// A stage.
pub(super) fn stage(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": Stage::ALL.map(Stage::name)})
}

/// How many paths share a process.
pub(super) fn process(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": Processes::ALL.map(Processes::name)})
}
