//! A work directory for the errant transactions of one server, under the state directory: only its owner may read it.
//!
//! Invariant: it is removed unless it has to be kept; that of a process that was killed is removed at the next start.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cli::exit::Failure;
use report::table::moment;

/// See the head of this file.
pub struct Work {
    dir: PathBuf,
    is_kept: bool,
}

impl Work {
    /// Creates it: `STATE/errant/NODE-TIME-PID`.
    pub fn begin(state: &Path, node: &str) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = moment(u64::try_from(now.as_millis()).unwrap_or(0)).replace([' ', ':'], "-");
        let name: String = node.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let all = state.join("errant");
        tidy(&all);
        let dir = all.join(format!("{name}-{at}-{}", std::process::id()));
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|e| failed(&dir, &e))?;
        Ok(Self { dir, is_kept: false })
    }

    /// Its path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Free space of its file system, in bytes.
    pub fn free_bytes(&self) -> Result<u64, Failure> {
        let system = rustix::fs::statvfs(&self.dir).map_err(|e| failed(&self.dir, &e.into()))?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }

    /// Keeps it after this value is dropped.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        write(&path, content)?;
        Ok(path)
    }
}

/// The file that a directory has from the moment it must be kept.
const KEPT: &str = "errant.sql";

/// Removes the directories of processes that no longer exist.
fn tidy(all: &Path) {
    let entries = std::fs::read_dir(all).into_iter().flatten().flatten();
    for dir in entries.map(|entry| entry.path()).filter(|dir| !dir.join(KEPT).exists()) {
        let process = dir.file_name().and_then(|name| name.to_str()?.rsplit_once('-')?.1.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = std::fs::remove_dir_all(&dir);
        }
    }
}

/// Writes a file that only its owner may read, and syncs it to disk; a file that exists already is not changed, and is an error.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.map_err(|e| failed(path, &e))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{} cannot be written: {error}", path.display()))
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.is_kept {
            // On an error it stays; only its owner can read it.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_keeps_is_removed_and_what_somebody_keeps_stays() {
        let state = tempfile::tempdir().unwrap();
        let dir = |work: &Work| work.dir().to_owned();
        let mut kept = Work::begin(state.path(), "db1").unwrap();
        kept.write(KEPT, b"-- all").unwrap();
        kept.keep();
        let kept_dir = dir(&kept);
        drop(kept);
        let running = Work::begin(state.path(), "db2").unwrap();
        // No process has an id as high as this.
        let killed = state.path().join("errant").join("db1-2026-11-22-15-00-00.000-4194999");
        std::fs::create_dir(&killed).unwrap();
        drop(Work::begin(state.path(), "../db3").unwrap());
        assert!(kept_dir.join(KEPT).exists() && running.dir().exists() && !killed.exists());
        assert_eq!(std::fs::read_dir(state.path().join("errant")).unwrap().count(), 2);
    }
}
