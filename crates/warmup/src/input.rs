//! Recognises input that is not a slow log (a binlog, a compressed file, ...) by its first bytes: one sentence that says what to do
//! instead.
//!
//! Errors in the middle of a log (another dialect, cut entries) are counted by the crate `slowlog`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The magic bytes of compressed formats, and the programs that decompress to standard output.
const COMPRESSED: [(&[u8], &str, &str); 5] = [
    (b"\x1f\x8b", "gzip", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
];
/// The first bytes of a server's other files.
const OTHERS: [(&[u8], &str); 3] = [
    (b"\xfebin", "a binlog; the slow log is another file (SELECT @@slow_query_log_file)"),
    (
        b"/*!",
        "a dump or the output of mariadb-binlog; the slow log is another file (SELECT @@slow_query_log_file)",
    ),
    (b"-- MariaDB dump", "a dump; the slow log is another file (SELECT @@slow_query_log_file)"),
];
/// How much of a file is examined, in bytes.
pub const LOOKED_AT_BYTES: usize = 16;

/// Why input that begins with `first` cannot be a slow log; `name` is the name for the sentence. `None` if it may be one.
pub fn foreign(name: &str, first: &[u8]) -> Option<String> {
    let begins = |magic: &[u8]| first.starts_with(magic);
    if let Some((_, format, unpack)) = COMPRESSED.iter().find(|(magic, ..)| begins(magic)) {
        return Some(format!(
            "{name} is compressed ({format}); unpack it on the way: {unpack} FILE | understudy replay -"
        ));
    }
    OTHERS.iter().find(|(magic, _)| begins(magic)).map(|(_, what)| format!("{name} is {what}"))
}

/// Why the log at `path` can never be streamed or replayed. A file that does not exist may be created later, so that is no reason.
pub fn unusable_log(path: &Path) -> Option<String> {
    let name = path.display();
    let about = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(unreadable(path, &error)),
        Ok(about) => about,
    };
    if about.is_dir() {
        return Some(unreadable(path, &io::ErrorKind::IsADirectory.into()));
    }
    if !about.is_file() {
        return Some(format!(
            "{name} is no regular file, so it cannot be followed; give the slow log that the server writes"
        ));
    }
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LOOKED_AT_BYTES as u64).read_to_end(&mut first));
    match read {
        Err(error) => Some(unreadable(path, &error)),
        Ok(_) => foreign(&name.to_string(), &first),
    }
}

/// A sentence for a log that cannot be opened.
pub fn unreadable(path: &Path, error: &io::Error) -> String {
    let name = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{name} cannot be read: {error}; servers write their slow log for themselves and their group alone: run this as the server's user, or in \
             its group (usermod -aG mysql USER), and let its directory be entered"
        ),
        io::ErrorKind::IsADirectory => format!(
            "{name} is a directory; the slow log itself is a file in it (SELECT @@slow_query_log_file)"
        ),
        io::ErrorKind::NotFound => format!(
            "{name} cannot be read: there is no such file; where it is says SELECT @@datadir, @@slow_query_log_file"
        ),
        _ => format!("{name} cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_no_slow_log_is_told_by_its_first_bytes() {
        for (first, said) in [
            (
                &b"\x1f\x8b\x08\0"[..],
                "compressed (gzip); unpack it on the way: gzip -dc FILE | understudy replay -",
            ),
            (b"\x28\xb5\x2f\xfd\x04", "compressed (zstd); unpack it on the way: zstd -dc FILE"),
            (b"\xfd7zXZ\0\0", "compressed (xz); unpack it on the way: xz -dc FILE"),
            (b"BZh91AY", "compressed (bzip2)"),
            (b"\xfebin\0\0", "a binlog; the slow log is another file"),
            (b"/*!40101 SET", "a dump or the output of mariadb-binlog"),
        ] {
            let sentence = foreign("slow.log", first).unwrap();
            assert!(sentence.starts_with("slow.log is ") && sentence.contains(said), "{sentence}");
        }
        for first in [&b""[..], b"# Time: 261122", b"/usr/sbin/mariadbd, Ver", b"SELECT 1;", b"\x1f"] {
            assert_eq!(foreign("slow.log", first), None);
        }
    }

    #[test]
    fn a_path_that_can_be_no_log_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let said = unusable_log(dir.path()).unwrap();
        assert!(said.contains("is a directory; the slow log itself is a file in it"), "{said}");
        assert_eq!(unusable_log(&dir.path().join("later")), None);
        assert!(unusable_log(Path::new("/dev/null")).unwrap().contains("no regular file"));
        let file = dir.path().join("slow.log.gz");
        std::fs::write(&file, b"\x1f\x8b\x08").unwrap();
        assert!(unusable_log(&file).unwrap().contains("gzip -dc"));
        let denied = unreadable(&file, &io::ErrorKind::PermissionDenied.into());
        assert!(denied.contains("run this as the server's user, or in its group"), "{denied}");
    }
}
