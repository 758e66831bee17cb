//! A directory for one look at a server's errant transactions, under the state directory: only its owner may read what is in it.
//!
//! Invariant: it is removed when nobody keeps it.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::exit::Failure;
use crate::table::moment;

/// See the head of this file.
pub struct Work {
    dir: PathBuf,
    is_kept: bool,
}

impl Work {
    /// Makes it: `STATE/errant/NODE-MOMENT`.
    pub fn begin(state: &Path, node: &str) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = moment(u64::try_from(now.as_millis()).unwrap_or(0)).replace([' ', ':'], "-");
        let name: String = node.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let dir = state.join("errant").join(format!("{name}-{at}-{}", std::process::id()));
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|e| failed(&dir, &e))?;
        Ok(Self { dir, is_kept: false })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A place in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// It stays.
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

/// Writes a file that only its owner may read, and has it on the disk; a file that is there already stays as it is.
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
            // Whatever is left is only for its owner to read.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}
