//! The SQLite file: term, writer, drains, settings that were changed for a while and the primary's events (each on disk before it is used), and the
//! journal.
//!
//! Requests arrive through a queue and are handled by one thread, because a write blocks until it is on disk. Of what waits, decisions are
//! written first, so that a journal row never delays a failover. There are two connections: decisions are synced at each commit
//! (`synchronous=FULL`), journal rows with the next decision or checkpoint.

use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use tokio::sync::oneshot;
use topology::galera::Component;
use topology::replication::Written;
use topology::replication::kept_events::Kept;
use topology::view::{JournalRow, Level};

use crate::loan::Loan;

/// "USTY": marks the file as ours.
const APPLICATION_ID: i64 = 0x5553_5459;
const VERSION: i64 = 1;
/// The tables that a file of an older version may lack. `loan`: see [`Loan`].
const TABLES_SINCE: &str = "
    -- The members' settings that are changed for a while.
    CREATE TABLE IF NOT EXISTS loan (node TEXT NOT NULL, address TEXT NOT NULL, gcomm_uuid TEXT NOT NULL,
        option TEXT NOT NULL, own TEXT NOT NULL, lent TEXT NOT NULL, PRIMARY KEY (node, option));
    -- When the last automatic failover was decided.
    CREATE TABLE IF NOT EXISTS failover (id INTEGER PRIMARY KEY CHECK (id = 1), at_unix_ms INTEGER NOT NULL);
    -- The writer that came back without transactions of its own; empty when it did not.
    CREATE TABLE IF NOT EXISTS incomplete (id INTEGER PRIMARY KEY CHECK (id = 1), writer TEXT NOT NULL);
    -- The nodes whose transactions are numbered as the primary's were before those began anew.
    CREATE TABLE IF NOT EXISTS renumbered (node TEXT PRIMARY KEY);
    -- The servers that have had replication filters, and which.
    CREATE TABLE IF NOT EXISTS filtered (node TEXT PRIMARY KEY, filters TEXT NOT NULL);
    -- The writer's component in a Galera cluster, as JSON.
    CREATE TABLE IF NOT EXISTS component (id INTEGER PRIMARY KEY CHECK (id = 1), view TEXT NOT NULL);
    -- What the primary of a primary-replica setup reported last, as JSON.
    CREATE TABLE IF NOT EXISTS written (id INTEGER PRIMARY KEY CHECK (id = 1), report TEXT NOT NULL,
        at_unix_ms INTEGER NOT NULL);
    -- The events that the primary of a primary-replica setup runs, or is to run, as JSON.
    CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY CHECK (id = 1), kept TEXT NOT NULL);";
/// Marks advice, which has a limit of its own, so that it cannot displace decisions.
const IS_ADVICE: &str = "ALTER TABLE journal ADD COLUMN is_advice INTEGER NOT NULL DEFAULT 0";
/// Journal rows that are kept: of decisions, and of advice.
const DECISIONS_MAX: i64 = 10_000;
const ADVICE_MAX: i64 = 1_000;
/// Rows written between two checks of that limit.
const NOTED_BETWEEN: u64 = 1000;
/// How long another process's lock is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be opened, read or written.
    #[error(
        "the store {path} cannot be used: {why}; check the directory, its rights and the space on the disk"
    )]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// It is not a database.
    #[error(
        "the store {path} is damaged or is not an SQLite file: {why}; move it away and start again, the term then begins anew"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// It belongs to another program, or to a newer version of this one.
    #[error("the store {path} is not one of this program's: {why}; name another file")]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The store's thread has ended.
    #[error("the store is closed: the manager is stopping")]
    Closed,
}

/// A decision as it is stored: by names, since the configuration's order may change between two starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub term: u64,
    pub writer: Option<String>,
    pub sessions_max: Vec<(String, u32)>,
    /// When the last automatic failover was decided, by the system's clock.
    pub failed_over_unix_ms: Option<u64>,
    /// The writer came back without transactions of its own.
    pub is_writer_incomplete: bool,
    /// The nodes whose transactions are numbered as the primary's were before those began anew.
    pub renumbered: Vec<String>,
    /// The servers that have had replication filters, and which.
    pub filtered: Vec<(String, String)>,
}

/// Which of the journal's two limits a row counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// Decisions, and all other events.
    Decisions,
    /// Advice to an operator.
    Advice,
}

/// Called on the store's thread when the write has ended.
type OnWritten = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

pub(crate) enum Work {
    Save(Saved, OnWritten),
    /// Replaces the writer's component. An error is logged.
    Remember(Component),
    /// Replaces what the primary reported last, and when. An error is logged.
    Written(Written, u64),
    /// Replaces the list of changed settings.
    Lend(Vec<Loan>, OnWritten),
    /// Replaces the events that the primary runs, or is to run.
    KeepEvents(Kept, OnWritten),
    Note(JournalRow, Shelf),
    Last(u32, oneshot::Sender<Result<Vec<JournalRow>, StoreError>>),
    /// Writes what was sent before, and closes the file.
    Close,
}

/// The handle of the store. The thread ends, after writing everything, when it is told to or the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Store {
    queue: mpsc::Sender<Work>,
}

impl Store {
    /// Opens or creates the file; returns what was in it.
    pub fn open(path: &Path) -> Result<Opened, StoreError> {
        let mut file = File::open(path)?;
        let saved = file.saved()?;
        let loans = file.loans().map_err(|error| explain(path, &error))?;
        let component = file.component().map_err(|error| explain(path, &error))?;
        let written = file.written().map_err(|error| explain(path, &error))?;
        let events = file.events().map_err(|error| explain(path, &error))?;
        let newest_row_unix_ms = file.newest_row_unix_ms().map_err(|error| explain(path, &error))?;
        let (queue, work) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || keep_running(file, &work))
            .map_err(|error| StoreError::Unusable { path: path.into(), why: error.to_string() })?;
        Ok(Opened {
            store: Store { queue },
            saved,
            loans,
            component,
            written,
            events,
            newest_row_unix_ms,
            thread,
        })
    }

    /// Queues a request; `Err` returns it when the thread is gone.
    pub fn send(&self, work: Work) -> Result<(), Box<Work>> {
        self.queue.send(work).map_err(|mpsc::SendError(work)| Box::new(work))
    }
}

/// An open store, and what was in it.
pub(crate) struct Opened {
    pub store: Store,
    pub saved: Saved,
    pub loans: Vec<Loan>,
    pub component: Option<Component>,
    /// What the primary reported last, and when that was written, in milliseconds since 1970.
    pub written: Option<(Written, u64)>,
    /// The events that the primary runs, or is to run.
    pub events: Option<Kept>,
    /// When the newest journal row was written, in milliseconds since 1970.
    pub newest_row_unix_ms: Option<u64>,
    pub thread: JoinHandle<()>,
}

/// The writer's component as a store has it, also while another process uses the file; `None` where there is none.
#[must_use]
pub fn remembered(path: &Path) -> Option<Component> {
    let view: String =
        beside(path).ok()?.query_row("SELECT view FROM component WHERE id = 1", [], |row| row.get(0)).ok()?;
    serde_json::from_str(&view).ok()
}

/// What a store has against servers of a primary-replica setup, which none of their own reports shows any more.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// The names of those with transactions from before the primary's numbers began anew (RESET MASTER).
    pub renumbered: Vec<String>,
    /// The names of those that had replication filters, which were taken out since, and the filters.
    pub filtered: Vec<(String, String)>,
}

impl Marks {
    /// As a store has them, also while another process uses the file; none where there is no store.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        beside(path).and_then(|file| marks(&file)).unwrap_or_default()
    }
}

/// Opens a store to read it, also while another process uses it.
fn beside(path: &Path) -> rusqlite::Result<Connection> {
    let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    file.busy_timeout(LOCK_WAIT)?;
    Ok(file)
}

/// What is kept as JSON; `what` names it where it cannot be read, which is no reason not to start.
fn understood<T: serde::de::DeserializeOwned>(json: &str, what: &str) -> Option<T> {
    let read = serde_json::from_str(json);
    read.inspect_err(|error| tracing::warn!("what the store has of {what} cannot be read: {error}")).ok()
}

fn marks(connection: &Connection) -> rusqlite::Result<Marks> {
    let mut names = connection.prepare("SELECT node FROM renumbered ORDER BY node")?;
    let renumbered = names.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut names = connection.prepare("SELECT node, filters FROM filtered ORDER BY node")?;
    let filtered = names.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    Ok(Marks { renumbered, filtered })
}

/// Handles requests until it is told to close, or the queue ends. If one of them panics, its answer is missed by a deadline, and the file is
/// opened again for the others. If that fails, the thread ends, and the program with it.
fn keep_running(mut file: File, work: &mpsc::Receiver<Work>) {
    loop {
        let path = file.path.clone();
        if catch_unwind(AssertUnwindSafe(|| file.run(work))).is_ok() {
            return;
        }
        tracing::error!("the store's thread has panicked over a piece of work: the file is opened again");
        file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                tracing::error!("{error}");
                return;
            }
        };
    }
}

struct File {
    path: PathBuf,
    decisions: Connection,
    journal: Connection,
    noted: u64,
}

impl File {
    fn open(path: &Path) -> Result<File, StoreError> {
        private(path)?;
        let decisions = connect(path, "FULL")?;
        let journal = connect(path, "NORMAL")?;
        Ok(File { path: path.into(), decisions, journal, noted: 0 })
    }

    fn saved(&mut self) -> Result<Saved, StoreError> {
        let path = self.path.clone();
        let read = |connection: &Connection| -> rusqlite::Result<Saved> {
            let row = connection
                .query_row("SELECT term, writer FROM decision WHERE id = 1", [], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()?;
            let (term, writer): (u64, Option<String>) = row.unwrap_or_default();
            let mut limits = connection.prepare("SELECT node, sessions_max FROM sessions ORDER BY node")?;
            let sessions_max =
                limits.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
            let failed_over_unix_ms = connection
                .query_row("SELECT at_unix_ms FROM failover WHERE id = 1", [], |row| row.get(0))
                .optional()?;
            let incomplete: Option<String> = connection
                .query_row("SELECT writer FROM incomplete WHERE id = 1", [], |row| row.get(0))
                .optional()?;
            let is_writer_incomplete = incomplete.is_some() && incomplete == writer;
            let Marks { renumbered, filtered } = marks(connection)?;
            Ok(Saved {
                term,
                writer,
                sessions_max,
                failed_over_unix_ms,
                is_writer_incomplete,
                renumbered,
                filtered,
            })
        };
        read(&self.decisions).map_err(|error| explain(&path, &error))
    }

    fn run(mut self, work: &mpsc::Receiver<Work>) {
        while let Ok(first) = work.recv() {
            let waiting: Vec<Work> = std::iter::once(first).chain(work.try_iter()).collect();
            let mut others = Vec::new();
            for work in waiting {
                let (result, told) = match work {
                    Work::Save(saved, told) => (self.save(&saved), told),
                    Work::Lend(loans, told) => (self.lend(&loans), told),
                    Work::KeepEvents(kept, told) => (self.keep_events(&kept), told),
                    other => {
                        others.push(other);
                        continue;
                    }
                };
                told(result.map_err(|error| explain(&self.path, &error)));
            }
            let mut rows = Vec::new();
            let mut closes = false;
            for work in others {
                match work {
                    Work::Note(row, shelf) => rows.push((row, shelf)),
                    Work::Remember(component) => self.remember(&component),
                    Work::Written(written, at_unix_ms) => self.write(&written, at_unix_ms),
                    Work::Last(rows_max, reply) => {
                        self.note(&std::mem::take(&mut rows));
                        let result = self.last(rows_max).map_err(|error| explain(&self.path, &error));
                        // The one who asked may have gone.
                        let _ = reply.send(result);
                    }
                    Work::Close => closes = true,
                    // Done above.
                    Work::Save(..) | Work::Lend(..) | Work::KeepEvents(..) => {}
                }
            }
            self.note(&rows);
            if closes {
                return;
            }
        }
    }

    fn save(&mut self, saved: &Saved) -> rusqlite::Result<()> {
        let change = self.decisions.transaction()?;
        change.execute(
            "INSERT INTO decision (id, term, writer) VALUES (1, ?1, ?2)
             ON CONFLICT (id) DO UPDATE SET term = excluded.term, writer = excluded.writer",
            params![saved.term, saved.writer],
        )?;
        change.execute("DELETE FROM sessions", [])?;
        for (node, limit) in &saved.sessions_max {
            change
                .execute("INSERT INTO sessions (node, sessions_max) VALUES (?1, ?2)", params![node, limit])?;
        }
        if let Some(at) = saved.failed_over_unix_ms {
            change.execute(
                "INSERT INTO failover (id, at_unix_ms) VALUES (1, ?1)
                 ON CONFLICT (id) DO UPDATE SET at_unix_ms = excluded.at_unix_ms",
                [at],
            )?;
        }
        change.execute("DELETE FROM incomplete", [])?;
        if let Some(writer) = saved.writer.as_ref().filter(|_| saved.is_writer_incomplete) {
            change.execute("INSERT INTO incomplete (id, writer) VALUES (1, ?1)", [writer])?;
        }
        change.execute("DELETE FROM renumbered", [])?;
        for node in &saved.renumbered {
            change.execute("INSERT INTO renumbered (node) VALUES (?1)", [node])?;
        }
        change.execute("DELETE FROM filtered", [])?;
        for (node, filters) in &saved.filtered {
            change.execute("INSERT INTO filtered (node, filters) VALUES (?1, ?2)", [node, filters])?;
        }
        change.commit()
    }

    fn newest_row_unix_ms(&self) -> rusqlite::Result<Option<u64>> {
        self.journal.query_row("SELECT MAX(at_unix_ms) FROM journal", [], |row| row.get(0))
    }

    fn loans(&self) -> rusqlite::Result<Vec<Loan>> {
        let mut loans = self
            .decisions
            .prepare("SELECT node, address, gcomm_uuid, option, own, lent FROM loan ORDER BY node, option")?;
        let loan = |row: &rusqlite::Row| {
            Ok(Loan {
                node: row.get(0)?,
                address: row.get(1)?,
                gcomm_uuid: row.get(2)?,
                option: row.get(3)?,
                own: row.get(4)?,
                lent: row.get(5)?,
            })
        };
        loans.query_map([], loan)?.collect()
    }

    fn lend(&mut self, loans: &[Loan]) -> rusqlite::Result<()> {
        let change = self.decisions.transaction()?;
        change.execute("DELETE FROM loan", [])?;
        for loan in loans {
            change.execute(
                "INSERT INTO loan (node, address, gcomm_uuid, option, own, lent) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![loan.node, loan.address, loan.gcomm_uuid, loan.option, loan.own, loan.lent],
            )?;
        }
        change.commit()
    }

    fn component(&self) -> rusqlite::Result<Option<Component>> {
        let view: Option<String> = self
            .decisions
            .query_row("SELECT view FROM component WHERE id = 1", [], |row| row.get(0))
            .optional()?;
        Ok(view.and_then(|view| understood(&view, "the writer's component")))
    }

    /// Not synced: it is written each second. What the system's crash loses of it is older than what the nodes report themselves.
    fn remember(&mut self, component: &Component) {
        let written = serde_json::to_string(component).map_err(|error| error.to_string()).and_then(|view| {
            let statement =
                "INSERT INTO component (id, view) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET view = excluded.view";
            self.journal.execute(statement, [view]).map_err(|error| error.to_string())
        });
        if let Err(error) = written {
            tracing::warn!("the writer's component could not be written: {error}");
        }
    }

    fn written(&self) -> rusqlite::Result<Option<(Written, u64)>> {
        let row: Option<(String, u64)> = self
            .decisions
            .query_row("SELECT report, at_unix_ms FROM written WHERE id = 1", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        Ok(row.and_then(|(report, at_unix_ms)| {
            Some((understood(&report, "the primary's last report")?, at_unix_ms))
        }))
    }

    /// Not synced, as above.
    fn write(&mut self, written: &Written, at_unix_ms: u64) {
        let done = serde_json::to_string(written).map_err(|error| error.to_string()).and_then(|report| {
            let statement = "INSERT INTO written (id, report, at_unix_ms) VALUES (1, ?1, ?2)
                 ON CONFLICT (id) DO UPDATE SET report = excluded.report, at_unix_ms = excluded.at_unix_ms";
            self.journal.execute(statement, params![report, at_unix_ms]).map_err(|error| error.to_string())
        });
        if let Err(error) = done {
            tracing::warn!("the primary's last report could not be written: {error}");
        }
    }

    fn events(&self) -> rusqlite::Result<Option<Kept>> {
        let kept: Option<String> = self
            .decisions
            .query_row("SELECT kept FROM events WHERE id = 1", [], |row| row.get(0))
            .optional()?;
        Ok(kept.and_then(|kept| understood(&kept, "the primary's events")))
    }

    fn keep_events(&mut self, kept: &Kept) -> rusqlite::Result<()> {
        let kept = serde_json::to_string(kept)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let statement = "INSERT INTO events (id, kept) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET kept = excluded.kept";
        self.decisions.execute(statement, [kept]).map(drop)
    }

    /// A journal that cannot be written is no reason to stop: the log has the same sentence.
    fn note(&mut self, rows: &[(JournalRow, Shelf)]) {
        #[cfg(test)]
        assert!(rows.iter().all(|(row, _)| row.text != tests::FAULT), "a fault of the test's");
        if rows.is_empty() {
            return;
        }
        if let Err(error) = self.write_rows(rows) {
            tracing::warn!("the journal could not be written: {error}");
        }
    }

    fn write_rows(&mut self, rows: &[(JournalRow, Shelf)]) -> rusqlite::Result<()> {
        let change = self.journal.transaction()?;
        for (row, shelf) in rows {
            change.execute(
                "INSERT INTO journal (at_unix_ms, level, text, term, is_advice) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![row.at_unix_ms, row.level.word(), row.text, row.term, *shelf == Shelf::Advice],
            )?;
        }
        self.noted += rows.len() as u64;
        if self.noted >= NOTED_BETWEEN {
            self.noted = 0;
            for (is_advice, rows_max) in [(false, DECISIONS_MAX), (true, ADVICE_MAX)] {
                change.execute(
                    "DELETE FROM journal WHERE is_advice = ?1 AND id <=
                     (SELECT id FROM journal WHERE is_advice = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                    params![is_advice, rows_max],
                )?;
            }
        }
        change.commit()
    }

    fn last(&self, rows_max: u32) -> rusqlite::Result<Vec<JournalRow>> {
        let mut select = self
            .journal
            .prepare_cached("SELECT at_unix_ms, level, text, term FROM journal ORDER BY id DESC LIMIT ?1")?;
        let rows = select.query_map([rows_max], |row| {
            let level = match row.get_ref(1)?.as_str()? {
                "info" => Level::Info,
                "warn" => Level::Warn,
                _ => Level::Error,
            };
            Ok(JournalRow { at_unix_ms: row.get(0)?, level, text: row.get(2)?, term: row.get(3)? })
        })?;
        let mut rows: Vec<JournalRow> = rows.collect::<Result<_, _>>()?;
        rows.reverse();
        Ok(rows)
    }
}

/// A new file is readable for this user only, whatever the directory's permissions; SQLite creates its side files alike.
fn private(path: &Path) -> Result<(), StoreError> {
    let made = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    made.map(|_| ()).map_err(|error| StoreError::Unusable { path: path.into(), why: error.to_string() })
}

fn connect(path: &Path, synchronous: &str) -> Result<Connection, StoreError> {
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(LOCK_WAIT)?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        Ok(connection)
    };
    let mut connection = open().map_err(|error| explain(path, &error))?;
    prepare(path, &mut connection)?;
    Ok(connection)
}

/// Creates the tables in a new file; refuses a file that is not ours.
fn prepare(path: &Path, connection: &mut Connection) -> Result<(), StoreError> {
    let number = |connection: &Connection, pragma: &str| -> Result<i64, StoreError> {
        connection.pragma_query_value(None, pragma, |row| row.get(0)).map_err(|error| explain(path, &error))
    };
    let (id, version) = (number(connection, "application_id")?, number(connection, "user_version")?);
    let tables: i64 = connection
        .query_row("SELECT COUNT(*) FROM sqlite_master", [], |row| row.get(0))
        .map_err(|error| explain(path, &error))?;
    let foreign = |why: String| StoreError::Foreign { path: path.into(), why };
    if id != APPLICATION_ID && (id != 0 || tables != 0) {
        return Err(foreign(format!("it holds {tables} tables and indexes of something else")));
    }
    if id == APPLICATION_ID {
        if version != VERSION {
            return Err(foreign(format!("its layout is number {version}, this version knows {VERSION}")));
        }
        return connection
            .execute_batch(TABLES_SINCE)
            .and_then(|()| tell_advice_apart(connection))
            .map_err(|error| explain(path, &error));
    }
    let make = |connection: &mut Connection| -> rusqlite::Result<()> {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let change = connection.transaction()?;
        change.execute_batch(
            "CREATE TABLE decision (id INTEGER PRIMARY KEY CHECK (id = 1), term INTEGER NOT NULL, writer TEXT);
             CREATE TABLE sessions (node TEXT PRIMARY KEY, sessions_max INTEGER NOT NULL);
             CREATE TABLE journal (id INTEGER PRIMARY KEY, at_unix_ms INTEGER NOT NULL, level TEXT NOT NULL,
                                   text TEXT NOT NULL, term INTEGER NOT NULL);",
        )?;
        change.execute_batch(TABLES_SINCE)?;
        change.execute_batch(IS_ADVICE)?;
        change.pragma_update(None, "application_id", APPLICATION_ID)?;
        change.pragma_update(None, "user_version", VERSION)?;
        change.commit()
    };
    make(connection).map_err(|error| explain(path, &error))
}

/// Adds the column to the journal of a file from an older version, which can still write to it.
fn tell_advice_apart(connection: &Connection) -> rusqlite::Result<()> {
    let there = "SELECT COUNT(*) FROM pragma_table_info('journal') WHERE name = 'is_advice'";
    match connection.query_row(there, [], |row| row.get(0))? {
        0 => connection.execute_batch(IS_ADVICE),
        _ => Ok(()),
    }
}

fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let (path, why) = (path.to_path_buf(), error.to_string());
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            StoreError::Damaged { path, why }
        }
        _ => StoreError::Unusable { path, why },
    }
}

pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use topology::galera::Process;

    use super::*;

    /// A row with this text makes the thread panic.
    pub const FAULT: &str = "(a test: panic over this)";

    fn save(store: &Store, work: impl FnOnce(OnWritten) -> Work) -> Result<(), StoreError> {
        let (told, heard) = mpsc::channel();
        let work = work(Box::new(move |result| {
            let _ = told.send(result);
        }));
        assert!(store.send(work).is_ok());
        heard.recv().unwrap()
    }

    #[test]
    fn what_is_saved_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let Opened { store, saved, loans, component, written, events, thread, newest_row_unix_ms } =
            Store::open(&path).unwrap();
        assert_eq!((saved, loans, component, newest_row_unix_ms), (Saved::default(), vec![], None, None));
        assert_eq!((written, events), (None, None));
        let eight = Saved {
            term: 8,
            writer: Some("db2".into()),
            sessions_max: vec![("db1".into(), 0)],
            failed_over_unix_ms: Some(5),
            is_writer_incomplete: true,
            renumbered: vec!["db1".into(), "db3".into()],
            filtered: vec![("db3".into(), "Replicate_Do_DB = shop".into())],
        };
        save(&store, |told| Work::Save(eight.clone(), told)).unwrap();
        let loan = |node: &str| Loan {
            node: node.into(),
            address: "h:1".into(),
            gcomm_uuid: "u".into(),
            option: "evs.suspect_timeout".into(),
            own: "PT5S".into(),
            lent: "PT0.6S PT0.3S".into(),
        };
        save(&store, |told| Work::Lend(vec![loan("db1"), loan("db2")], told)).unwrap();
        save(&store, |told| Work::Lend(vec![loan("db2"), loan("db3")], told)).unwrap();
        let view = |seqno: u64| {
            let member =
                Process { address: "h:1".into(), gcomm_uuid: "u".into(), listed_as: "10.0.0.1:1".into() };
            Component {
                cluster_uuid: "c".into(),
                conf_id: 3,
                seqno,
                size: 2,
                members: vec![member],
                unknown: 1,
                elsewhere: vec!["h:2".into()],
            }
        };
        for seqno in [7, 8] {
            assert!(store.send(Work::Remember(view(seqno))).is_ok());
        }
        let report = |position: &str| Written {
            address: "h:1".into(),
            position: position.into(),
            acknowledged: "0-1-7".into(),
            waited: true,
            timeout_ms: Some(3_600_000),
            inherited: "0-2-5".into(),
        };
        for (position, at_unix_ms) in [("0-1-8", 3), ("0-1-9", 4)] {
            assert!(store.send(Work::Written(report(position), at_unix_ms)).is_ok());
        }
        let kept = |address: &str| Kept { primary: address.into(), is_due: true, ..Kept::default() };
        for address in ["h:1", "h:2"] {
            save(&store, |told| Work::KeepEvents(kept(address), told)).unwrap();
        }
        for text in ["one", "two", "three"] {
            let row = JournalRow { at_unix_ms: 5, level: Level::Warn, text: text.into(), term: 8 };
            assert!(store.send(Work::Note(row, Shelf::Decisions)).is_ok());
        }
        let (reply, rows) = oneshot::channel();
        assert!(store.send(Work::Last(2, reply)).is_ok());
        let rows = rows.blocking_recv().unwrap().unwrap();
        assert_eq!(rows.iter().map(|row| row.text.as_str()).collect::<Vec<_>>(), ["two", "three"]);
        drop(store);
        thread.join().unwrap();
        let opened = Store::open(&path).unwrap();
        assert_eq!((opened.saved, opened.loans), (eight, vec![loan("db2"), loan("db3")]));
        assert_eq!((opened.newest_row_unix_ms, opened.component), (Some(5), Some(view(8))));
        assert_eq!(opened.written, Some((report("0-1-9"), 4)));
        assert_eq!(opened.events, Some(kept("h:2")));
    }

    #[test]
    fn a_component_of_an_older_version_is_read() {
        let older =
            r#"{"cluster_uuid":"c","conf_id":3,"seqno":7,"members":[{"address":"h:1","gcomm_uuid":"u"}]}"#;
        let member = Process { address: "h:1".into(), gcomm_uuid: "u".into(), ..Process::default() };
        let component = Component {
            cluster_uuid: "c".into(),
            conf_id: 3,
            seqno: 7,
            members: vec![member],
            ..Component::default()
        };
        assert_eq!(serde_json::from_str::<Component>(older).unwrap(), component);
    }

    #[test]
    fn a_file_of_an_older_version_is_completed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        drop(Store::open(&path).unwrap());
        let older = "DROP TABLE loan; DROP TABLE failover; DROP TABLE renumbered; DROP TABLE filtered; DROP TABLE component; DROP TABLE written; DROP TABLE events; ALTER TABLE journal DROP COLUMN is_advice;
            INSERT INTO journal (at_unix_ms, level, text, term) VALUES (5, 'info', 'of before', 1)";
        Connection::open(&path).unwrap().execute_batch(older).unwrap();
        let Opened { store, loans, .. } = Store::open(&path).unwrap();
        assert_eq!(loans, vec![]);
        note(&store, Shelf::Advice, 1);
        assert_eq!(texts(&store), ["of before", "row 0"]);
    }

    fn note(store: &Store, shelf: Shelf, rows: u64) {
        for number in 0..rows {
            let row =
                JournalRow { at_unix_ms: 5, level: Level::Error, text: format!("row {number}"), term: 8 };
            assert!(store.send(Work::Note(row, shelf)).is_ok());
        }
    }

    fn texts(store: &Store) -> Vec<String> {
        let (reply, rows) = oneshot::channel();
        assert!(store.send(Work::Last(u32::MAX, reply)).is_ok());
        rows.blocking_recv().unwrap().unwrap().into_iter().map(|row| row.text).collect()
    }

    #[test]
    fn no_flood_of_advice_takes_the_place_of_a_decision() {
        let dir = tempfile::tempdir().unwrap();
        let Opened { store, .. } = Store::open(&dir.path().join("state.db")).unwrap();
        let decision =
            JournalRow { at_unix_ms: 1, level: Level::Warn, text: "db2 writes, term 8".into(), term: 8 };
        assert!(store.send(Work::Note(decision.clone(), Shelf::Decisions)).is_ok());
        note(&store, Shelf::Advice, 12_000);
        let kept = texts(&store);
        assert_eq!(kept[0], decision.text);
        let bound = usize::try_from(ADVICE_MAX).unwrap() + usize::try_from(NOTED_BETWEEN).unwrap();
        assert!((1000..=bound + 1).contains(&kept.len()), "{} rows", kept.len());
        assert_eq!(kept.last().unwrap(), "row 11999");
    }

    #[test]
    fn a_panic_costs_one_piece_of_work() {
        let dir = tempfile::tempdir().unwrap();
        let Opened { store, thread, .. } = Store::open(&dir.path().join("state.db")).unwrap();
        let row = JournalRow { at_unix_ms: 5, level: Level::Warn, text: FAULT.into(), term: 8 };
        assert!(store.send(Work::Note(row, Shelf::Decisions)).is_ok());
        let nine = Saved { term: 9, writer: Some("db1".into()), ..Saved::default() };
        // It may have been taken up together with the row, and be lost with it.
        let _ = store.send(Work::Save(nine.clone(), Box::new(|_| ())));
        save(&store, |told| Work::Save(nine, told)).unwrap();
        assert!(!thread.is_finished());
        drop(store);
        thread.join().unwrap();
    }

    #[test]
    fn a_file_that_is_not_ours_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other.db");
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE customers (id INTEGER)").unwrap();
        drop(other);
        assert!(matches!(Store::open(&path).map(|_| ()), Err(StoreError::Foreign { .. })));

        let path = dir.path().join("noise.db");
        std::fs::write(
            &path,
            "this is no database at all, but it is long enough to look like one. ".repeat(20),
        )
        .unwrap();
        assert!(matches!(Store::open(&path).map(|_| ()), Err(StoreError::Damaged { .. })));

        let path = dir.path().join("no/such/directory.db");
        assert!(matches!(Store::open(&path).map(|_| ()), Err(StoreError::Unusable { .. })));
    }
}
