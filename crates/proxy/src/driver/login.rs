//! The login of a client, at the beginning of its connection and with COM_CHANGE_USER.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use listen::slots::ConnectionSlot;
use protocol::capability::Caps;
use protocol::errno;
use protocol::ok::schema_change;
use protocol::packet::HEADER_LEN;
use protocol::statement::Pins;
use session::exchange::{LetGo, NoLink};
use session::finish::NodeError;
use session::session::Session;
use session::split::Need;
use tokio::net::TcpStream;
use topology::fact::ConnectFailure;
use topology::flavor::Flavor;

use super::{Driver, END, Flow, OF_LOGIN, flow_after};
use crate::activity::Card;
use crate::attachment::Attachment;
use crate::backend::AttachError;
use crate::error_reply;
use crate::frontend::{BufferedCommand, Client, Done, Unchecked};
use crate::shared::{ACCOUNTS_WAIT, Shared};

/// How long a login waits for a free connection on a node that has none.
const FULL_LOGIN_WAIT: Duration = Duration::from_secs(1);
/// The pause between two attempts to get one.
const FULL_LOGIN_PAUSE: Duration = Duration::from_millis(50);
const NOT_CHECKED: &str =
    "only a database node can check this account's password (pam), and none did in time: connect again";
/// A server's errors for a wrong password; the second without one.
const IS_WRONG: [u16; 2] = [errno::ACCESS_DENIED_ERROR, errno::ACCESS_DENIED_NO_PASSWORD_ERROR];
/// After so many refused changes of the user MariaDB takes none on that connection.
const CHANGES_REFUSED_MAX: u8 = 3;
/// MariaDB's message then.
const UNKNOWN_COMMAND: &str = "Unknown command";

/// Learns who a client is; `None` when it is not let in, and knows.
pub(super) async fn log_in(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    login: Option<ConnectionSlot>,
) -> Option<Box<Driver>> {
    let mut client = Client::new(stream, peer, shared.new_id(), login.is_none());
    let within = shared.login_timeout();
    let logging_in = async {
        let Some(greeting) = shared.greeting(within).await else {
            return Err(Done::Refused(error_reply::NO_NODE_YET, String::new()));
        };
        client.login(&greeting, &shared).await
    };
    let who = match tokio::time::timeout(within + ACCOUNTS_WAIT, logging_in).await {
        Ok(Ok(who)) => who,
        Ok(Err(Done::Refused(error_reply, detail))) => {
            shared.counts.error(error_reply);
            let _ = client.say(error_reply, client.login_seq, &detail).await;
            client.finish().await;
            return None;
        }
        // The client is gone, or did not log in in time: there is nobody to answer.
        Ok(Err(Done::Gone)) | Err(_) => return None,
    };
    // Who has proved nothing yet keeps its place among those that are logging in.
    if let Some(unchecked) = &mut client.unchecked {
        unchecked.place = login;
    }
    let card = Card::new(client.id, peer);
    card.set_user(&who.user);
    let listed = shared.list(card.clone());
    Some(Box::new(Driver {
        session: new_session(&shared, who.schema.clone()),
        side: None,
        need: Need::default(),
        side_not_before: None,
        side_avoids: vec![],
        seq: who.seq,
        at: Attachment::new(shared.clone(), card.clone()),
        card,
        client,
        who,
        pins: Pins::NONE,
        changes_refused: 0,
        has_run: false,
        has_history: false,
        has_spoken: false,
        lost_statement: None,
        recorder: None,
        shared,
        _listed: listed,
    }))
}

fn new_session(shared: &Shared, schema: Option<Vec<u8>>) -> Session {
    let mut session = Session::new(schema, shared.login_status());
    if shared.replicas.is_some() {
        session.wanted.keep_gtid();
    }
    session
}

/// Why a login is refused.
enum Refusal {
    /// By PAM on a node.
    Denied,
    /// In a node's words, or in those of a server.
    Node(NodeError),
    /// In the proxy's own: the session cannot be set up; the text says why.
    NotRebuilt(String),
}

/// Whether an attempt to make a link refuses the login, or leaves it to the first statement to wait for one.
fn refusal_of(attached: Result<(), AttachError>) -> Result<(), Refusal> {
    match attached.map_err(Attachment::no_link) {
        Ok(()) | Err(NoLink::NotNow) => Ok(()),
        Err(NoLink::Full(error) | NoLink::Refused(error)) => Err(Refusal::Node(error)),
        Err(NoLink::NotRebuilt(why)) => Err(Refusal::NotRebuilt(why)),
    }
}

impl Driver {
    /// Ends the login.
    pub(super) async fn finish_login(&mut self) -> Flow {
        match self.begin_session().await {
            Ok(()) => {
                self.client.prove_certificate();
                let said = self.say_ok(self.seq).await;
                self.client.begin_compression();
                said
            }
            Err(refusal) => {
                let _ = self.say_refusal(&refusal).await;
                END
            }
        }
    }

    /// If a lane is open, a link is made first, so that the node itself can refuse the account or the schema. Otherwise the client gets an OK, and
    /// its first statement waits.
    async fn begin_session(&mut self) -> Result<(), Refusal> {
        if let Some(unchecked) = self.client.unchecked.take() {
            return self.check_by_node(unchecked).await;
        }
        if !self.at.lease_now() {
            return Ok(());
        }
        let attached = self.attach_for_login().await;
        self.at.let_go(LetGo::Lease);
        refusal_of(attached)
    }

    /// A password that only a node can check: nobody is let in before one has. Waits for a node as long as a login may take. The attempt is used
    /// up by a wrong password, and by one about which the node says nothing, which is not shown again; by nothing else: clients that come while no
    /// node takes sessions have sent no wrong one. Who is refused waits as long, and hears the same, as for other plugins.
    async fn check_by_node(&mut self, unchecked: Unchecked) -> Result<(), Refusal> {
        let began = Instant::now();
        let checked = loop {
            let attached =
                if self.at.lease_now() { self.attach_for_login().await } else { Err(AttachError::Shut) };
            self.at.let_go(LetGo::Lease);
            match attached {
                Ok(()) => break Ok(()),
                Err(AttachError::Refused(error)) if IS_WRONG.contains(&error.code) => {
                    tokio::time::sleep_until((began + ACCOUNTS_WAIT).into()).await;
                    return Err(Refusal::Denied);
                }
                Err(AttachError::Lost(ConnectFailure::TimedOut)) => {
                    return Err(Refusal::NotRebuilt(NOT_CHECKED.into()));
                }
                Err(error) => {
                    if let Err(refusal) = refusal_of(Err(error)) {
                        break Err(refusal);
                    }
                }
            }
            let is_gone = tokio::select! {
                () = tokio::time::sleep(FULL_LOGIN_PAUSE) => false,
                () = self.client.gone() => true,
            };
            if is_gone || began.elapsed() >= self.shared.login_timeout() {
                break Err(Refusal::NotRebuilt(NOT_CHECKED.into()));
            }
        };
        self.shared.password_errors.was_right(unchecked.attempt, Instant::now());
        checked
    }

    async fn say_refusal(&mut self, refusal: &Refusal) -> Result<(), Done> {
        match refusal {
            Refusal::Denied => {
                let (reply, from) = (error_reply::ACCESS_DENIED, self.client.peer.ip());
                self.shared.counts.error(reply);
                tracing::info!(
                    "client {from} was refused as {:?}: PAM on a node did not let it in",
                    self.who.user
                );
                let denied = error_reply::denied(&self.who.user, from, true);
                self.client.say(reply, self.seq, &denied).await
            }
            Refusal::Node(NodeError { code, state, message }) => {
                self.client.say_err(self.seq, *code, *state, message).await
            }
            Refusal::NotRebuilt(why) => {
                self.shared.counts.error(error_reply::NOT_REBUILT);
                self.client.say(error_reply::NOT_REBUILT, self.seq, why).await
            }
        }
    }

    /// A login to a node that has no free connection waits a moment for one, and not longer: a client's connection pool understands "too
    /// many connections", and must learn of it before it counts the connection as established. It tries another node that takes sessions, where there
    /// is one, and holds no lease while it waits: a lane that is to become quiet does not wait for it.
    async fn attach_for_login(&mut self) -> Result<(), AttachError> {
        let until = Instant::now() + FULL_LOGIN_WAIT.min(self.shared.hold_time());
        loop {
            let attached = self.attach().await;
            let is_full = matches!(attached, Err(AttachError::Full(_) | AttachError::StillFull));
            if !is_full || Instant::now() >= until {
                return attached;
            }
            self.at.let_go(LetGo::Lease);
            tokio::select! {
                () = tokio::time::sleep(FULL_LOGIN_PAUSE) => {}
                () = self.client.gone() => return attached,
            }
            if self.at.lease_at_once(true).is_none() && !self.at.lease_now() {
                // Statements are held by now: the first one of this client, too.
                return Err(AttachError::Shut);
            }
        }
    }

    /// COM_CHANGE_USER: a new session on the same connection.
    pub(super) async fn change_user(&mut self, command: BufferedCommand) -> Flow {
        if !command.whole {
            return self.fail(error_reply::MALFORMED, "a change of user of that size", 1, command).await;
        }
        if self.changes_refused >= CHANGES_REFUSED_MAX {
            if self.client.drop_command(command).await.is_err() {
                return END;
            }
            let said = self.client.say_err(1, errno::UNKNOWN_COM_ERROR, *b"08S01", UNKNOWN_COMMAND).await;
            return flow_after(said);
        }
        let payload = self.client.buffer.bytes()[HEADER_LEN..command.len].to_vec();
        self.client.buffer.consume(command.len);
        self.at.let_go(LetGo::Link);
        self.side = None;
        self.client.caps.0 &= !OF_LOGIN.0;
        let shared = self.shared.clone();
        let login = self.client.change_user(&payload, self.who.charset, &shared);
        match tokio::time::timeout(shared.login_timeout() + ACCOUNTS_WAIT, login).await {
            Ok(Ok(who)) => {
                self.seq = who.seq;
                self.client.forget_untold();
                let (before, old) = (std::mem::replace(&mut self.who, who), self.session.wanted.schema());
                let schema = old.map(<[u8]>::to_vec);
                self.session = new_session(&self.shared, self.who.schema.clone());
                // MariaDB does not run init_connect then. (Without a character set of its own, a session would have another one after a reset; and MySQL's
                // reset takes no session back to that of its login.)
                if self.shared.flavor() == Flavor::MariaDb && self.who.charset != 0 {
                    self.session.wanted.begin_anew();
                }
                self.tell_as_new();
                self.has_run = false;
                match self.begin_session().await {
                    Ok(()) => {
                        self.card.set_user(&self.who.user);
                        self.note_pins(true);
                        if let Some(schema) = &self.who.schema
                            && self.client.caps.has(Caps::SESSION_TRACK)
                        {
                            self.client.untold = schema_change(schema);
                        }
                        self.client.prove_certificate();
                        self.say_ok(self.seq).await
                    }
                    Err(refusal @ Refusal::NotRebuilt(_)) => {
                        let _ = self.say_refusal(&refusal).await;
                        END
                    }
                    Err(refusal) => {
                        let said = self.say_refusal(&refusal).await;
                        self.who = before;
                        self.session = new_session(&self.shared, schema);
                        self.go_on_as_before(said)
                    }
                }
            }
            Ok(Err(Done::Refused(error_reply, detail))) => {
                self.shared.counts.error(error_reply);
                let said = self.client.say(error_reply, self.client.login_seq, &detail).await;
                if error_reply == error_reply::ACCESS_DENIED { self.go_on_as_before(said) } else { END }
            }
            Ok(Err(Done::Gone)) | Err(_) => END,
        }
    }

    /// A change of the user was refused. MariaDB's connections go on as the user that they had, MySQL's end.
    fn go_on_as_before(&mut self, said: Result<(), Done>) -> Flow {
        if self.shared.flavor() == Flavor::MySql {
            return END;
        }
        self.changes_refused += 1;
        self.at.let_go(LetGo::Link);
        self.client.forget_untold();
        self.session.change_refused(self.shared.login_status());
        self.tell_as_new();
        self.has_run = false;
        self.note_pins(true);
        self.rest();
        flow_after(said)
    }
}
