//! Queries each node directly, not through a proxy, for its state: the coloured bands of the timeline.
//!
//! One task and one connection for each node, a query every 100 ms, half a second for its result. Only changes are recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::load::session::Target;
use crate::stage::ClusterKind;

const PACE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(500);

/// The state that a node reports, or that it did not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// Synced, in the primary component.
    Synced,
    /// Donor or desynced.
    Donor,
    /// Joining or joined.
    Joining,
    /// Responds, but has lost the primary component.
    NonPrimary,
    /// Writable, and not a replica.
    Primary,
    /// Read only, and replicates from another server.
    Replica,
    /// Read only, and not a replica.
    ReadOnly,
    /// Writable although it replicates from another server.
    Writable,
    /// Refuses or resets connections; also any other error of a query.
    Down,
    /// Does not respond.
    Silent,
}

impl Word {
    /// In the order of legends.
    pub const ALL: [Self; 10] = [
        Self::Synced,
        Self::Donor,
        Self::Joining,
        Self::NonPrimary,
        Self::Primary,
        Self::Replica,
        Self::ReadOnly,
        Self::Writable,
        Self::Down,
        Self::Silent,
    ];

    /// Name for legends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Donor => "donor",
            Self::Joining => "joining",
            Self::NonPrimary => "non-primary",
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::ReadOnly => "read-only",
            Self::Writable => "writable",
            Self::Down => "down",
            Self::Silent => "silent",
        }
    }
}

/// The changes of a node's state; times since the start of the load.
pub type Words = Vec<(Duration, Word)>;

/// Polls the nodes until it is stopped or dropped.
pub struct NodeWatch {
    tasks: JoinSet<()>,
    words: Arc<Mutex<BTreeMap<String, Words>>>,
}

impl NodeWatch {
    /// `nodes` of a cluster of this kind: name and address. `shows_source`: the statement by which one says whom it replicates from.
    pub fn start(
        kind: ClusterKind,
        shows_source: &'static str,
        nodes: Vec<(String, Target)>,
        began: Instant,
    ) -> Self {
        let words: Arc<Mutex<BTreeMap<String, Words>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for (name, target) in nodes {
            let words = Arc::clone(&words);
            tasks.spawn(async move {
                let mut conn = None;
                loop {
                    let asked = began.elapsed();
                    let answer = ask(kind, shows_source, &mut conn, &target);
                    let word = match tokio::time::timeout(PATIENCE, answer).await {
                        Ok(Ok(word)) => word,
                        Ok(Err(_)) => {
                            conn = None;
                            Word::Down
                        }
                        Err(_) => {
                            conn = None;
                            Word::Silent
                        }
                    };
                    {
                        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
                        let row: &mut Words = words.entry(name.clone()).or_default();
                        if row.last().is_none_or(|(_, last)| *last != word) {
                            row.push((asked, word));
                        }
                    }
                    tokio::time::sleep(PACE).await;
                }
            });
        }
        Self { tasks, words }
    }

    /// Stops; returns all changes so far.
    pub fn stop(mut self) -> BTreeMap<String, Words> {
        self.tasks.abort_all();
        std::mem::take(&mut self.words.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn ask(
    kind: ClusterKind,
    shows_source: &str,
    conn: &mut Option<Conn>,
    target: &Target,
) -> mysql_async::Result<Word> {
    let open = match conn {
        Some(open) => open,
        None => conn.insert(Conn::new(target.opts()).await?),
    };
    match kind {
        ClusterKind::Galera => ask_member(open).await,
        ClusterKind::Replication { .. } => ask_server(open, shows_source).await,
    }
}

async fn ask_server(open: &mut Conn, shows_source: &str) -> mysql_async::Result<Word> {
    let read_only: Option<bool> =
        open.query_first("SELECT CONCAT(@@GLOBAL.read_only) NOT IN ('0', 'OFF')").await?;
    let follows: Option<Row> = open.query_first(shows_source).await?;
    Ok(match (read_only.unwrap_or_default(), follows.is_some()) {
        (false, false) => Word::Primary,
        (true, true) => Word::Replica,
        (true, false) => Word::ReadOnly,
        (false, true) => Word::Writable,
    })
}

async fn ask_member(open: &mut Conn) -> mysql_async::Result<Word> {
    let rows: Vec<(String, String)> = open
        .query("SHOW STATUS WHERE Variable_name IN ('wsrep_local_state', 'wsrep_cluster_status')")
        .await?;
    let value = |name: &str| rows.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
    Ok(match (value("wsrep_cluster_status"), value("wsrep_local_state")) {
        ("Primary", "4") => Word::Synced,
        ("Primary", "2") => Word::Donor,
        ("Primary", _) => Word::Joining,
        _ => Word::NonPrimary,
    })
}
