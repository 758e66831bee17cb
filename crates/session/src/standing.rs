//! What one link has of a session and no other link has: the numbers of its prepared statements, an open transaction, and whatever ties
//! the session to its node. It is made with the link, owned beside it, and gone with it.
//!
//! Invariant: nothing in here is needed to set the session up on another link; that is [`crate::wanted::Wanted`]'s.

use std::collections::{BTreeMap, BTreeSet};

use protocol::statement::{Pins, Recalls};

use crate::bound::Baseline;

/// All that an earlier statement may have left.
const ALL: Recalls = Recalls::INSERT_ID
    .union(Recalls::ROW_COUNT)
    .union(Recalls::FOUND_ROWS)
    .union(Recalls::WARNINGS)
    .union(Recalls::SEQUENCE)
    .union(Recalls::PROFILE)
    .union(Recalls::LAST_GTID);

/// Sequences remembered of a session that has moved; of more, the last value is not asked of the node.
const DRAWN_MAX: usize = 64;

/// A prepared statement as it stands on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnNode {
    /// Its number there.
    pub id: u32,
    /// The node has been told the parameters' types that are in force.
    pub types_told: bool,
    /// Long data was sent for it and not yet used.
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

/// What code that the text does not show (a procedure, a function, a trigger, a block) has done to variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// It failed: it may have set some before, and the server tells with some later answer.
    MayHaveSet,
    /// The server said that something changed, and not what.
    HasSet,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Standing {
    /// By the number that the client knows.
    statements: BTreeMap<u32, OnNode>,
    /// Those of them that tie the session to this link.
    tied: BTreeSet<u32>,
    pins: Pins,
    transaction: bool,
    /// The open transaction has changed what no ROLLBACK takes back.
    wrote_untransactional: bool,
    /// What earlier statements of the session left behind on another link.
    forgotten: Recalls,
    /// The sequences that the session has drawn from on this link, as far as they are remembered.
    drawn: BTreeSet<String>,
    /// The node must be asked to report the session's changes again.
    must_track: bool,
    /// Variables that were changed to what no answer told.
    must_ask: BTreeSet<String>,
    /// The node has been asked for some, and has not answered yet.
    is_asked: bool,
    /// What code that the text does not show may have set.
    doubt: Option<Doubt>,
    /// Code has run that the text called and does not show. It may have set what no server reports, which can be asked for.
    ran_code: bool,
    /// What the login gave, when it was asked for.
    pub baseline: Option<Baseline>,
}

impl Standing {
    /// Of a fresh link for a session that has been on another: that one's answers cannot be recalled here.
    pub fn after_move(insert_id_known: bool) -> Self {
        let forgotten = if insert_id_known { ALL.without(Recalls::INSERT_ID) } else { ALL };
        Self { forgotten, ..Self::default() }
    }

    // ---- the transaction

    /// A transaction is open on this link.
    pub fn in_transaction(&self) -> bool {
        self.transaction
    }

    /// The node said whether one is.
    pub fn set_transaction(&mut self, open: bool) {
        self.transaction = open;
        self.wrote_untransactional &= open;
    }

    /// The open transaction has changed a table that is not transactional.
    pub fn note_untransactional(&mut self) {
        self.wrote_untransactional = true;
    }

    /// Whether a ROLLBACK of the open transaction would leave something done.
    pub fn wrote_untransactional(&self) -> bool {
        self.wrote_untransactional
    }

    // ---- prepared statements

    /// How the client's statement `id` stands on the node; `None` until it is prepared there.
    pub fn statement(&self, id: u32) -> Option<OnNode> {
        self.statements.get(&id).copied()
    }

    /// The statement is prepared on this node now, under `on_node`. `unkept`: its text is not known.
    pub fn prepared(&mut self, id: u32, on_node: u32, unkept: bool) {
        self.statements.insert(id, OnNode { id: on_node, unkept, ..OnNode::default() });
        self.note_tie(id);
    }

    /// The statement is closed.
    pub fn closed(&mut self, id: u32) {
        self.statements.remove(&id);
        self.tied.remove(&id);
    }

    /// Changes how a statement stands; nothing happens to one that is not prepared here.
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

    /// What stands in the way of moving the session, by name; empty when it can move.
    pub fn pins(&self) -> Pins {
        let is_untold = self.doubt.is_some() || self.is_asked || self.has_to_ask();
        let own = if is_untold { self.pins.union(Pins::UNNAMED) } else { self.pins };
        self.tied
            .iter()
            .filter_map(|id| self.statement(*id))
            .fold(own, |pins, statement| pins.union(statement.pins()))
    }

    /// Something more ties it.
    pub fn pin(&mut self, pins: Pins) {
        self.pins = self.pins.union(pins);
    }

    /// Something ties it no longer.
    pub fn unpin(&mut self, pins: Pins) {
        self.pins = self.pins.without(pins);
    }

    // ---- what an earlier statement left

    /// What the node cannot answer of `recalls`, because the statements before ran elsewhere.
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

    /// The session has drawn from these sequences here.
    pub fn drew(&mut self, sequences: &BTreeSet<String>) {
        // On its first link a session has drawn from no sequence elsewhere.
        if self.forgotten.has(Recalls::SEQUENCE) && self.drawn.len() < DRAWN_MAX {
            self.drawn.extend(sequences.iter().cloned());
        }
    }

    /// Whether the node knows the last value of each of these.
    pub fn has_drawn(&self, sequences: &BTreeSet<String>) -> bool {
        sequences.is_subset(&self.drawn)
    }

    // ---- questions to the node that an answer has made necessary

    /// The client changed what the node reports.
    pub fn must_track(&mut self) {
        self.must_track = true;
    }

    /// The node is to be asked to report changes again. Asked once, it is taken for done.
    pub fn take_must_track(&mut self) -> bool {
        std::mem::take(&mut self.must_track)
    }

    /// A variable has another value, and no answer told which.
    pub fn must_ask(&mut self, name: &str) {
        self.must_ask.insert(name.to_owned());
    }

    /// The variables that the node is to be asked for. Until it has answered ([`Standing::has_told`]) nobody else knows them: a client that has
    /// its answer already, and loses the node now, is told so.
    pub fn take_must_ask(&mut self) -> BTreeSet<String> {
        self.is_asked = true;
        std::mem::take(&mut self.must_ask)
    }

    /// It has answered.
    pub fn has_told(&mut self) {
        self.is_asked = false;
    }

    /// The node is to be asked for variables.
    pub fn has_to_ask(&self) -> bool {
        !self.must_ask.is_empty()
    }

    /// It is asked for already, or known otherwise.
    pub fn need_not_ask(&mut self, name: &str) {
        self.must_ask.remove(name);
    }

    /// Code that the text does not show has run; the graver doubt stays.
    pub fn doubt(&mut self, doubt: Doubt) {
        self.doubt = self.doubt.max(Some(doubt));
    }

    /// Code that the text does not show has run, and ended well. What it has set without the server's telling (`SET @@x`, `SELECT ... INTO
    /// @x`) is read before the session leaves in good order; a lost node takes it along.
    pub fn ran_code(&mut self) {
        self.ran_code = true;
    }

    /// The node is to be asked for all variables before the session leaves it.
    pub fn must_ask_all(&self) -> bool {
        self.ran_code || self.is_in_doubt()
    }

    /// The server has told what was set, if anything was: code that failed has set nothing else.
    pub fn settle_doubt(&mut self) {
        self.doubt = self.doubt.filter(|doubt| *doubt == Doubt::HasSet);
    }

    /// The node has been asked for all that may have been set.
    pub fn has_asked_all(&mut self) {
        self.doubt = None;
        self.ran_code = false;
    }

    /// The node may have variables that it did not report.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
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
        link.has_told();
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
