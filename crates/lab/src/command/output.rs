//! What the lab's commands share: files they were asked to write, numbers they were given.

use std::path::Path;

use anyhow::Context;

/// Writes `text`, making the directory it lies in.
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

/// A number above 0, for rates and seconds.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("must be a number above 0".into()),
    }
}
