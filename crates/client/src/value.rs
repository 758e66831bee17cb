//! Reading the JSON of answers: what is missing or of another type reads as nothing.

use serde_json::Value;

/// The values of an array; of anything else none.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text; a question mark for anything else.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// A number; 0 for anything else.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A figure, or a dash for what is not said.
pub fn figure(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |n| n.to_string())
}
