//! How a command ends, for its client.

use protocol::errno::{self, Whose};
use protocol::ok::ErrPacket;

/// In the error of a command that misses it.
pub const LOST_DATA: &str = "data sent for a prepared statement";

/// The server's message to a client whose connection was killed.
pub const KILLED: &str = "Connection was killed";

/// How a command ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The client has its answer, or expects none.
    Answered,
    /// The client gets an OK packet, as if the command had succeeded.
    Ok,
    /// The client gets an error of the proxy's own.
    Fail {
        /// Which.
        failure: Failure,
        /// A detail for its message.
        detail: String,
        /// How much of the answer the client has.
        delivered: Delivered,
    },
    /// The client gets an error as a node sent it.
    NodeError {
        /// Which.
        error: NodeError,
        /// Whether the connection ends with it.
        closes: bool,
    },
    /// Nothing can be sent to the client: the connection ends.
    Close,
}

/// The proxy's own errors that a command may end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The transaction is certainly rolled back.
    RolledBack,
    /// It may have been committed or not.
    OutcomeUnknown,
    /// No node took it during the hold time.
    HoldExpired,
    /// Too many statements were waiting.
    HoldFull,
    /// What tied the session to its node is lost.
    SessionLost,
    /// A result was aborted; nothing was changed.
    CutShort,
    /// It asks for something that only a former node knew.
    Forgotten,
    /// The session's state could not be set up.
    NotRebuilt,
    /// It was not executed, and was too large to be kept.
    TooLargeToRepeat,
    /// It was sent as often as is allowed, and its node was lost each time.
    LostAgain,
    /// The node's answer violated the protocol.
    NotFollowed,
}

/// How much of the answer was sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Nothing.
    Nothing,
    /// Whole packets; an error packet with the next sequence number can follow.
    Packets {
        /// That number.
        next_seq: u8,
    },
    /// A part of a packet: nothing can follow it.
    PartOfPacket,
}

/// An error as a node sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// The error number.
    pub code: u16,
    /// SQLSTATE.
    pub state: [u8; 5],
    /// The message.
    pub message: String,
}

impl From<ErrPacket<'_>> for NodeError {
    fn from(err: ErrPacket<'_>) -> Self {
        Self {
            code: err.code,
            state: err.state.try_into().unwrap_or(*b"HY000"),
            message: String::from_utf8_lossy(err.message).into_owned(),
        }
    }
}

impl NodeError {
    /// The error of a server whose client's connection was killed during a statement.
    pub fn killed() -> Self {
        Self { code: errno::CONNECTION_KILLED, state: *b"70100", message: KILLED.to_owned() }
    }

    /// Whose concern it is.
    pub fn whose(&self) -> Whose {
        errno::whose(self.code, self.message.as_bytes())
    }

    /// The server says so to a connection that somebody has ended.
    pub fn speaks_of_a_kill(&self) -> bool {
        matches!(self.code, errno::CONNECTION_KILLED | errno::SESSION_WAS_KILLED)
    }
}
