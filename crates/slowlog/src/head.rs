//! What the head of an entry says: the lines before its SQL.

use memchr::{memchr_iter, memmem};

use crate::event::{Clock, Dialect, Event, Rate, RateBy, Schema};
use crate::fields::Fields;
use crate::grammar::{ADMINISTRATOR, TIME, USER};
use crate::time::{LineTime, SECOND_US, duration_us, number, parse_iso, parse_line};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head<'a> {
    /// With what the head says, and nothing else.
    pub(crate) event: Event<'a>,
    pub(crate) time: Option<LineTime>,
    /// The name in its `use`, as it stands there.
    pub(crate) used: Option<&'a [u8]>,
    /// The connection behind the host: MySQL since 5.6.
    id: Option<u64>,
    /// Known from a field that no other server has.
    dialect: Option<Dialect>,
    /// `SET timestamp`
    said_us: Option<u64>,
    /// `Start:` and `End:` of log_slow_extra.
    start_us: Option<u64>,
    end_us: Option<u64>,
}

impl<'a> Head<'a> {
    /// Reads the lines of a head.
    pub(crate) fn parse(lines: &'a [u8]) -> Self {
        let mut head = Self::default();
        let mut begin = 0;
        for end in memchr_iter(b'\n', lines).chain([lines.len()]) {
            head.line(lines[begin..end].trim_ascii_end());
            begin = end + 1;
        }
        head.event.connection = head.event.connection.or(head.id);
        head.event.dialect = head.dialect.unwrap_or(match head.time {
            Some(LineTime::Utc(_)) => Dialect::MySql57,
            _ if head.id.is_some() => Dialect::MySql56,
            _ => Dialect::MySql55,
        });
        head
    }

    fn line(&mut self, line: &'a [u8]) {
        if line.starts_with(b"#") {
            let user = user_in(line);
            if let Some(user) = user {
                let (names, id) = user_host(&line[user + USER.len()..]).unwrap_or_default();
                [self.event.account, self.event.user, self.event.host, self.event.address] = names;
                self.id = id;
            }
            if let Some(time) = line[..user.unwrap_or(line.len())].strip_prefix(TIME) {
                self.time = parse_line(time);
            } else if user.is_none() {
                Fields::of(line).for_each(|(key, value)| self.field(key, value));
            }
        } else if let Some(set) = set_line(line) {
            self.said_us = Some(set.timestamp_us);
            (self.event.last_insert_id, self.event.insert_id) = (set.last_insert_id, set.insert_id);
        } else if let Some(name) = use_line(line) {
            self.used = Some(name);
        }
    }

    fn field(&mut self, key: &[u8], value: &'a [u8]) {
        let event = &mut self.event;
        let rate = Rate { by: RateBy::Event, one_in: 1 };
        match key {
            b"Query_time" => event.query_time_us = duration_us(value).unwrap_or(0),
            b"Lock_time" => event.lock_time_us = duration_us(value).unwrap_or(0),
            b"Rows_sent" => event.rows.sent = number(value),
            b"Rows_examined" => event.rows.examined = number(value),
            b"Rows_affected" => event.rows.affected = number(value),
            b"Thread_id" => event.connection = number(value),
            b"Schema" => event.schema = Schema::Own(value),
            b"QC_hit" => self.dialect = self.dialect.or(Some(Dialect::MariaDb)),
            b"Last_errno" => self.dialect = Some(Dialect::Percona),
            b"Start" => self.start_us = parse_iso(value),
            b"End" => self.end_us = parse_iso(value),
            b"Log_slow_rate_type" => {
                let by = if value == b"session" { RateBy::Session } else { RateBy::Event };
                event.rate.get_or_insert(rate).by = by;
            }
            b"Log_slow_rate_limit" => {
                event.rate.get_or_insert(rate).one_in = number(value).unwrap_or(1).max(1);
            }
            _ => {}
        }
    }

    /// The start and end times and their precision. `SET timestamp` is the end with MariaDB and MySQL up to 5.6, and the start with Percona
    /// Server and MySQL 8. If the time line contains the end in UTC, that is used; `local_us`, where there is nothing else.
    pub(crate) fn times(&self, local_us: Option<u64>) -> (u64, u64, Clock) {
        let took_us = self.event.query_time_us;
        if let (Some(start), Some(end)) = (self.start_us, self.end_us) {
            return (start.min(end), end, Clock::Exact);
        }
        if let Some(LineTime::Utc(end)) = self.time {
            return (end.saturating_sub(took_us), end, Clock::Exact);
        }
        let Some(said) = self.said_us.or(local_us) else { return (0, 0, Clock::None) };
        if self.said_us.is_some() && self.dialect == Some(Dialect::Percona) {
            return (said, said.saturating_add(took_us), Clock::StartSecond);
        }
        let clock = if said.is_multiple_of(SECOND_US) { Clock::EndSecond } else { Clock::Exact };
        (said.saturating_sub(took_us), said, clock)
    }
}

/// The position of `# User@Host: ` in a line of a head: its begin, or behind a time.
#[inline]
pub(crate) fn user_in(line: &[u8]) -> Option<usize> {
    match line {
        _ if line.starts_with(USER) => Some(0),
        _ if line.starts_with(TIME) => memmem::find(line, USER),
        _ => None,
    }
}

/// Reads what stands behind `# User@Host: `: `account[user] @ host [address]`, with `  Id: N` since MySQL 5.6. The names are read from the end, for
/// there may be brackets in them; account and user mostly are the same.
pub(crate) fn user_host(text: &[u8]) -> Option<([&[u8]; 4], Option<u64>)> {
    let last = |text: &[u8], wanted: u8| text.iter().rposition(|byte| *byte == wanted);
    let close = last(text, b']')?;
    let (names, behind) = (&text[..close], text[close + 1..].trim_ascii());
    let id = match behind.strip_prefix(b"Id:") {
        Some(digits) => Some(number(digits.trim_ascii_start())?),
        None if behind.is_empty() => None,
        None => return None,
    };
    let open = last(names, b'[')?;
    let at = names[..open].windows(4).rposition(|four| four == b"] @ ")?;
    let host = names[at + 4..open].trim_ascii();
    let half = at / 2;
    let is_twice = at % 2 == 1 && names[half] == b'[' && names[..half] == names[half + 1..at];
    let bracket = if is_twice { half } else { last(&names[..at], b'[')? };
    Some(([&names[..bracket], &names[bracket + 1..at], host, &names[open + 1..]], id))
}

/// The word in `# administrator command: X;`.
pub(crate) fn administrator(line: &[u8]) -> Option<&[u8]> {
    let word = line.strip_prefix(ADMINISTRATOR)?.trim_ascii_end().strip_suffix(b";")?;
    word.iter().all(|byte| byte.is_ascii_alphanumeric() || b" _-".contains(byte)).then_some(word)
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

/// The line before the SQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetLine {
    timestamp_us: u64,
    last_insert_id: Option<u64>,
    insert_id: Option<u64>,
}

/// `SET [last_insert_id=N,][insert_id=N,]timestamp=N;`
pub(crate) fn set_line(line: &[u8]) -> Option<SetLine> {
    let text = line.strip_prefix(b"SET ")?.strip_suffix(b";")?;
    let (mut timestamp_us, mut last_insert_id, mut insert_id) = (None, None, None);
    for pair in text.split(|byte| *byte == b',') {
        if let Some(value) = pair.strip_prefix(b"timestamp=") {
            timestamp_us = Some(duration_us(value)?);
        } else if let Some(value) = pair.strip_prefix(b"insert_id=") {
            insert_id = Some(number(value)?);
        } else {
            last_insert_id = Some(number(pair.strip_prefix(b"last_insert_id=")?)?);
        }
    }
    Some(SetLine { timestamp_us: timestamp_us?, last_insert_id, insert_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_brackets() {
        let seen = |text: &'static str| {
            let ([_, user, host, address], id) = user_host(text.as_bytes())?;
            let word = |bytes| String::from_utf8_lossy(bytes).into_owned();
            Some((word(user), word(host), word(address), id))
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
    fn the_line_before_the_sql_is_the_servers_own_only_in_its_exact_form() {
        assert_eq!(
            set_line(b"SET last_insert_id=5,insert_id=18446744073709551615,timestamp=1577934245;"),
            Some(SetLine {
                timestamp_us: 1_577_934_245_000_000,
                last_insert_id: Some(5),
                insert_id: Some(u64::MAX)
            })
        );
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
