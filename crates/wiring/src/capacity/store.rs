//! The series of all nodes as a file in the state directory, so that a restart of `serve` does not forget a day's peak.
//!
//! Bounded by the series themselves: a day of minutes for each node, below 200 kB each. It is worth little: one that cannot be read or written costs
//! its contents and a line in the log, and nothing else.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use measure::capacity::passive::Bucket;
use serde::{Deserialize, Serialize};

/// Its name in the state directory.
const NAME: &str = "capacity.json";
/// A larger file is none of ours.
const BYTES_MAX: u64 = 64 << 20;
/// The form of the file.
const VERSION: u32 = 1;

/// What is in the file.
#[derive(Serialize, Deserialize)]
struct Contents {
    version: u32,
    nodes: Vec<Kept>,
}

/// One node's series. Its buckets are minutes since 1970.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    /// The node's name in the configuration.
    pub name: String,
    /// Oldest first.
    pub buckets: Vec<Bucket>,
}

/// What was kept; nothing where there is no file.
///
/// # Errors
/// Why the file cannot be used.
pub(super) fn read(state: &Path) -> Result<Vec<Kept>, String> {
    let path = state.join(NAME);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot open {}: {error}", path.display())),
    };
    let mut text = String::new();
    file.take(BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let contents: Contents = serde_json::from_str(&text)
        .map_err(|error| format!("{} is not what `understudy serve` wrote: {error}", path.display()))?;
    if contents.version != VERSION {
        return Err(format!("{} is of another version of Understudy", path.display()));
    }
    Ok(contents.nodes)
}

/// Keeps these in place of what was kept. The old file stays whole until the new one is.
///
/// # Errors
/// Why it cannot be written.
pub(super) fn write(state: &Path, nodes: Vec<Kept>) -> Result<(), String> {
    let path = state.join(NAME);
    let fresh: PathBuf = state.join(format!("{NAME}.new"));
    let text =
        serde_json::to_string(&Contents { version: VERSION, nodes }).map_err(|error| error.to_string())?;
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
