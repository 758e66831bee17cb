//! Asks each node itself, past every proxy, how it is: the coloured bands of the timeline.
//!
//! One task and one connection a node, a question every 100 ms, half a second for the answer. Only changes are kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::load::session::Target;

const PACE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(500);

/// The node's own word, or that there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// Synced, in the primary component.
    Synced,
    /// Donor or desynced.
    Donor,
    /// Joining or joined.
    Joining,
    /// Answers, but has lost the primary component.
    NonPrimary,
    /// Refuses connections, or resets them.
    Down,
    /// Does not answer.
    Silent,
}

impl Word {
    /// For legends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Donor => "donor",
            Self::Joining => "joining",
            Self::NonPrimary => "non-primary",
            Self::Down => "down",
            Self::Silent => "silent",
        }
    }
}

/// From when on a node said what it said; times since the start of the load.
pub type Words = Vec<(Duration, Word)>;

/// Watches until it is stopped or dropped.
pub struct NodeWatch {
    tasks: JoinSet<()>,
    words: Arc<Mutex<BTreeMap<String, Words>>>,
}

impl NodeWatch {
    /// `nodes`: name and where to ask.
    pub fn start(nodes: Vec<(String, Target)>, began: Instant) -> Self {
        let words: Arc<Mutex<BTreeMap<String, Words>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for (name, target) in nodes {
            let words = Arc::clone(&words);
            tasks.spawn(async move {
                let mut conn = None;
                loop {
                    let asked = began.elapsed();
                    let word = match tokio::time::timeout(PATIENCE, ask(&mut conn, &target)).await {
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

    /// All that was said so far.
    pub fn stop(mut self) -> BTreeMap<String, Words> {
        self.tasks.abort_all();
        std::mem::take(&mut self.words.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn ask(conn: &mut Option<Conn>, target: &Target) -> mysql_async::Result<Word> {
    let open = match conn {
        Some(open) => open,
        None => conn.insert(Conn::new(target.opts()).await?),
    };
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
