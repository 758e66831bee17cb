//! Entries written as a server writes them: logs for tests, and for a source that is no server.

use crate::alone::write_rate;
use crate::event::{Command, Dialect, Event, Rate, Rows};
use crate::grammar::{ADMINISTRATOR, Field, USER, lines};
use crate::head::write_use;
use crate::time::{SECOND_US, iso, short};

/// The contents of an entry. A value that the dialect has no field for is left out.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When the statement ended; microseconds since 1970.
    pub end_us: u64,
    /// How long the statement took.
    pub query_time_us: u64,
    /// How long it waited for locks.
    pub lock_time_us: u64,
    /// The user name given at login.
    pub user: &'a [u8],
    /// The account that the login was matched to.
    pub account: &'a [u8],
    /// The client's host name.
    pub host: &'a [u8],
    /// The client's address.
    pub address: &'a [u8],
    /// The connection's number on its server.
    pub connection: u64,
    /// The default schema; empty when there is none.
    pub schema: &'a [u8],
    /// Row counts; an unknown count is written as 0.
    pub rows: Rows,
    /// The value of LAST_INSERT_ID() in the statement.
    pub last_insert_id: Option<u64>,
    /// The first AUTO_INCREMENT value that the statement generated.
    pub insert_id: Option<u64>,
    /// The number of entries that it represents.
    pub rate: Option<Rate>,
    /// The statement.
    pub command: Command<'a>,
}

impl<'a> From<&Event<'a>> for Entry<'a> {
    fn from(event: &Event<'a>) -> Self {
        Self {
            end_us: event.end_us,
            query_time_us: event.query_time_us,
            lock_time_us: event.lock_time_us,
            user: event.user,
            account: event.account,
            host: event.host,
            address: event.address,
            connection: event.connection.unwrap_or(0),
            schema: event.schema.name().unwrap_or_default(),
            rows: event.rows,
            last_insert_id: event.last_insert_id,
            insert_id: event.insert_id,
            rate: event.rate,
            command: event.command,
        }
    }
}

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

    /// Appends one entry to `out`. Line breaks in names are replaced by `?`.
    pub fn write(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        self.time(entry, out);
        self.user(entry, out);
        self.fields(entry, out);
        write_rate(entry.rate, out);
        if !entry.schema.is_empty() && entry.schema != self.schema {
            self.schema.clear();
            self.schema.extend_from_slice(entry.schema);
            write_use(entry.schema, out);
        }
        self.set(entry, out);
        match entry.command {
            Command::Statement(sql) => {
                out.extend_from_slice(sql);
                out.extend_from_slice(b";\n");
            }
            Command::Administrator(word) => {
                out.extend_from_slice(ADMINISTRATOR);
                name(word, out);
                out.extend_from_slice(b";\n");
            }
            Command::Nothing => {}
        }
    }

    fn is_exact(&self) -> bool {
        matches!(self.dialect, Dialect::MySql57 | Dialect::Percona)
    }

    fn time(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let second = entry.end_us / SECOND_US;
        let text = if self.is_exact() {
            iso(entry.end_us)
        } else if self.second == Some(second) {
            return;
        } else {
            short(entry.end_us)
        };
        self.second = Some(second);
        out.extend_from_slice(format!("# Time: {text}\n").as_bytes());
    }

    fn user(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(USER);
        name(entry.account, out);
        out.push(b'[');
        name(entry.user, out);
        out.extend_from_slice(b"] @ ");
        name(entry.host, out);
        out.extend_from_slice(b" [");
        name(entry.address, out);
        out.push(b']');
        if matches!(self.dialect, Dialect::MySql56 | Dialect::MySql57 | Dialect::Percona) {
            out.extend_from_slice(format!("  Id: {:5}", entry.connection).as_bytes());
        }
        out.push(b'\n');
    }

    fn fields(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let seconds = |us: u64| format!("{}.{:06}", us / SECOND_US, us % SECOND_US);
        for line in lines(self.dialect) {
            for (before, field) in *line {
                out.extend_from_slice(before);
                let value = match field {
                    Field::Schema => {
                        name(entry.schema, out);
                        continue;
                    }
                    Field::QueryTime => seconds(entry.query_time_us),
                    Field::LockTime => seconds(entry.lock_time_us),
                    Field::QcHit => "No".to_owned(),
                    Field::Thread => entry.connection.to_string(),
                    Field::RowsSent => entry.rows.sent.unwrap_or(0).to_string(),
                    Field::RowsExamined => entry.rows.examined.unwrap_or(0).to_string(),
                    Field::RowsAffected => entry.rows.affected.unwrap_or(0).to_string(),
                    _ => "0".to_owned(),
                };
                out.extend_from_slice(value.as_bytes());
            }
            out.push(b'\n');
        }
    }

    fn set(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let mut text = String::from("SET ");
        for (name, value) in [("last_insert_id", entry.last_insert_id), ("insert_id", entry.insert_id)] {
            if let Some(value) = value {
                text += &format!("{name}={value},");
            }
        }
        let at_us =
            if self.is_exact() { entry.end_us.saturating_sub(entry.query_time_us) } else { entry.end_us };
        text += &format!("timestamp={};\n", at_us / SECOND_US);
        out.extend_from_slice(text.as_bytes());
    }
}

/// A name, on one line.
fn name(text: &[u8], out: &mut Vec<u8>) {
    out.extend(text.iter().map(|byte| if *byte == b'\n' { b'?' } else { *byte }));
}
