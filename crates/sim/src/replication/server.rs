//! The servers of the model: their data, their sources, and their status reports; and how transactions get from one to the others.
//!
//! MariaDB's behaviour is described in `docs/lab-replication.md`: a primary that crashes may come back without its last transactions; the
//! first START SLAVE after a start deletes what was received and not applied, and so does CHANGE MASTER. MySQL's differences are from its
//! manual: each server has its own numbers, a source sends whatever the replica lacks, and no START deletes anything.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use protocol::gtid::mysql::Uuid;
use protocol::gtid::{Family, History, Position};
use topology::flavor::Dialect;
use topology::heartbeat::Stall;
use topology::replication::{Channel, ReplicationStatus, SemiSync};

/// One transaction: the server that wrote it first, its number in the domain, and its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub server: u32,
    pub number: u64,
    pub uid: u64,
    pub at: Duration,
}

/// A replica that reads late does so for this many steps.
const LATE_STEPS: usize = 15;

/// What a server has of the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Has {
    /// SLAVESIDE_DISABLED.
    #[default]
    Elsewhere,
    Enabled,
    /// DISABLED, or dropped.
    Nothing,
}

/// What a replica knows about its connection to its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetching {
    /// The thread is stopped.
    #[default]
    No,
    Connecting,
    Yes,
}

#[derive(Clone, Debug, Default)]
pub struct Server {
    pub id: u32,
    pub is_mysql: bool,
    pub up: bool,
    pub frozen: bool,
    /// Grows with each start: links belong to one process.
    pub life: u64,
    /// When its process started.
    pub began_at: Duration,
    pub read_only: bool,
    pub source: Option<usize>,
    /// It follows a server outside of the cluster, which writes nothing.
    pub follows_outside: bool,
    pub fetching: Fetching,
    pub applies: bool,
    /// A thread was started since the server started; before that, it would delete what it received.
    pub began: bool,
    pub lags: bool,
    pub delay_s: u64,
    /// What its source wrote and it leaves out, as its channel shows that.
    pub filters: Vec<String>,
    pub refuses: bool,
    /// What it has of the event of the event scheduler, and whether it refuses to enable it.
    pub event: Has,
    pub refuses_events: bool,
    /// A failover's time does not suffice to stop its events.
    pub has_slow_events: bool,
    /// The answer to its next order takes its time.
    pub answers_late: bool,
    /// The servers whose new connections it refuses.
    pub shuts_out: Vec<usize>,
    /// Its source has refused its last connection.
    pub is_shut_out: bool,
    /// It answers and does not commit, for this reason, and cannot be made read only meanwhile.
    pub stuck: Option<Stall>,
    /// Its last transaction is counted, and written in part only: no replica gets it.
    pub is_half_written: bool,
    /// Of its SQL thread.
    pub error: String,
    /// Of its I/O thread, also one that is left over.
    pub fetch_error: String,
    /// It tells a source that does not answer that it stops, and carries out nothing else meanwhile.
    pub goodbye_until: Duration,
    /// It waits for a replica at each commit.
    pub waits: bool,
    /// The commit of a statement about accounts: until a replica has acknowledged it, nobody can log in.
    pub of_accounts: Option<u64>,
    /// Its commits that no replica has acknowledged yet, by identity, the oldest first; and how many were acknowledged.
    pub unacknowledged: VecDeque<u64>,
    pub acknowledged_count: u64,
    /// Those whose sessions were killed while they waited for that.
    pub killed: HashSet<u64>,
    pub applied: Vec<Transaction>,
    /// So many of those were there when it started: they are on its disk.
    pub on_disk: usize,
    /// Its binlog begins with this one: RESET MASTER.
    pub logged_from: usize,
    /// It was made from a copy of another (mariadb-backup) that stood here: its own binlog begins after this one.
    pub copied_at: Option<Transaction>,
    /// gtid_slave_pos.
    pub slave_pos: Option<Transaction>,
    pub received: VecDeque<Transaction>,
    /// What its source has sent and it has not read yet.
    pub on_the_way: VecDeque<Transaction>,
    /// It gets no processor time for this many steps.
    pub reads_late: usize,
    /// log_slave_updates is off: its binlog names no other server.
    pub logs_only_its_own: bool,
    /// It syncs each commit.
    pub is_durable: bool,
    /// Clients have written there.
    pub has_written: bool,
    pub newest: BTreeMap<u32, u64>,
}

impl Server {
    /// Both threads run.
    pub fn follow(&mut self, source: usize) {
        self.slave_pos = self.stands_at();
        self.source = Some(source);
        self.received.clear();
        self.on_the_way.clear();
        self.start_threads();
    }

    pub fn start_threads(&mut self) {
        if !self.is_mysql && !self.began && self.fetching == Fetching::No && !self.applies {
            self.received.clear();
        }
        self.began = true;
        self.on_the_way.clear();
        self.fetching = Fetching::Connecting;
        self.applies = true;
        self.error.clear();
        self.fetch_error.clear();
    }

    pub fn stop_threads(&mut self) {
        self.on_the_way.clear();
        self.fetching = Fetching::No;
        self.applies = false;
    }

    pub fn add(&mut self, transaction: Transaction) {
        let newest = self.newest.entry(transaction.server).or_default();
        *newest = transaction.number.max(*newest);
        self.applied.push(transaction);
    }

    /// A client commits.
    pub fn write(&mut self, uid: u64, at: Duration) {
        let own = || self.newest.get(&self.id).copied().unwrap_or(0);
        let number = if self.is_mysql { own() } else { self.stands_at().map_or(0, |last| last.number) } + 1;
        self.has_written = true;
        if self.waits {
            self.unacknowledged.push_back(uid);
        }
        self.add(Transaction { server: self.id, number, uid, at });
    }

    /// It comes back after a crash, read only, its threads stopped; without what it wrote from `lost_from` on.
    pub fn start(&mut self, lost_from: Option<Duration>) {
        if let Some(from) = lost_from {
            let is_lost = |last: &Transaction| last.server == self.id && last.at >= from;
            while self.applied.len() > self.on_disk && self.applied.last().is_some_and(is_lost) {
                self.applied.pop();
            }
            self.newest.clear();
            for transaction in &self.applied[self.logged_from.min(self.applied.len())..] {
                let newest = self.newest.entry(transaction.server).or_default();
                *newest = transaction.number.max(*newest);
            }
            // It is a table, which is lost with the rows.
            let stands_at = self.stands_at();
            let is_behind = |it: &Transaction| stands_at.is_none_or(|now| now.number < it.number);
            if self.slave_pos.as_ref().is_some_and(is_behind) {
                self.slave_pos = stands_at;
            }
        }
        self.on_disk = self.applied.len();
        self.stop_threads();
        self.error.clear();
        self.fetch_error.clear();
        self.began = false;
        self.goodbye_until = Duration::ZERO;
        self.read_only = true;
        self.waits = false;
        self.unacknowledged.clear();
        self.killed.clear();
        self.acknowledged_count = 0;
        self.up = true;
        self.frozen = false;
        self.life += 1;
    }

    /// Whether somebody new can log in.
    pub fn lets_in(&self) -> bool {
        self.of_accounts.is_none_or(|uid| !self.unacknowledged.contains(&uid))
    }

    /// RESET MASTER while it runs: the rows stay, and the numbers begin anew.
    pub fn number_anew(&mut self) {
        self.logged_from = self.applied.len();
        self.copied_at = None;
        self.newest.clear();
    }

    /// Its data is a copy of another's, without the binlogs of that; MySQL keeps all GTIDs with the data. It does not run.
    pub fn become_copy_of(&mut self, source: &Self) {
        self.applied.clone_from(&source.applied);
        self.on_disk = self.applied.len();
        self.event = source.event;
        self.received.clear();
        self.on_the_way.clear();
        self.source = None;
        if self.is_mysql {
            self.logged_from = source.logged_from;
            self.newest.clone_from(&source.newest);
        } else {
            self.logged_from = self.applied.len();
            self.newest.clear();
            self.copied_at = source.stands_at();
            self.slave_pos = self.copied_at;
        }
    }

    /// What its binlog shows.
    fn logged(&self) -> &[Transaction] {
        &self.applied[self.logged_from.min(self.applied.len())..]
    }

    /// gtid_executed: MySQL counts a commit when a replica has acknowledged it, and sends it before.
    fn executed(&self) -> impl Iterator<Item = &Transaction> {
        self.logged().iter().filter(|it| !self.unacknowledged.contains(&it.uid))
    }

    /// gtid_owned.
    fn underway(&self) -> Option<Position> {
        let underway = self.logged().iter().filter(|it| self.unacknowledged.contains(&it.uid));
        Position::parse(Family::MySql, &set(underway)).ok().filter(|_| self.is_mysql)
    }

    /// The last transaction that it has applied.
    fn stands_at(&self) -> Option<Transaction> {
        self.logged().last().copied().or(self.copied_at)
    }

    /// Its position.
    fn last(&self) -> Option<Transaction> {
        self.received.back().copied().or_else(|| self.stands_at())
    }

    /// Its source sends at most `count` transactions. `Err`: replication stops for good.
    fn fetch(&mut self, source: &Self, count: usize) -> Result<(), String> {
        if self.is_mysql {
            return self.fetch_what_lacks(source, count);
        }
        let after = match self.on_the_way.back().copied().or_else(|| self.last()) {
            None => 0,
            Some(last) => {
                let same = |it: &Transaction| (it.server, it.number) == (last.server, last.number);
                match source.logged().iter().rposition(same) {
                    Some(place) => place + 1,
                    None if source.copied_at.as_ref().is_some_and(same) => 0,
                    // It is connected, and gets nothing until the source's numbers have reached its own.
                    None if source.logged_from > 0
                        && source.copied_at.is_none()
                        && source.logged().last().is_none_or(|theirs| theirs.number < last.number) =>
                    {
                        return Ok(());
                    }
                    None => {
                        return Err(format!(
                            "1236: the source has not {}-{}-{}",
                            0, last.server, last.number
                        ));
                    }
                }
            }
        };
        let whole = source.logged().len() - usize::from(source.is_half_written);
        self.on_the_way.extend(source.logged()[..whole].iter().skip(after).take(count));
        Ok(())
    }

    /// By auto position: all that it lacks, unless it has transactions of the source that the source has not.
    fn fetch_what_lacks(&mut self, source: &Self, count: usize) -> Result<(), String> {
        let name = |it: &Transaction| (it.server, it.number);
        // Mostly the two have the same, in the same order, up to the source's newest.
        let same =
            self.logged().iter().zip(source.logged()).take_while(|(mine, theirs)| name(mine) == name(theirs));
        let same = same.count();
        let mine = self.logged()[same..].iter().chain(&self.received).chain(&self.on_the_way);
        let has: HashSet<_> = mine.map(name).collect();
        let theirs: HashSet<_> = source.logged()[same..].iter().map(name).collect();
        if has.iter().any(|it| it.0 == source.id && !theirs.contains(it)) {
            return Err(
                "1236: the replica has more GTIDs than the source has, using the source's SERVER_UUID".into(),
            );
        }
        self.on_the_way
            .extend(source.logged()[same..].iter().filter(|it| !has.contains(&name(it))).take(count));
        Ok(())
    }

    /// Reads what was sent, some of it, or nothing for a while.
    fn read(&mut self, most: usize) {
        match (self.reads_late.checked_sub(1), most) {
            (Some(steps), _) => self.reads_late = steps,
            (None, 0) => self.reads_late = LATE_STEPS,
            (None, most) => {
                let most = most.min(self.on_the_way.len());
                self.received.extend(self.on_the_way.drain(..most));
            }
        }
    }

    pub fn apply(&mut self, count: usize) {
        if self.applies && !self.lags && self.delay_s == 0 {
            for _ in 0..count {
                let Some(next) = self.received.pop_front() else { return };
                self.slave_pos = Some(next);
                self.add(next);
            }
        }
    }

    pub fn position(&self) -> Position {
        if self.is_mysql {
            return Position::parse(Family::MySql, &set(self.executed())).expect("a set");
        }
        let text = self.stands_at().as_ref().map_or(String::new(), gtid);
        Position::parse(Family::MariaDb, &text).expect("a position")
    }

    pub fn status(&self, names: &[String], with_waits: bool) -> ReplicationStatus {
        let is_logged = |server: &u32| !self.logs_only_its_own || *server == self.id;
        let logged = self.newest.iter().filter(|(server, _)| is_logged(server));
        let history: Vec<String> = logged.map(|(server, number)| format!("0-{server}-{number}")).collect();
        let source = self.source.map(|source| format!("{}:3306", names[source]));
        let outside = self.follows_outside.then(|| Channel {
            source: "outside:3306".into(),
            io_running: true,
            sql_running: true,
            by_gtid: true,
            family: if self.is_mysql { Family::MySql } else { Family::MariaDb },
            received: self.last().filter(|_| !self.is_mysql).as_ref().map_or(String::new(), gtid),
            lag_s: Some(0),
            ..Channel::default()
        });
        let channel = source.map(|source| Channel {
            source,
            io_running: self.fetching == Fetching::Yes,
            io_stopped: self.fetching == Fetching::No,
            sql_running: self.applies,
            by_gtid: true,
            family: if self.is_mysql { Family::MySql } else { Family::MariaDb },
            received: if self.is_mysql {
                set(&self.received)
            } else {
                self.last().as_ref().map_or(String::new(), gtid)
            },
            delay_s: self.delay_s,
            filters: self.filters.clone(),
            error: if self.applies && !self.fetch_error.is_empty() {
                self.fetch_error.clone()
            } else {
                self.error.clone()
            },
            lag_s: self.applies.then_some(0),
            ..Channel::default()
        });
        let (dialect, server_uuid, history) = if self.is_mysql {
            let history = History::parse(Family::MySql, &set(self.executed()));
            (Dialect::MySql, Some(uuid(self.id)), history)
        } else {
            (Dialect::MariaDb, None, History::parse(Family::MariaDb, &history.join(",")))
        };
        ReplicationStatus {
            dialect,
            server_uuid,
            server_id: self.id,
            read_only: self.read_only,
            log_bin: true,
            log_replica_updates: !self.logs_only_its_own,
            gtid_strict_mode: true,
            position: Some(self.position()),
            underway: self.underway(),
            applied_as_replica: self
                .slave_pos
                .as_ref()
                .filter(|_| !self.is_mysql)
                .and_then(|at| Position::parse(Family::MariaDb, &gtid(at)).ok()),
            history: history.ok(),
            channels: channel.into_iter().chain(outside).collect(),
            is_durable: self.is_durable,
            semi_sync: SemiSync {
                primary_enabled: self.waits,
                primary_active: self.waits,
                replica_enabled: with_waits,
                replica_active: with_waits && self.fetching == Fetching::Yes,
                replicas: 0,
                replicas_needed: 1,
                timeout_ms: Some(3_600_000),
                waiting: self.unacknowledged.len() as u32,
                acknowledged_count: self.acknowledged_count,
            },
            ..ReplicationStatus::default()
        }
    }
}

fn uuid(server: u32) -> Uuid {
    let mut uuid = [0; 16];
    uuid[12..].copy_from_slice(&server.to_be_bytes());
    Uuid(uuid)
}

/// A set of MySQL's: of each server its numbers, those beside one another as an interval.
fn set<'a>(transactions: impl IntoIterator<Item = &'a Transaction>) -> String {
    let mut all: Vec<(u32, u64)> = transactions.into_iter().map(|it| (it.server, it.number)).collect();
    all.sort_unstable();
    let intervals = all.chunk_by(|one, next| one.0 == next.0 && next.1 - one.1 <= 1);
    let mut text = String::new();
    for interval in intervals {
        let ((server, first), (_, last)) = (interval[0], interval[interval.len() - 1]);
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{}:{first}-{last}", uuid(server));
    }
    text
}

fn gtid(transaction: &Transaction) -> String {
    format!("0-{}-{}", transaction.server, transaction.number)
}

/// One moment of replication: `reaches(a, b)` says whether a packet gets there, `most` how many transactions go at once.
pub fn replicate(
    servers: &mut [Server],
    reaches: impl Fn(usize, usize) -> bool,
    mut most: impl FnMut() -> usize,
) {
    for number in 0..servers.len() {
        let mut server = std::mem::take(&mut servers[number]);
        if server.up && !server.frozen {
            if let Some(source) = server.source.filter(|_| server.fetching != Fetching::No) {
                fetch((number, &mut server), &servers[source], reaches(number, source), &mut most);
            }
            server.apply(most());
        }
        servers[number] = server;
    }
}

fn fetch(
    (number, server): (usize, &mut Server),
    source: &Server,
    reaches: bool,
    most: &mut impl FnMut() -> usize,
) {
    let is_new = server.fetching == Fetching::Connecting;
    server.is_shut_out = is_new && reaches && source.up && source.shuts_out.contains(&number);
    if server.is_shut_out {
        return;
    }
    if is_new && !source.lets_in() {
        return;
    }
    if reaches && source.up && !source.frozen {
        if server.fetching == Fetching::Connecting {
            server.on_the_way.clear();
        }
        server.fetching = Fetching::Yes;
        if let Err(error) = server.fetch(source, most()) {
            server.fetching = Fetching::No;
            server.fetch_error = error;
        }
    }
    server.read(most());
    // That a process has ended is seen behind all that it had sent; a host that is silent is not noticed.
    if reaches && !source.up && server.on_the_way.is_empty() && server.reads_late == 0 {
        server.fetching = Fetching::Connecting;
    }
}
