//! The input of the brain ([`crate::brain::Brain::on`]): one [`Fact`] for each thing that was observed, was ordered by an operator, or came
//! of an action. A fact says what was seen; what it means is decided in the brain alone.
//!
//! Three parties send facts. The manager's probes keep one connection open to each node. Each proxy reports what client traffic met. The
//! manager's cycle reports what came of the brain's actions, and passes on operators' orders and the passing of time.
//! All of them arrive through channels: in order from one sender, in any order between senders.

use std::time::Duration;

use crate::account::Account;
use crate::catalogue::Catalogue;
use crate::galera::action as galera;
use crate::heartbeat::Beat;
use crate::order::{Order, OrderId};
use crate::replication::action as replication;
use crate::routes::ServerGreeting;
use crate::status::Status;
use crate::time::Now;
use crate::{NodeId, Origin, Term};

/// Something seen.
#[allow(missing_docs)] // the fields common to all: `node` is the node it is about, `asked` the time at which the question was sent
#[derive(Clone, Debug)]
pub enum Fact {
    // ---- from the probes: the connection that the manager keeps open to each node
    /// The probe has connected and logged in. Carries what the node announced in its greeting. Sent after each connect, also after one
    /// that [`crate::action::Action::Confirm`] asked for. The node counts as alive; whether it serves is known with its next `Status`.
    LinkUp { node: NodeId, greeting: ServerGreeting },
    /// The status flags that a login to the node begins with are others than the greeting, or this fact, said last: somebody has set `autocommit` or
    /// `sql_mode` for all sessions to come.
    LoginStatus { node: NodeId, status: u16 },
    /// Whether the manager's account may read, on this node of MySQL, what [`crate::replication::sql::shows_sessions`] asks for. Sent when it has
    /// changed.
    ShowsSessions { node: NodeId, shows: bool },
    /// The probe's connection has ended. Unless `how` is [`LinkEnd::Silent`], the node takes no new transaction from here on, and a new
    /// connect is ordered at once: its result decides.
    LinkEnded { node: NodeId, how: LinkEnd },
    /// The probe could not connect or log in. Refusals and resets are counted: `refusals_max` in a row make the node dead.
    /// While the kept connection still stands, they are counted apart and prove nothing (the problem `shut_out`).
    ConnectFailed { node: NodeId, how: ConnectFailure },
    // ---- from the probes: the status query
    /// The node answered the status query that was sent at `asked`. Sent every probe interval, and after each
    /// [`crate::action::Action::Probe`]. Ends a doubt and answers the alarms that were raised before `asked`.
    Status { node: NodeId, status: Status, asked: Now },
    /// The status query that was sent at `asked` has passed its deadline without an answer. The age of the oldest such question decides
    /// when the node counts as silent.
    ProbeMissed { node: NodeId, asked: Now },
    /// The answer to a query that was sent at `asked` takes several times as long as usual, and its deadline has not passed yet. Sent at most
    /// once for each query. The other members are then asked, too; it is no miss.
    ProbeSlow { node: NodeId, asked: Now },
    // ---- from the manager's other questions to a node
    /// What the manager's heartbeat on `node` found: a heartbeat is a row that is committed every second. Decides whether the node, which
    /// may well answer its probes, still commits.
    Beat { node: NodeId, beat: Beat },
    /// All accounts of the database, read from `node`; answers [`crate::action::Action::ReadAccounts`]. Published to the proxy when they
    /// differ from those it has.
    Accounts { node: NodeId, rows: Vec<Account> },
    /// The names whose writes cannot be rolled back, and the names of which a read may write, read from `node`; answers
    /// [`crate::action::Action::ReadTables`]. Published as above.
    Catalogue { node: NodeId, catalogue: Catalogue },
    // ---- from a proxy
    /// What a proxy reports. `origin` names the proxy; the manager knows it by the channel, so that none can speak for another.
    Proxy { origin: Origin, fact: ProxyFact },
    // ---- from the manager's cycle
    /// What came of an action that the brain asked for.
    Outcome(Outcome),
    /// An operator's order, from the command line or the HTTP API. Each gets exactly one [`crate::action::Action::Answer`] with its `id`,
    /// at once or when it has been carried out.
    Order { id: OrderId, order: Order },
    /// Nothing but the passing of time. Sent every 20 ms when there is nothing else, so that deadlines inside the brain are met to about that.
    Tick,
}

/// What a proxy reports of the traffic of its clients. The channel is bounded; facts that do not fit are dropped, except where noted.
#[allow(missing_docs)] // as above
#[derive(Clone, Debug)]
pub enum ProxyFact {
    /// A session's connection to the node broke, or could not be made. `epoch` is that of the session's lane; from an older epoch it is
    /// old news, and no reason to hold traffic. `alarm` numbers the alarms of one lane (node and epoch) from 1 on: the session waits until
    /// [`crate::routes::Lane::looked`] or [`crate::routes::Lane::refused`] has reached its number, or the lane is shut. It is 0 when no
    /// session waits. The node takes no new transaction until it has answered a new connect.
    TrafficLost { node: NodeId, epoch: u64, how: ConnectFailure, alarm: u64 },
    /// The COMMITs of clients that the node has not answered yet, the oldest first: the connection's number on that node (its
    /// `CONNECTION_ID()`), and how long ago the COMMIT was sent. Sent twice a second while there are any, and once, empty, when there are
    /// none any more. Used like [`Fact::Beat`] where no heartbeat may be written.
    CommitsWait { node: NodeId, commits: Vec<(u32, Duration)> },
    /// The node answered a client's statement with an error that is about the node and not about the statement (1047, 1053, 1290, ...).
    /// `epoch` and `alarm` as in `TrafficLost`. Since a client can raise any error number by SIGNAL, it only makes the brain ask the node.
    TrafficRefused { node: NodeId, epoch: u64, errno: u16, alarm: u64 },
    /// A statement was running on the node when its connection broke. `digest` is that of the normalised statement in hex, `text` the
    /// normalised statement without literals, at most 200 bytes. Named in the journal if the node turns out to be dead.
    StatementLost { node: NodeId, epoch: u64, digest: String, text: String },
    /// A client's statement may have created, altered or dropped a table without transactions. The catalogue is read again soon.
    TablesChanged,
    /// No transaction runs any more on a lane that drains. Never dropped, since a switchover waits for it. `version` is that of the routes
    /// which the proxy had taken up when it saw this ([`crate::routes::Routes::version`]). It says nothing about a draining that later
    /// routes began on the same lane. Sent again for each version of the routes, so a repetition has no meaning.
    Quiesced { node: NodeId, epoch: u64, term: Term, version: u64 },
    /// Every connection to the node of epoch `epoch` and of older ones is certainly gone: its socket is shut down and its session has let go
    /// of it. Sent once after each lane that was shut; `epoch` is the last one before that. Never dropped, since with a primary and
    /// replicas nothing is promoted before it.
    Cut { node: NodeId, epoch: u64 },
    /// The proxy did not let a client in: its account is unknown, or the password did not match. The account may be newer than what was read
    /// last, so the accounts are read again, at most once in `accounts_gap_min`.
    UnknownAccount { user: String },
    // ---- from the second port, which takes reads
    /// One of the facts above, seen by the traffic of that port. Epochs and alarms in it are those of its own lanes.
    Reads(Box<ProxyFact>),
    /// A session has left its replica, and must not read older rows on the next one than it may have seen: it waits for a position of the
    /// primary that is not older than its leaving. The primary is asked for its status at once; the position goes out as
    /// [`crate::action::Action::Reached`].
    PositionWanted,
}

impl Fact {
    /// The node that it is about.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::LinkUp { node, .. }
            | Self::LoginStatus { node, .. }
            | Self::ShowsSessions { node, .. }
            | Self::LinkEnded { node, .. }
            | Self::ConnectFailed { node, .. }
            | Self::Status { node, .. }
            | Self::ProbeMissed { node, .. }
            | Self::ProbeSlow { node, .. }
            | Self::Accounts { node, .. }
            | Self::Beat { node, .. }
            | Self::Catalogue { node, .. }
            | Self::Outcome(Outcome::BarrierPassed { node, .. } | Outcome::BarrierFailed { node, .. }) => {
                Some(*node)
            }
            Self::Proxy { fact, .. } => fact.node(),
            Self::Outcome(Outcome::Galera(outcome)) => outcome.node(),
            Self::Outcome(Outcome::Replication(outcome)) => Some(outcome.node),
            Self::Outcome(Outcome::Persisted { .. } | Outcome::PersistFailed { .. })
            | Self::Order { .. }
            | Self::Tick => None,
        }
    }
}

impl ProxyFact {
    /// As reported by that proxy.
    pub fn by(self, origin: Origin) -> Fact {
        Fact::Proxy { origin, fact: self }
    }

    /// The node that it is about.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::TrafficLost { node, .. }
            | Self::CommitsWait { node, .. }
            | Self::TrafficRefused { node, .. }
            | Self::StatementLost { node, .. }
            | Self::Quiesced { node, .. }
            | Self::Cut { node, .. } => Some(*node),
            Self::Reads(fact) => fact.node(),
            Self::TablesChanged | Self::UnknownAccount { .. } | Self::PositionWanted => None,
        }
    }
}

/// How the probe's connection ended ([`Fact::LinkEnded`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The node closed or reset it without an error packet. A killed process ends like this, a firewall may forge it. A new connect
    /// tells: if that is refused, too, the node is dead.
    Closed,
    /// The server sent an error first (1053 shutdown, 1927 killed, ...). Other than 1927, which is an operator's KILL of this
    /// connection, it means an orderly stop: the node is given time to leave the group by itself, and is not evicted meanwhile.
    Goodbye {
        /// The error's number.
        errno: u16,
    },
    /// The probe closed it itself, since its query was not answered within the deadline. Counts as a missed probe.
    Silent,
}

/// Why a connection could not be made, or how a session's connection broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// ECONNREFUSED: the host answers, and nobody listens on the port. Counts towards the proof that the process has ended.
    Refused,
    /// The peer reset the connection. Counts like `Refused`.
    Reset,
    /// The peer closed it in good order. Counts as a missed probe.
    Closed,
    /// No answer within the deadline. Counts as a missed probe.
    TimedOut,
    /// No route to the host, or to its network. Counts as a missed probe.
    Unreachable,
    /// The server runs and answered the login with an error (1040 too many connections, 1045 access denied, 1129 host blocked, ...).
    Rejected {
        /// The error's number.
        errno: u16,
        /// The server's own message.
        message: String,
    },
    /// Something answered that does not speak the MySQL protocol.
    Protocol {
        /// What was wrong with it.
        what: String,
    },
}

/// What came of an action that the brain asked for. Sent by the manager once the action has ended; meanwhile other facts are taken in as
/// ever, and an action whose outcome does not come in time counts as failed.
#[allow(missing_docs)]
// `number` is the action's own, `term` that of the decision to which the action belongs, `why` an error's text
#[derive(Clone, Debug)]
pub enum Outcome {
    /// [`crate::action::Action::Persist`] of that number is on disk: term, writer and the limits of sessions. Only now may its term be
    /// published to the proxy.
    Persisted { number: u64 },
    /// They could not be written. A change of the writer that waits for them does not come into force.
    PersistFailed { number: u64, why: String },
    /// Of an action that only Galera has.
    Galera(galera::Outcome),
    /// Of an action that only a primary with replicas has.
    Replication(replication::Outcome),
    /// [`crate::action::Action::Barrier`]: the node reports that it is writable and has applied everything that the cluster had when it was
    /// asked. Its lane may be opened, as soon as `term` is on disk, too.
    BarrierPassed { node: NodeId, term: Term },
    /// It is not, or did not say so within the deadline. The next candidate is tried, or the switchover is undone.
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
