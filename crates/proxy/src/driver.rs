//! One client, from its greeting to its end: moves the bytes, and carries out what the session and the exchange decide.
//!
//! ```text
//!             ┌───── idle: the client's next command, the end of the node's link, or a reason to save state ◄──────────────┐
//!             ▼                                                                                                     │
//!   command ─► session::command ─► Exchange ◄──────────────── Event ───────────────┐                                │
//!                                      │ Op                                         │                                │
//!                                      ├─ Lease, Attach, AwaitLook ─► attachment ───┤                                │
//!                                      ├─ Prepare, Ask ─► backend ──────────────────┤                                │
//!                                      ├─ Send ─► send, relay ──────────────────────┘                                │
//!                                      └─ Finish ─► the client has its answer ───────────────────────────────────────┘
//! ```

mod idle;
mod login;
mod schema;
mod side;
mod special;
mod tapped;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use listen::slots::ConnectionSlot;
use protocol::capability::Caps;
use protocol::command::Command;
use protocol::errno::{self, Whose};
use protocol::packet::{HEADER_LEN, PAYLOAD_MAX};
use protocol::response::End;
use protocol::statement::{Pins, Recalls};
use session::command::{InFlight, Next, Owed};
use session::exchange::{Ask, Event, Exchange, LetGo, Look, Loss, NoLease, Op};
use session::finish::{Delivered, Failure, Finish, KILLED, NodeError};
use session::session::Session;
use session::split::Need;
use session::wanted::Begun;
use tokio::net::TcpStream;
use topology::NodeId;
use topology::fact::ConnectFailure;

use crate::activity::{Card, Doing};
use crate::attachment::{Attachment, Past, Waiting};
use crate::backend::{AttachError, Backend, NotPrepared, Stirred};
use crate::ending;
use crate::error_reply::{self, ErrorReply};
use crate::frontend::{BufferedCommand, Client, Done, FIRST};
use crate::identity::Identity;
use crate::lane::Lane;
use crate::reads::port::{self, READ_ONLY};
use crate::relay::{Relay, Relayed};
use crate::send::{Localised, Streamed, localise, stream_command};
use crate::shared::{Listed, Shared};
use crate::tap::ReadRecorder;
use idle::Idle;
use side::{Elsewhere, Side};

/// The argument of COM_SET_OPTION.
const MULTI_STATEMENTS_ON: u8 = 0;
/// Capabilities of the login that COM_RESET_CONNECTION and COM_CHANGE_USER reset on the server (IGNORE_SPACE in sql_mode,
/// interactive_timeout for wait_timeout). A login to another node must then not ask for them again.
const OF_LOGIN: Caps = Caps(Caps::IGNORE_SPACE.0 | Caps::INTERACTIVE.0);

/// Serves one client to its end. `login`: its slot among the clients that have not logged in yet; without one it must log in quickly.
///
/// Most of a client's life is waiting for its next command, and a task is as large as the largest thing that it ever waits for. So what is rare
/// and large (the login, a new link, a KILL, ...) has its future in a box of its own, which is freed when it is done.
pub async fn run(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>, login: Option<ConnectionSlot>) {
    let Some(mut driver) = Box::pin(login::log_in(stream, peer, shared, login)).await else { return };
    driver.serve().await;
    driver.client.finish().await;
    driver.at.let_go(LetGo::Link);
    driver.note_pins(false);
}

/// What a client's driver takes beside its task, in bytes.
#[cfg(test)]
pub const fn size() -> usize {
    size_of::<Driver>()
}

/// Whether to continue with this client.
type Flow = ControlFlow<()>;
const GO_ON: Flow = ControlFlow::Continue(());
const END: Flow = ControlFlow::Break(());

/// A client to which nothing can be sent is gone.
#[allow(clippy::needless_pass_by_value)] // it is the end of what is said
fn flow_after(said: Result<(), Done>) -> Flow {
    if said.is_ok() { GO_ON } else { END }
}

/// What ended an idle phase.
enum IdleEnd {
    Command(BufferedCommand),
    ClientGone,
    NodeEnded,
    /// The link to a replica cannot be used any more.
    SideEnded,
    Save,
    Stopped,
    /// The client has sent nothing for too long.
    TooLong,
}

/// One client. See the head of this file.
struct Driver {
    shared: Arc<Shared>,
    client: Client,
    who: Identity,
    session: Session,
    at: Attachment,
    /// The link to a replica, if reads are split off.
    side: Option<Box<Side>>,
    /// The position that a replica must have for this session.
    need: Need,
    /// The session could not be set up on a replica, and is not tried on one before this time.
    side_not_before: Option<Instant>,
    /// Replicas that are not tried for this session before that time.
    side_avoids: Vec<(NodeId, Instant)>,
    card: Arc<Card>,
    /// How many changes of the user were refused.
    changes_refused: u8,
    /// What ties the session to its node, as reported last.
    pins: Pins,
    /// A statement was run before, so the session has state to move.
    has_run: bool,
    /// The session had a link before, also before a reset: a new link does not know what statements left there. (It would answer
    /// FOUND_ROWS() with what another session has left in the server's thread.)
    has_history: bool,
    /// A statement was run before on this connection, by this session or one before a reset: the client must read its own writes.
    has_spoken: bool,
    /// The statement that ran when the link broke, until it is known whether its node was lost.
    lost_statement: Option<(Arc<Lane>, Vec<u8>)>,
    /// The recorder of the session's reads, once there is a listener.
    recorder: Option<Box<ReadRecorder>>,
    /// Sequence number of the packet that ends the login.
    seq: u8,
    /// Its entry in the list of clients, for as long as it is here.
    _listed: Listed,
}

impl Driver {
    async fn serve(&mut self) {
        if Box::pin(self.finish_login()).await.is_break() {
            return;
        }
        let retain = self.shared.retain_bytes_max().min(PAYLOAD_MAX - 1);
        let mut stopped = self.shared.stopped.clone();
        // Created once for all idle phases: to begin to wait takes a lock that all sessions share.
        let stopped = stopped.wait_for(|stopped| *stopped);
        tokio::pin!(stopped);
        let mut idle = Idle::default();
        loop {
            self.client.buffer.rest();
            let idle_max = self.shared.client_idle_max();
            let in_transaction = self.at.in_transaction();
            let idle_end = tokio::select! {
                biased;
                command = self.client.command(retain) => command.map_or(IdleEnd::ClientGone, IdleEnd::Command),
                stirred = self.at.stirs() => match stirred {
                    Stirred::NodeEnded => IdleEnd::NodeEnded,
                    Stirred::Save => IdleEnd::Save,
                },
                () = side_ends(self.side.as_deref_mut()), if self.side.is_some() => IdleEnd::SideEnded,
                _ = &mut stopped, if !in_transaction => IdleEnd::Stopped,
                () = idle.lasts(idle_max), if !idle_max.is_zero() => IdleEnd::TooLong,
            };
            // The node was asked nothing, so whatever it has sent must not be taken for the answer to the next command.
            let idle_end = match idle_end {
                IdleEnd::Command(_) if self.at.backend.as_ref().is_some_and(Backend::has_unasked) => {
                    IdleEnd::NodeEnded
                }
                idle_end => idle_end,
            };
            let command = match idle_end {
                IdleEnd::Command(command) => command,
                IdleEnd::ClientGone => return,
                IdleEnd::TooLong if self.shared.client_idle_max() != idle_max => continue,
                IdleEnd::TooLong if idle.has_begun_to_send(self.client.buffer.len()) => continue,
                // It still reads its last answer.
                IdleEnd::TooLong if self.client.has_left() => {
                    idle.begins();
                    continue;
                }
                // A server says nothing at the end of its wait_timeout.
                IdleEnd::TooLong => return,
                IdleEnd::NodeEnded => {
                    if Box::pin(self.at.was_killed()).await {
                        let _ = self.client.say_err(0, errno::CONNECTION_KILLED, *b"70100", KILLED).await;
                        return;
                    }
                    if let Some(NodeError { code, state, message }) = Box::pin(self.refused_data()).await {
                        let _ = self.client.say_err(FIRST, code, state, &message).await;
                        return;
                    }
                    if let Some(backend) =
                        self.at.backend.as_ref().filter(|backend| backend.has_said_nonsense())
                    {
                        self.shared.warn_of_unasked(backend.lane());
                    }
                    self.lost_idle();
                    continue;
                }
                IdleEnd::SideEnded => {
                    self.side = None;
                    continue;
                }
                IdleEnd::Save => {
                    if Box::pin(self.at.save(&mut self.session)).await.is_err() {
                        self.lost_idle();
                    }
                    self.note_pins(true);
                    continue;
                }
                IdleEnd::Stopped => {
                    let farewell = "Server shutdown in progress";
                    let _ = self.client.say_err(0, errno::SERVER_SHUTDOWN, *b"08S01", farewell).await;
                    return;
                }
            };
            if self.command(command).await.is_break() {
                return;
            }
            idle.begins();
        }
    }

    async fn attach(&mut self) -> Result<(), AttachError> {
        // The link to the replica was set up with state from an earlier link, and its node may be the one that becomes the session's own.
        self.side = None;
        let past = self.past();
        let attached = self.at.attach(&self.who, self.client.caps, &mut self.session, past).await;
        self.has_attached(attached.is_ok());
        attached
    }

    fn past(&self) -> Past {
        Past { has_run: self.has_run, has_history: self.has_history, has_spoken: self.has_spoken }
    }

    fn has_attached(&mut self, is_well: bool) {
        self.has_history |= is_well;
        self.client.untold_transaction = None; // it ended with the link before
        if self.shared.replicas.is_some() {
            self.need = Need::Unknown;
            self.session.wanted.take_last_gtid(); // its GTID is another primary's
        }
    }

    /// Makes a link for a command; `None` when the client has gone away.
    async fn attach_for_command(&mut self) -> Option<Result<(), AttachError>> {
        self.side = None;
        let past = self.past();
        let attached = tokio::select! {
            biased;
            attached = self.at.attach(&self.who, self.client.caps, &mut self.session, past) => attached,
            () = self.client.gone() => return None,
        };
        self.has_attached(attached.is_ok());
        Some(attached)
    }

    /// Handles the command at the front of the client's buffer.
    async fn command(&mut self, command: BufferedCommand) -> Flow {
        let bytes = self.client.buffer.bytes();
        let payload = &bytes[HEADER_LEN..command.len.min(bytes.len())];
        let door = &self.shared.door;
        let next =
            self.session.command(payload, command.whole, self.client.caps, self.at.standing(), &|list| {
                door.names(list)
            });
        match next {
            Next::Forward(flight) => self.forward(flight, command).await,
            Next::Quit | Next::Close => END,
            Next::Nothing => flow_after(self.client.drop_command(command).await),
            Next::AnswerOk => {
                if self.client.drop_command(command).await.is_err() {
                    return END;
                }
                self.say_ok(FIRST).await
            }
            Next::Tell(Owed::SessionLost(what)) => {
                Box::pin(self.fail(error_reply::SESSION_LOST, &what, 1, command)).await
            }
            Next::Tell(Owed::RolledBack) => {
                Box::pin(self.fail(error_reply::ROLLED_BACK, "", 1, command)).await
            }
            Next::Tell(Owed::Unknown) => {
                Box::pin(self.fail(error_reply::OUTCOME_UNKNOWN, "", 1, command)).await
            }
            Next::UnknownStatement(id) => Box::pin(self.unknown_statement(id, command)).await,
            Next::Reset => Box::pin(self.reset(command)).await,
            Next::Refuse(what) => Box::pin(self.fail(error_reply::NOT_THROUGH_PROXY, what, 1, command)).await,
            Next::ChangeUser => Box::pin(self.change_user(command)).await,
            Next::Kill { query_only, id, otherwise } => {
                Box::pin(self.kill(query_only, id, otherwise, command)).await
            }
        }
    }

    /// An OK packet of the proxy's own, with the flags that the server's would have.
    async fn say_ok(&mut self, seq: u8) -> Flow {
        let status = self.session.status(self.at.backend.as_ref().map(|backend| &backend.standing));
        let is_on_node = self.at.backend.is_some();
        self.session.wanted.begin_with(if is_on_node { Begun::OnNode(status) } else { Begun::Told(status) });
        flow_after(self.client.say_ok(seq, status).await)
    }

    /// Drops the command, and sends the client an error of the proxy's own.
    async fn fail(
        &mut self,
        error_reply: ErrorReply,
        detail: &str,
        seq: u8,
        command: BufferedCommand,
    ) -> Flow {
        self.shared.counts.error(error_reply);
        if self.client.drop_command(command).await.is_err()
            || self.client.say(error_reply, seq, detail).await.is_err()
        {
            return END;
        }
        if error_reply.closes { END } else { GO_ON }
    }

    // ---- a command for a node

    async fn forward(&mut self, flight: InFlight, mut command: BufferedCommand) -> Flow {
        if flight.command == Command::STMT_CLOSE {
            return self.close_statement(&flight, command).await;
        }
        if let Some(refused) = self.session.take_refused(&flight) {
            let flow = Box::pin(self.finish(refused, &flight, command)).await;
            self.rest();
            return flow;
        }
        if let Some(refused) = self.refused_as_suspect(&flight, command) {
            return Box::pin(self.fail(error_reply::SUSPECT, &refused, 1, command)).await;
        }
        let mut exchange = Exchange::new(flight, self.shared.limits());
        if self.shared.replicas.is_some() {
            match Box::pin(self.elsewhere(exchange.flight(), command)).await {
                Elsewhere::Done(flow) => {
                    self.rest();
                    return flow;
                }
                Elsewhere::Primary { lost: true } => exchange.was_lost_elsewhere(),
                Elsewhere::Primary { lost: false } => {}
            }
        }
        let made = self.makes_names(exchange.flight(), command);
        let mut waiting = Waiting::default();
        let mut event = Event::Begin { leased: self.at.is_leased() };
        let finish = loop {
            let step = exchange.on(event, &mut self.session, self.at.standing());
            self.at.let_go(step.let_go);
            if step.op != Op::AwaitLook
                && let Some((lane, text)) = self.lost_statement.take()
            {
                tokio::spawn(ending::tell_if_lost(self.shared.clone(), lane, text));
            }
            event = match step.op {
                Op::Finish(finish) => break finish,
                op => self.perform(op, &mut exchange, &mut command, &mut waiting).await,
            };
        };
        if self.shared.replicas.is_some() {
            self.has_run_on_primary(exchange.flight());
            self.has_made(&made, &finish);
        }
        if finish != Finish::Answered {
            // A client that does not read what it is told must not keep the lane from becoming quiet.
            self.at.rest(&self.session);
        }
        let flow = self.finish(finish, exchange.flight(), command).await;
        drop(waiting);
        if self.shared.reads.is_some() && port::lifted(&self.session.wanted).is_some() {
            Box::pin(self.stay_read_only()).await;
        }
        self.rest();
        flow
    }

    /// Stored code has made the session writable: it is made read only again before its next statement.
    async fn stay_read_only(&mut self) {
        let wanted = &mut self.session.wanted;
        let (Some(name), Some(backend)) = (port::lifted(wanted), self.at.backend.as_mut()) else { return };
        match backend.query(READ_ONLY, self.shared.connect_timeout()).await {
            Ok(Some(_)) => wanted.learned_variable(name, b"ON", &mut backend.standing),
            _ => self.lost_idle(),
        }
    }

    /// Called after each command.
    fn rest(&mut self) {
        self.at.rest(&self.session);
        let doing = if self.at.in_transaction() { Doing::InTransaction } else { Doing::Idle };
        let since = self.at.backend.as_ref().map_or_else(Instant::now, Backend::rested_at);
        self.card.set(doing, since);
        self.note_pins(true);
    }

    async fn perform(
        &mut self,
        op: Op,
        exchange: &mut Exchange,
        command: &mut BufferedCommand,
        waiting: &mut Waiting,
    ) -> Event {
        match op {
            Op::Send => self.send(exchange, command).await,
            Op::Lease { avoid } if !self.at.has_to_save_now() => match self.at.lease_at_once(avoid) {
                Some(false) if self.at.has_to_save() => {
                    self.at.let_go(LetGo::Lease);
                    self.perform_rare(Op::Lease { avoid }, exchange, *command, waiting).await
                }
                Some(here) => self.leased(Ok(here)),
                None => self.perform_rare(Op::Lease { avoid: false }, exchange, *command, waiting).await,
            },
            op => self.perform_rare(op, exchange, *command, waiting).await,
        }
    }

    /// The operations that most statements do not need. Their futures are large, so they are boxed, and only made when they are needed.
    fn perform_rare<'a>(
        &'a mut self,
        op: Op,
        exchange: &'a Exchange,
        command: BufferedCommand,
        waiting: &'a mut Waiting,
    ) -> Pin<Box<dyn Future<Output = Event> + Send + 'a>> {
        Box::pin(async move {
            match op {
                Op::Lease { avoid } => {
                    let leased = self.lease(avoid, command, waiting).await;
                    self.leased(leased)
                }
                Op::Attach => match self.attach_for_command().await {
                    Some(Ok(())) => Event::Attached,
                    Some(Err(error)) => Event::NotAttached(Attachment::no_link(error)),
                    None => Event::ClientGone,
                },
                Op::Prepare => self.prepare(exchange.flight()).await,
                Op::AwaitLook => match self.at.look(&mut self.client).await {
                    Ok(look) => {
                        if look == Look::Well {
                            self.lost_statement = None; // only its connection was ended
                        }
                        Event::Looked(look)
                    }
                    Err(()) => Event::ClientGone,
                },
                Op::Ask(ask) => self.ask(ask, exchange.flight()).await,
                // The client is gone, so nobody waits for the answer, even if it has sent more commands before.
                Op::Retry if self.client.is_gone() => Event::ClientGone,
                Op::Retry => {
                    self.shared.counts.sent_again();
                    Event::Routes(self.at.routes(waiting))
                }
                Op::Pause { time, ends_early } => {
                    match self.at.pause(time, ends_early, &mut self.client).await {
                        Ok(()) => Event::Paused,
                        Err(()) => Event::ClientGone,
                    }
                }
                // These are handled before.
                Op::Send | Op::Finish(_) => Event::ClientGone,
            }
        })
    }

    fn leased(&self, leased: Result<bool, NoLease>) -> Event {
        match leased {
            // It was killed while it waited, and was still on its old link.
            Ok(_) if self.at.is_killed() => Event::Lost(Loss { killed: true, ..Loss::unsent() }),
            Ok(here) => Event::Leased { here },
            Err(why) => Event::NotLeased(why),
        }
    }

    /// Takes a lease, after reading from the node what only it knows, if the session may have to leave it.
    async fn lease(
        &mut self,
        avoid: bool,
        command: BufferedCommand,
        waiting: &mut Waiting,
    ) -> Result<bool, NoLease> {
        let mut saves = self.at.has_to_save_now();
        loop {
            if saves && self.at.save(&mut self.session).await.is_err() {
                if self.at.is_tied() {
                    // The command itself may need what could not be read.
                    return Err(NoLease::Tied);
                }
                self.lost_idle();
            }
            match self.at.lease_at_once(avoid) {
                // Its own lane was open until now, or its node has refused the command.
                Some(false) if self.at.has_to_save() => {
                    self.at.let_go(LetGo::Lease);
                    saves = true;
                }
                Some(here) => return Ok(here),
                None => {
                    let here = self.at.lease_after_hold(command.len, &mut self.client, waiting).await?;
                    if !here || !self.at.backend.as_ref().is_some_and(Backend::has_unasked) {
                        return Ok(here);
                    }
                    // The node has ended the link while the command was held.
                    if self.at.was_killed().await {
                        return Ok(here);
                    }
                    if self.at.is_tied() {
                        return Err(NoLease::Tied);
                    }
                    self.lost_idle();
                }
            }
        }
    }

    /// Prepares the command's statement on the present node, under the settings it was bound to.
    async fn prepare(&mut self, flight: &InFlight) -> Event {
        if let Some(backend) =
            self.at.backend.as_mut().filter(|backend| backend.standing.may_have_unreported())
        {
            // The answers to what is said around the PREPARE would take the report.
            backend.standing.forget(Recalls::ROW_COUNT);
            if let Err(how) = backend.flush_reports(&mut self.session).await {
                return self.lost(how, Loss::unsent()).await;
            }
        }
        let bound = self.session.wanted.bound();
        let known = flight.statement.and_then(|id| Some((id, self.session.wanted.statements.get(&id)?)));
        let (Some((id, statement)), Some(backend)) = (known, self.at.backend.as_mut()) else {
            return Event::Lost(Loss::unsent());
        };
        // PREPARE is a statement of its own, which may clear the warnings of the one before.
        backend.standing.forget(Recalls::WARNINGS);
        match backend.prepare(statement, &bound).await {
            Ok(Ok(on_node)) => {
                backend.standing.prepared(id, on_node, false);
                Event::Prepared
            }
            // Treated as if the node had refused the statement itself: a later report of the node decides whether it serves.
            Ok(Err(NotPrepared::Node(error))) if error.whose().is_about_the_node() => {
                self.at.tell_refused(error.code);
                Event::Refused(error)
            }
            Ok(Err(NotPrepared::Node(error))) => Event::NotPrepared(error),
            Ok(Err(NotPrepared::NotBound)) => Event::NotBound(
                "a prepared statement stands under a schema or settings that cannot be had there".to_owned(),
            ),
            Err(how) => self.lost(how, Loss::unsent()).await,
        }
    }

    /// Sends the command and relays its answer.
    async fn send(&mut self, exchange: &mut Exchange, command: &mut BufferedCommand) -> Event {
        let flight = exchange.flight();
        if self.shared.reads.is_some()
            && let Some(error) = self.refused_as_write(flight, *command)
        {
            return Event::NotPrepared(error);
        }
        if self.at.backend.as_ref().is_some_and(|backend| backend.standing.lacks_schema())
            && let Some(event) = Box::pin(self.enter_schema(exchange.flight(), *command)).await
        {
            return event;
        }
        if self.shared.tap.is_heard() {
            self.will_send(exchange.flight(), *command);
        }
        let flight = exchange.flight();
        let Some(backend) = self.at.backend.as_mut() else { return Event::Lost(Loss::unsent()) };
        let buffered = command.len.min(self.client.buffer.len());
        let packet = &mut self.client.buffer.bytes_mut()[..buffered];
        let rebuilt =
            match localise(&self.session.wanted, &mut backend.standing, flight, packet, command.whole) {
                Localised::AsItIs => None,
                Localised::Rebuilt(packet) => Some(packet),
                Localised::Unknown => {
                    return Event::NotTellable(
                        "the types of a prepared statement's parameters, too many to be kept".to_owned(),
                    );
                }
            };
        self.has_run = true;
        self.has_spoken = true;
        let option = match flight.command {
            Command::SET_OPTION => self.client.buffer.bytes().get(HEADER_LEN + 1).copied(),
            _ => None,
        };
        let mut retained = 0;
        if command.whole {
            let out = rebuilt.as_deref().unwrap_or(&self.client.buffer.bytes()[..command.len]);
            if let Err(error) = backend.send(out).await {
                let how = crate::backend::of_io(&error);
                return Box::pin(self.lost_unsent(how)).await;
            }
            retained = command.len;
        } else {
            command.len = 0;
            let streamed =
                Box::pin(stream_command(&mut self.client, backend, &self.card, exchange.flight())).await;
            exchange.is_streamed();
            match streamed {
                Streamed::Whole => {}
                Streamed::Lost(how, unread) => {
                    self.client.unread = Some(unread);
                    return Box::pin(self.lost_unsent(how)).await;
                }
                Streamed::Cut(unread) => {
                    self.client.unread = Some(unread);
                    return Event::Lost(Loss { given_up: true, ..Loss::unsent() });
                }
                Streamed::ClientGone => return Event::ClientGone,
            }
        }
        self.card.set_running(exchange.flight(), backend.sent_at());
        let flight = exchange.flight();
        if !flight.command.answers() {
            self.client.buffer.consume(retained);
            command.len = 0;
            return Event::Answered(End::Text);
        }
        let mut relay = Relay {
            backend,
            client: &mut self.client,
            session: &mut self.session,
            flight,
            card: &self.card,
            retained,
            keeps_errors: false,
            rows: 0,
        };
        let relayed = relay.run().await;
        let (retained, rows) = (relay.retained, relay.rows);
        if self.shared.tap.is_heard() {
            self.tell(&relayed, exchange.flight(), retained, rows);
        }
        self.relayed(relayed, exchange, option, retained, command).await
    }

    /// The event for the exchange that follows from the end of a relay.
    async fn relayed(
        &mut self,
        relayed: Relayed,
        exchange: &mut Exchange,
        option: Option<u8>,
        retained: usize,
        command: &mut BufferedCommand,
    ) -> Event {
        if let Relayed::Ended(end) = relayed {
            if let Some(backend) = self.at.backend.as_mut() {
                backend.rests();
            }
            if let (Some(option), End::Ok { .. } | End::Eof { .. }) = (option, &end) {
                // The next login to a node asks for the same.
                self.client.caps.0 &= !Caps::MULTI_STATEMENTS.0;
                if option == MULTI_STATEMENTS_ON {
                    self.client.caps.0 |= Caps::MULTI_STATEMENTS.0;
                }
            }
            if exchange.flight().changes_tables() {
                self.shared.hints.tables_changed();
            }
            self.note_good_end(exchange.flight(), *command);
            self.client.buffer.consume(retained);
            command.len = 0;
            return Event::Answered(end);
        }
        command.len = retained;
        if retained == 0 {
            exchange.is_streamed();
        }
        match relayed {
            Relayed::Refused(error) => {
                // The node's word to the victim may come before its word to whoever gave the order.
                if self.at.was_killed().await {
                    return Event::Lost(Loss { killed: true, ..Loss::unsent() });
                }
                self.at.tell_refused(error.code);
                Event::Refused(error)
            }
            Relayed::Lost { how, delivered } => {
                let unread = self.at.backend.as_ref().is_some_and(Backend::ended_unread);
                let loss = Loss { sent: true, delivered, unread, ..Loss::unsent() };
                if !unread && !Box::pin(self.at.was_killed()).await {
                    self.note_loss(exchange.flight(), *command);
                }
                Box::pin(self.lost(how, loss)).await
            }
            Relayed::NotFollowed { delivered } => Event::NotFollowed { delivered },
            Relayed::Stalled { delivered } => Event::Stalled { delivered },
            Relayed::ClientGone | Relayed::Ended(_) => {
                Box::pin(self.end_on_node(exchange.flight())).await;
                Event::ClientGone
            }
        }
    }

    /// The link broke before the node had all of a command. The node may have said why, and a command that would fail again in the same way
    /// is not sent again.
    async fn lost_unsent(&mut self, how: ConnectFailure) -> Event {
        if let Some(backend) = self.at.backend.as_mut()
            && let Some(error) = backend.last_word().await
            && error.whose() == Whose::All
        {
            return Event::Ended(error);
        }
        self.lost(how, Loss::unsent()).await
    }

    /// The link broke: the manager is told, except after a KILL.
    async fn lost(&mut self, how: ConnectFailure, loss: Loss) -> Event {
        let killed = self.at.was_killed().await;
        let given_up = self.at.backend.as_ref().is_some_and(|backend| backend.lane().is_cut());
        if !killed {
            self.at.tell_lost(how);
        }
        Event::Lost(Loss { killed, given_up, ..loss })
    }

    /// The client has gone while its statement runs.
    async fn end_on_node(&mut self, flight: &InFlight) {
        self.card.set(Doing::Ending, Instant::now());
        if let Some((backend, lease)) = self.at.take() {
            let (shared, who) = (self.shared.clone(), &self.who);
            ending::end_on_node(&shared, who, self.client.caps, flight, backend, lease).await;
        }
    }

    /// A question of the proxy's own whose answer the exchange needs.
    async fn ask(&mut self, ask: Ask, flight: &InFlight) -> Event {
        let Some(backend) = self.at.backend.as_mut() else { return Event::AskLost };
        let asked = match ask {
            Ask::Status => {
                let Ok((status, transaction)) = backend.status(self.client.caps).await else {
                    return Event::AskLost;
                };
                self.client.untold_transaction = transaction.or(self.client.untold_transaction);
                return Event::Status(status);
            }
            Ask::Track => backend.track().await.map(drop),
            Ask::Variables => backend.ask_variables(&mut self.session, flight.sets_alone()).await,
        };
        asked.map_or(Event::AskLost, |()| Event::Asked)
    }

    // ---- the end of a command

    async fn finish(&mut self, finish: Finish, flight: &InFlight, command: BufferedCommand) -> Flow {
        match finish {
            Finish::Answered => flow_after(self.client.drop_command(command).await),
            Finish::Ok => {
                if self.client.drop_command(command).await.is_err() {
                    return END;
                }
                self.say_ok(FIRST).await
            }
            // One that ends the connection is told in place of the client's next answer, as a server does.
            finish if !flight.command.answers() && !closes(&finish) => {
                self.session.refuse_long_data(flight, finish);
                flow_after(self.client.drop_command(command).await)
            }
            Finish::Fail { failure, detail, delivered } => {
                self.drop_long_data(flight);
                let seq = match delivered {
                    Delivered::Nothing => 1,
                    Delivered::Packets { next_seq } => {
                        // The sequence numbers continue from the answer, not from the command, even where they wrap around to that of a first packet.
                        self.client.continued = 0;
                        next_seq
                    }
                    Delivered::PartOfPacket => return END,
                };
                let detail = match failure {
                    Failure::HoldExpired => {
                        let because = self.shared.door.lane_table().hold_because.clone();
                        because.map(|because| format!("({because})")).unwrap_or_default()
                    }
                    _ => detail,
                };
                Box::pin(self.fail(error_reply_of(failure), &detail, seq, command)).await
            }
            Finish::NodeError { error, closes } => {
                self.drop_long_data(flight);
                if self.client.drop_command(command).await.is_err() {
                    return END;
                }
                let said = self.client.say_err(1, error.code, error.state, &error.message).await;
                if closes { END } else { flow_after(said) }
            }
            Finish::Close => END,
        }
    }

    /// The command was not run. Long data that was sent for it must not be used when it is repeated.
    fn drop_long_data(&mut self, flight: &InFlight) {
        if self.at.standing().is_some_and(|link| Session::left_long_data(link, flight)) {
            self.lost_idle();
        }
    }

    /// Why the node has ended the link, if it was long data that no node would take.
    async fn refused_data(&mut self) -> Option<NodeError> {
        let backend = self.at.backend.as_mut()?;
        if !backend.standing.pins().has(Pins::LONG_DATA) {
            return None;
        }
        backend.last_word().await.filter(|error| error.whose() == Whose::All)
    }

    /// The link cannot be used any more, and no command is running.
    fn lost_idle(&mut self) {
        if let Some(backend) = &self.at.backend {
            self.session.lost_idle(&backend.standing);
        }
        self.at.let_go(LetGo::Link);
    }

    /// Updates the number of sessions that cannot move, and what is told of this one. What code or an expression has set is read before a planned move,
    /// where the node shows it.
    fn note_pins(&mut self, alive: bool) {
        const READ: Pins = Pins::USER_VARIABLE.union(Pins::UNNAMED);
        let link = self.at.standing().filter(|_| alive);
        let (mut pins, lasting, asks_all) = match link {
            Some(link) => (link.pins(), link.lasting_pins(), link.must_ask_all()),
            None => (Pins::NONE, Pins::NONE, false),
        };
        if pins.is_empty() && self.pins.is_empty() && !asks_all {
            return;
        }
        // Whether it is shown may have changed since the last statement.
        let needs_look = asks_all || pins != lasting;
        let is_shown = needs_look && self.at.is_shown();
        if asks_all && !is_shown {
            pins = pins.union(READ);
        }
        self.card.set_ties(if is_shown { lasting } else { pins });
        if pins.is_empty() != self.pins.is_empty() {
            self.shared.counts.pinned(!pins.is_empty());
        }
        self.pins = pins;
    }

    // ---- statements that may have crashed a node

    /// The text of the statement that a command runs, if it is known.
    fn text<'a>(&'a self, flight: &InFlight, command: BufferedCommand) -> Option<&'a [u8]> {
        match flight.command {
            Command::QUERY if command.whole && command.len > 0 => {
                let payload = self.client.buffer.bytes().get(HEADER_LEN..command.len)?;
                protocol::command::query_text(payload, self.client.caps).ok()
            }
            Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE => {
                let statement = self.session.wanted.statements.get(&flight.statement?)?;
                (!statement.sql.is_empty()).then_some(&statement.sql)
            }
            _ => None,
        }
    }

    /// Why the port for reads does not send a command to the present node; `None` when it does.
    fn refused_as_write(&self, flight: &InFlight, command: BufferedCommand) -> Option<NodeError> {
        let (reads, backend) = (self.shared.reads.as_ref()?, self.at.backend.as_ref()?);
        let has_text = matches!(flight.command, Command::QUERY | Command::STMT_PREPARE);
        if has_text && !command.whole {
            return Some(port::refused_unread());
        }
        let buffered = command.len.min(self.client.buffer.len());
        let payload = self.client.buffer.bytes().get(HEADER_LEN..buffered)?;
        let text = match flight.command {
            Command::QUERY => protocol::command::query_text(payload, self.client.caps).ok(),
            Command::STMT_PREPARE => payload.get(1..),
            _ => None,
        };
        reads.refuses(flight, text, self.session.flags(), backend.lane().node)
    }

    fn refused_as_suspect(&self, flight: &InFlight, command: BufferedCommand) -> Option<String> {
        if !self.shared.has_suspects() {
            return None;
        }
        let text = self.text(flight, command)?;
        self.shared.refused_as_suspect(text)
    }

    fn note_good_end(&self, flight: &InFlight, command: BufferedCommand) {
        if self.shared.has_suspects()
            && let Some(text) = self.text(flight, command)
        {
            self.shared.ended_well(text);
        }
    }

    fn note_loss(&mut self, flight: &InFlight, command: BufferedCommand) {
        if let Some(backend) = &self.at.backend
            && let Some(text) = self.text(flight, command)
        {
            self.lost_statement = Some((backend.lane().clone(), text.to_vec()));
        }
    }
}

async fn side_ends(side: Option<&mut Side>) {
    match side {
        Some(side) => side.ends().await,
        None => std::future::pending().await,
    }
}

fn closes(finish: &Finish) -> bool {
    match finish {
        Finish::Answered | Finish::Ok => false,
        Finish::Fail { failure, .. } => error_reply_of(*failure).closes,
        Finish::NodeError { closes, .. } => *closes,
        Finish::Close => true,
    }
}

fn error_reply_of(failure: Failure) -> ErrorReply {
    match failure {
        Failure::RolledBack => error_reply::ROLLED_BACK,
        Failure::OutcomeUnknown => error_reply::OUTCOME_UNKNOWN,
        Failure::HoldExpired => error_reply::HOLD_EXPIRED,
        Failure::HoldFull => error_reply::HOLD_FULL,
        Failure::SessionLost => error_reply::SESSION_LOST,
        Failure::CutShort => error_reply::CUT_SHORT,
        Failure::Forgotten => error_reply::FORGOTTEN,
        Failure::NotRebuilt => error_reply::NOT_REBUILT,
        Failure::TooLargeToRepeat => error_reply::TOO_LARGE_TO_REPEAT,
        Failure::LostAgain => error_reply::LOST_AGAIN,
        Failure::NotFollowed => error_reply::NOT_FOLLOWED,
    }
}
