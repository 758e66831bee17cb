//! The login of a client, at the beginning of its connection and with COM_CHANGE_USER.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use listen::slots::ConnectionSlot;
use protocol::packet::HEADER_LEN;
use protocol::statement::Pins;
use session::exchange::{LetGo, NodeError};
use session::session::Session;
use session::split::Need;
use tokio::net::TcpStream;

use super::{Driver, END, Flow, OF_LOGIN};
use crate::activity::Card;
use crate::attachment::Attachment;
use crate::backend::AttachError;
use crate::error_reply;
use crate::frontend::{BufferedCommand, Client, Done};
use crate::identity::Identity;
use crate::shared::{ACCOUNTS_WAIT, Shared};

/// How long a login waits for a free connection on a node that has none.
const FULL_LOGIN_WAIT: Duration = Duration::from_secs(1);
/// The pause between two attempts to get one.
const FULL_LOGIN_PAUSE: Duration = Duration::from_millis(50);

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
            return None;
        }
        // The client is gone, or did not log in in time: there is nobody to answer.
        Ok(Err(Done::Gone)) | Err(_) => return None,
    };
    drop(login);
    let card = Card::new(client.id, peer);
    card.set_user(&who.user);
    let listed = shared.list(card.clone());
    Some(Box::new(Driver {
        session: new_session(&shared, &who),
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
        has_run: false,
        has_history: false,
        has_spoken: false,
        lost_statement: None,
        recorder: None,
        shared,
        _listed: listed,
    }))
}

fn new_session(shared: &Shared, who: &Identity) -> Session {
    let mut session = Session::new(who.schema.clone(), shared.login_status());
    if shared.replicas.is_some() {
        session.wanted.keep_gtid();
    }
    session
}

impl Driver {
    /// Ends the login. If a lane is open, a link is made first, so that the node itself can refuse the account or the schema. Otherwise the
    /// client gets an OK, and its first statement waits.
    pub(super) async fn finish_login(&mut self) -> Flow {
        if self.at.lease_now() {
            let attached = self.attach_for_login().await;
            self.at.let_go(LetGo::Lease);
            match attached {
                Err(AttachError::Full(error)) => {
                    let NodeError { code, state, message } = error_reply::full_node(Some(error));
                    let _ = self.client.say_err(self.seq, code, state, &message).await;
                    return END;
                }
                Err(AttachError::StillFull) => {
                    let NodeError { code, state, message } = error_reply::full_node(None);
                    let _ = self.client.say_err(self.seq, code, state, &message).await;
                    return END;
                }
                Err(AttachError::Refused(error)) => {
                    let _ = self.client.say_err(self.seq, error.code, error.state, &error.message).await;
                    return END;
                }
                Err(AttachError::NotRebuilt(why)) => {
                    self.shared.counts.error(error_reply::NOT_REBUILT);
                    let _ = self.client.say(error_reply::NOT_REBUILT, self.seq, &why).await;
                    return END;
                }
                Ok(())
                | Err(
                    AttachError::Lost(_) | AttachError::Shut | AttachError::Behind | AttachError::Local(_),
                ) => {}
            }
        }
        self.say_ok(self.seq).await
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
                self.client.untold.clear();
                self.session = new_session(&self.shared, &who);
                self.card.set_user(&who.user);
                self.who = who;
                self.tell_as_new();
                self.has_run = false;
                self.note_pins(true);
                self.finish_login().await
            }
            Ok(Err(Done::Refused(error_reply, detail))) => {
                self.shared.counts.error(error_reply);
                let _ = self.client.say(error_reply, self.client.login_seq, &detail).await;
                END
            }
            Ok(Err(Done::Gone)) | Err(_) => END,
        }
    }
}
