//! The directories of stages, and the file with which another process can attach to one.
//!
//! ```text
//! TMPDIR/understudy-lab[-UID]/          mode 0700, owned by this user; its flock: one stage at a time picks its subnet
//!   NAME/                               one stage; its flock: one writer of stage.json at a time
//!     stage.json
//!     db1/ { data/ tmp/ my.cnf error.log output.log mysqld.sock }
//! ```
//!
//! Locks are `flock`s on the directories themselves, so that they leave no file and are released with their holder.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::kind::ClusterKind;
use super::process::Identity;

/// The content of stage.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The kind of cluster.
    #[serde(default)]
    pub kind: ClusterKind,
    /// The name of the unpacked server that its nodes are; None: the machine's MariaDB.
    #[serde(default)]
    pub server: Option<String>,
    /// The stage's name.
    pub name: String,
    /// The process that started it; a stage that is not `kept` is a leftover once this process has ended.
    pub owner: Identity,
    /// Whether it outlives its owner (`lab up`); set only after all nodes were up.
    pub kept: bool,
    /// The third byte of every address, and the number in its devices' names.
    pub subnet: u8,
    /// True: namespaces; false: loopback addresses.
    pub namespaced: bool,
    /// The requested Galera provider options.
    pub galera_options: String,
    /// The requested my.cnf lines.
    pub server_options: Vec<String>,
    /// One entry for each node, in order: db1, db2, ...
    pub nodes: Vec<NodeRecord>,
}

/// The variable state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its server process, as last started.
    pub process: Option<Identity>,
    /// Whether SIGTERM was sent, so that it is shutting down.
    pub leaving: bool,
    /// Whether its link was set down.
    pub vanished: bool,
}

/// The directory of all stages of this user; created when missing.
///
/// # Errors
/// When it belongs to another user, or is not a directory.
pub fn root() -> anyhow::Result<PathBuf> {
    let uid = rustix::process::geteuid();
    let name =
        if uid.is_root() { "understudy-lab".to_owned() } else { format!("understudy-lab-{}", uid.as_raw()) };
    let path = std::env::temp_dir().join(name);
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).with_context(|| format!("cannot make {}", path.display())),
    }
    let seen = std::fs::symlink_metadata(&path)?;
    if !seen.is_dir() || seen.uid() != uid.as_raw() {
        bail!("{} is not a directory of yours: remove it, or set TMPDIR", path.display());
    }
    Ok(path)
}

/// Understudy's part of the user's cache directory; none for a user without a home.
pub fn cache() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("understudy"))
}

/// Holds the lock of `directory` until the file is dropped. Blocking: the lock is held only for short operations.
pub fn lock(directory: &Path) -> anyhow::Result<File> {
    let file = File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", directory.display()))?;
    Ok(file)
}

/// Locks the root directory; creates it again when another process has just removed it.
pub fn lock_root() -> anyhow::Result<(PathBuf, File)> {
    for _ in 0..100 {
        let found = root().and_then(|root| lock(&root).map(|held| (root, held)));
        let (root, held) = match found {
            Ok(found) => found,
            Err(error) if error.downcast_ref().map(io::Error::kind) == Some(ErrorKind::NotFound) => continue,
            Err(error) => return Err(error),
        };
        let (locked, named) = (held.metadata()?, std::fs::metadata(&root));
        if named.is_ok_and(|named| named.ino() == locked.ino()) {
            return Ok((root, held));
        }
    }
    bail!("the lab's directory keeps being removed by another process")
}

/// Removes the root directory when it contains no stage.
pub fn tidy_root() -> anyhow::Result<()> {
    let (root, held) = lock_root()?;
    match std::fs::remove_dir(&root) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotFound) => {}
        Err(error) => return Err(error).with_context(|| format!("cannot remove {}", root.display())),
    }
    drop(held);
    Ok(())
}

/// Every directory under `root`, with its record, or `None` where it cannot be read (a start that was aborted early).
pub fn stages(root: &Path) -> anyhow::Result<Vec<(PathBuf, Option<Record>)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).with_context(|| format!("cannot read {}", root.display()))? {
        let entry = entry?;
        let path = entry.path();
        // A stage's name cannot begin with a dot: such directories are not stages.
        if path.is_dir() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            let record = read(&path).ok();
            found.push((path, record));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// Reads stage.json.
pub fn read(stage: &Path) -> anyhow::Result<Record> {
    let path = stage.join("stage.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a stage's record", path.display()))
}

/// Writes stage.json atomically.
pub fn write(stage: &Path, record: &Record) -> anyhow::Result<()> {
    let fresh = stage.join("stage.json.new");
    std::fs::write(&fresh, serde_json::to_vec_pretty(record)?)
        .with_context(|| format!("cannot write {}", fresh.display()))?;
    std::fs::rename(&fresh, stage.join("stage.json")).context("cannot replace stage.json")
}

/// Reads, changes and writes stage.json under its lock.
pub fn update<T>(stage: &Path, change: impl FnOnce(&mut Record) -> T) -> anyhow::Result<T> {
    let held = lock(stage)?;
    let mut record = read(stage)?;
    let before = record.clone();
    let result = change(&mut record);
    if record != before {
        write(stage, &record)?;
    }
    drop(held);
    Ok(result)
}

impl Record {
    /// Whether its owner has ended and it was not meant to be kept.
    pub fn is_leftover(&self) -> bool {
        !self.kept && !self.owner.is_alive()
    }
}

/// Checks that a name is valid in a namespace, a path and a cluster's name.
pub fn check_name(name: &str) -> anyhow::Result<()> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 20 || !name.bytes().all(fits) || name.starts_with('-') {
        bail!("{name:?} cannot be a stage's name: 1 to 20 of a-z, 0-9 and -, not beginning with -");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["lab", "a", "ci-7", "twenty-characters-20"] {
            check_name(good).unwrap();
        }
        for bad in ["", "-a", "Lab", "a b", "a/b", "..", "this-is-much-too-long-a-name"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_root_may_be_removed_by_others_at_any_time() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        drop(lock_root().unwrap());
                        tidy_root().unwrap();
                    }
                });
            }
        });
    }
}
