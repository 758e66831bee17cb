//! Decides whether a statement may be sent again after its node was lost. A table, and nothing else.
//!
//! | the statement                                      | not wholly sent | sent, no byte of the answer given | some bytes given |
//! |----------------------------------------------------|-----------------|-----------------------------------|------------------|
//! | outside a transaction, changes nothing             | again           | again                             | cut short        |
//! | outside, BEGIN, COMMIT or ROLLBACK of nothing      | again           | again                             | again            |
//! | outside, autocommit off, commits nothing by itself | again           | again (its transaction is gone)   | rolled back      |
//! | outside, anything else                             | again           | **unknown**                       | **unknown**      |
//! | inside, ROLLBACK                                   | done            | done                              | done             |
//! | inside, cannot commit                              | rolled back     | rolled back                       | rolled back      |
//! | inside, COMMIT or anything that may commit         | rolled back     | **unknown**                       | **unknown**      |
//!
//! "Rolled back" is certain: a server that lost the connection, or was cut from its group, rolls back what was not committed. A statement
//! whose last byte was never sent cannot have run, since servers execute only whole packets. But no server rolls back what was written to a
//! table without transactions (MyISAM, Aria, MEMORY): where the statement or its transaction may have written to one, "rolled back" becomes
//! **unknown**, and so does "again" for what was sent with autocommit off.

use protocol::statement::StatementKind;

/// How far a statement had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The last byte of the command was handed to the kernel.
    pub sent: bool,
    /// At least one byte of the answer was sent to the client.
    pub delivered: bool,
}

/// The properties of a statement that decide whether it is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// From the scanner; for a prepared statement, of its text.
    pub kind: StatementKind,
    /// It may commit an open transaction: COMMIT, BEGIN, DDL, CALL, or any text that is not understood.
    pub may_commit: bool,
    /// A transaction was open before it.
    pub in_transaction: bool,
    /// The session's autocommit is on.
    pub autocommit: bool,
    /// It, or the transaction before it, may have changed a table without transactions.
    pub untransactional: bool,
}

/// What to do after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDecision {
    /// Send it again, to whichever node serves next.
    Again,
    /// Answer as if it had succeeded: a ROLLBACK whose node was lost.
    Done,
    /// Its transaction is certainly rolled back: error 1213, upon which applications retry.
    RolledBack,
    /// It may have been committed or not, and is never sent again.
    Unknown,
    /// A read of whose answer a part was sent to the client: nothing was changed, but it cannot be continued.
    CutShort,
}

/// The table above.
pub fn decide(what: Circumstances, progress: Progress) -> LossDecision {
    let Progress { sent, delivered } = progress;
    if what.in_transaction {
        return match what.kind {
            StatementKind::Rollback => LossDecision::Done,
            _ if sent && what.may_commit => LossDecision::Unknown,
            _ if what.untransactional => LossDecision::Unknown,
            _ => LossDecision::RolledBack,
        };
    }
    if !sent {
        return LossDecision::Again;
    }
    match what.kind {
        StatementKind::Read | StatementKind::SessionOnly if delivered => LossDecision::CutShort,
        StatementKind::Read
        | StatementKind::SessionOnly
        | StatementKind::Begin
        | StatementKind::Commit
        | StatementKind::Rollback
        | StatementKind::Savepoint => LossDecision::Again,
        StatementKind::Write if !what.autocommit && !what.may_commit && !what.untransactional => {
            if delivered { LossDecision::RolledBack } else { LossDecision::Again }
        }
        StatementKind::Write | StatementKind::Kill { .. } => LossDecision::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNSENT: Progress = Progress { sent: false, delivered: false };
    const SENT: Progress = Progress { sent: true, delivered: false };
    const GIVEN: Progress = Progress { sent: true, delivered: true };

    fn outside(kind: StatementKind, may_commit: bool) -> Circumstances {
        Circumstances { kind, may_commit, in_transaction: false, autocommit: true, untransactional: false }
    }

    fn inside(kind: StatementKind, may_commit: bool) -> Circumstances {
        Circumstances { in_transaction: true, ..outside(kind, may_commit) }
    }

    #[test]
    fn nothing_that_may_have_committed_is_ever_sent_again() {
        for kind in
            [StatementKind::Write, StatementKind::Commit, StatementKind::Begin, StatementKind::SessionOnly]
        {
            for progress in [SENT, GIVEN] {
                assert_eq!(decide(inside(kind, true), progress), LossDecision::Unknown, "{kind:?} inside");
            }
        }
        for may_commit in [false, true] {
            for progress in [SENT, GIVEN] {
                assert_eq!(
                    decide(outside(StatementKind::Write, may_commit), progress),
                    LossDecision::Unknown
                );
            }
        }
    }

    #[test]
    fn what_surely_did_not_happen_is_told_so() {
        assert_eq!(decide(inside(StatementKind::Commit, true), UNSENT), LossDecision::RolledBack);
        assert_eq!(decide(inside(StatementKind::Write, false), SENT), LossDecision::RolledBack);
        assert_eq!(decide(inside(StatementKind::Read, false), GIVEN), LossDecision::RolledBack);
        assert_eq!(decide(inside(StatementKind::Rollback, false), SENT), LossDecision::Done);
    }

    #[test]
    fn what_no_server_rolls_back_is_never_called_rolled_back() {
        for kind in [StatementKind::Write, StatementKind::Read, StatementKind::Savepoint] {
            for progress in [UNSENT, SENT, GIVEN] {
                let what = Circumstances { untransactional: true, ..inside(kind, false) };
                assert_eq!(decide(what, progress), LossDecision::Unknown, "{kind:?} {progress:?}");
            }
        }
    }

    #[test]
    fn reads_and_the_unsent_go_again() {
        assert_eq!(decide(outside(StatementKind::Write, true), UNSENT), LossDecision::Again);
        assert_eq!(decide(outside(StatementKind::Read, false), SENT), LossDecision::Again);
        assert_eq!(decide(outside(StatementKind::Read, false), GIVEN), LossDecision::CutShort);
        assert_eq!(decide(outside(StatementKind::Begin, true), SENT), LossDecision::Again);
        let first_of_a_transaction =
            Circumstances { autocommit: false, ..outside(StatementKind::Write, false) };
        assert_eq!(decide(first_of_a_transaction, SENT), LossDecision::Again);
        let untransactional = Circumstances { untransactional: true, ..first_of_a_transaction };
        assert_eq!(decide(untransactional, SENT), LossDecision::Unknown);
        assert_eq!(decide(untransactional, UNSENT), LossDecision::Again);
        let ddl = Circumstances { autocommit: false, ..outside(StatementKind::Write, true) };
        assert_eq!(decide(ddl, SENT), LossDecision::Unknown);
    }
}
