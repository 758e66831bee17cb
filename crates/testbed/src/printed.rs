//! Whether what a command prints with `--json` is as its schema says (`docs/schemas`): looked at for each command that
//! [`crate::program::run`] runs, and where a test asks for it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::described::fits_schema;

/// What these print is an answer of the HTTP API, which its own description has.
const OF_THE_API: [&str; 8] =
    ["status", "journal", "processlist", "switchover", "drain", "undrain", "set-max-connections", "reload"];

/// Panics when the output is not as its schema says, or has none.
pub fn check(command: &Command, out: &str) {
    let words: Vec<_> = command.get_args().filter_map(|word| word.to_str()).collect();
    let is_understudy = Path::new(command.get_program()).ends_with("understudy");
    if !is_understudy || !words.contains(&"--json") || words.contains(&"--help") {
        return;
    }
    let Ok(value) = serde_json::from_str::<Value>(out) else { return };
    let name = match value.get("error") {
        Some(_) => "error".to_owned(),
        None => name(&words),
    };
    if OF_THE_API.contains(&name.as_str()) || name == "lab" {
        return;
    }
    fits(&name, &value);
}

/// Panics when what a command printed is not as the schema of that name says, or there is none.
pub fn fits(name: &str, value: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(format!("{name}.json"));
    let schema = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let schema: Value = serde_json::from_str(&schema).unwrap();
    fits_schema(&schema, value, name);
}

/// The command's words, with those of a subcommand, as its schema is called: `recovery-forecast`.
fn name(words: &[&str]) -> String {
    let with_subcommands = ["recovery", "vip", "pool", "errant"];
    let count = if with_subcommands.contains(&words[0]) { 2 } else { 1 };
    words[..count].join("-")
}
