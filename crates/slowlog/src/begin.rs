//! Determines whether an entry or a banner begins at a position in a log.
//!
//! ```text
//!   entry   # Time: ...  # User@Host: ...  # Name: ...        the first two may stand on one line, and either may be missing
//!           # Thread_id: N  Schema: ...  # Query_time: ...    (under --log-short-format)
//!           # Query_time: ...  Lock_time: ...
//!   banner  .../mariadbd, Version: ... started with:    Tcp port: ...    Time  Id Command  Argument
//! ```
//!
//! Blank lines before an entry are part of it. Blanks and a carriage return at the end of a line do not count.

use memchr::{memchr, memmem};

use crate::grammar::{BEGINS, BEGINS_WITH_USER, Line, Next, QUERY};
use crate::head::user_in;

const STARTED: &[u8] = b"started with:";
const VERSION: &[u8] = b", Version: ";

/// The longest line of a head for whose end the parser waits; names have up to 4 bytes per character.
pub(crate) const LINE_BYTES_MAX: usize = 4_096;
/// So many ends of lines before an entry are a part of it; more of them belong to nothing.
const BLANK_BYTES_MAX: usize = 16;
/// The number of bytes within which it is decided whether a head begins: its first three lines.
pub(crate) const BEGIN_BYTES_MAX: usize = BLANK_BYTES_MAX + 3 * LINE_BYTES_MAX;

/// An answer about bytes that may be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Begins {
    No,
    /// The bytes so far may be the beginning of one.
    More,
    Yes,
}

/// Whether an entry begins at the first of these bytes.
pub(crate) fn entry(bytes: &[u8]) -> Begins {
    let blank = bytes.iter().take(BLANK_BYTES_MAX).take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    any_of(&BEGINS, &bytes[blank..])
}

/// As above, behind a line that does not end a statement: only what a comment would not resemble by chance is accepted.
pub(crate) fn long_form(bytes: &[u8]) -> Begins {
    any_of(&BEGINS[..BEGINS_WITH_USER], bytes)
}

fn any_of(forms: &[(&[Line], Next)], bytes: &[u8]) -> Begins {
    let mut begins = Begins::No;
    if !bytes.starts_with(b"#") && !bytes.is_empty() {
        return begins;
    }
    for (lines, next) in forms {
        begins = begins.max(has_form(lines, *next, bytes));
        if begins == Begins::Yes {
            break;
        }
    }
    begins
}

fn has_form(lines: &[Line], next: Next, bytes: &[u8]) -> Begins {
    let mut left = bytes;
    for (start, is_line) in lines {
        match prefix(left, start) {
            Begins::Yes => match first_line(left) {
                Ok((line, rest)) if is_line(line) => left = rest,
                Ok(_) => return Begins::No,
                Err(undecided) => return undecided,
            },
            undecided => return undecided,
        }
    }
    match next {
        Next::Field => field(left),
        Next::Query => prefix(left, QUERY),
        Next::Anything => Begins::Yes,
    }
}

/// Whether a line of fields begins here.
fn field(bytes: &[u8]) -> Begins {
    let begins = prefix(bytes, b"# ");
    if begins != Begins::Yes {
        return begins;
    }
    let name = &bytes[2..];
    match name.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_') {
        Some(length) if length > 0 && name[0].is_ascii_uppercase() => prefix(&name[length..], b": "),
        None if name.len() < LINE_BYTES_MAX => Begins::More,
        _ => Begins::No,
    }
}

pub(crate) fn prefix(bytes: &[u8], wanted: &[u8]) -> Begins {
    if !wanted.iter().zip(bytes).all(|(wanted, byte)| wanted == byte) {
        Begins::No
    } else if bytes.len() < wanted.len() {
        Begins::More
    } else {
        Begins::Yes
    }
}

/// Splits off the first line, which is without blanks at its end; of a time and a user on one line, the time.
fn first_line(bytes: &[u8]) -> Result<(&[u8], &[u8]), Begins> {
    match memchr(b'\n', &bytes[..bytes.len().min(LINE_BYTES_MAX)]) {
        Some(end) => match user_in(&bytes[..end]) {
            Some(user) if user > 0 => Ok(bytes.split_at(user)),
            _ => Ok((bytes[..end].trim_ascii_end(), &bytes[end + 1..])),
        },
        None if bytes.len() >= LINE_BYTES_MAX => Err(Begins::No),
        None => Err(Begins::More),
    }
}

/// Whether this line (without its end) is one of the three that a server writes when it opens the file.
pub(crate) fn is_banner_line(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    (line.ends_with(STARTED) && memmem::find(line, VERSION).is_some())
        || banner_goes_on(line) == Begins::Yes
        || (line.starts_with(b"Time")
            && line.ends_with(b"Argument")
            && memmem::find(line, b"Id Command").is_some())
}

/// The position in a line of SQL at which a banner begins, if its first line ends as this line does. It is the line's begin if the
/// statement before has ended; a server that was killed while it wrote an entry writes the banner of its next start directly behind the
/// last byte. Only the last [`LINE_BYTES_MAX`] bytes are searched.
pub(crate) fn banner_in(line: &[u8], is_ended: bool) -> Option<usize> {
    let line = line.trim_ascii_end();
    if !line.ends_with(STARTED) {
        return None;
    }
    let skipped = line.len().saturating_sub(LINE_BYTES_MAX);
    let line = &line[skipped..];
    let version = memmem::rfind(line, VERSION)?;
    if is_ended && skipped == 0 {
        return Some(0);
    }
    let is_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    let name = line[..version].iter().rposition(|byte| !is_path(byte)).map_or(0, |before| before + 1);
    let root = memchr(b'/', &line[name..version]).unwrap_or(0);
    Some(skipped + name + root)
}

/// Whether this is the second line of a banner.
pub(crate) fn banner_goes_on(bytes: &[u8]) -> Begins {
    prefix(bytes, b"Tcp port: ").max(prefix(bytes, b"TCP Port: "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::TIME;

    const WHOLE: &str = "# Time: 200102  3:04:05\n# User@Host: root[root] @ localhost []\n# Thread_id: 5  Schema: shop  QC_hit: No\n";

    #[test]
    fn an_entry_begins_with_the_head_that_a_server_writes() {
        for text in [
            WHOLE,
            &WHOLE[24..],
            &WHOLE.replace('\n', "\r\n"),
            &WHOLE.replacen('\n', " ", 1),
            &format!("\n\r\n{WHOLE}"),
            "# Time: 200102  3:04:05\n# User@Host: root[root] @ localhost []\n# Bytes_sent: ",
            "# User@Host: [] @  []  Id:     8\n# Query_time: 0.1  Lock_time: 0.2 Rows_sent: 1  Rows_examined: 0\n",
            "# Time: 200102  3:04:05\n# Query_time: 0.1  Lock_time: 0.2 Rows_sent: 1  Rows_examined: 0\n",
            "# Query_time: 1 Lock_time: 0 Rows_sent: 1 Rows_examined: 0\n",
            "# Thread_id: 5  Schema: shop  QC_hit: No\n# Query_time: ",
            "# Thread_id: 5 Schema: shop QC_hit: No\n# Query_time: ",
        ] {
            assert_eq!(entry(text.as_bytes()), Begins::Yes, "{text}");
        }
        for text in [
            "# Time: tomorrow\n# User@Host: root[root] @ localhost []\n# Thread_id: ",
            "# Time: 200102  3:04:05\nSELECT 1;\n",
            "# User@Host: me\n# Thread_id: ",
            "# User@Host: root[root] @ localhost []\nSELECT 1",
            "# User@Host: root[root] @ localhost []\n# of whom: nothing",
            "# Query_time: much  Lock_time: 0\n",
            "SELECT 1",
        ] {
            assert_eq!(entry(text.as_bytes()), Begins::No, "{text}");
        }
    }

    #[test]
    fn a_beginning_is_undecided_until_enough_is_there() {
        let enough = WHOLE.find("Thread_id: ").unwrap() + "Thread_id: ".len();
        for length in 0..WHOLE.len() {
            let seen = entry(&WHOLE.as_bytes()[..length]);
            assert_eq!(seen, if length < enough { Begins::More } else { Begins::Yes }, "{length}");
        }
        assert_eq!(entry(&[TIME, &[b'1'; 5_000]].concat()), Begins::No, "a line that never ends");
    }

    #[test]
    fn a_banner_begins_behind_what_was_cut_off() {
        let banner = "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB (Debian 12). started with:";
        for before in ["", "SELECT 'it", "SELECT a ", "SELECT 'x' = x"] {
            let line = format!("{before}{banner}");
            assert_eq!(banner_in(line.as_bytes(), false), Some(before.len()), "{line}");
        }
        let windows = b"C:\\Program Files\\MySQL 5.5\\mysqld, Version: 5.5.8-log (GPL). started with:\r";
        assert_eq!(banner_in(windows, true), Some(0));
        assert_eq!(banner_in(b"the day that it started with:", true), None);
    }
}
