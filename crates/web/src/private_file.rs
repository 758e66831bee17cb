//! Files that only their owner may read: the API key and the private key of the certificate.
//!
//! Invariant: a file under its final name is complete and has mode 0600 from its first byte on.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `content` beside `path` with mode 0600, then gives it its name. Fails with `AlreadyExists` instead of replacing.
pub fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        // A hard link never replaces what is there, which a rename would.
        std::fs::hard_link(&beside, path)
    })();
    let tidied = std::fs::remove_file(&beside);
    written.and(tidied)
}
