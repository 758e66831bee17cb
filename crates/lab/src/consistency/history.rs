//! What the clients of the lists did and saw: the input of the judge.

use std::time::Duration;

use serde::Serialize;

use super::connection::ended;
use crate::ledger::CommitResult;
use crate::load::session::Phase;

/// One step of a transaction on one list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// A value, unique in the whole run, is appended.
    Append {
        /// The list.
        key: u32,
        /// The value.
        value: u64,
    },
    /// The whole list is read.
    Read {
        /// The list.
        key: u32,
        /// Its values, in order; None when the read was not answered.
        list: Option<Vec<u64>>,
    },
}

/// One transaction. Times are since the start of the phase.
#[derive(Clone, Debug, Serialize)]
pub struct Transaction {
    /// The client's number.
    pub client: u32,
    /// The connection's number: another one after each reconnect.
    pub session: u64,
    /// Whether it ran on the port for reads, which may show the past.
    pub may_be_old: bool,
    /// Just before its first statement was sent.
    pub invoked: Duration,
    /// Just after its last answer, or its error.
    pub done: Duration,
    /// What it did.
    pub steps: Vec<Step>,
    /// Its outcome, as far as the client knows it.
    pub outcome: CommitResult,
    /// The error that ended it.
    pub error: Option<String>,
}

impl Transaction {
    /// Its last answer, or the error that ended it in this phase.
    pub fn end(&mut self, at: Duration, phase: Phase, done: Result<(), mysql_async::Error>) {
        self.done = at;
        if let Err(error) = done {
            let (outcome, text) = ended(phase, &error);
            (self.outcome, self.error) = (outcome, Some(text));
        }
    }
}

impl std::fmt::Display for Transaction {
    /// `client 3, 12.345-12.400 s, ok: append 5 to list 1, list 2 is [1, 2]`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let outcome = match self.outcome {
            CommitResult::Ok => "ok",
            CommitResult::Failed => "failed",
            CommitResult::Unknown => "outcome unknown",
        };
        let port = if self.may_be_old { " (port for reads)" } else { "" };
        write!(
            formatter,
            "client {}, session {}{port}, {:.3}-{:.3} s, {outcome}:",
            self.client,
            self.session,
            self.invoked.as_secs_f64(),
            self.done.as_secs_f64()
        )?;
        for (at, step) in self.steps.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match step {
                Step::Append { key, value } => write!(formatter, "{comma} append {value} to list {key}")?,
                Step::Read { key, list: Some(list) } => write!(formatter, "{comma} list {key} is {list:?}")?,
                Step::Read { key, list: None } => write!(formatter, "{comma} list {key} was not answered")?,
            }
        }
        match &self.error {
            Some(error) => write!(formatter, " ({error})"),
            None => Ok(()),
        }
    }
}
