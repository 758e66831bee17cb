//! One command of the client, from its arrival until the client has its answer: decides the next operation after each event.
//!
//! A core: the driver carries out one operation ([`Op`]) at a time and reports its result ([`Event`]). Nothing here waits or sends.
//!
//! ```text
//!            ┌──────────────────────────── Retry <───────────────────────────────────┐
//!            v                                                                       │ the manager gave the node up,
//!   Begin ─> Lease ─> Attach ─> Prepare ─> Send ─┬─ Answered ─> Ask ─> Finish        │ the manager gave the node up,
//!              │        (if the session has no   ├─ Refused ──> AwaitLook ─┬─────────┤ and it may be sent again
//!              │         link on that lane yet)  └─ Lost ─────> AwaitLook ─┘         │
//!              └─ a lease is held already: a transaction is open                     └─ otherwise: an error that says what is known
//! ```
//!
//! Invariants: what may have run is never sent again unless it changes nothing. What was sent and lost is sent again at most
//! [`RetryLimits::resends_max`] times. A command that nodes have refused [`REFUSALS_MAX`] times in all is not sent again. A statement of an open
//! transaction is sent only on the link on which the transaction is open. From the second try on there is a pause before each, and the
//! pauses grow.

use std::time::Duration;

use protocol::command::Command;
use protocol::errno;
use protocol::response::End;
use protocol::statement::{Pins, Recalls};

use crate::command::{InFlight, Owed};
use crate::finish::{Delivered, Failure, Finish, LOST_DATA, NodeError};
use crate::retry::{LossDecision, Progress};
use crate::session::Session;
use crate::standing::Standing;

/// The pause between two tries; the manager needs a moment to see what the session saw. Each pause is twice as long as the one before, less
/// a random part of up to a half, so that many sessions that failed together do not try again together.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// From the second refusal on the pauses are longer, and grow faster: 1.5 s in all before the last try.
const REFUSED_PAUSE_MIN: Duration = Duration::from_millis(50);
const REFUSED_PAUSE_FACTOR: u32 = 5;
/// This many pauses end early when the routes show a node to try. Later ones do not: the routes may change all the time (each refusal that
/// a client provokes on a node changes them), and a statement must not be repeated without a pause because of that.
const EARLY_ENDS_MAX: u32 = 8;
/// The number of refusals by nodes, with an error about themselves, after which a statement is not tried again: its client gets the last of
/// these errors. Any client can make a node answer with such an error (SIGNAL), so it does not prove that the node cannot serve.
pub const REFUSALS_MAX: u32 = 5;

/// Why a read gets the error of a write.
const READ_THAT_MAY_WRITE: &str = "(it is a read that counts as a write, since it may use a view or a function that writes; \
                                   `understudy doctor` says which privilege would tell)";

/// What an operator may set.
#[derive(Clone, Copy, Debug)]
pub struct RetryLimits {
    /// The longest that a statement waits for a node, over all its tries.
    pub hold_time: Duration,
    /// How often a statement that was sent, and lost without an answer, is sent again.
    pub resends_max: u32,
}

/// Why there is no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLease {
    /// The hold time is over.
    Expired,
    /// Removed from the hold queue to make room, or too large for it.
    Evicted,
    /// Another node takes statements, but the session is tied to one that has not taken any for the hold time, or from which its state could not
    /// be read.
    Tied,
    /// The client is gone, or the proxy shuts down.
    Over,
}

/// Why there is no link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLink {
    /// The node could not be reached, was shut meanwhile, or lags, or this host lacks a resource: tried again later.
    NotNow,
    /// The node has no free connection and says so with this error: tried again later. When the hold time is over, the client gets the error.
    Full(NodeError),
    /// The node refused this account or schema.
    Refused(NodeError),
    /// The session's state cannot be set up on this node; the text says why.
    NotRebuilt(String),
}

/// The result of the manager's check of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The node was asked after the alarm, and reported that it is well.
    Well,
    /// The manager has given the node up.
    Gone,
    /// The node was asked after the alarm, and reported that it does not serve.
    Unfit,
    /// Neither was known within the time limit.
    NoWord,
}

/// The result of the last operation.
#[derive(Debug)]
pub enum Event {
    /// The command has arrived. `leased`: a lease is held, because the last command left a transaction open.
    Begin {
        /// See above.
        leased: bool,
    },
    /// A lease is held; `here`: on the lane of the session's link.
    Leased {
        /// See above.
        here: bool,
    },
    /// There is no lease.
    NotLeased(NoLease),
    /// The session has a link on the leased lane.
    Attached,
    /// It has none.
    NotAttached(NoLink),
    /// The prepared statement exists on the node.
    Prepared,
    /// The node refused to prepare it.
    NotPrepared(NodeError),
    /// The settings it was prepared under cannot be set up there; the text says why.
    NotBound(String),
    /// The command leaves out values that only a former node has; the text says which.
    NotTellable(String),
    /// The whole answer was sent to the client.
    Answered(End),
    /// The first packet of the answer was an error about the node; the client has got nothing.
    Refused(NodeError),
    /// The node has ended the link with this error before it had all of the command, which would get the same again.
    Ended(NodeError),
    /// The link broke.
    Lost(Loss),
    /// The answer violates the protocol, and the link cannot be used any more.
    NotFollowed {
        /// How much of it the client has.
        delivered: Delivered,
    },
    /// The client does not read its result, and the lane is to become quiet.
    Stalled {
        /// How much of the answer it has.
        delivered: Delivered,
    },
    /// The client is gone.
    ClientGone,
    /// The manager's check has a result.
    Looked(Look),
    /// The node's status bits: the answer to [`Ask::Status`].
    Status(u16),
    /// [`Ask::Track`] or [`Ask::Variables`] is done.
    Asked,
    /// The link broke during such a question.
    AskLost,
    /// The state of the routes: the answer to [`Op::Retry`].
    Routes(RoutesNow),
    /// A pause is over.
    Paused,
}

/// A link that broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The last byte of the command was handed to the kernel.
    pub sent: bool,
    /// How much of the answer the client has.
    pub delivered: Delivered,
    /// The node had closed the idle link before it could read the command.
    pub unread: bool,
    /// The lane was shut: the manager has given the node up already.
    pub given_up: bool,
    /// Another client killed this connection through the proxy.
    pub killed: bool,
}

impl Loss {
    /// For a command that was not wholly sent.
    pub fn unsent() -> Self {
        Self { sent: false, delivered: Delivered::Nothing, unread: false, given_up: false, killed: false }
    }
}

/// The state of the routes when a command is to be tried again.
#[derive(Clone, Copy, Debug)]
pub struct RoutesNow {
    /// Time since the proxy started.
    pub now: Duration,
    /// When the command was first held, or first lost.
    pub since: Duration,
    /// A random number, by which a pause is shortened.
    pub chance: u8,
    /// The lane that the statement failed on takes transactions.
    pub lane_open: bool,
    /// Another lane does.
    pub elsewhere: bool,
}

/// A question that the proxy asks on the session's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Whether a transaction is open.
    Status,
    /// That the server track the session's changes again.
    Track,
    /// The values of variables that no answer reported.
    Variables,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Op {
    /// Take a lease, waiting in the hold queue if necessary. `avoid`: not on the lane on which it just failed, if another is open.
    Lease {
        /// See above.
        avoid: bool,
    },
    /// Give the session a link on the leased lane.
    Attach,
    /// Prepare the command's statement there.
    Prepare,
    /// Send the command, and relay the answer.
    Send,
    /// Wait for the manager's check of the node.
    AwaitLook,
    /// Ask the node.
    Ask(Ask),
    /// Report the state of the routes: the command is to be tried again.
    Retry,
    /// Wait.
    Pause {
        /// At most this long.
        time: Duration,
        /// Shorter, if the lane on which the command failed takes no more transactions, or another one does.
        ends_early: bool,
    },
    /// The command is finished.
    Finish(Finish),
}

/// What the session releases before an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// Nothing.
    Nothing,
    /// The lease.
    Lease,
    /// The link, and the lease on its lane.
    Link,
    /// The link; the lease is on another lane.
    OldLink,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// What to release first.
    pub let_go: LetGo,
    /// What to do then.
    pub op: Op,
}

/// The state of a command.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// It was not sent yet, or is to be sent again.
    OnItsWay,
    /// Sent; the answer is awaited.
    Sent,
    /// The link broke; the manager's check is awaited before anything is concluded.
    AfterLoss {
        /// What of the session existed on that link only.
        pins: Pins,
        /// The decision if the node is lost.
        decision: LossDecision,
    },
    /// The node refused it; the manager's check is awaited.
    AfterRefusal(NodeError),
    /// The answer has ended. The node is asked for what the answer left open, then the client gets `error`, if there is one.
    Ending { error: Option<NodeError> },
}

/// One command. See the head of this file.
#[derive(Debug)]
pub struct Exchange {
    flight: InFlight,
    limits: RetryLimits,
    state: State,
    /// It is not in memory any more, because it was streamed.
    is_gone: bool,
    /// How often it was sent and lost.
    losses: u32,
    /// How often a node has refused it with an error about itself.
    refusals: u32,
    /// How often it was to be tried again, for whatever reason.
    tries: u32,
    /// The last pause.
    pause: Duration,
    /// The last try found a node without a free connection: its error.
    full: Option<NodeError>,
}

impl Exchange {
    /// A command that has arrived.
    pub fn new(flight: InFlight, limits: RetryLimits) -> Self {
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

    /// The command was streamed, or consumed: it cannot be sent again.
    pub fn is_streamed(&mut self) {
        self.is_gone = true;
    }

    /// Another node was lost while it ran this command, which counts.
    pub fn was_lost_elsewhere(&mut self) {
        self.losses += 1;
    }

    /// Handles the result of the last operation. `link`: the state of the session's link, if there is one.
    pub fn on(&mut self, event: Event, session: &mut Session, link: Option<&mut Standing>) -> Step {
        let step = self.after(event, session, link);
        match step.op {
            // There are drivers that take an error packet for the answer to a ping: see `Next::Close`.
            Op::Finish(Finish::Fail {
                failure: Failure::RolledBack | Failure::OutcomeUnknown | Failure::SessionLost,
                ..
            }) if self.flight.command == Command::PING => Step { op: Op::Finish(Finish::Close), ..step },
            _ => step,
        }
    }

    fn after(&mut self, event: Event, session: &mut Session, link: Option<&mut Standing>) -> Step {
        match event {
            Event::Begin { leased } => match link {
                // Without a lease the lane would count as quiet while the transaction is open. The link is closed, and the node rolls it back.
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
            Event::Attached => {
                self.full = None;
                self.stand(link)
            }
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
            // The statement cannot be prepared any more (its table is gone, or a privilege is missing): the client gets the node's error.
            Event::NotPrepared(error) => finish(Finish::NodeError { error, closes: false }),
            Event::NotBound(why) => finish(fail(Failure::NotRebuilt, &why)),
            Event::NotTellable(what) => finish(fail(Failure::SessionLost, &what)),
            Event::Answered(end) => self.answered(end, session, link),
            Event::Refused(error) => self.refused(error),
            Event::Ended(error) => step(LetGo::Link, Op::Finish(Finish::NodeError { error, closes: true })),
            Event::Lost(loss) => self.lost(loss, session, link),
            Event::NotFollowed { delivered: Delivered::PartOfPacket } => {
                step(LetGo::Link, Op::Finish(Finish::Close))
            }
            Event::NotFollowed { delivered } => {
                let none = Standing::default();
                let link = link.map_or(&none, |link| &*link);
                let pins = session.ties_lost(link, &self.flight);
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

    /// The session has a link on the leased lane: prepare the statement there, or send it.
    fn stand(&mut self, link: Option<&mut Standing>) -> Step {
        let Some(link) = link else { return step(LetGo::Lease, Op::Retry) };
        let unprepared = self.flight.statement.is_some_and(|id| link.statement(id).is_none());
        // Preparing it again is a statement of its own, which clears what the client could ask for.
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
            // The last of several results was an error that the server closes the connection after.
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

    /// Asks what the answer made necessary to ask, one question after the other.
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
        let decision = match session.lost(link, &self.flight, progress) {
            // It only waits or takes locks, and is not repeated; but it cannot have changed anything.
            LossDecision::Unknown if self.flight.only_waits() => LossDecision::CutShort,
            decision => decision,
        };
        let pins = if loss.sent { self.ties(decision, session, link) } else { link.pins() };
        let changes_nothing = matches!(decision, LossDecision::Again | LossDecision::CutShort);
        let is_told = loss.delivered != Delivered::Nothing;
        let may_be_killed = changes_nothing && !is_told && loss.sent && !loss.unread && !loss.given_up;
        if may_be_killed {
            self.state = State::AfterLoss { pins, decision };
            return step(LetGo::Link, Op::AwaitLook);
        }
        if loss.sent && !loss.unread {
            self.losses += 1;
        }
        self.conclude(decision, loss.delivered, session, pins)
    }

    /// The node says that it cannot serve. Any client can make a node say so (SIGNAL), so the manager's check decides.
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
            State::AfterLoss { pins, decision } => {
                self.losses += 1;
                self.conclude(decision, Delivered::Nothing, session, pins)
            }
            // The node reports that it does not serve at present, and the link is intact: the statement waits, for this node or another.
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
                    // It could be sent again, but was refused often enough: the client gets the node's error. The link is cut with its lane.
                    LossDecision::Again
                        if self.refusals >= REFUSALS_MAX
                            && link.pins().is_empty()
                            && self.flight.command.answers() =>
                    {
                        step(LetGo::Link, Op::Finish(Finish::NodeError { error, closes: false }))
                    }
                    decision => {
                        let pins = self.ties(decision, session, link);
                        self.conclude(decision, Delivered::Nothing, session, pins)
                    }
                }
            }
            State::AfterRefusal(error) if error.speaks_of_a_kill() => {
                step(LetGo::Link, Op::Finish(Finish::NodeError { error, closes: true }))
            }
            // The node reported later that it is well, or nothing is known, or the command cannot wait: the client gets the node's error.
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

    /// Whether a statement that was refused by a node that does not serve at present has not run, and can be sent again on the same link.
    fn may_wait(&self, session: &mut Session, link: Option<&Standing>, code: u16) -> bool {
        let Some(link) = link.filter(|link| !link.in_transaction()) else { return false };
        !self.is_gone && session.refused(link, &self.flight, code) == LossDecision::Again
    }

    /// The client does not read its result, and the lane is to become quiet: the link is given up, as if the node had been lost.
    fn stalled(&mut self, delivered: Delivered, session: &mut Session, link: Option<&mut Standing>) -> Step {
        let none = Standing::default();
        let link = link.map_or(&none, |link| &*link);
        let decision = session.lost(link, &self.flight, Progress { sent: true, delivered: true });
        // Not sent again, since a part of the answer was sent to the client.
        let decision = if decision == LossDecision::Again { LossDecision::CutShort } else { decision };
        let pins = session.ties_lost(link, &self.flight);
        self.conclude(decision, delivered, session, pins)
    }

    /// What tied the session to a link that was lost after the command was sent.
    fn ties(&self, decision: LossDecision, session: &mut Session, link: &Standing) -> Pins {
        if decision == LossDecision::Again { link.pins() } else { session.ties_lost(link, &self.flight) }
    }

    /// Carries out the decision after a loss; the link cannot be used any more.
    fn conclude(
        &mut self,
        decision: LossDecision,
        delivered: Delivered,
        session: &mut Session,
        pins: Pins,
    ) -> Step {
        self.state = State::OnItsWay;
        let is_pinned = !pins.is_empty();
        let names = pins.names().join(", ");
        if !self.flight.command.answers() {
            // A command without an answer cannot report an error: the next command gets it.
            session.owe(Owed::SessionLost(LOST_DATA.into()));
            return step(LetGo::Link, Op::Finish(Finish::Answered));
        }
        if delivered == Delivered::PartOfPacket {
            return step(LetGo::Link, Op::Finish(Finish::Close));
        }
        let end = |failure, detail: &str| step(LetGo::Link, Op::Finish(failed(failure, detail, delivered)));
        match decision {
            LossDecision::Unknown => {
                if is_pinned {
                    session.owe(Owed::SessionLost(names));
                }
                end(
                    Failure::OutcomeUnknown,
                    if self.flight.is_read_that_may_write() { READ_THAT_MAY_WRITE } else { "" },
                )
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

    /// The first time at once, if the routes show another node; otherwise after a pause, since the manager may not have seen the loss yet.
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

    /// The hold time is over.
    fn expired(&mut self) -> Finish {
        match self.full.take() {
            Some(error) => Finish::NodeError { error, closes: false },
            None => fail(Failure::HoldExpired, ""),
        }
    }
}

/// The lease is on another lane than the link: the session moves, if nothing ties it to the node.
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
