//! The part of a session's state that exists on one link only: the node's ids of its prepared statements, an open transaction, and whatever
//! ties the session to its node. It is created with the link, owned beside it, and dropped with it.
//!
//! Invariant: nothing in here is needed to set up the session on another link; that state is in [`crate::wanted::Wanted`].

use std::collections::{BTreeMap, BTreeSet};

use protocol::statement::{Pins, Recalls};

use crate::bound::Baseline;

/// Everything that an earlier statement may have left on the node for a later one to ask for.
const ALL: Recalls = Recalls::INSERT_ID
    .union(Recalls::ROW_COUNT)
    .union(Recalls::FOUND_ROWS)
    .union(Recalls::WARNINGS)
    .union(Recalls::SEQUENCE)
    .union(Recalls::PROFILE)
    .union(Recalls::LAST_GTID);

/// The number of sequences remembered for a session that has moved. The last values of any others are not asked of the node.
const DRAWN_MAX: usize = 64;

/// A prepared statement on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnNode {
    /// Its id there.
    pub id: u32,
    /// The node has received the parameter types that are in force.
    pub types_told: bool,
    /// Long data was sent for it and has not been used yet.
    pub long_data: bool,
    /// A cursor is open on it.
    pub cursor: bool,
    /// The proxy has not kept its text.
    pub unkept: bool,
}

impl OnNode {
    fn pins(self) -> Pins {
        let mut pins = Pins::NONE;
        if self.long_data {
            pins = pins.union(Pins::LONG_DATA);
        }
        if self.cursor {
            pins = pins.union(Pins::CURSOR);
        }
        if self.unkept {
            pins = pins.union(Pins::LONG_STATEMENT);
        }
        pins
    }
}

/// What is not known about variables after code ran that the text does not show (a procedure, a function, a trigger, a block).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnreportedChange {
    /// It failed. It may have set some variables before, which the server reports with a later answer.
    MayHaveSet,
    /// The server reported that something changed, but not what.
    HasSet,
}

/// The state of one link. See the head of this file.
#[derive(Debug, Default)]
pub struct Standing {
    /// By the id that the client uses.
    statements: BTreeMap<u32, OnNode>,
    /// Those of them that tie the session to this link.
    tied: BTreeSet<u32>,
    pins: Pins,
    transaction: bool,
    /// A savepoint was set, with autocommit off, before a transaction began.
    has_savepoint: bool,
    /// The open transaction has changed something that no ROLLBACK undoes.
    wrote_untransactional: bool,
    /// What earlier statements left on a former link, so that this node does not know it.
    forgotten: Recalls,
    /// The sequences from which the session has drawn on this link, as far as they are remembered.
    drawn: BTreeSet<String>,
    /// The node must be told again to track the session's changes.
    must_track: bool,
    /// Variables that were changed to a value that no answer reported.
    must_ask: BTreeSet<String>,
    /// The node was asked for such values, and has not answered yet.
    is_asked: bool,
    /// Code that the text does not show may have set variables.
    unreported: Option<UnreportedChange>,
    /// Code that the text does not show has run. It may have set variables without a report; they can be asked for.
    ran_code: bool,
    /// The tables that it has made by statements of its own, as far as each was alone in its text; none of them temporary.
    tables_made: u64,
    /// The session's schema cannot be used on this node: it is gone, or the right to it.
    lacks_schema: bool,
    /// The values after the login, if they were asked for.
    pub baseline: Option<Baseline>,
}

impl Standing {
    /// The state of a new link for a session that was on another node: what its statements left there is not known here.
    pub fn after_move(insert_id_known: bool) -> Self {
        let forgotten = if insert_id_known { ALL.without(Recalls::INSERT_ID) } else { ALL };
        Self { forgotten, ..Self::default() }
    }

    // ---- the transaction

    /// Whether a transaction is open on this link, or a savepoint from which on one is to be rolled back.
    pub fn in_transaction(&self) -> bool {
        self.transaction || self.has_savepoint
    }

    /// Whether the node has reported one.
    pub fn reports_transaction(&self) -> bool {
        self.transaction
    }

    /// With autocommit off a savepoint lasts until the end of the transaction that is yet to begin, and no server reports it.
    pub fn set_savepoint(&mut self, is_set: bool) {
        self.has_savepoint = is_set;
    }

    /// Takes over the node's report of whether one is.
    pub fn set_transaction(&mut self, open: bool) {
        self.transaction = open;
        self.wrote_untransactional &= open;
    }

    /// The open transaction has changed a table without transactions.
    pub fn note_untransactional(&mut self) {
        self.wrote_untransactional = true;
    }

    /// Whether a ROLLBACK of the open transaction would leave some of its changes.
    pub fn wrote_untransactional(&self) -> bool {
        self.wrote_untransactional
    }

    // ---- prepared statements

    /// The client's statement `id` on the node; `None` until it is prepared there.
    pub fn statement(&self, id: u32) -> Option<OnNode> {
        self.statements.get(&id).copied()
    }

    /// The statement was prepared on this node, with the id `on_node`. `unkept`: its text is not known.
    pub fn prepared(&mut self, id: u32, on_node: u32, unkept: bool) {
        self.statements.insert(id, OnNode { id: on_node, unkept, ..OnNode::default() });
        self.note_tie(id);
    }

    /// The statement is closed.
    pub fn closed(&mut self, id: u32) {
        self.statements.remove(&id);
        self.tied.remove(&id);
    }

    /// Changes the state of a statement; no effect if it is not prepared here.
    pub fn change(&mut self, id: u32, change: impl FnOnce(&mut OnNode)) {
        if let Some(statement) = self.statements.get_mut(&id) {
            change(statement);
            self.note_tie(id);
        }
    }

    fn note_tie(&mut self, id: u32) {
        if self.statement(id).is_some_and(|statement| !statement.pins().is_empty()) {
            self.tied.insert(id);
        } else if !self.tied.is_empty() {
            self.tied.remove(&id);
        }
    }

    // ---- what ties the session to this link

    /// What prevents the session from moving, by name; empty when it can move.
    pub fn pins(&self) -> Pins {
        let is_unknown = self.unreported.is_some() || self.is_asked || self.has_to_ask();
        let own = if is_unknown { self.pins.union(Pins::UNNAMED) } else { self.pins };
        self.with_statements(own)
    }

    /// Of those, what also prevents it once the node was asked for what code and expressions have set.
    pub fn lasting_pins(&self) -> Pins {
        self.with_statements(self.pins.without(Pins::USER_VARIABLE))
    }

    fn with_statements(&self, own: Pins) -> Pins {
        self.tied
            .iter()
            .filter_map(|id| self.statement(*id))
            .fold(own, |pins, statement| pins.union(statement.pins()))
    }

    /// Adds reasons that tie it.
    pub fn pin(&mut self, pins: Pins) {
        self.pins = self.pins.union(pins);
    }

    /// Removes reasons that tie it.
    pub fn unpin(&mut self, pins: Pins) {
        self.pins = self.pins.without(pins);
    }

    // ---- what an earlier statement left

    /// The part of `recalls` that the node does not know, because the earlier statements ran elsewhere.
    pub fn forgotten(&self, recalls: Recalls) -> Recalls {
        recalls.without(recalls.without(self.forgotten))
    }

    /// The node does not know this any more, or never did.
    pub fn forget(&mut self, what: Recalls) {
        self.forgotten = self.forgotten.union(what);
    }

    /// The node knows this again.
    pub fn remembers(&mut self, what: Recalls) {
        self.forgotten = self.forgotten.without(what);
    }

    /// The session has drawn from these sequences on this link.
    pub fn drew(&mut self, sequences: &BTreeSet<String>) {
        // On its first link, a session has drawn from no sequence elsewhere.
        if self.forgotten.has(Recalls::SEQUENCE) && self.drawn.len() < DRAWN_MAX {
            self.drawn.extend(sequences.iter().cloned());
        }
    }

    /// Whether the node knows the last value of each of these sequences.
    pub fn has_drawn(&self, sequences: &BTreeSet<String>) -> bool {
        sequences.is_subset(&self.drawn)
    }

    // ---- the schema

    /// Whether the link has no schema, although the session has one.
    pub fn lacks_schema(&self) -> bool {
        self.lacks_schema
    }

    /// Whether it has become so.
    pub fn set_lacks_schema(&mut self, lacks: bool) {
        self.lacks_schema = lacks;
    }

    // ---- questions to the node that an answer has made necessary

    /// The client changed what the node tracks.
    pub fn must_track(&mut self) {
        self.must_track = true;
    }

    /// Whether the node must be told again to track changes. Resets the flag.
    pub fn take_must_track(&mut self) -> bool {
        std::mem::take(&mut self.must_track)
    }

    /// A variable has a new value that no answer reported.
    pub fn must_ask(&mut self, name: &str) {
        self.must_ask.insert(name.to_owned());
    }

    /// The variables that the node must be asked for. Until it has answered ([`Standing::has_answered`]), only the node knows them: if it is
    /// lost now, the client is told so, even if it has its answer already.
    pub fn take_must_ask(&mut self) -> BTreeSet<String> {
        self.is_asked = true;
        std::mem::take(&mut self.must_ask)
    }

    /// The node has answered.
    pub fn has_answered(&mut self) {
        self.is_asked = false;
    }

    /// Whether the node must be asked for variables.
    pub fn has_to_ask(&self) -> bool {
        !self.must_ask.is_empty()
    }

    /// The variable is being asked for, or known in another way.
    pub fn need_not_ask(&mut self, name: &str) {
        self.must_ask.remove(name);
    }

    /// Code that the text does not show has run. The more serious kind of change is kept.
    pub fn note_unreported(&mut self, change: UnreportedChange) {
        self.unreported = self.unreported.max(Some(change));
    }

    /// Code that the text does not show has run successfully. What it may have set without a report (`SET @@x`, `SELECT ... INTO @x`) is
    /// read before the session leaves the node in a planned move, and lost with a lost node.
    pub fn ran_code(&mut self) {
        self.ran_code = true;
    }

    /// A CREATE TABLE has succeeded.
    pub fn made_table(&mut self) {
        self.tables_made += 1;
    }

    /// How often that was so.
    pub fn tables_made(&self) -> u64 {
        self.tables_made
    }

    /// Whether the node must be asked for all variables before the session leaves it.
    pub fn must_ask_all(&self) -> bool {
        self.ran_code || self.may_have_unreported()
    }

    /// The server has reported what was set, so failed code has set nothing else.
    pub fn has_reported_all(&mut self) {
        self.unreported = self.unreported.filter(|change| *change == UnreportedChange::HasSet);
    }

    /// The node was asked for everything that may have been set.
    pub fn has_asked_all(&mut self) {
        self.unreported = None;
        self.ran_code = false;
    }

    /// Whether the node may have variables that it did not report.
    pub fn may_have_unreported(&self) -> bool {
        self.unreported.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ties_the_session_as_long_as_it_holds_something() {
        let mut link = Standing::default();
        link.prepared(1, 77, false);
        assert!(link.pins().is_empty());
        link.change(1, |statement| statement.long_data = true);
        link.prepared(2, 78, true);
        assert_eq!(link.pins(), Pins::LONG_DATA.union(Pins::LONG_STATEMENT));
        link.change(1, |statement| statement.long_data = false);
        link.closed(2);
        assert!(link.pins().is_empty() && link.tied.is_empty());
    }

    #[test]
    fn a_variable_that_was_not_told_yet_ties_the_session() {
        let mut link = Standing::default();
        link.must_ask("sql_mode");
        assert!(link.pins().has(Pins::UNNAMED));
        assert_eq!(link.take_must_ask().len(), 1);
        assert!(link.pins().has(Pins::UNNAMED), "asked for, and not answered");
        link.has_answered();
        assert!(link.pins().is_empty());
    }

    #[test]
    fn what_was_written_without_a_transaction_is_of_the_open_one_only() {
        let mut link = Standing::default();
        link.set_transaction(true);
        link.note_untransactional();
        link.set_transaction(true);
        assert!(link.wrote_untransactional());
        link.set_transaction(false);
        link.set_transaction(true);
        assert!(!link.wrote_untransactional());
    }
}
