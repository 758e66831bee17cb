//! The port for reads: what its sessions are spared, and what they are refused.
//!
//! - A session that comes to another server waits there until it has all that the session can have seen: the primary's position, by a word of
//!   the primary that was asked for after the session left the server before. No server can have shown more than that.
//! - Each link is told `SET SESSION TRANSACTION READ ONLY`, so that the server itself refuses what writes (1792; a replica 1290). What would
//!   take that back is refused here, and on a server that can be written whatever hides what it does (CALL, EXECUTE, a block).

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::command::Command;
use protocol::statement::lifts_read_only;
use session::command::InFlight;
use session::exchange::NodeError;
use session::wanted::Wanted;
use tokio::sync::{mpsc, watch};
use topology::NodeId;
use topology::fact::Fact;
use topology::reads::Reached;

use crate::lane::Lane;

/// Said on each link, last of all.
pub const READ_ONLY: &str = "SET SESSION TRANSACTION READ ONLY";

/// ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION.
const REFUSED: u16 = 1792;
/// Facts of this port that may wait to be read.
const FACTS_MAX: usize = 1024;

/// What the port for reads is connected to, beside what each proxy is.
#[derive(Clone)]
pub struct Reads {
    /// Up to where the primary was.
    pub reached: watch::Receiver<Arc<Reached>>,
    /// When [`Reached::asked`] began to count.
    pub origin: Instant,
    /// The longest that a session waits on a server until that has what the session may have seen.
    pub wait_max: Duration,
    /// Each node can be asked to catch up with the group.
    pub is_group: bool,
}

/// What a session waits for on a server before it goes on there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// Nothing.
    No,
    /// What the group had.
    Group,
    /// This GTID position, so long.
    Position(Arc<str>, Duration),
}

impl Reads {
    /// What a session that left its server at `left` waits for on `lane`.
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
            // Beyond this the primary's last word is what there is: it may have said nothing more before its end.
            let late = reached.wait_for(|reached| is_late(reached) || has_all(reached));
            let _ = tokio::time::timeout(self.wait_max, late).await;
        }
        let reached = reached.borrow().clone();
        if has_all(&reached) || reached.position.is_empty() {
            return CatchUp::No;
        }
        CatchUp::Position(reached.position.clone(), self.wait_max.saturating_sub(began.elapsed()))
    }

    /// Why a command is not sent to a server, if it is not.
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

/// Why a text is not sent that is longer than what is kept: what it does cannot be told.
pub fn refused_unread() -> NodeError {
    refused("statements that are longer than proxy.retain_bytes_max")
}

/// The variable, by its old or its new name, by which the session has been made writable.
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

/// It runs what its text does not show.
fn may_hide(flight: &InFlight) -> bool {
    let runs = [Command::QUERY, Command::STMT_EXECUTE, Command::STMT_BULK_EXECUTE];
    flight.calls() && runs.contains(&flight.command)
}

/// Facts of this port go to the manager as such: their epochs are those of its own lanes.
pub fn forward(facts: mpsc::Sender<Fact>) -> mpsc::Sender<Fact> {
    let (tell, mut heard) = mpsc::channel(FACTS_MAX);
    tokio::spawn(async move {
        while let Some(fact) = heard.recv().await {
            let fact = match fact {
                Fact::PositionWanted => fact,
                fact => Fact::Reads(Box::new(fact)),
            };
            if facts.send(fact).await.is_err() {
                return; // the manager has ended, and with it the program
            }
        }
    });
    tell
}
