//! What the head of an entry says: the lines before its SQL.

use crate::event::{Rate, RateBy, Rows};
use crate::fields::Fields;
use crate::grammar::{self, Field, Line, QUERY, TIME, USER};
use crate::time::{self, LineTime, duration_us, number};
use memchr::{memchr, memmem, memrchr};

/// Who ran it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UserHost<'a> {
    /// As it was said at login.
    pub(crate) user: &'a [u8],
    /// The account that it came to.
    pub(crate) account: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) address: &'a [u8],
    /// MySQL since 5.6: the connection.
    pub(crate) id: Option<u64>,
}

/// The line before the SQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetLine {
    pub(crate) timestamp_us: u64,
    pub(crate) last_insert_id: Option<u64>,
    pub(crate) insert_id: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) time: Option<LineTime>,
    pub(crate) from: UserHost<'a>,
    pub(crate) thread: Option<u64>,
    pub(crate) schema: Option<&'a [u8]>,
    /// The name in its `use`, as it stands there.
    pub(crate) used: Option<&'a [u8]>,
    pub(crate) query_us: u64,
    pub(crate) lock_us: u64,
    pub(crate) rows: Rows,
    pub(crate) rate: Option<Rate>,
    pub(crate) set: Option<SetLine>,
    /// A field that only MariaDB has.
    pub(crate) is_mariadb: bool,
    /// A field that only Percona Server has.
    pub(crate) is_percona: bool,
    /// `Start:` and `End:` of log_slow_extra.
    pub(crate) start_us: Option<u64>,
    pub(crate) end_us: Option<u64>,
}

impl<'a> Head<'a> {
    /// Reads the lines of a head.
    pub(crate) fn parse(lines: &'a [u8]) -> Self {
        let mut head = Self::default();
        let mut left = lines;
        while !left.is_empty() {
            let end = memchr(b'\n', left).unwrap_or(left.len());
            let (line, rest) = left.split_at(end);
            head.line(line);
            left = rest.get(1..).unwrap_or_default();
        }
        head
    }

    fn line(&mut self, line: &'a [u8]) {
        let line = line.trim_ascii_end();
        let user = user_in(line);
        if let Some(user) = user {
            self.from = user_host(&line[user + USER.len()..]).unwrap_or_default();
        }
        if let Some(time) = line[..user.unwrap_or(line.len())].strip_prefix(TIME) {
            self.time = time::parse_line(time);
        } else if user.is_some() || self.likely(line).is_some() {
            // Taken.
        } else if line.starts_with(b"#") {
            self.fields(line);
        } else if let Some(set) = set_line(line) {
            self.set = Some(set);
        } else if let Some(name) = use_line(line) {
            self.used = Some(name);
        }
    }

    fn fields(&mut self, line: &'a [u8]) {
        for (key, value) in Fields::new(line) {
            if let Some(field) = Field::of(key) {
                self.take(field, value);
            }
        }
    }

    /// Lines as servers write them; None: this is none of them. Whatever this takes, [`Head::fields`] takes in the same way.
    fn likely(&mut self, line: &'a [u8]) -> Option<()> {
        grammar::likely(*line.get(2)?).iter().find_map(|form| self.form(form, line))
    }

    fn form(&mut self, form: Line, line: &'a [u8]) -> Option<()> {
        let mut left = line;
        let mut form = form.iter().peekable();
        while let Some((before, field)) = form.next() {
            left = left.strip_prefix(*before)?;
            let length = match form.peek() {
                // A name may have blanks in it.
                Some((next, _)) if *field == Field::Schema => memmem::rfind(left, next)?,
                Some(_) => memchr(b' ', left)?,
                None => left.len(),
            };
            let (value, rest) = left.split_at(length);
            let has_other = *field == Field::Schema && memchr(b':', value).is_some();
            if has_other || (form.peek().is_none() && memchr(b' ', value).is_some()) {
                return None;
            }
            self.take(*field, value.trim_ascii_end());
            left = rest;
        }
        Some(())
    }

    fn take(&mut self, field: Field, value: &'a [u8]) {
        match field {
            Field::QueryTime => self.query_us = duration_us(value).unwrap_or(0),
            Field::LockTime => self.lock_us = duration_us(value).unwrap_or(0),
            Field::RowsSent => self.rows.sent = number(value),
            Field::RowsExamined => self.rows.examined = number(value),
            Field::RowsAffected => self.rows.affected = number(value),
            Field::Thread => self.thread = number(value),
            Field::Schema => self.schema = Some(value),
            Field::QcHit => self.is_mariadb = true,
            Field::LastErrno => self.is_percona = true,
            Field::Start => self.start_us = time::parse_iso(value),
            Field::End => self.end_us = time::parse_iso(value),
            Field::RateType => {
                self.rate_mut().by = if value == b"session" { RateBy::Session } else { RateBy::Event }
            }
            Field::RateLimit => self.rate_mut().one_in = number(value).unwrap_or(1).max(1),
            Field::BytesSent | Field::Killed => {}
        }
    }

    fn rate_mut(&mut self) -> &mut Rate {
        self.rate.get_or_insert(Rate { by: RateBy::Event, one_in: 1 })
    }
}

/// The position of `# User@Host: ` in a line of a head: its begin, or behind a time.
pub(crate) fn user_in(line: &[u8]) -> Option<usize> {
    match line {
        _ if line.starts_with(USER) => Some(0),
        _ if line.starts_with(TIME) => memmem::find(line, USER),
        _ => None,
    }
}

/// Reads what stands behind `# User@Host: `: `account[user] @ host [address]`, with `  Id: N` since MySQL 5.6. The names are read from the end, for
/// there may be brackets in them; account and user mostly are the same.
pub(crate) fn user_host(text: &[u8]) -> Option<UserHost<'_>> {
    let close = memrchr(b']', text)?;
    let (names, behind) = (&text[..close], text[close + 1..].trim_ascii());
    let id = match behind.strip_prefix(b"Id:") {
        Some(digits) => Some(number(digits.trim_ascii_start())?),
        None if behind.is_empty() => None,
        None => return None,
    };
    let open = memrchr(b'[', names)?;
    let address = &names[open + 1..];
    let at = memmem::rfind(&names[..open], b"] @ ")?;
    let host = names[at + 4..open].trim_ascii();
    let half = at / 2;
    let is_twice = at % 2 == 1 && names[half] == b'[' && names[..half] == names[half + 1..at];
    let bracket = if is_twice { half } else { memrchr(b'[', &names[..at])? };
    Some(UserHost { user: &names[bracket + 1..at], account: &names[..bracket], host, address, id })
}

/// Whether a line has what a server writes behind `# Query_time: `.
pub(crate) fn is_query_time(line: &[u8]) -> bool {
    let mut fields = Fields::new(line);
    QUERY.iter().all(|(_, wanted)| {
        let next = fields.next();
        next.is_some_and(|(key, value)| Field::of(key) == Some(*wanted) && duration_us(value).is_some())
    })
}

/// The name in `use name;`, in its quotes if it has any: MariaDB 10.11 writes them, others do not.
pub(crate) fn use_line(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(b"use ")?.strip_suffix(b";")
}

/// Writes a name without the quotes of [`use_line`] behind `out`.
pub(crate) fn unquoted(name: &[u8], out: &mut Vec<u8>) {
    match name {
        [b'`', inner @ .., b'`'] => {
            let mut bytes = inner.iter();
            while let Some(byte) = bytes.next() {
                out.push(*byte);
                if *byte == b'`' {
                    // Doubled.
                    let _ = bytes.next();
                }
            }
        }
        _ => out.extend_from_slice(name),
    }
}

/// Writes `use name;` and the end of the line; in quotes where it must be.
pub(crate) fn write_use(name: &[u8], out: &mut Vec<u8>) {
    let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80);
    out.extend_from_slice(b"use ");
    if is_plain {
        out.extend_from_slice(name);
    } else {
        out.push(b'`');
        for byte in name {
            out.push(if *byte == b'\n' { b'?' } else { *byte });
            if *byte == b'`' {
                out.push(b'`');
            }
        }
        out.push(b'`');
    }
    out.extend_from_slice(b";\n");
}

/// `SET [last_insert_id=N,][insert_id=N,]timestamp=N;`
pub(crate) fn set_line(line: &[u8]) -> Option<SetLine> {
    let text = line.strip_prefix(b"SET ")?.strip_suffix(b";")?;
    let mut set = SetLine::default();
    let mut has_timestamp = false;
    for pair in text.split(|byte| *byte == b',') {
        let equals = memchr(b'=', pair)?;
        let value = &pair[equals + 1..];
        match &pair[..equals] {
            b"last_insert_id" => set.last_insert_id = Some(number(value)?),
            b"insert_id" => set.insert_id = Some(number(value)?),
            b"timestamp" => {
                set.timestamp_us = duration_us(value)?;
                has_timestamp = true;
            }
            _ => return None,
        }
    }
    has_timestamp.then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_brackets() {
        let seen = |text: &'static str| {
            let found = user_host(text.as_bytes())?;
            let word = |bytes| String::from_utf8_lossy(bytes).into_owned();
            Some((word(found.user), word(found.host), word(found.address), found.id))
        };
        let is = |user: &str, host: &str, address: &str, id| {
            Some((user.to_owned(), host.to_owned(), address.to_owned(), id))
        };
        assert_eq!(seen("root[root] @ localhost []"), is("root", "localhost", "", None));
        assert_eq!(
            seen("root[root] @ localhost [127.0.0.1]  Id:     8"),
            is("root", "localhost", "127.0.0.1", Some(8))
        );
        assert_eq!(seen("[] @  []"), is("", "", "", None));
        assert_eq!(seen("[SQL_SLAVE] @  []"), is("SQL_SLAVE", "", "", None));
        assert_eq!(seen("a[1[a[1] @ h[2] [::1]"), is("a[1", "h[2]", "::1", None));
        for wrong in [
            "",
            "root",
            "root[root] @ localhost",
            "root[root] @ localhost [] x",
            "root[root] @ localhost []  Id: x",
        ] {
            assert_eq!(seen(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn likely_lines_are_read_as_any_other_would_be() {
        let values = [
            "0",
            "5",
            "18446744073709551615",
            "18446744073709551616",
            "",
            "x",
            "1.5",
            "0.000187",
            "1.",
            "a b",
        ];
        let mut likely = 0;
        for one in values {
            for two in values {
                for line in [
                    format!("# Query_time: {one}  Lock_time: {two}  Rows_sent: {one}  Rows_examined: {two}"),
                    format!("# Query_time: 1.5  Lock_time: 0.000001  Rows_sent: {one}  Rows_examined: {two}"),
                    format!("# Query_time: {one}  Lock_time: {two} Rows_sent: 1  Rows_examined: 2"),
                    format!(
                        "# Query_time: 1  Lock_time: 1 Rows_sent: 1  Rows_examined: 2  Rows_affected: {one}"
                    ),
                    format!("# Thread_id: {one}  Schema: {two}  QC_hit: No"),
                    format!("# Thread_id: {one}  Schema: a  QC_hit: No {two}  QC_hit: No"),
                    format!("# Thread_id: {one}  Schema: {two}  QC_hit: Yes"),
                    format!("# Thread_id: {one}  Schema: {two}"),
                    format!("# Rows_affected: {one}  Bytes_sent: {two}"),
                    format!("# Rows_affected: {one}  Bytes_sent: {two}  Tmp_tables: 1"),
                ] {
                    let (mut quick, mut slow) = (Head::default(), Head::default());
                    match quick.likely(line.as_bytes()) {
                        Some(()) => likely += 1,
                        None => quick.fields(line.as_bytes()),
                    }
                    slow.fields(line.as_bytes());
                    assert_eq!(quick, slow, "{line}");
                }
            }
        }
        assert!(likely >= 300, "{likely} lines were of a likely form");
    }

    #[test]
    fn the_line_before_the_sql_is_the_servers_own_only_in_its_exact_form() {
        let set =
            set_line(b"SET last_insert_id=5,insert_id=18446744073709551615,timestamp=1577934245;").unwrap();
        assert_eq!((set.last_insert_id, set.insert_id), (Some(5), Some(u64::MAX)));
        assert_eq!(set.timestamp_us, 1_577_934_245_000_000);
        for wrong in [
            &b"SET timestamp=1"[..],
            b"SET timestamp = 1;",
            b"SET insert_id=1;",
            b"SET timestamp=1,autocommit=0;",
            b"SET ;",
        ] {
            assert_eq!(set_line(wrong), None);
        }
        for (line, wanted) in [("use a;b;", "a;b"), ("use `a ``b`;", "a `b"), ("use `;", "`")] {
            let mut name = Vec::new();
            unquoted(use_line(line.as_bytes()).unwrap(), &mut name);
            assert_eq!(name, wanted.as_bytes());
            let mut again = Vec::new();
            write_use(&name, &mut again);
            name.clear();
            unquoted(use_line(again.strip_suffix(b"\n").unwrap()).unwrap(), &mut name);
            assert_eq!(name, wanted.as_bytes());
        }
    }
}
