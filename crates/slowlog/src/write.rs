//! Entries written as a server writes them: logs for tests, and for a source that is no server.

use std::borrow::Cow;

use crate::alone::write_rate;
use crate::event::{Command, Dialect, Event};
use crate::grammar::{ADMINISTRATOR, lines};
use crate::head::write_use;
use crate::time::{SECOND_US, iso, short};

/// Writes a log.
#[derive(Clone, Debug)]
pub struct Writer {
    dialect: Dialect,
    /// The time of the last `# Time:` line, in whole seconds.
    second: Option<u64>,
    /// The schema of the last `use`.
    schema: Vec<u8>,
}

impl Writer {
    /// A writer for an empty log.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, second: None, schema: Vec::new() }
    }

    /// The lines that a server writes when it opens the file.
    pub fn banner(&mut self, out: &mut Vec<u8>) {
        let (server, title) = match self.dialect {
            Dialect::MariaDb => (
                "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12)",
                "Time\t\t    Id Command\tArgument",
            ),
            _ => (
                "/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL)",
                "Time                 Id Command    Argument",
            ),
        };
        let text = format!(
            "{server}. started with:\nTcp port: 3306  Unix socket: /run/mysqld/mysqld.sock\n{title}\n"
        );
        out.extend_from_slice(text.as_bytes());
        self.second = None;
        self.schema.clear();
    }

    /// Appends one entry to `out`, with what its dialect has a field for; an unknown number is written as 0. Line breaks in names are
    /// replaced by `?`.
    pub fn write(&mut self, entry: &Event<'_>, out: &mut Vec<u8>) {
        let is_exact = matches!(self.dialect, Dialect::MySql57 | Dialect::Percona);
        let second = entry.end_us / SECOND_US;
        if is_exact || self.second != Some(second) {
            let time = if is_exact { iso(entry.end_us) } else { short(entry.end_us) };
            out.extend_from_slice(format!("# Time: {time}\n").as_bytes());
        }
        self.second = Some(second);
        for part in lines(self.dialect).split('}') {
            let (text, name) = part.split_once('{').unwrap_or((part, ""));
            out.extend_from_slice(text.as_bytes());
            write_name(&value(entry, name), out);
        }
        write_rate(entry.rate, out);
        let schema = entry.schema.name().unwrap_or_default();
        if !schema.is_empty() && schema != self.schema {
            self.schema = schema.to_vec();
            write_use(schema, out);
        }
        let ids = [("last_insert_id", entry.last_insert_id), ("insert_id", entry.insert_id)];
        let ids = ids.iter().filter_map(|(name, id)| Some(format!("{name}={},", (*id)?)));
        let start_us = entry.end_us.saturating_sub(entry.query_time_us);
        let second = if is_exact { start_us / SECOND_US } else { second };
        out.extend_from_slice(format!("SET {}timestamp={second};\n", ids.collect::<String>()).as_bytes());
        match entry.command {
            Command::Statement(sql) => out.extend_from_slice(sql),
            Command::Administrator(word) => {
                out.extend_from_slice(ADMINISTRATOR);
                write_name(word, out);
            }
            Command::Nothing => return,
        }
        out.extend_from_slice(b";\n");
    }
}

/// The value for a name in [`lines`].
fn value<'a>(entry: &Event<'a>, name: &str) -> Cow<'a, [u8]> {
    let seconds = |us: u64| format!("{}.{:06}", us / SECOND_US, us % SECOND_US);
    let number = |number: Option<u64>| number.unwrap_or(0).to_string();
    let text = match name {
        "account" => return entry.account.into(),
        "user" => return entry.user.into(),
        "host" => return entry.host.into(),
        "address" => return entry.address.into(),
        "schema" => return entry.schema.name().unwrap_or_default().into(),
        "connection" => number(entry.connection),
        "id" => format!("{:>5}", number(entry.connection)),
        "query_time" => seconds(entry.query_time_us),
        "lock_time" => seconds(entry.lock_time_us),
        "sent" => number(entry.rows.sent),
        "examined" => number(entry.rows.examined),
        "affected" => number(entry.rows.affected),
        _ => String::new(),
    };
    text.into_bytes().into()
}

/// On one line.
fn write_name(name: &[u8], out: &mut Vec<u8>) {
    out.extend(name.iter().map(|byte| if *byte == b'\n' { b'?' } else { *byte }));
}
