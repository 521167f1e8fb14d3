//! Reads members of the documents that [`crate::snapshot`] makes, to compute rates of them.

use serde_json::Value;

/// A member of an object as a count; zero if it has none.
pub(crate) fn number(of: &Value, member: &str) -> u64 {
    of.get(member).and_then(Value::as_u64).unwrap_or_default()
}

/// A member of an object as text; empty if it has none.
pub(crate) fn text(of: &Value, member: &str) -> String {
    match of.get(member) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

/// The rows of a list in a document.
pub(crate) fn rows<'a>(document: &'a Value, list: &str) -> &'a [Value] {
    document.get(list).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// PFCP requests refused, with whatever Cause, in the document of counters.
pub(crate) fn refusals(counters: &Value) -> u64 {
    let group = counters.get("n4").and_then(Value::as_object).into_iter().flatten();
    let refused = group.filter(|(name, _)| name.starts_with("refused_cause_"));
    refused.filter_map(|(_, count)| count.as_u64()).sum()
}
