//! Stores each node's last known position on disk, so that there is a forecast for a node that is away when the program starts.
//!
//! A file in the state directory that may be deleted: the position of such a node is then reported as unknown.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

const FILE: &str = "last_seen.json";
/// The limit of the file's size, in bytes: with a hundred nodes and long GTIDs it is far smaller.
const BYTES_MAX: u64 = 1 << 20;

/// A node's state when it was last in service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSeen {
    /// The time, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Galera: the last writeset that it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seqno: Option<u64>,
    /// Galera: the history of that writeset, `wsrep_cluster_state_uuid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,
    /// Replication: the GTIDs that it had, in the server's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtids: Option<String>,
}

/// By the nodes' names.
pub type Remembered = BTreeMap<String, LastSeen>;

/// The stored positions; empty when there is no file of an earlier run, or no valid one.
pub fn load(state_dir: &Path) -> Remembered {
    let path = state_dir.join(FILE);
    if !std::fs::metadata(&path).is_ok_and(|meta| meta.len() <= BYTES_MAX) {
        return Remembered::new();
    }
    let read = std::fs::read(&path).ok().map(|text| serde_json::from_slice(&text));
    match read {
        Some(Ok(remembered)) => remembered,
        Some(Err(error)) => {
            tracing::warn!("{} is not what an earlier run wrote, and is not used: {error}", path.display());
            Remembered::new()
        }
        None => Remembered::new(),
    }
}

/// Replaces the file.
///
/// # Errors
/// When it cannot be written; the old file then stays.
pub fn save(state_dir: &Path, remembered: &Remembered) -> io::Result<()> {
    let path = state_dir.join(FILE);
    let new = path.with_extension("json.new");
    std::fs::write(&new, serde_json::to_vec(remembered)?)?;
    std::fs::rename(&new, &path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_seen_is_there_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()), Remembered::new());
        let seen = LastSeen { at_unix_ms: 7, seqno: Some(9), history: Some("4d02".into()), gtids: None };
        let remembered = Remembered::from([("db1".to_owned(), seen)]);
        save(dir.path(), &remembered).unwrap();
        save(dir.path(), &remembered).unwrap();
        assert_eq!(load(dir.path()), remembered);
        std::fs::write(dir.path().join(FILE), "{\"db1\":").unwrap();
        assert_eq!(load(dir.path()), Remembered::new(), "damaged");
        assert!(save(&dir.path().join("none"), &remembered).is_err());
    }
}
