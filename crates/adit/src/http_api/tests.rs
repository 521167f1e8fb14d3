use serde_json::Value;

use super::*;

fn description() -> Value {
    let (_, description) = description::router().split_for_parts();
    serde_json::from_str(&description::text(&description)).unwrap()
}

/// Collects in `found` the targets of all `$ref` members below `value`.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member.as_str().filter(|_| key == "$ref") {
                    Some(target) => found.push(target.to_owned()),
                    None => references(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn description_is_whole_and_its_references_lead_somewhere() {
    let document = description();
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{}", found.len());
    for target in found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target}");
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path}");
            assert!(operation["responses"]["200"]["content"].is_object(), "{method} {path}");
        }
    }
}

#[test]
fn members_that_all_may_be_absent_are_described_so() {
    let document = description();
    let schemas = &document["components"]["schemas"];
    assert!(schemas["JournalDocument"]["required"].is_null());
    assert!(
        schemas["StoreDocument"]["allOf"]
            .as_array()
            .unwrap()
            .iter()
            .all(|part| part["oneOf"].is_null())
    );
}
