//! The files that a command was asked for.

use std::path::Path;

use anyhow::Context;

/// Writes `text` to `path`, creating its directory.
pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes `json`, indented.
pub fn write_json(path: &Path, json: &serde_json::Value) -> anyhow::Result<()> {
    write_text(path, &format!("{json:#}\n"))
}
