//! One client, from its greeting to its end: moves the bytes, and does what the session decides.
//!
//! ```text
//!             ┌──────────────────────── idle: the client's next command, or the node's end ◄─────────┐
//!             ▼                                                                                      │
//!   command ─► lease (a lane that is open) ── none open ──► hold ──► lease                            │
//!                 │                                                                                  │
//!                 ▼                                                                                  │
//!              attach (a link to the lane's node, the session rebuilt on it)                          │
//!                 │                                                                                  │
//!                 ▼                                                                                  │
//!              exchange (send, relay the answer) ── answered ── in a transaction: keep the lease ────┤
//!                 │                                        └─── else: give it back ──────────────────┘
//!                 └ the node is lost: session::retry says again (to the lease), or which error
//! ```

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use protocol::command::Command;
use protocol::errno;
use protocol::packet::{HEADER_LEN, PAYLOAD_MAX, put_packet};
use session::session::{InFlight, Next, Session, Transaction};
use tokio::net::TcpStream;
use tokio::sync::watch;
use topology::fact::ConnectFailure;

use crate::attempt::{Attempt, Wait};
use crate::backend::{AttachError, Backend};
use crate::frontend::{AtHand, Client, Done, Identity};
use crate::lane::Lease;
use crate::shared::{ACCOUNTS_WAIT, FIRST_ID, Place, Shared};
use crate::voice::{self, Voice};

/// Serves one client to its end.
pub async fn run(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let mut client = Client::new(stream, peer, shared.new_id());
    let within = shared.settings.login_timeout;
    let login = async {
        let Some(greeting) = shared.greeting(within).await else {
            return Err(Done::Told(voice::NO_NODE_YET, String::new()));
        };
        client.login(&greeting, &shared).await
    };
    let who = match tokio::time::timeout(within + ACCOUNTS_WAIT, login).await {
        Ok(Ok(who)) => who,
        Ok(Err(Done::Told(voice, detail))) => {
            shared.counts.error(voice);
            let _ = client.say(voice, client.login_seq, &detail).await;
            return;
        }
        // Gone, or it took too long to say who it is: there is nobody to tell.
        Ok(Err(Done::Gone)) | Err(_) => return,
    };
    let mut driver = Driver {
        session: Session::new(who.schema.clone()),
        seq: who.seq,
        stopped: shared.stopped.clone(),
        client,
        who,
        backend: None,
        kills: Arc::default(),
        lease: None,
        broken: None,
        pinned: false,
        has_run: false,
        has_spoken: false,
        shared,
    };
    driver.serve().await;
    driver.detach();
    driver.note_pins(false);
}

/// Go on with this client, or not.
type Flow = ControlFlow<()>;
const GO_ON: Flow = ControlFlow::Continue(());
const END: Flow = ControlFlow::Break(());

/// A client that cannot be spoken to is gone.
#[allow(clippy::needless_pass_by_value)] // it is the end of what is said
fn told(said: Result<(), Done>) -> Flow {
    if said.is_ok() { GO_ON } else { END }
}

/// The server's own word to a client whose connection was killed.
pub const KILLED: &str = "Connection was killed";

/// What ended an idle moment.
enum Woke {
    Command(AtHand),
    ClientGone,
    NodeEnded,
    Stopped,
}

/// See the head of this file.
pub struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: Client,
    pub(crate) who: Identity,
    pub(crate) session: Session,
    pub(crate) backend: Option<Backend>,
    /// The KILLs of the present link: see [`Place::kills`].
    kills: Arc<AtomicU32>,
    /// Held from the start of a transaction (or of a statement outside one) to its end.
    pub(crate) lease: Option<Lease>,
    /// The node was lost with something on it that no other node has: what.
    pub(crate) broken: Option<String>,
    /// Counted as pinned.
    pub(crate) pinned: bool,
    /// A statement was run before: the session has something to move.
    pub(crate) has_run: bool,
    /// A statement was run before, by whatever session on this connection: it must read its own writes.
    pub(crate) has_spoken: bool,
    /// Sequence number of the packet that ends a login.
    pub(crate) seq: u8,
    pub(crate) stopped: watch::Receiver<bool>,
}

impl Driver {
    async fn serve(&mut self) {
        if self.finish_login().await.is_break() {
            return;
        }
        let retain = self.shared.settings.retain_bytes_max.min(PAYLOAD_MAX - 1);
        loop {
            self.client.buffer.rest();
            let woke = tokio::select! {
                biased;
                command = self.client.command(retain) => command.map_or(Woke::ClientGone, Woke::Command),
                _ = ended(self.backend.as_ref()), if self.backend.is_some() => Woke::NodeEnded,
                _ = self.stopped.wait_for(|stopped| *stopped), if self.session.transaction() != Transaction::Open => {
                    Woke::Stopped
                }
            };
            let command = match woke {
                Woke::Command(command) => command,
                Woke::ClientGone => return,
                Woke::NodeEnded if self.was_killed() => {
                    let _ = self.client.say_err(0, errno::CONNECTION_KILLED, *b"70100", KILLED).await;
                    return;
                }
                Woke::NodeEnded => {
                    self.lost_idle();
                    continue;
                }
                Woke::Stopped => {
                    let farewell = "Server shutdown in progress";
                    let _ = self.client.say_err(0, errno::SERVER_SHUTDOWN, *b"08S01", farewell).await;
                    return;
                }
            };
            if self.command(command).await.is_break() {
                return;
            }
        }
    }

    /// Ends the login: with a link where a lane is open, so that the node itself can refuse account and schema; else with a
    /// plain OK, and the first statement waits.
    async fn finish_login(&mut self) -> Flow {
        if let Some(lease) = self.shared.door.try_lease(None) {
            match self.attach(&lease).await {
                Err(AttachError::Refused { errno, state, message }) => {
                    let _ = self.client.say_err(self.seq, errno, state, &message).await;
                    return END;
                }
                Err(AttachError::NotRebuilt(why)) => {
                    self.shared.counts.error(voice::NOT_REBUILT);
                    let _ = self.client.say(voice::NOT_REBUILT, self.seq, &why).await;
                    return END;
                }
                Ok(())
                | Err(
                    AttachError::Lost(_) | AttachError::Shut | AttachError::Behind | AttachError::Local(_),
                ) => {}
            }
        }
        let status = self.session.status();
        told(self.client.say_ok(self.seq, status).await)
    }

    /// One command, at the front of the client's buffer.
    async fn command(&mut self, command: AtHand) -> Flow {
        let bytes = self.client.buffer.bytes();
        let payload = &bytes[HEADER_LEN..command.len.min(bytes.len())];
        let next = self.session.command(payload, command.whole, self.client.caps);
        match next {
            Next::Forward(flight) => self.forward(flight, command).await,
            Next::Quit => END,
            Next::Nothing => told(self.client.drop_command(command).await),
            Next::AnswerOk => {
                if self.client.drop_command(command).await.is_err() {
                    return END;
                }
                let status = self.session.status();
                told(self.client.say_ok(1, status).await)
            }
            Next::AnswerRolledBack => match self.broken.take() {
                Some(what) => self.fail(voice::SESSION_LOST, &what, 1, command).await,
                None => self.fail(voice::ROLLED_BACK, "", 1, command).await,
            },
            Next::UnknownStatement(id) => self.unknown_statement(id, command).await,
            Next::Reset => self.reset(command).await,
            Next::Refuse(what) => self.fail(voice::NOT_THROUGH_PROXY, what, 1, command).await,
            Next::ChangeUser => self.change_user(command).await,
            Next::Kill { query_only, id, otherwise } => self.kill(query_only, id, otherwise, command).await,
        }
    }

    /// Drops the command and tells the client an error of the proxy's own.
    async fn fail(&mut self, voice: Voice, detail: &str, seq: u8, command: AtHand) -> Flow {
        self.shared.counts.error(voice);
        if self.client.drop_command(command).await.is_err()
            || self.client.say(voice, seq, detail).await.is_err()
        {
            return END;
        }
        if voice.closes { END } else { GO_ON }
    }

    // ---- a command for a node

    async fn forward(&mut self, flight: InFlight, mut command: AtHand) -> Flow {
        if let Some(what) = self.broken.take() {
            return self.fail(voice::SESSION_LOST, &what, 1, command).await;
        }
        if flight.command == Command::STMT_CLOSE {
            return self.close_statement(&flight, command).await;
        }
        let mut wait = Wait::default();
        let flow = loop {
            match self.attempt(&flight, &mut command, &mut wait).await {
                Attempt::Answered => break GO_ON,
                Attempt::Again => self.shared.counts.again.fetch_add(1, Relaxed),
                Attempt::Fail(voice, detail, seq) => {
                    // Not run: the long data that was sent for it must not be found by its repetition.
                    if self.session.left_long_data(&flight) {
                        self.lost_idle();
                    }
                    // What is left of the command in the buffer: nothing, when it was streamed.
                    if command.len == 0 {
                        self.shared.counts.error(voice);
                        let said = self.client.say(voice, seq, &detail).await;
                        break if voice.closes { END } else { told(said) };
                    }
                    break self.fail(voice, &detail, seq, command).await;
                }
                Attempt::Killed { code, state, message } => {
                    let _ = self.client.say_err(1, code, state, &message).await;
                    break END;
                }
                Attempt::Over => break END,
            };
        };
        drop(wait);
        if self.session.transaction() != Transaction::Open {
            self.lease = None;
        }
        self.note_pins(true);
        flow
    }

    // ---- links

    pub(crate) async fn attach(&mut self, lease: &Lease) -> Result<(), AttachError> {
        let moved = self.has_run;
        let has_spoken = self.has_spoken;
        let settings = &self.shared.settings;
        let backend = Backend::attach(
            lease.lane(),
            &self.who,
            self.client.caps,
            &self.session.memory,
            settings.writers_all && has_spoken,
            settings.connect_timeout,
        )
        .await
        .inspect_err(|error| self.shared.warn_of(error))?;
        self.shared.counts.links_total.fetch_add(1, Relaxed);
        if moved {
            self.session.moved();
            self.shared.counts.moved.fetch_add(1, Relaxed);
        }
        self.session.attached(backend.link.status);
        self.kills = Arc::default();
        let place =
            Place { lane: lease.lane().clone(), thread_id: backend.thread_id(), kills: self.kills.clone() };
        self.shared.settle(self.client.id, Some(place));
        self.backend = Some(backend);
        Ok(())
    }

    /// Leaves the present node in good order.
    pub(crate) fn detach(&mut self) {
        if self.backend.take().is_some() {
            self.shared.settle(self.client.id, None);
        }
    }

    /// The present link is of no more use.
    pub(crate) fn lose_link(&mut self) {
        self.lease = None;
        self.detach();
    }

    /// The node ended the link while nothing was on its way.
    pub(crate) fn lost_idle(&mut self) {
        self.note_broken();
        self.session.lost_idle();
        self.lose_link();
    }

    /// Another client of the proxy has killed this connection, see [`Driver::kill`].
    pub(crate) fn was_killed(&self) -> bool {
        self.backend.is_some() && self.kills.load(SeqCst) > 0
    }

    /// The node ended the link when it was to say whether a transaction is open after `flight` had failed.
    pub(crate) fn lost_unsure(&mut self, flight: &InFlight) {
        self.note_broken();
        self.session.lost_unsure(flight);
        self.lose_link();
    }

    fn note_broken(&mut self) {
        let pins = self.session.pins();
        if !pins.is_empty() {
            self.broken = Some(pins.names().join(", "));
        }
    }

    /// Keeps the number of sessions that cannot move.
    fn note_pins(&mut self, alive: bool) {
        let pinned = alive && !self.session.pins().is_empty();
        if pinned != self.pinned {
            self.pinned = pinned;
            if pinned {
                self.shared.counts.pinned.fetch_add(1, Relaxed);
            } else {
                self.shared.counts.pinned.fetch_sub(1, Relaxed);
            }
        }
    }

    // ---- the few commands that are not simply passed on

    /// Closes a statement on its node, when it stands on one; there is no answer either way.
    async fn close_statement(&mut self, flight: &InFlight, command: AtHand) -> Flow {
        let statement = flight.statement.and_then(|id| self.session.memory.statements.get(&id));
        if let Some(on_node) = statement.and_then(|statement| statement.on_node)
            && let Some(backend) = self.backend.as_mut()
        {
            // Written anew: the client's packet may have any length, and need not be at hand.
            let [a, b, c, d] = on_node.to_le_bytes();
            let mut out = vec![];
            put_packet(&mut out, &mut 0, &[Command::STMT_CLOSE.0, a, b, c, d]);
            if backend.send(&out).await.is_err() {
                self.lost_idle();
            }
        }
        if let Some(id) = flight.statement {
            self.session.closed(id);
        }
        self.note_pins(true);
        told(self.client.drop_command(command).await)
    }

    /// A statement that this session does not have: in the server's words.
    async fn unknown_statement(&mut self, id: u32, command: AtHand) -> Flow {
        if let Some(what) = self.broken.take() {
            return self.fail(voice::SESSION_LOST, &what, 1, command).await;
        }
        if self.client.drop_command(command).await.is_err() {
            return END;
        }
        let message = format!("Unknown prepared statement handler ({id}) given to the proxy");
        told(self.client.say_err(1, errno::UNKNOWN_STMT_HANDLER, *b"HY000", &message).await)
    }

    /// COM_RESET_CONNECTION: done by the node, so that it has let go of all when OK is said. Where it cannot, a fresh link does it,
    /// whatever stood on the old one; the next statement makes it.
    async fn reset(&mut self, command: AtHand) -> Flow {
        if self.client.drop_command(command).await.is_err() {
            return END;
        }
        let status = self.reset_link().await;
        if status.is_none() {
            if self.was_killed() {
                let _ = self.client.say_err(1, errno::CONNECTION_KILLED, *b"70100", KILLED).await;
                return END;
            }
            self.lose_link();
        }
        self.lease = None;
        self.broken = None;
        self.session.reset();
        if let Some(status) = status {
            self.session.attached(status);
        }
        self.has_run = false;
        self.note_pins(true);
        let status = self.session.status();
        told(self.client.say_ok(1, status).await)
    }

    /// Resets the present link, if one stands and nothing is lost; the node's status bits afterwards.
    async fn reset_link(&mut self) -> Option<u16> {
        let session = &self.session;
        if self.broken.is_some()
            || session.transaction() == Transaction::Lost
            || !session.memory.is_undone_by_reset()
        {
            return None;
        }
        let backend = self.backend.as_mut().filter(|backend| !backend.lane().is_shut())?;
        backend.reset().await.ok()
    }

    /// COM_CHANGE_USER: a new session on the same connection.
    async fn change_user(&mut self, command: AtHand) -> Flow {
        if !command.whole {
            return self.fail(voice::MALFORMED, "a change of user of that size", 1, command).await;
        }
        let payload = self.client.buffer.bytes()[HEADER_LEN..command.len].to_vec();
        self.client.buffer.consume(command.len);
        self.broken = None;
        self.lose_link();
        let shared = self.shared.clone();
        let login = self.client.change_user(&payload, &shared);
        match tokio::time::timeout(shared.settings.login_timeout + ACCOUNTS_WAIT, login).await {
            Ok(Ok(mut who)) => {
                if who.charset == 0 {
                    who.charset = self.who.charset;
                }
                self.seq = who.seq;
                self.session = Session::new(who.schema.clone());
                self.who = who;
                self.has_run = false;
                self.note_pins(true);
                self.finish_login().await
            }
            Ok(Err(Done::Told(voice, detail))) => {
                self.shared.counts.error(voice);
                let _ = self.client.say(voice, self.client.login_seq, &detail).await;
                END
            }
            Ok(Err(Done::Gone)) | Err(_) => END,
        }
    }

    /// KILL: the proxy's own connection ids become the node's; others are the node's already.
    async fn kill(&mut self, query_only: bool, id: u64, otherwise: InFlight, command: AtHand) -> Flow {
        let own = u32::try_from(id).ok().filter(|id| *id >= FIRST_ID);
        let Some(own) = own else { return self.forward(otherwise, command).await };
        let Some(place) = self.shared.place_of(own) else {
            return self.fail(voice::UNKNOWN_THREAD, &id.to_string(), 1, command).await;
        };
        if self.client.drop_command(command).await.is_err() {
            return END;
        }
        let settings = &self.shared.settings;
        let nothing = session::memory::Memory::default();
        let what = if query_only { "QUERY" } else { "CONNECTION" };
        let killed = async {
            let mut side = Backend::attach(
                &place.lane,
                &self.who,
                self.client.caps,
                &nothing,
                false,
                settings.connect_timeout,
            )
            .await
            .map_err(|error| error.to_string())?;
            let order = format!("KILL {what} {}", place.thread_id);
            // Before the node is told, since the link may end before its OK is here.
            if !query_only {
                place.kills.fetch_add(1, SeqCst);
            }
            side.link.query(&order, settings.connect_timeout).await.map_err(|error| {
                // Not allowed to: it lives on.
                if !query_only {
                    place.kills.fetch_sub(1, SeqCst);
                }
                error.to_string()
            })
        };
        let said = match killed.await {
            Ok(_) => {
                let status = self.session.status();
                self.client.say_ok(1, status).await
            }
            Err(why) => {
                self.shared.counts.error(voice::UNKNOWN_THREAD);
                self.client.say(voice::UNKNOWN_THREAD, 1, &format!("{id} ({why})")).await
            }
        };
        told(said)
    }
}

async fn ended(backend: Option<&Backend>) -> ConnectFailure {
    match backend {
        Some(backend) => backend.ended().await,
        None => std::future::pending().await,
    }
}
