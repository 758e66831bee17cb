//! Reads the nodes: the measured one each time, the others twice a second, which is enough for rates and little for them to do.

use std::time::Duration;

use measure::capacity::reading::{Node, Other, Reading};
use tokio::time::Instant;
use topology::kind::Kind;

use super::named_asker::NamedAsker;
use super::sql;

/// The measured node answers so soon, or the reading is missing.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Another node answers so soon, or counts as not answering for [`OTHERS_EVERY`] times ten.
const OTHER_ANSWER_MAX: Duration = Duration::from_millis(500);
/// Between two looks at the others.
const OTHERS_EVERY: Duration = Duration::from_millis(500);

/// See the head of this file.
pub struct Watch {
    kind: Kind,
    node: NamedAsker,
    others: Vec<Watched>,
    asked: Option<Instant>,
    arrived_bytes: u64,
    /// The node is held: clients that wait to write there are looked for.
    pub is_held: bool,
}

struct Watched {
    asker: NamedAsker,
    last: Option<Other>,
    /// Bytes that it has sent, as it said last.
    bytes: u64,
    /// Not asked before this: it did not answer.
    rests_until: Option<Instant>,
}

impl Watch {
    /// Ways of its own to all of them.
    pub fn new(kind: Kind, node: &NamedAsker, others: &[NamedAsker]) -> Self {
        let watched =
            |asker: &NamedAsker| Watched { asker: asker.another(), last: None, bytes: 0, rests_until: None };
        Self {
            kind,
            node: node.another(),
            others: others.iter().map(watched).collect(),
            asked: None,
            arrived_bytes: 0,
            is_held: false,
        }
    }

    /// Reads; `began` is time zero.
    ///
    /// # Errors
    /// When the measured node gives no answer that could be used.
    pub async fn read(&mut self, began: Instant) -> Result<Reading, String> {
        let before = began.elapsed();
        let node = match self.kind {
            Kind::Galera => self.galera().await?,
            Kind::Replication => self.replica().await?,
        };
        let at = before + began.elapsed().saturating_sub(before) / 2;
        if self.asked.is_none_or(|asked| asked.elapsed() >= OTHERS_EVERY) {
            self.asked = Some(Instant::now());
            self.ask_others().await;
        }
        if self.kind == Kind::Galera {
            self.arrived_bytes = self.others.iter().map(|other| other.bytes).sum();
        }
        let others = self.others.iter().map(|other| other.last.clone()).collect();
        Ok(Reading { at, node, others, arrived_bytes: self.arrived_bytes })
    }

    async fn galera(&mut self) -> Result<Node, String> {
        let rows = self.node.ask(sql::GALERA_STATUS, ANSWER_MAX).await?;
        let mut node = sql::galera_node(&rows)
            .ok_or_else(|| format!("{} is no member of the group any more", self.node.name))?;
        if self.is_held {
            let rows = self.node.ask(sql::WAITING, ANSWER_MAX).await?;
            node.writers_waiting = rows.text(0, 0).and_then(|count| count.parse().ok()).unwrap_or(0);
        }
        Ok(node)
    }

    /// What was applied is asked last: it can only be more than what was fetched then.
    async fn replica(&mut self) -> Result<Node, String> {
        let rows = self.node.ask(sql::REPLICA, ANSWER_MAX).await?;
        let replica = sql::replica(&rows)?;
        let rows = self.node.ask(sql::APPLIED, ANSWER_MAX).await?;
        let applied = rows.text(0, 0).and_then(sql::transactions);
        let applied =
            applied.ok_or_else(|| format!("{} does not tell what it has applied", self.node.name))?;
        self.arrived_bytes = replica.relay_log_bytes;
        Ok(Node {
            applied,
            queue: replica.fetched.saturating_sub(applied),
            is_in_step: replica.fetches && replica.applies,
            is_desynced: false,
            ..Node::default()
        })
    }

    async fn ask_others(&mut self) {
        for other in &mut self.others {
            if other.rests_until.is_some_and(|until| Instant::now() < until) {
                continue;
            }
            let question = match self.kind {
                Kind::Galera => sql::GALERA_STATUS,
                Kind::Replication => sql::COMMITTED,
            };
            let mut answer = other.asker.ask(question, OTHER_ANSWER_MAX).await;
            if answer.is_err() && other.last.is_some() {
                // A busy machine is late at times. A server that is lost ends the hold, so it is asked once more.
                answer = other.asker.ask(question, OTHER_ANSWER_MAX * 2).await;
            }
            let answer = answer.ok();
            let said = answer.and_then(|rows| match self.kind {
                Kind::Galera => sql::galera_other(&rows),
                Kind::Replication => {
                    let committed = rows.text(0, 0).and_then(sql::transactions)?;
                    Some((Other { committed, ..Other::default() }, 0))
                }
            });
            match said {
                Some((last, bytes)) => {
                    (other.last, other.bytes, other.rests_until) = (Some(last), bytes, None)
                }
                None => {
                    other.last = None;
                    other.rests_until = Some(Instant::now() + OTHERS_EVERY * 10);
                }
            }
        }
    }

    /// Says goodbye to all.
    pub fn quit(&self) {
        self.node.quit();
        for other in &self.others {
            other.asker.quit();
        }
    }
}
