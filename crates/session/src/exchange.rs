//! One command of the client, from its arrival until the client has its answer: what is to be done next, whatever happens.
//!
//! A core: the driver does one operation ([`Op`]) at a time and tells what came of it ([`Event`]); nothing here waits or sends.
//!
//! ```text
//!            ┌──────────────────────────── Retry <───────────────────────────────────┐
//!            v                                                                       │ the manager gave the node up,
//!   Begin ─> Lease ─> Attach ─> Prepare ─> Send ─┬─ Answered ─> Ask ─> Finish        │ and it may be sent again
//!              │        (where the session does  ├─ Refused ──> AwaitLook ─┬─────────┤
//!              │         not stand already)      └─ Lost ─────> AwaitLook ─┘         │
//!              └─ a lease is held already: a transaction is open                     └─ else: an error says what is known
//! ```
//!
//! Invariants: what may have run is never sent again unless it changes nothing; what was sent and lost is sent again
//! [`Limits::resends_max`] times at the most, what nodes have refused [`REFUSALS_MAX`] times in all; a statement of an open transaction is
//! never sent on a link that the transaction is not open on; from the second try on there is a pause before each, and the pauses grow.

use std::time::Duration;

use protocol::errno;
use protocol::response::End;
use protocol::statement::{Pins, Recalls};

use crate::command::{InFlight, Owed};
use crate::retry::{LossDecision, Progress};
use crate::session::Session;
use crate::standing::Standing;

/// Between two tries: the manager needs a moment to see what the session saw. Each pause is twice as long as the one before, less up to a
/// half of it by chance, so that many sessions that failed together do not try again together.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// From the second refusal on the pauses are longer than that, and grow faster: 1.5 s in all before the last try.
const REFUSED_PAUSE_MIN: Duration = Duration::from_millis(50);
const REFUSED_PAUSE_FACTOR: u32 = 5;
/// So many pauses end early when the routes say that waiting is over. Later ones do not: routes that change all the time (each refusal that a
/// client makes a node say changes them) must not make a statement go round without a pause.
const EARLY_ENDS_MAX: u32 = 8;
/// A statement that so many nodes, or one so often, have refused with a word about themselves is not tried again: its client hears the last
/// refusal. Any client can make a node say such a word (SIGNAL), and a node that says so of itself as well may be right or not.
pub const REFUSALS_MAX: u32 = 5;

/// The server's own word to a client whose connection was killed.
pub const KILLED: &str = "Connection was killed";

/// What an operator may set.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest that a statement waits for a node, over all its tries.
    pub hold_time: Duration,
    /// How often a statement that was sent, and lost without an answer, is sent again.
    pub resends_max: u32,
}

/// How much of the answer the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Nothing.
    Nothing,
    /// Whole packets; an error with the next sequence number can end it.
    Packets {
        /// That number.
        next_seq: u8,
    },
    /// A part of a packet: nothing sensible can follow.
    PartOfPacket,
}

/// An error in a node's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// The error's number.
    pub code: u16,
    /// SQLSTATE.
    pub state: [u8; 5],
    /// The sentence.
    pub message: String,
}

impl NodeError {
    /// What a server says to a client whose connection was killed while a statement ran.
    pub fn killed() -> Self {
        Self { code: errno::CONNECTION_KILLED, state: *b"70100", message: KILLED.to_owned() }
    }

    fn speaks_of_a_kill(&self) -> bool {
        matches!(self.code, errno::CONNECTION_KILLED | errno::SESSION_WAS_KILLED)
    }
}

/// Why no lease was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLease {
    /// The hold's time is over.
    Expired,
    /// Thrown out of the hold to make room, or too large for it.
    Evicted,
    /// Another node takes statements, but the session is tied to one that has not done so for the hold's time.
    Tied,
    /// The client is gone, or the proxy goes down.
    Over,
}

/// Why no link was had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLink {
    /// The node could not be reached, was shut meanwhile, lags, or this host lacks something: to be tried again.
    NotNow,
    /// The node has no connection left, in its own words: to be tried again. When the hold's time is over the client is told that.
    Full(NodeError),
    /// The node refused this account or schema.
    Refused(NodeError),
    /// The session cannot be set up on this node: why.
    NotRebuilt(String),
}

/// What the manager's look at the node came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The node was asked after the alarm, and said that it is well.
    Well,
    /// The manager has given the node up.
    Gone,
    /// The node was asked after the alarm, and said itself that it does not serve.
    Unfit,
    /// Neither within the time that one waits for it.
    NoWord,
}

/// What came of the last operation.
#[derive(Debug)]
pub enum Event {
    /// The command has arrived. `leased`: a lease is held, since the last command left a transaction open.
    Begin {
        /// See above.
        leased: bool,
    },
    /// A lease is held; `here`: on the lane that the session's link stands on.
    Leased {
        /// See above.
        here: bool,
    },
    /// No lease.
    NotLeased(NoLease),
    /// The session stands on the leased lane.
    Attached,
    /// It does not.
    NotAttached(NoLink),
    /// The statement at hand is prepared on the node.
    Prepared,
    /// The node does not prepare it.
    NotPrepared(NodeError),
    /// What it was bound to cannot be set up there: why.
    NotBound(String),
    /// The command leaves out what only a former node knows: what.
    NotTellable(String),
    /// The whole answer was given to the client.
    Answered(End),
    /// The first packet of the answer was an error that speaks of the node; the client has seen nothing.
    Refused(NodeError),
    /// The link broke.
    Lost(Loss),
    /// The answer cannot be followed; the link is of no more use.
    NotFollowed {
        /// What of it the client has.
        delivered: Delivered,
    },
    /// The client reads nothing, and the lane is to become quiet.
    Stalled {
        /// What of the answer it has.
        delivered: Delivered,
    },
    /// The client is gone.
    ClientGone,
    /// What the manager saw.
    Looked(Look),
    /// The node's status bits, to [`Ask::Status`].
    Status(u16),
    /// Done what was asked for by [`Ask::Track`] or [`Ask::Variables`].
    Asked,
    /// The link broke when it was asked something.
    AskLost,
    /// How the routes stand, to [`Op::Retry`].
    Routes(RoutesNow),
    /// A pause is over.
    Paused,
}

/// A link that broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The last byte of the command was given to the kernel.
    pub sent: bool,
    /// What of the answer the client has.
    pub delivered: Delivered,
    /// The node had ended the link before it saw the command, since it was idle for too long.
    pub unread: bool,
    /// The lane was shut: the manager has given the node up already.
    pub given_up: bool,
    /// Another client killed this connection through the proxy.
    pub killed: bool,
}

impl Loss {
    /// Of a command that was not wholly sent.
    pub fn unsent() -> Self {
        Self { sent: false, delivered: Delivered::Nothing, unread: false, given_up: false, killed: false }
    }
}

/// How the routes stand when something is to be tried again.
#[derive(Clone, Copy, Debug)]
pub struct RoutesNow {
    /// Time since the proxy started.
    pub now: Duration,
    /// When the statement was first held, or first lost.
    pub since: Duration,
    /// A number by chance, by which a pause is shortened.
    pub chance: u8,
    /// The lane that the statement failed on takes transactions.
    pub lane_open: bool,
    /// Another one does.
    pub elsewhere: bool,
}

/// A question of the proxy's own on the session's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Whether a transaction is open.
    Status,
    /// To report the session's changes again.
    Track,
    /// For variables that no answer told.
    Variables,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Op {
    /// Take a lease, waiting in the hold if need be. `avoid`: not on the lane it just failed on, if another is open.
    Lease {
        /// See above.
        avoid: bool,
    },
    /// Make the session stand on the leased lane.
    Attach,
    /// Prepare the statement at hand there.
    Prepare,
    /// Send the command, relay the answer.
    Send,
    /// Wait for the manager's look at the node.
    AwaitLook,
    /// Ask the node.
    Ask(Ask),
    /// Look at the routes: it is to be tried again.
    Retry,
    /// Wait.
    Pause {
        /// At most so long.
        time: Duration,
        /// Less, if the lane that the statement failed on takes no transactions any more, or another does.
        ends_early: bool,
    },
    /// The end of it.
    Finish(Finish),
}

/// What the session lets go of before an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// Nothing.
    Nothing,
    /// The lease.
    Lease,
    /// The link, and the lease that is on its lane.
    Link,
    /// The link; the lease is on another lane.
    OldLink,
}

/// The next step: first let go, then do.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// First.
    pub let_go: LetGo,
    /// Then.
    pub op: Op,
}

/// How a command ends.
#[derive(Debug, PartialEq, Eq)]
pub enum Finish {
    /// The client has its answer, or expects none.
    Answered,
    /// It is told OK: it is as if the command had succeeded.
    Ok,
    /// It is told an error of the proxy's own.
    Fail {
        /// Which.
        failure: Failure,
        /// More about it.
        detail: String,
        /// What of the answer the client has.
        delivered: Delivered,
    },
    /// It is told an error in a node's words.
    NodeError {
        /// Which.
        error: NodeError,
        /// The connection ends with it.
        closes: bool,
    },
    /// Nothing can be told: the connection ends.
    Close,
}

/// The errors of the proxy's own that a command may end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The transaction is surely rolled back.
    RolledBack,
    /// It may have been committed or not.
    OutcomeUnknown,
    /// No node took it for the whole hold time.
    HoldExpired,
    /// Too many were waiting.
    HoldFull,
    /// What tied the session to its node is lost.
    SessionLost,
    /// A result that changes nothing was broken off.
    CutShort,
    /// It asks for what only a former node knew.
    Forgotten,
    /// The session could not be set up.
    NotRebuilt,
    /// Not executed, and too large to have been kept.
    TooLargeToRepeat,
    /// It was sent as often as it may be, and each time its node was lost.
    LostAgain,
    /// The answer cannot be followed.
    NotFollowed,
}

/// Where a command is.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Before it was sent for the first time, or again.
    OnItsWay,
    /// Sent; the answer is awaited.
    Sent,
    /// The link broke; the manager's look is awaited before anything is concluded.
    AfterLoss {
        /// What was lost with the link.
        pins: Pins,
        /// What follows if the node is lost.
        verdict: LossDecision,
    },
    /// The node refused it; the manager's look is awaited.
    AfterRefusal(NodeError),
    /// The answer has ended; the node is asked what the answer left open, then the client is told `error`, if there is one.
    Ending { error: Option<NodeError> },
}

/// See the head of this file.
#[derive(Debug)]
pub struct Exchange {
    flight: InFlight,
    limits: Limits,
    state: State,
    /// It is not in memory any more: it was streamed.
    is_gone: bool,
    /// How often it was sent and lost.
    losses: u32,
    /// How often a node has refused it with a word about itself.
    refusals: u32,
    /// How often it was to be tried again, for whatever reason.
    tries: u32,
    /// The last pause.
    pause: Duration,
    /// The last try found a node without a free connection.
    full: Option<NodeError>,
}

impl Exchange {
    /// A command that arrived.
    pub fn new(flight: InFlight, limits: Limits) -> Self {
        let state = State::OnItsWay;
        Self {
            flight,
            limits,
            state,
            is_gone: false,
            losses: 0,
            refusals: 0,
            tries: 0,
            pause: Duration::ZERO,
            full: None,
        }
    }

    /// The command.
    pub fn flight(&self) -> &InFlight {
        &self.flight
    }

    /// The command has been streamed, or consumed: it cannot be sent again.
    pub fn is_streamed(&mut self) {
        self.is_gone = true;
    }

    /// A node was lost with it before, and it is sent again: that counts.
    pub fn was_lost_elsewhere(&mut self) {
        self.losses += 1;
    }

    /// Takes in what came of the last operation. `link`: what stands on the session's link, if there is one.
    pub fn on(&mut self, event: Event, session: &mut Session, link: Option<&mut Standing>) -> Step {
        match event {
            Event::Begin { leased } => match link {
                // Never without its lease: the lane would be called quiet while the transaction runs. The node rolls it back.
                Some(link) if !leased && link.in_transaction() => {
                    step(LetGo::Link, Op::Finish(rolled_back(link)))
                }
                _ if !leased => step(LetGo::Nothing, Op::Lease { avoid: false }),
                None => step(LetGo::Nothing, Op::Attach),
                link => self.stand(link),
            },
            Event::Leased { here: true } => self.stand(link),
            Event::Leased { here: false } => leave_for_lease(link.as_deref(), session),
            Event::NotLeased(NoLease::Tied) => {
                let pins = link.map_or(Pins::NONE, |link| link.pins());
                step(LetGo::Link, Op::Finish(fail(Failure::SessionLost, &pins.names().join(", "))))
            }
            Event::NotLeased(why) => finish(match why {
                NoLease::Expired => self.expired(),
                NoLease::Evicted => fail(Failure::HoldFull, ""),
                NoLease::Tied | NoLease::Over => Finish::Close,
            }),
            Event::Attached => self.stand(link),
            Event::NotAttached(NoLink::NotNow) => {
                self.full = None;
                step(LetGo::Lease, Op::Retry)
            }
            Event::NotAttached(NoLink::Full(error)) => {
                self.full = Some(error);
                step(LetGo::Lease, Op::Retry)
            }
            Event::NotAttached(NoLink::Refused(error)) => finish(Finish::NodeError { error, closes: true }),
            Event::NotAttached(NoLink::NotRebuilt(why)) => finish(fail(Failure::NotRebuilt, &why)),
            Event::Prepared => self.send(),
            // The statement is not what it was (its table is gone, a right is missing): the client hears the node.
            Event::NotPrepared(error) => finish(Finish::NodeError { error, closes: false }),
            Event::NotBound(why) => finish(fail(Failure::NotRebuilt, &why)),
            Event::NotTellable(what) => finish(fail(Failure::SessionLost, &what)),
            Event::Answered(end) => self.answered(end, session, link),
            Event::Refused(error) => self.refused(error),
            Event::Lost(loss) => self.lost(loss, session, link),
            Event::NotFollowed { delivered: Delivered::PartOfPacket } => {
                step(LetGo::Link, Op::Finish(Finish::Close))
            }
            Event::NotFollowed { delivered } => {
                let pins = link.map_or(Pins::NONE, |link| link.pins());
                if !pins.is_empty() {
                    session.owe(Owed::SessionLost(pins.names().join(", ")));
                }
                step(LetGo::Link, Op::Finish(failed(Failure::NotFollowed, "", delivered)))
            }
            Event::Stalled { delivered } => self.stalled(delivered, session, link),
            Event::ClientGone => finish(Finish::Close),
            Event::Looked(look) => self.looked(look, session, link),
            Event::Status(status) => {
                if let Some(link) = link {
                    session.server_status(link, status);
                    return self.ask_more(link);
                }
                self.finish_ending()
            }
            Event::Asked => match link {
                Some(link) => self.ask_more(link),
                None => self.finish_ending(),
            },
            Event::AskLost => {
                if let Some(link) = link {
                    session.lost_unsure(link, &self.flight);
                }
                Step { let_go: LetGo::Link, ..self.finish_ending() }
            }
            Event::Routes(routes) => self.retry(routes),
            Event::Paused => step(LetGo::Nothing, Op::Lease { avoid: true }),
        }
    }

    // ---- on the way

    /// The session stands on the leased lane: prepare the statement there, or send it.
    fn stand(&mut self, link: Option<&mut Standing>) -> Step {
        let Some(link) = link else { return step(LetGo::Lease, Op::Retry) };
        let unprepared = self.flight.statement.is_some_and(|id| link.statement(id).is_none());
        // To prepare it anew is a statement of its own, which leaves nothing to recall.
        let forgets = unprepared && !self.flight.recalls().without(Recalls::INSERT_ID).is_empty();
        if forgets || !Session::forgotten(link, &self.flight).is_empty() {
            return finish(fail(Failure::Forgotten, ""));
        }
        if unprepared { step(LetGo::Nothing, Op::Prepare) } else { self.send() }
    }

    fn send(&mut self) -> Step {
        self.state = State::Sent;
        step(LetGo::Nothing, Op::Send)
    }

    // ---- answered

    fn answered(&mut self, end: End, session: &Session, link: Option<&mut Standing>) -> Step {
        self.state = State::Ending { error: None };
        if end == (End::Err { code: errno::CONNECTION_KILLED }) {
            // The last of several statements that have told something: the server closes behind it.
            return step(LetGo::Link, Op::Finish(Finish::Close));
        }
        let Some(link) = link else { return finish(Finish::Answered) };
        if end == End::Text {
            Session::sent(link, &self.flight);
        }
        if session.unsure(link, &self.flight, &end) {
            return step(LetGo::Nothing, Op::Ask(Ask::Status));
        }
        self.ask_more(link)
    }

    /// What an answer has made necessary to ask, one question after the other.
    fn ask_more(&mut self, link: &mut Standing) -> Step {
        if link.take_must_track() {
            return step(LetGo::Nothing, Op::Ask(Ask::Track));
        }
        if link.has_to_ask() {
            return step(LetGo::Nothing, Op::Ask(Ask::Variables));
        }
        self.finish_ending()
    }

    fn finish_ending(&mut self) -> Step {
        match &mut self.state {
            State::Ending { error } => match error.take() {
                Some(error) => finish(Finish::NodeError { error, closes: false }),
                None => finish(Finish::Answered),
            },
            _ => finish(Finish::Close),
        }
    }

    // ---- lost or refused

    fn lost(&mut self, loss: Loss, session: &mut Session, link: Option<&mut Standing>) -> Step {
        if loss.killed || (loss.sent && self.flight.kills_itself()) {
            return step(
                LetGo::Link,
                Op::Finish(match loss.delivered {
                    Delivered::Nothing => Finish::NodeError { error: NodeError::killed(), closes: true },
                    _ => Finish::Close,
                }),
            );
        }
        let none = Standing::default();
        let link = link.map_or(&none, |link| &*link);
        let progress = Progress { sent: loss.sent, delivered: loss.delivered != Delivered::Nothing };
        let verdict = match session.lost(link, &self.flight, progress) {
            // It waits or locks, and is not run again; but there is nothing that it may have done.
            LossDecision::Unknown if self.flight.only_waits() => LossDecision::CutShort,
            verdict => verdict,
        };
        let changes_nothing = matches!(verdict, LossDecision::Again | LossDecision::CutShort);
        let is_told = loss.delivered != Delivered::Nothing;
        let may_be_killed = changes_nothing && !is_told && loss.sent && !loss.unread && !loss.given_up;
        if may_be_killed {
            self.state = State::AfterLoss { pins: link.pins(), verdict };
            return step(LetGo::Link, Op::AwaitLook);
        }
        if loss.sent && !loss.unread {
            self.losses += 1;
        }
        self.conclude(verdict, loss.delivered, session, link.pins())
    }

    /// The node says that it cannot. Any client can make a node say so (SIGNAL): the manager's look decides.
    fn refused(&mut self, error: NodeError) -> Step {
        if error.speaks_of_a_kill() && self.flight.kills_itself() {
            return step(LetGo::Link, Op::Finish(Finish::NodeError { error, closes: true }));
        }
        self.refusals += 1;
        self.state = State::AfterRefusal(error);
        step(LetGo::Nothing, Op::AwaitLook)
    }

    fn looked(&mut self, look: Look, session: &mut Session, link: Option<&mut Standing>) -> Step {
        match std::mem::replace(&mut self.state, State::OnItsWay) {
            // The node is well, so only this connection was ended.
            State::AfterLoss { .. } if look == Look::Well => {
                finish(Finish::NodeError { error: NodeError::killed(), closes: true })
            }
            State::AfterLoss { pins, verdict } => {
                self.losses += 1;
                self.conclude(verdict, Delivered::Nothing, session, pins)
            }
            // It does not serve for the moment, by its own word, and the link stands: the statement waits, there or elsewhere.
            State::AfterRefusal(error)
                if look == Look::Unfit
                    && self.refusals < REFUSALS_MAX
                    && self.may_wait(session, link.as_deref(), error.code) =>
            {
                step(LetGo::Lease, Op::Retry)
            }
            State::AfterRefusal(error) if look == Look::Gone => {
                let none = Standing::default();
                let link = link.map_or(&none, |link| &*link);
                match session.refused(link, &self.flight, error.code) {
                    // It would be sent again, and has been often enough: the nodes' word is the answer. The link is cut with its lane.
                    LossDecision::Again
                        if self.refusals >= REFUSALS_MAX
                            && link.pins().is_empty()
                            && self.flight.command.answers() =>
                    {
                        step(LetGo::Link, Op::Finish(Finish::NodeError { error, closes: false }))
                    }
                    verdict => self.conclude(verdict, Delivered::Nothing, session, link.pins()),
                }
            }
            State::AfterRefusal(error) if error.speaks_of_a_kill() => {
                step(LetGo::Link, Op::Finish(Finish::NodeError { error, closes: true }))
            }
            // The node is well by its own later word, or gives none, or this cannot wait: the client hears what the node said.
            State::AfterRefusal(error) => {
                let end = End::Err { code: error.code };
                self.state = State::Ending { error: Some(error) };
                let Some(link) = link else { return self.finish_ending() };
                session.ended(link, &self.flight, &end, &[], &[], protocol::capability::Caps::NONE);
                if session.unsure(link, &self.flight, &end) {
                    return step(LetGo::Nothing, Op::Ask(Ask::Status));
                }
                self.ask_more(link)
            }
            state => {
                self.state = state;
                finish(Finish::Close)
            }
        }
    }

    /// Refused by a node that does not serve for the moment, the statement has not run, and can be said again on the same link.
    fn may_wait(&self, session: &mut Session, link: Option<&Standing>, code: u16) -> bool {
        let Some(link) = link.filter(|link| !link.in_transaction()) else { return false };
        !self.is_gone && session.refused(link, &self.flight, code) == LossDecision::Again
    }

    /// The client does not read its result, and the lane is to become quiet: the link is given up, as if the node had been lost.
    fn stalled(&mut self, delivered: Delivered, session: &mut Session, link: Option<&mut Standing>) -> Step {
        let none = Standing::default();
        let link = link.map_or(&none, |link| &*link);
        let verdict = session.lost(link, &self.flight, Progress { sent: true, delivered: true });
        // Never again: a part of the answer was given.
        let verdict = if verdict == LossDecision::Again { LossDecision::CutShort } else { verdict };
        self.conclude(verdict, delivered, session, link.pins())
    }

    /// What follows from a loss, the link being of no more use.
    fn conclude(
        &mut self,
        verdict: LossDecision,
        delivered: Delivered,
        session: &mut Session,
        pins: Pins,
    ) -> Step {
        self.state = State::OnItsWay;
        let is_pinned = !pins.is_empty();
        let names = pins.names().join(", ");
        if !self.flight.command.answers() {
            // Nobody waits for an answer, so nobody can be told: the next command is told.
            session.owe(Owed::SessionLost("data sent for a prepared statement".into()));
            return step(LetGo::Link, Op::Finish(Finish::Answered));
        }
        if delivered == Delivered::PartOfPacket {
            return step(LetGo::Link, Op::Finish(Finish::Close));
        }
        let end = |failure, detail: &str| step(LetGo::Link, Op::Finish(failed(failure, detail, delivered)));
        match verdict {
            LossDecision::Unknown => {
                if is_pinned {
                    session.owe(Owed::SessionLost(names));
                }
                end(Failure::OutcomeUnknown, "")
            }
            _ if is_pinned => end(Failure::SessionLost, &names),
            LossDecision::Again if self.is_gone => end(Failure::TooLargeToRepeat, ""),
            LossDecision::Again if self.losses > self.limits.resends_max => end(Failure::LostAgain, ""),
            LossDecision::Again => step(LetGo::Link, Op::Retry),
            LossDecision::Done => step(LetGo::Link, Op::Finish(Finish::Ok)),
            LossDecision::RolledBack => end(Failure::RolledBack, ""),
            LossDecision::CutShort => end(Failure::CutShort, ""),
        }
    }

    /// The first time at once, where the routes say so; else after a pause, since the manager may not have seen it yet.
    fn retry(&mut self, routes: RoutesNow) -> Step {
        if routes.now.saturating_sub(routes.since) >= self.limits.hold_time {
            return finish(self.expired());
        }
        self.tries += 1;
        if self.tries == 1 && (!routes.lane_open || routes.elsewhere) {
            return step(LetGo::Nothing, Op::Lease { avoid: true });
        }
        self.pause = if self.refusals > 1 {
            (self.pause * REFUSED_PAUSE_FACTOR).max(REFUSED_PAUSE_MIN)
        } else {
            (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)
        };
        let less = self.pause / 2 * u32::from(routes.chance) / u32::from(u8::MAX);
        let time = self.pause.saturating_sub(less);
        let ends_early = self.refusals < 2 && self.tries <= EARLY_ENDS_MAX;
        step(LetGo::Nothing, Op::Pause { time, ends_early })
    }

    /// The hold's time is over.
    fn expired(&mut self) -> Finish {
        match self.full.take() {
            Some(error) => Finish::NodeError { error, closes: false },
            None => fail(Failure::HoldExpired, ""),
        }
    }
}

/// A lease on another lane than the link's: the session moves, if nothing ties it.
fn leave_for_lease(link: Option<&Standing>, session: &mut Session) -> Step {
    let Some(link) = link else { return step(LetGo::Nothing, Op::Attach) };
    if link.in_transaction() {
        // A statement of the transaction on another node would be a lost write.
        return step(LetGo::Link, Op::Finish(rolled_back(link)));
    }
    let pins = link.pins();
    if !pins.is_empty() {
        return finish(fail(Failure::SessionLost, &pins.names().join(", ")));
    }
    session.lost_idle(link);
    step(LetGo::OldLink, Op::Attach)
}

fn rolled_back(link: &Standing) -> Finish {
    fail(if link.wrote_untransactional() { Failure::OutcomeUnknown } else { Failure::RolledBack }, "")
}

fn step(let_go: LetGo, op: Op) -> Step {
    Step { let_go, op }
}

fn finish(finish: Finish) -> Step {
    step(LetGo::Nothing, Op::Finish(finish))
}

fn fail(failure: Failure, detail: &str) -> Finish {
    failed(failure, detail, Delivered::Nothing)
}

fn failed(failure: Failure, detail: &str, delivered: Delivered) -> Finish {
    Finish::Fail { failure, detail: detail.to_owned(), delivered }
}

#[cfg(test)]
mod tests;
