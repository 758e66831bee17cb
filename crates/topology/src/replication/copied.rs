//! A server that was made from a copy of another, by mariadb-backup for instance: its binlog begins with the copy. Absence there is no proof that
//! something never happened: it has the rows of all that was before.
//!
//! ```text
//!   what a server has = its binlog state + gtid_slave_pos
//!                     + what others have that its binlog names by no server at all, and that comes before what both have
//!                     + (a primary) what the primaries before it had, up to where it stood when it took over: on disk
//! ```
//!
//! Of the second line only what was replicated counts where errant transactions are looked for: with gtid_strict_mode off a server may write one of
//! its own, and go on with what it receives. A transaction that only its own writer has is taken for one of those, unless a primary had it.

use protocol::gtid::mariadb::{Gtid, Run, State};
use protocol::gtid::{History, Origin, Position};

use super::reports::{all_of, own};
use crate::NodeId;
use crate::core::Core;

/// What the present primary has of the primaries before it, whether its binlog names that or not. Nothing with MySQL, where each server shows all.
#[derive(Clone, Debug, Default)]
pub(super) struct Inherited(State);

impl Inherited {
    /// As it is on disk.
    pub fn read(text: &str) -> Self {
        Self(text.parse().unwrap_or_default())
    }

    /// For the disk.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// What a primary has, of which this is shown.
    pub fn with(&self, shown: History) -> History {
        match shown {
            History::MariaDb(shown) => History::MariaDb(shown.union(&self.0)),
            shown @ History::MySql(_) => shown,
        }
    }

    /// A server has taken over, which had received all up to `has`. `line`: what the primary before had. What the server wrote itself is shown by
    /// itself alone: if it has lost some of that, nothing must hide it.
    pub fn pass_on(&mut self, line: Option<&History>, has: Option<&Position>, to: Origin) {
        let (Some(Position::MariaDb(has)), Origin::MariaDb(to)) = (has, to) else { return };
        let line = match line {
            Some(History::MariaDb(line)) => self.0.union(line),
            _ => self.0.clone(),
        };
        self.0 = line.up_to(has).without(to);
    }
}

/// Whether transactions that `other` has, and which the primary's binlog does not name, came to `other` by replication: another server wrote
/// them, or has them as well.
pub(super) fn is_replicated(core: &Core, primary: NodeId, other: NodeId, run: &Run) -> bool {
    let last = Gtid { domain: run.domain, server: run.server, sequence: run.last };
    let has_it = |third: NodeId| match own(core.node(third)).map(all_of) {
        Some(History::MariaDb(state)) => state.contains_gtid(last),
        _ => false,
    };
    own(core.node(other)).is_some_and(|status| status.server_id != run.server)
        || core.nodes.ids().any(|third| third != primary && third != other && has_it(third))
}

#[cfg(test)]
mod tests {
    use protocol::gtid::Family;

    use super::*;

    fn passed_on(before: &str, line: &str, has: &str, to: u32) -> String {
        let mut inherited = Inherited::read(before);
        let line = History::parse(Family::MariaDb, line).ok();
        let has = Position::parse(Family::MariaDb, has).ok();
        inherited.pass_on(line.as_ref(), has.as_ref(), Origin::MariaDb(to));
        inherited.text()
    }

    #[test]
    fn a_primary_inherits_what_those_before_it_had_as_far_as_it_had_received_it() {
        assert_eq!(passed_on("", "0-1-90,0-2-100", "0-2-100", 3), "0-1-90,0-2-100");
        // The last five have not reached it, and are errant when the old primary is back.
        assert_eq!(passed_on("", "0-1-90,0-2-105", "0-2-100", 3), "0-1-90,0-2-100");
        // What it wrote itself counts only if it shows it.
        assert_eq!(passed_on("", "0-1-90,0-3-80,0-2-100", "0-2-100", 3), "0-1-90,0-2-100");
        // From one to the next.
        assert_eq!(passed_on("0-1-90", "0-2-100,0-3-120", "0-3-120", 4), "0-1-90,0-2-100,0-3-120");
        // A domain of which it has nothing.
        assert_eq!(passed_on("", "0-1-90,7-1-3", "0-1-90", 3), "0-1-90");
    }
}
