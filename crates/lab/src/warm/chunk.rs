//! Samples every n-th entry of a slow log that the lab recorded, as `log_slow_rate_limit` would do. Pure.
//!
//! Only for the lab's own logs: MariaDB's format, and no statement with a line that begins like an entry's header.

/// The beginning of an entry; a time line comes before it when the second has changed.
const ENTRY: &[u8] = b"# User@Host:";
const TIME: &[u8] = b"# Time:";

/// Keeps the first entry and then every `one_in`-th. Lines before the first entry are left out.
pub fn sample(log: &[u8], one_in: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(log.len() / one_in.max(1) as usize + 1024);
    let mut time: Option<&[u8]> = None;
    let (mut entries, mut is_kept) = (0_u64, false);
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(TIME) {
            time = Some(line);
            is_kept = false;
        } else if line.starts_with(ENTRY) {
            is_kept = entries.is_multiple_of(one_in.max(1));
            entries += 1;
            if is_kept {
                // A time line applies to all entries after it, so the latest one is kept even if its own entry was left out.
                out.extend_from_slice(time.take().unwrap_or_default());
            }
        }
        if is_kept {
            out.extend_from_slice(line);
        }
    }
    out
}

/// Number of entries of a log.
pub fn entries(log: &[u8]) -> u64 {
    log.split(|byte| *byte == b'\n').filter(|line| line.starts_with(ENTRY)).count() as u64
}

/// Number of reads among an account's entries: each of the workload's reads is one line that begins with SELECT.
pub fn reads(log: &[u8], user: &str) -> u64 {
    let begin = [ENTRY, b" ", user.as_bytes(), b"["].concat();
    let (mut is_theirs, mut reads) = (false, 0);
    for line in log.split(|byte| *byte == b'\n') {
        if line.starts_with(ENTRY) {
            is_theirs = line.starts_with(&begin);
        }
        reads += u64::from(is_theirs && line.starts_with(b"SELECT"));
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "/usr/sbin/mariadbd, Version: 10.11\n# Time: 1\n# User@Host: a\nSELECT 1;\n# User@Host: a\nSELECT\n2;\n\
                       # Time: 2\n# User@Host: a\nSELECT 3;\n# Time: 3\n# User@Host: a\nSELECT 4;\n# User@Host: a\nSELECT 5;\n";

    #[test]
    fn reads_are_counted_by_account() {
        let log = b"# User@Host: app[app] @ x\nuse a;\nSELECT 1;\n# User@Host: root[root] @ x\nSELECT 2;\n# User@Host: app[app] @ x\nUPDATE t;\n";
        assert_eq!(reads(log, "app"), 1);
    }

    #[test]
    fn each_entry_that_is_kept_has_its_time() {
        assert_eq!(entries(LOG.as_bytes()), 5);
        let kept = |one_in| String::from_utf8(sample(LOG.as_bytes(), one_in)).unwrap();
        assert_eq!(kept(1), LOG.split_once('\n').unwrap().1);
        assert_eq!(
            kept(2),
            "# Time: 1\n# User@Host: a\nSELECT 1;\n# Time: 2\n# User@Host: a\nSELECT 3;\n# Time: 3\n# User@Host: a\nSELECT 5;\n"
        );
        assert_eq!(kept(100), "# Time: 1\n# User@Host: a\nSELECT 1;\n");
    }
}
