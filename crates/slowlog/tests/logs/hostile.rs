//! Logs that nobody's server wrote: lines and heads that do not end. What is kept in memory stays within the limits, and no byte is missing among the
//! items.

use slowlog::{Limits, Reader, Start};

const PIECE_BYTES: usize = 256 << 10;
const LIMITS: Limits =
    Limits { event_bytes_max: 4 << 20, head_bytes_max: 1 << 20, doubt_bytes_max: 64 << 10 };

/// `begin`, then `repeated` until 24 MiB were fed: 6 times what an entry may have.
fn feed(begin: &[u8], repeated: &[u8]) -> (usize, u64, u64) {
    let mut reader = Reader::new(LIMITS, Start::Whole);
    let piece = repeated.repeat(PIECE_BYTES / repeated.len());
    let (mut kept_bytes_max, mut given_bytes) = (0, 0);
    let mut take = |reader: &mut Reader| {
        while let Some(item) = reader.next() {
            given_bytes += item.bytes().len() as u64;
        }
        kept_bytes_max = kept_bytes_max.max(reader.pending_bytes());
    };
    reader.feed(begin);
    take(&mut reader);
    let mut fed_bytes = begin.len() as u64;
    while fed_bytes < 24 << 20 {
        reader.feed(&piece);
        take(&mut reader);
        fed_bytes += piece.len() as u64;
    }
    reader.finish();
    take(&mut reader);
    (kept_bytes_max, given_bytes, fed_bytes)
}

#[test]
fn what_never_ends_is_not_kept() {
    let head = b"# Time: 261122 12:00:00\n# User@Host: app[app] @ localhost []\n# Thread_id: 1  Schema: shop  QC_hit: No\n# Query_time: 1  \
                 Lock_time: 0  Rows_sent: 1  Rows_examined: 1\n";
    let body = [&head[..], b"SET timestamp=1795348800;\nSELECT '"].concat();
    for (name, begin, repeated) in [
        ("a line that is no log", &b""[..], &b"x"[..]),
        ("a comment line", b"# ", b"x"),
        ("zeros", b"", b"\0"),
        ("a line in a head", &[&head[..], b"# Filler: "].concat(), b"y"),
        ("lines of a head", head, b"# Full_scan: Yes  Full_join: No  Tmp_table: No\n"),
        ("heads that begin again", b"", b"# Time: 261122 12:00:00\n"),
        ("a string in a statement", &body, b"z"),
        ("lines of a string", &body, b"line\n"),
        ("quoted heads in a string", &body, b"\n# User@Host: app[app] @ localhost []\n"),
        ("empty lines", b"", b"\n"),
        ("a use that does not end", &[&head[..], b"use `"].concat(), b"s"),
    ] {
        let (kept_bytes_max, given_bytes, fed_bytes) = feed(begin, repeated);
        assert_eq!(given_bytes, fed_bytes, "{name}");
        let limit = LIMITS.event_bytes_max + LIMITS.head_bytes_max + LIMITS.doubt_bytes_max + 2 * PIECE_BYTES;
        assert!(kept_bytes_max <= limit, "{name}: {kept_bytes_max} bytes are kept");
    }
}
