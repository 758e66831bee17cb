//! Rotated files of a log: files in its directory whose names differ from the log's in digits and punctuation only.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

use super::generation::FileId;

/// From `asm-generic/fcntl.h`: opening a named pipe must not block.
const O_NONBLOCK: i32 = 0o4000;

/// A rotated file.
pub(super) struct Rotated {
    pub(super) file: File,
    pub(super) id: FileId,
    pub(super) length: u64,
    name: OsString,
    /// When it was last modified, and when it was created.
    times: (SystemTime, Option<SystemTime>),
}

/// The number of attempts to read the directory while files are being renamed.
const TRIES: usize = 10;

/// The rotated files of `log`, sorted by modification time, oldest first. Files that cannot be read are left out.
///
/// They are sorted by modification rather than by creation, because copytruncate creates a new file for older contents, and the file that
/// it empties was created earlier.
pub(super) fn rotated(log: &Path) -> Vec<Rotated> {
    let (Some(directory), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut found = scan(directory, name);
    for _ in 0..TRIES {
        // While files are being renamed one after another, one may be listed twice and another not at all.
        let again = scan(directory, name);
        let is_same = names(&found) == names(&again);
        found = again;
        if is_same {
            break;
        }
    }
    found.sort_by_key(|rotated| {
        let (written, born) = rotated.times;
        (written, Reverse(number(&rotated.name)), born)
    });
    found
}

fn scan(directory: &Path, log: &str) -> Vec<Rotated> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|other| is_rotated(log, other)))
        .filter_map(|entry| {
            let file = File::options().read(true).custom_flags(O_NONBLOCK).open(entry.path()).ok()?;
            let metadata = file.metadata().ok()?;
            let times = (metadata.modified().ok()?, metadata.created().ok());
            metadata.is_file().then(|| Rotated {
                id: FileId::of(&metadata),
                length: metadata.len(),
                name: entry.file_name(),
                times,
                file,
            })
        })
        .collect()
}

fn names(found: &[Rotated]) -> HashMap<&OsStr, FileId> {
    found.iter().map(|rotated| (rotated.name.as_os_str(), rotated.id)).collect()
}

/// Of `slow.log.2`: of files that were written within one tick of the file system's clock, the one with the greater number is the older.
fn number(name: &OsStr) -> u64 {
    let digits = name.to_str().and_then(|name| name.rsplit_once('.')).map_or("", |(_, digits)| digits);
    digits.parse().unwrap_or(0)
}

/// `slow.log.1`, `slow.log-20261122`, `slow-20261122.log` and `slow.1.log` are rotated files of `slow.log`; `slow.log.1.gz` and `slow.log.swp`
/// are not.
fn is_rotated(log: &str, other: &str) -> bool {
    let stem = log.rsplit_once('.').map_or(log, |(stem, _)| stem);
    let extension = &log[stem.len()..];
    let Some(rest) = other.strip_prefix(stem) else { return false };
    let rest = rest.strip_prefix(extension).unwrap_or(rest);
    let rest = rest.strip_suffix(extension).unwrap_or(rest);
    rest.bytes().any(|byte| byte.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_digit() || b".-_:T".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::is_rotated;

    #[test]
    fn names_that_differ_in_digits_are_rotated_files() {
        for other in ["slow.log.1", "slow.log.12", "slow.log-20261122", "slow-20261122.log", "slow.1.log"] {
            assert!(is_rotated("slow.log", other), "{other}");
        }
        for other in
            ["slow.log", "slow.log.1.gz", "slow.log.swp", "slow.log.old", "slower.log.1", "error.log.1"]
        {
            assert!(!is_rotated("slow.log", other), "{other}");
        }
        assert!(is_rotated("slowlog", "slowlog.1") && !is_rotated("slowlog", "slowlog"));
    }
}
