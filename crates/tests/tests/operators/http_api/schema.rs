//! Compares JSON with a schema of OpenAPI 3.1: types, required and known members, references and
//! alternatives.

use std::collections::BTreeSet;

use serde_json::Value;

/// Where `value` does not match `schema`.
pub(crate) fn mistakes(description: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(description, schema, value, "", &mut found);
    found
}

fn resolved<'a>(description: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(target) => description.pointer(&target[1..]).unwrap_or_else(|| panic!("{target}")),
        None => schema,
    }
}

fn check(description: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let schema = resolved(description, schema);
    if let Some(choices) = schema["oneOf"].as_array() {
        if !choices.iter().any(|choice| mistakes(description, choice, value).is_empty()) {
            found.push(format!("{at}: none of the alternatives fits {value}"));
        }
        return;
    }
    check_type(schema, value, at, found);
    for (position, item) in value.as_array().into_iter().flatten().enumerate() {
        check(description, &schema["items"], item, &format!("{at}[{position}]"), found);
    }
    if value.is_object() {
        check_members(description, schema, value, at, found);
    }
}

fn check_type(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let is_kind = |kind: &&str| match *kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    if !kinds.iter().any(is_kind) {
        found.push(format!("{at}: {value} is not {kinds:?}"));
    }
}

/// The parts of a schema whose members are those of one object.
fn parts<'a>(description: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let schema = resolved(description, schema);
    match schema["allOf"].as_array() {
        Some(all) => all.iter().flat_map(|part| parts(description, part)).collect(),
        None => vec![schema],
    }
}

fn check_members(
    description: &Value,
    schema: &Value,
    value: &Value,
    at: &str,
    found: &mut Vec<String>,
) {
    let all = parts(description, schema);
    let mut known = BTreeSet::new();
    for part in &all {
        for name in part["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.get(name).is_none() {
                found.push(format!("{at}.{name} is missing"));
            }
        }
        for (name, member) in part["properties"].as_object().into_iter().flatten() {
            known.insert(name.as_str());
            if let Some(value) = value.get(name) {
                check(description, member, value, &format!("{at}.{name}"), found);
            }
        }
    }
    let further =
        all.iter().map(|part| &part["additionalProperties"]).find(|further| further.is_object());
    for (name, value) in value.as_object().into_iter().flatten() {
        match further {
            _ if known.contains(name.as_str()) => {}
            Some(schema) => check(description, schema, value, &format!("{at}.{name}"), found),
            None => found.push(format!("{at}.{name} is not described")),
        }
    }
}

#[test]
fn mistakes_are_found() {
    let description = serde_json::json!({ "components": { "schemas": { "Row": {
        "type": "object", "required": ["a"],
        "properties": { "a": { "type": "integer" }, "b": { "type": ["string", "null"] } },
    } } } });
    let row = serde_json::json!({ "$ref": "#/components/schemas/Row" });
    let count = |value: Value| mistakes(&description, &row, &value).len();
    assert_eq!(count(serde_json::json!({ "a": 1, "b": null })), 0);
    assert_eq!(count(serde_json::json!({ "a": "1" })), 1);
    assert_eq!(count(serde_json::json!({ "b": "x" })), 1);
    assert_eq!(count(serde_json::json!({ "a": 1, "c": 1 })), 1);
    assert_eq!(count(serde_json::json!([])), 1);
}
