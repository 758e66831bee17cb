//! What kind a statement is: its first word decides, and a few behind it.

use super::Statement;
use super::insert_id::InsertId;
use super::lexer::Token;
use super::look::Look;
use super::pins::Pins;
use super::recalls::Recalls;
use super::word::{Upper, is};

/// The kinds that matter for holding, retrying and moving a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Surely changes nothing: may be sent again.
    Read,
    /// Everything else, and whatever is not understood.
    Write,
    /// Starts a transaction.
    Begin,
    /// Commits the transaction; COMMIT AND CHAIN too.
    Commit,
    /// Rolls the transaction back; AND CHAIN too. ROLLBACK TO SAVEPOINT is [`StatementKind::Savepoint`].
    Rollback,
    /// Changes nothing but this session. (`SET autocommit=1` commits as well: see [`Statement::may_commit`].)
    SessionOnly,
    /// SAVEPOINT, RELEASE SAVEPOINT, ROLLBACK TO SAVEPOINT.
    Savepoint,
    /// KILL.
    Kill {
        /// KILL QUERY: the connection lives on.
        query_only: bool,
        /// The connection's number, when it is written as a plain number (`KILL QUERY ID n` and `KILL USER` name none).
        id: Option<u64>,
    },
}

/// First words of statements that are one statement each, whatever they do. Those that are not here may begin a block of code.
#[rustfmt::skip]
const RUNS_ONCE: &[&[u8]] = &[
    b"CACHE", b"CHANGE", b"CHECK", b"GRANT", b"IMPORT", b"INSTALL", b"OPTIMIZE", b"PURGE",
    b"REPAIR", b"RESET", b"RESIGNAL", b"REVOKE", b"SHUTDOWN", b"SIGNAL", b"STOP", b"TRUNCATE", b"UNINSTALL",
];

impl<'a> Look<'a> {
    /// The statement that begins with `first`, to its end.
    pub(super) fn statement(&mut self, first: Token<'a>) -> Statement {
        let word = match first {
            Token::Word(word) => word,
            Token::Punct(b'(') => return self.read_in_parentheses(),
            _ => return self.anything(),
        };
        let upper = Upper::of(word);
        match upper.as_bytes() {
            b"SELECT" => self.select(),
            b"DO" => self.may_release_locks(),
            b"VALUES" | b"TABLE" => self.read(),
            b"WITH" => self.with(),
            b"DESC" | b"DESCRIBE" | b"EXPLAIN" => self.explain(),
            b"SHOW" => self.show(),
            b"HELP" => self.read(),
            b"CHECKSUM" => self.read(),
            b"INSERT" | b"REPLACE" => Statement { renews: Recalls::WARNINGS, ..self.numbering(false) },
            b"UPDATE" => {
                let insert_id = InsertId::Reported { runs_argument: false };
                Statement { insert_id, renews: Recalls::WARNINGS, ..self.write(false) }
            }
            b"DELETE" => Statement { renews: Recalls::WARNINGS, ..self.write(false) },
            b"LOAD" | b"CALL" | b"EXECUTE" | b"GET" => self.may_set_variables(upper.as_bytes()),
            b"SET" => self.set(),
            b"USE" => self.session_only(),
            b"PREPARE" => {
                self.pin(Pins::TEXT_PREPARE);
                self.session_only()
            }
            b"DEALLOCATE" => self.session_only(),
            b"BEGIN" => self.begin_transaction(),
            b"START" => self.start(),
            b"COMMIT" => self.commit(),
            b"ROLLBACK" => self.rollback(),
            b"SAVEPOINT" => self.plain(StatementKind::Savepoint, false),
            b"RELEASE" => match is(self.next(), "SAVEPOINT") {
                true => self.plain(StatementKind::Savepoint, false),
                false => self.anything(),
            },
            b"KILL" => self.kill(),
            b"CREATE" => self.create(),
            b"ALTER" => self.alter(),
            b"RENAME" => {
                self.touches_engines |= !is(self.next(), "USER");
                self.write(true)
            }
            b"ANALYZE" => self.analyze(),
            b"DROP" => self.drop(),
            b"LOCK" => {
                let what = self.locked();
                self.pin(what);
                self.write(true)
            }
            b"UNLOCK" => {
                let what = self.locked();
                self.unpin(what);
                self.write(true)
            }
            b"FLUSH" => self.flush(),
            b"BACKUP" => self.backup(),
            b"HANDLER" => self.handler(),
            b"XA" => self.xa(),
            word if RUNS_ONCE.contains(&word) => self.write(true),
            _ => self.anything(),
        }
    }

    /// Not understood: perhaps a block of code.
    fn anything(&mut self) -> Statement {
        self.rest();
        self.touches_engines = true;
        Statement::several()
    }

    pub(super) fn plain(&mut self, kind: StatementKind, may_commit: bool) -> Statement {
        self.rest();
        Statement { may_commit, ..Statement::plain(kind) }
    }

    pub(super) fn write(&mut self, may_commit: bool) -> Statement {
        self.plain(StatementKind::Write, may_commit)
    }

    fn select(&mut self) -> Statement {
        let found = self.may_release_locks();
        let warnings = if self.has_from { Recalls::WARNINGS } else { Recalls::NONE };
        Statement { renews: Recalls::FOUND_ROWS.union(warnings), ..found }
    }

    /// What changes the session only, unless it calls something.
    pub(super) fn session_only(&mut self) -> Statement {
        self.rest();
        Statement::plain(if self.is_harmful || self.waits {
            StatementKind::Write
        } else {
            StatementKind::SessionOnly
        })
    }

    /// A read, unless something in it is harmful. Stored functions cannot commit.
    fn read(&mut self) -> Statement {
        self.rest();
        let kind = if self.is_harmful || self.waits { StatementKind::Write } else { StatementKind::Read };
        let calls_stored = self.calls_stored;
        Statement { leaves_no_trace: !self.is_harmful, calls_stored, ..Statement::plain(kind) }
    }

    /// A read that may be nothing but the release of all locks by name.
    fn may_release_locks(&mut self) -> Statement {
        let found = self.read();
        if self.releases_all_locks {
            self.unpin(Pins::GET_LOCK);
        }
        found
    }

    /// WITH ... SELECT, or WITH ... UPDATE and the like, which are not told apart.
    fn with(&mut self) -> Statement {
        let found = self.read();
        let insert_id = if found.kind == StatementKind::Read { InsertId::Kept } else { InsertId::Unknown };
        Statement { insert_id, ..found }
    }

    /// What may give its rows numbers, and tell the first.
    pub(super) fn numbering(&mut self, may_commit: bool) -> Statement {
        Statement { insert_id: InsertId::ReportedOrGiven { runs_argument: false }, ..self.write(may_commit) }
    }

    /// `(SELECT ...) UNION ...`: what stands in the innermost of the opening parentheses decides.
    fn read_in_parentheses(&mut self) -> Statement {
        let mut first = self.next();
        while first == Some(Token::Punct(b'(')) {
            first = self.next();
        }
        if ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|word| is(first, word)) {
            self.read()
        } else {
            self.write(true)
        }
    }

    /// EXPLAIN ANALYZE runs what it explains.
    fn explain(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if is(Some(token), "ANALYZE") {
                self.is_harmful = true;
            }
        }
        self.read()
    }

    fn show(&mut self) -> Statement {
        let what = self.next();
        if ["WARNINGS", "ERRORS", "COUNT"].iter().any(|word| is(what, word)) {
            self.recalls(Recalls::WARNINGS);
        } else if is(what, "PROFILE") || is(what, "PROFILES") {
            self.recalls(Recalls::PROFILE);
        }
        self.read()
    }

    /// LOAD DATA (..., @x), CALL p(@x), EXECUTE s USING @x, GET DIAGNOSTICS @x = ...: each may give @x a value.
    fn may_set_variables(&mut self, verb: &[u8]) -> Statement {
        let is_immediate = verb == b"EXECUTE" && {
            let first = self.next();
            is(first, "IMMEDIATE")
        };
        while let Some(token) = self.next() {
            match token {
                Token::UserVariable => self.pin(Pins::USER_VARIABLE),
                Token::Text([_, text @ .., _]) if is_immediate => self.look_into(text),
                _ => {}
            }
        }
        match verb {
            b"CALL" => Statement::several(),
            b"EXECUTE" => {
                self.touches_engines = true;
                Statement::several()
            }
            // Galera may commit a large file in pieces (wsrep_load_data_splitting), of which the last may fail.
            b"LOAD" => {
                let pieces = Statement { runs_several: true, ..Statement::write(true) };
                Statement { insert_id: InsertId::Unknown, renews: Recalls::WARNINGS, ..pieces }
            }
            // GET DIAGNOSTICS, of the statement before
            _ => {
                self.recalls(Recalls::WARNINGS.union(Recalls::ROW_COUNT));
                Statement::write(false)
            }
        }
    }

    /// The text of an EXECUTE IMMEDIATE: what it ties and asks for. (A doubled quote in it ends a string and begins another.)
    fn look_into(&mut self, text: &[u8]) {
        let inner = Statement::of(text);
        self.pin(inner.pins);
        self.recalls(inner.recalled);
        self.touches_engines |= inner.touches_engines;
        self.asks_connection_id |= inner.asks_connection_id;
    }

    /// BEGIN [WORK]; MariaDB's BEGIN NOT ATOMIC begins a block of code.
    fn begin_transaction(&mut self) -> Statement {
        match self.next() {
            None => Statement { may_commit: true, ..Statement::plain(StatementKind::Begin) },
            word if is(word, "WORK") => self.plain(StatementKind::Begin, true),
            _ => self.anything(),
        }
    }

    /// START TRANSACTION; START REPLICA and the like are writes.
    fn start(&mut self) -> Statement {
        let kind = if is(self.next(), "TRANSACTION") { StatementKind::Begin } else { StatementKind::Write };
        self.plain(kind, true)
    }

    /// ROLLBACK [WORK] [TO [SAVEPOINT] x] [AND ...]
    fn rollback(&mut self) -> Statement {
        let mut next = self.next();
        if is(next, "WORK") {
            next = self.next();
        }
        let kind = if is(next, "TO") { StatementKind::Savepoint } else { StatementKind::Rollback };
        Statement { chains: next.is_some(), ..self.plain(kind, false) }
    }

    /// COMMIT [WORK] [AND ...]
    fn commit(&mut self) -> Statement {
        let mut next = self.next();
        if is(next, "WORK") {
            next = self.next();
        }
        Statement { chains: next.is_some(), ..self.plain(StatementKind::Commit, true) }
    }

    /// FLUSH TABLES ... WITH READ LOCK, FLUSH TABLES ... FOR EXPORT. Behind FLUSH STATUS the server does not know any more what code in the session has
    /// made.
    fn flush(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if is(Some(token), "LOCK") || is(Some(token), "EXPORT") {
                self.pin(Pins::LOCK_TABLES);
            }
            if is(Some(token), "STATUS") {
                self.pin(Pins::UNNAMED);
            }
        }
        Statement::write(true)
    }

    /// LOCK TABLES, LOCK INSTANCE FOR BACKUP: what it locks; likewise UNLOCK.
    fn locked(&mut self) -> Pins {
        if is(self.next(), "INSTANCE") { Pins::BACKUP_LOCK } else { Pins::LOCK_TABLES }
    }

    /// BACKUP LOCK t, BACKUP UNLOCK, BACKUP STAGE x
    fn backup(&mut self) -> Statement {
        let what = self.next();
        if is(what, "UNLOCK") {
            self.unpin(Pins::BACKUP_LOCK);
        } else if !is(what, "STAGE") {
            self.pin(Pins::BACKUP_LOCK);
        } else if is(self.next(), "END") {
            self.unpin(Pins::BACKUP_STAGE);
        } else {
            self.pin(Pins::BACKUP_STAGE);
        }
        self.write(true)
    }

    /// HANDLER t OPEN. Closing one does not unpin: others may be open.
    fn handler(&mut self) -> Statement {
        while let Some(token) = self.next() {
            if is(Some(token), "OPEN") {
                self.pin(Pins::HANDLER);
            }
        }
        Statement::write(false)
    }

    fn xa(&mut self) -> Statement {
        let what = self.next();
        if is(what, "COMMIT") || is(what, "ROLLBACK") {
            self.unpin(Pins::XA);
        } else if !is(what, "RECOVER") {
            self.pin(Pins::XA);
        }
        self.write(true)
    }
}
