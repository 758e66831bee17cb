//! Parses one binlog file: its transactions, their positions, and what each one changed.
//!
//! Input: a file as the server has it. Output: [`Contents`]. Bodies of events are read up to [`BODY_MAX`]; the rest is skipped.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use protocol::binlog::{Change, Event, HEAD_BYTES, Head, MAGIC};
use protocol::gtid::mariadb::{Gtid, State};

/// How much of an event's body is read, in bytes: enough for any list of GTIDs and the beginning of any statement.
const BODY_MAX: u64 = 1 << 20;
/// How many characters of a statement are stored.
const STATEMENT_MAX: usize = 200;
/// How many statements of a transaction are stored.
const STATEMENTS_MAX: usize = 20;

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The name of its binlog file on the server.
    pub name: String,
    /// All GTIDs that were written before it.
    pub before: State,
    /// The server's version, and whether events have checksums: both decide how events are parsed.
    pub format: (String, bool),
    /// The transactions, in the order of the file.
    pub transactions: Vec<Transaction>,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its GTID.
    pub gtid: Gtid,
    /// The name of its binlog file on the server.
    pub file: String,
    /// Its first byte in the file, and the first byte of the next event.
    pub begins: u64,
    /// See `begins`.
    pub ends: u64,
    /// The time of its first event, in seconds since 1970.
    pub time_s: u32,
    /// The kinds of change, by table.
    pub changes: BTreeSet<(Change, String)>,
    /// Its first statements, as far as the binlog has them.
    pub statements: Vec<String>,
    /// The end position of each row event in the file, in bytes.
    pub rows_end: Vec<u64>,
    /// Why it cannot be flashed back: predicates to put after its GTID.
    pub obstacles: BTreeSet<String>,
}

/// Reads a file; an event that is cut off at its end is left out, as the server itself does.
///
/// # Errors
/// When it cannot be read, or is not a binlog.
pub fn read(path: &Path, name: &str) -> io::Result<Contents> {
    let mut input = BufReader::with_capacity(1 << 18, File::open(path)?);
    let mut magic = [0; 4];
    input.read_exact(&mut magic)?;
    let wrong = |at: u64, what: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{name} at byte {at}: {what}"))
    };
    if magic != MAGIC {
        return Err(wrong(0, "this is no binlog".into()));
    }
    let mut reading = Reading::new(name);
    let mut at = 4;
    let mut tables = Tables::default();
    while let Some((head, body)) = event(&mut input, reading.contents.format.1)? {
        let end = at + u64::from(head.bytes);
        let event = Event::parse(&head, &body).map_err(|malformed| wrong(at, malformed.what.into()))?;
        reading.take(&head, event, at, end, &mut tables);
        at = end;
    }
    Ok(reading.contents)
}

/// The next complete event; its body without the checksum, and cut at [`BODY_MAX`].
fn event(input: &mut impl Read, is_summed: bool) -> io::Result<Option<(Head, Vec<u8>)>> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    input.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
    if bytes.len() < HEAD_BYTES {
        return Ok(None);
    }
    let head = Head::parse(&bytes)
        .map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed.what))?;
    let length = u64::from(head.bytes) - HEAD_BYTES as u64;
    let mut body = Vec::new();
    let kept = input.by_ref().take(length.min(BODY_MAX)).read_to_end(&mut body)? as u64;
    let passed = io::copy(&mut input.by_ref().take(length - kept), &mut io::sink())?;
    if kept + passed < length {
        return Ok(None);
    }
    if is_summed && passed == 0 {
        body.truncate(body.len().saturating_sub(4));
    }
    Ok(Some((head, body)))
}

/// Table names by table id.
type Tables = std::collections::BTreeMap<u64, String>;

/// The state while a file is parsed.
struct Reading {
    contents: Contents,
    /// The transaction that is being parsed, and whether it ends with its first statement.
    open: Option<(Transaction, bool)>,
}

impl Reading {
    fn new(name: &str) -> Self {
        Self { contents: Contents { name: name.to_owned(), ..Contents::default() }, open: None }
    }

    fn take(&mut self, head: &Head, event: Event, at: u64, end: u64, tables: &mut Tables) {
        match event {
            Event::Format { version, is_summed } => self.contents.format = (version, is_summed),
            Event::GtidList(state) => self.contents.before = state,
            Event::Gtid { gtid, is_standalone, is_ddl, is_xa, is_transactional } => {
                self.close();
                let file = self.contents.name.clone();
                let mut begun = Transaction::new(gtid, file, (at, end), head.time_s);
                for (is, obstacle) in [
                    (is_ddl, DDL),
                    (is_xa, "is part of a distributed transaction (XA)"),
                    (
                        !is_transactional && !is_standalone,
                        "writes to a table without transactions, or to a sequence",
                    ),
                ] {
                    begun.hinder(is, || obstacle.to_owned());
                }
                self.open = Some((begun, is_standalone));
            }
            Event::Bookkeeping => {}
            event => {
                let Some((open, is_standalone)) = &mut self.open else { return };
                open.ends = end;
                let is_end =
                    (*is_standalone && matches!(event, Event::Query { .. })) | open.note(event, end, tables);
                if is_end {
                    self.close();
                }
            }
        }
    }

    fn close(&mut self) {
        self.contents.transactions.extend(self.open.take().map(|(transaction, _)| transaction));
    }
}

/// The reason why DDL cannot be undone by rows.
const DDL: &str = "changes tables themselves (DDL)";

impl Transaction {
    fn new(gtid: Gtid, file: String, (begins, ends): (u64, u64), time_s: u32) -> Self {
        Self {
            gtid,
            file,
            begins,
            ends,
            time_s,
            changes: BTreeSet::new(),
            statements: vec![],
            rows_end: vec![],
            obstacles: BTreeSet::new(),
        }
    }

    /// Its length in the binlog, in bytes.
    pub fn bytes(&self) -> u64 {
        self.ends - self.begins
    }

    fn hinder(&mut self, is: bool, obstacle: impl FnOnce() -> String) {
        if is {
            self.obstacles.insert(obstacle());
        }
    }

    /// Records the event; returns whether the transaction ends with it.
    fn note(&mut self, event: Event, end: u64, tables: &mut Tables) -> bool {
        match event {
            Event::Commit => return true,
            Event::Query { text, .. } => return self.note_query(&text),
            Event::Annotate(text) => self.note_statement(&text),
            Event::Table { id, schema, name } => {
                tables.insert(id, format!("{schema}.{name}"));
            }
            Event::Rows { change, table, is_whole, is_compressed } => {
                let table = tables.get(&table).cloned().unwrap_or_else(|| "a table".into());
                self.changes.insert((change, table));
                self.rows_end.push(end);
                self.hinder(!is_whole, || {
                    "has rows without all columns: binlog_row_image was not FULL".into()
                });
                self.hinder(is_compressed, || "has compressed rows: log_bin_compress was ON".into());
            }
            // XA PREPARE.
            Event::Other(38) => return true,
            Event::Other(kind) => {
                self.hinder(true, || format!("has an event of kind {kind}, which is not known"));
            }
            Event::Format { .. } | Event::GtidList(_) | Event::Gtid { .. } | Event::Bookkeeping => {}
        }
        false
    }

    fn note_query(&mut self, text: &str) -> bool {
        let upper = short(text, 40).to_ascii_uppercase();
        if upper == "COMMIT" || upper == "ROLLBACK" {
            return true;
        }
        if upper.starts_with("SAVEPOINT ") || upper == "BEGIN" || upper.starts_with("XA END") {
            return false;
        }
        self.note_statement(text);
        let is_known = self.obstacles.contains(DDL);
        self.hinder(!is_known, || {
            let what = if text.is_empty() { "a compressed one".to_owned() } else { short(text, 60) };
            format!("is written as a statement, not as rows: {what}")
        });
        false
    }

    fn note_statement(&mut self, text: &str) {
        if self.statements.len() < STATEMENTS_MAX {
            self.statements.push(short(text, STATEMENT_MAX));
        }
    }
}

/// The text in one line, cut at this many characters.
pub fn short(text: &str, characters: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((at, _)) = line.char_indices().nth(characters) else { return line };
    // Cuts at the end of a word, unless the word is longer than half of the text.
    let begin = line.get(..at).unwrap_or_default();
    let is_between = line[at..].starts_with(' ');
    match begin.rfind(' ').filter(|space| !is_between && *space > at / 2) {
        Some(space) => format!("{} ...", &begin[..space]),
        None => format!("{begin}..."),
    }
}

#[cfg(test)]
impl Transaction {
    /// A transaction without changes.
    pub fn of(gtid: Gtid) -> Self {
        Self::new(gtid, String::new(), (0, 0), 0)
    }
}
