//! The port for reads: what its sessions wait for, and what they are refused.
//!
//! - A session that comes to another server waits there until that server has all that the session can have seen: the primary's position,
//!   from a report that was asked for after the session left its former server. No server can have shown more than that.
//! - `SET SESSION TRANSACTION READ ONLY` is sent on each link, so that the server itself refuses writes (1792; a replica 1290). Statements
//!   that would undo that are refused here. On a server that is writable, so are those whose effect cannot be seen (CALL, EXECUTE, a
//!   block).

use std::sync::Arc;
use std::time::Instant;

use protocol::command::Command;
use protocol::statement::lifts_read_only;
use session::command::InFlight;
use session::finish::NodeError;
use session::wanted::Wanted;
use tokio::sync::{mpsc, watch};
use topology::NodeId;
use topology::fact::ProxyFact;
use topology::reads::Reached;

use super::CatchUp;
use crate::lane::Lane;
use crate::live_duration::LiveDuration;

/// Sent on each link, after all other settings.
pub const READ_ONLY: &str = "SET SESSION TRANSACTION READ ONLY";

/// ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION.
const REFUSED: u16 = 1792;
/// Facts of this port that may wait to be read.
const FACTS_MAX: usize = 1024;

/// Further inputs of the port for reads.
#[derive(Clone)]
pub struct Reads {
    /// The primary's position.
    pub reached: watch::Receiver<Arc<Reached>>,
    /// The time from which [`Reached::asked`] counts.
    pub origin: Instant,
    /// The longest that a session waits on a server for what the session may have seen.
    pub wait_max: LiveDuration,
    /// Any node can be asked to catch up with the group.
    pub is_group: bool,
}

impl Reads {
    /// What a session waits for on `lane`, if it left its former server at `left`.
    pub async fn catch_up(&self, lane: &Lane, left: Instant, ask: impl FnOnce()) -> CatchUp {
        if self.is_group {
            return CatchUp::Group;
        }
        let mut reached = self.reached.clone();
        let is_late = |reached: &Reached| self.origin + reached.asked > left;
        let has_all = |reached: &Reached| reached.primary == Some(lane.node);
        let began = Instant::now();
        if !is_late(&reached.borrow()) && !has_all(&reached.borrow()) {
            ask();
            // If the primary does not answer in time, its last position is used: it may have reported nothing more before its end.
            let late = reached.wait_for(|reached| is_late(reached) || has_all(reached));
            let _ = tokio::time::timeout(self.wait_max.get(), late).await;
        }
        let reached = reached.borrow().clone();
        if has_all(&reached) || reached.position.is_empty() {
            return CatchUp::No;
        }
        CatchUp::Position(reached.position.clone(), self.wait_max.get().saturating_sub(began.elapsed()))
    }

    /// Why a command is not sent to a server; `None` when it is.
    pub fn refuses(
        &self,
        flight: &InFlight,
        text: Option<&[u8]>,
        status: u16,
        node: NodeId,
    ) -> Option<NodeError> {
        let what = if text.is_some_and(|text| lifts_read_only(text, status)) {
            "what makes a session or a transaction writable, and maintenance of tables"
        } else if may_hide(flight) && self.reached.borrow().is_writable(node) {
            "CALL, EXECUTE and blocks, on a server that can be written (the primary stands in for its replicas)"
        } else {
            return None;
        };
        Some(refused(what))
    }
}

/// The refusal of a text that is longer than what is kept, since its effect cannot be seen.
pub fn refused_unread() -> NodeError {
    refused("statements that are longer than proxy.retain_bytes_max")
}

/// The variable, by its old or its new name, that makes the session writable.
pub fn lifted(wanted: &Wanted) -> Option<&'static str> {
    let is_off = |value: &[u8]| value == b"0" || value.eq_ignore_ascii_case(b"OFF");
    ["tx_read_only", "transaction_read_only"]
        .into_iter()
        .find(|name| wanted.changed(name).is_some_and(is_off))
}

fn refused(what: &str) -> NodeError {
    NodeError {
        code: REFUSED,
        state: *b"25006",
        message: format!(
            "Understudy: this port is for reads only, and does not take {what}; nothing was executed"
        ),
    }
}

/// Whether it runs code that its text does not show.
fn may_hide(flight: &InFlight) -> bool {
    let runs = [Command::QUERY, Command::STMT_EXECUTE, Command::STMT_BULK_EXECUTE];
    flight.calls() && runs.contains(&flight.command)
}

/// Forwards this port's facts to the manager, marked as such, since their epochs are those of the port's own lanes.
pub fn forward(facts: mpsc::Sender<ProxyFact>) -> mpsc::Sender<ProxyFact> {
    let (tell, mut heard) = mpsc::channel(FACTS_MAX);
    tokio::spawn(async move {
        while let Some(fact) = heard.recv().await {
            let fact = match fact {
                ProxyFact::PositionWanted => fact,
                fact => ProxyFact::Reads(Box::new(fact)),
            };
            if facts.send(fact).await.is_err() {
                return; // the manager has ended, and with it the program
            }
        }
    });
    tell
}
