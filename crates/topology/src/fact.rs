//! What is told to the brain: things seen, never opinions.

use std::time::Duration;

use crate::account::Account;
use crate::catalogue::Catalogue;
use crate::galera::action as galera;
use crate::heartbeat::Beat;
use crate::order::{Order, OrderId};
use crate::replication::action as replication;
use crate::routes::ServerGreeting;
use crate::status::Status;
use crate::{NodeId, Term};

/// Time since the program started, monotonic. Cores never ask a clock; every fact comes with one of these.
pub type Now = Duration;

/// Something seen.
#[allow(missing_docs)] // the fields say what they are by their names and types
#[derive(Clone, Debug)]
pub enum Fact {
    // ---- the manager's kept-open link to each node
    /// A link stands: the node accepted a login. Carries what the node announced.
    LinkUp { node: NodeId, greeting: ServerGreeting },
    /// The link that stood has ended.
    LinkEnded { node: NodeId, how: LinkEnd },
    /// A try to connect (the confirming one included) failed.
    ConnectFailed { node: NodeId, how: ConnectFailure },
    // ---- the status query
    /// The node answered the question that was sent at `asked`.
    Status { node: NodeId, status: Status, asked: Now },
    /// The node did not answer within the deadline of a probe, which was sent at `asked`.
    ProbeMissed { node: NodeId, asked: Now },
    /// The node is late with its answer to a question that was sent at `asked`: it takes several times as long as usual, but has not
    /// missed the deadline. Said once of a question.
    ProbeSlow { node: NodeId, asked: Now },
    /// What came of a heartbeat there, or is known of one that is out.
    Beat { node: NodeId, beat: Beat },
    /// The account table, read from `node`.
    Accounts { node: NodeId, rows: Vec<Account> },
    /// Names that mean more than a statement's text shows, read from `node`.
    Catalogue { node: NodeId, catalogue: Catalogue },
    // ---- seen by the proxy in real traffic (may be dropped when too many)
    /// A link to the node broke in the middle of something, or could not be made. `alarm` numbers the alarms of one lane (node and
    /// epoch) from 1 on, and is answered by [`crate::routes::Lane::looked`]; 0 when no answer is waited for.
    TrafficLost { node: NodeId, epoch: u64, how: ConnectFailure, alarm: u64 },
    /// Commits of clients that the node has not answered yet, the oldest first: the number of each connection there, and how long ago it was
    /// sent. Said twice a second while there are any, and once when there are none any more.
    CommitsWait { node: NodeId, commits: Vec<(u32, Duration)> },
    /// The node answered a statement with an error that speaks of the node, not of the statement (1047, 1053, 1290, ...). `alarm` as
    /// above.
    TrafficRefused { node: NodeId, epoch: u64, errno: u16, alarm: u64 },
    /// A statement was running on the node when its link broke. `digest` in hex, `text` normalised, without literals, at most 200
    /// bytes.
    StatementLost { node: NodeId, epoch: u64, digest: String, text: String },
    /// A statement ran that may have made, changed or dropped a table of an engine without transactions.
    TablesChanged,
    /// No transaction runs any more on a lane that was told to drain. Never dropped. `version` is that of the routes the proxy
    /// had taken up when it saw the lane quiet ([`crate::routes::Routes::version`]): routes of a later version that drain the
    /// same lane have not been looked at yet. Said anew for each routes taken up, so a repetition means nothing.
    Quiesced { node: NodeId, epoch: u64, term: Term, version: u64 },
    /// Every link of a lane that was shut, and of those of the node before it, is certainly gone: its socket is shut down, and its
    /// session has let go of it. `epoch` is that of the links, which is below that of the routes that shut it. Said once of each lane
    /// that was shut. Never dropped.
    Cut { node: NodeId, epoch: u64 },
    /// A client could not be let in: perhaps its account is new, or has a new password.
    UnknownAccount { user: String },
    // ---- the port for reads
    /// What its traffic saw. Epochs and alarms are those of its own lanes.
    Reads(Box<Fact>),
    /// A session that leaves a replica waits for the primary's word on where it is.
    PositionWanted,
    // ---- what came of an action
    /// See [`Outcome`].
    Outcome(Outcome),
    /// An operator wants something.
    Order { id: OrderId, order: Order },
    /// Time passed; sent often enough that deadlines inside the brain are met to about 20 ms.
    Tick,
}

/// How a standing link ended.
#[allow(missing_docs)] // an error number is an error number
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The peer closed or reset it without a word: a killed process looks like this.
    Closed,
    /// The server said goodbye first (1053 shutdown, 1927 killed, ...): an orderly stop, or an operator's KILL.
    Goodbye { errno: u16 },
    /// We gave it up: no answer within the deadline.
    Silent,
}

/// Why a connection could not be made, or broke.
#[allow(missing_docs)] // as above
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// The host answered, nobody listens: the process is not there.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer closed it in good order.
    Closed,
    /// No answer within the deadline.
    TimedOut,
    /// No way to the host.
    Unreachable,
    /// The server is there and does not let us in (1040, 1045, 1129, ...). The message is the server's own.
    Rejected { errno: u16, message: String },
    /// What came back was not the MySQL protocol.
    Protocol { what: String },
}

/// What came of an action the brain asked for.
#[allow(missing_docs)] // as above
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The term, the writer and the limits of the write of that number are on disk.
    Persisted { number: u64 },
    /// They could not be written.
    PersistFailed { number: u64, why: String },
    /// Of what was to be done to a Galera cluster.
    Galera(galera::Outcome),
    /// Of what was to be done to a server of a primary-replica setup.
    Replication(replication::Outcome),
    /// The node has applied all that the group had when asked, and is writable, in its own words.
    BarrierPassed { node: NodeId, term: Term },
    /// It has not, or would not say so in time.
    BarrierFailed { node: NodeId, term: Term, why: String },
}

impl From<galera::Outcome> for Outcome {
    fn from(outcome: galera::Outcome) -> Self {
        Self::Galera(outcome)
    }
}

impl From<replication::Outcome> for Outcome {
    fn from(outcome: replication::Outcome) -> Self {
        Self::Replication(outcome)
    }
}
