//! The few commands that are not simply forwarded to the node: the end of a prepared statement, COM_RESET_CONNECTION, KILL.

use protocol::command::Command;
use protocol::errno;
use protocol::packet::{HEADER_LEN, put_packet};
use session::command::InFlight;
use session::exchange::LetGo;
use session::finish::{KILLED, NodeError};

use super::{Driver, END, Flow, GO_ON, OF_LOGIN, flow_after};
use crate::backend::Backend;
use crate::error_reply;
use crate::frontend::{BufferedCommand, FIRST};
use crate::kill::{self, Target};
use crate::reads::port::READ_ONLY;

/// The variables that the character set of a login sets.
const CHARSETS: [&str; 4] =
    ["character_set_client", "character_set_results", "character_set_connection", "collation_connection"];
/// The server's message to a session that used KILL QUERY on itself.
const INTERRUPTED: &str = "Query execution was interrupted";

impl Driver {
    /// Closes a statement on its node, if it is prepared there. There is no answer in either case.
    pub(super) async fn close_statement(&mut self, flight: &InFlight, command: BufferedCommand) -> Flow {
        if let Some(id) = flight.statement {
            let mut lost = false;
            if let Some(backend) = self.at.backend.as_mut()
                && let Some(on_node) = backend.standing.statement(id)
            {
                // A new packet: the client's may have any length, and need not be in the buffer.
                let [a, b, c, d] = on_node.id.to_le_bytes();
                let mut out = vec![];
                put_packet(&mut out, &mut 0, &[Command::STMT_CLOSE.0, a, b, c, d]);
                lost = backend.send(&out).await.is_err();
            }
            self.session.closed(self.at.standing(), id);
            if let Some(recorder) = &mut self.recorder {
                recorder.closed(id);
            }
            if lost {
                self.lost_idle();
            }
        }
        self.note_pins(true);
        flow_after(self.client.drop_command(command).await)
    }

    /// A statement id that this session does not have: the server's error.
    pub(super) async fn unknown_statement(&mut self, id: u32, command: BufferedCommand) -> Flow {
        let sent = self.client.buffer.bytes().get(HEADER_LEN..).and_then(Command::of);
        let asked = match sent {
            Some(Command::STMT_RESET) => "mysqld_stmt_reset",
            Some(Command::STMT_FETCH) => "mysqld_stmt_fetch",
            Some(Command::STMT_BULK_EXECUTE) => "mysqld_stmt_bulk_execute",
            _ => "mysqld_stmt_execute",
        };
        if self.client.drop_command(command).await.is_err() {
            return END;
        }
        let message = format!("Unknown prepared statement handler ({id}) given to {asked}");
        flow_after(self.client.say_err(1, errno::UNKNOWN_STMT_HANDLER, *b"HY000", &message).await)
    }

    /// COM_RESET_CONNECTION is carried out by the node, so that everything is released there when the client gets its OK. If that is not
    /// possible, the link is dropped, and the next statement makes a new one.
    pub(super) async fn reset(&mut self, command: BufferedCommand) -> Flow {
        if self.client.drop_command(command).await.is_err() {
            return END;
        }
        self.reset_side();
        let status = self.reset_link().await;
        if status.is_none() {
            if self.at.was_killed().await {
                let _ = self.client.say_err(1, errno::CONNECTION_KILLED, *b"70100", KILLED).await;
                return END;
            }
            self.at.let_go(LetGo::Link);
        }
        self.at.let_go(LetGo::Lease);
        self.client.caps.0 &= !OF_LOGIN.0;
        self.client.forget_untold();
        self.session.reset(self.shared.login_status());
        self.tell_as_new();
        if let (Some(status), Some(backend)) = (status, self.at.backend.as_mut()) {
            let lacks_schema = backend.standing.lacks_schema();
            backend.standing = self.session.standing(false);
            backend.standing.set_lacks_schema(lacks_schema);
            self.session.attached(status);
            if self.who.charset == 0 {
                // After a reset, the server takes a character set of 0 for another one than in a login.
                for name in CHARSETS {
                    backend.standing.must_ask(name);
                }
                if backend.ask_variables(&mut self.session, true).await.is_err() {
                    self.at.let_go(LetGo::Link);
                }
            }
        }
        self.has_run = false;
        self.rest();
        self.say_ok(FIRST).await
    }

    /// Resets the present link, if there is one and nothing was lost; returns the node's status bits afterwards.
    async fn reset_link(&mut self) -> Option<u16> {
        let backend = self.at.backend.as_mut().filter(|backend| !backend.lane().is_cut())?;
        if self.session.owed().is_some() || !self.session.wanted.is_undone_by_reset(&backend.standing) {
            return None;
        }
        let status = backend.reset().await.ok()?;
        if self.shared.reads.is_some() {
            backend.query(READ_ONLY, self.shared.connect_timeout()).await.ok()??;
        }
        Some(status)
    }

    /// KILL: see [`kill`].
    pub(super) async fn kill(
        &mut self,
        query_only: bool,
        id: u64,
        otherwise: InFlight,
        command: BufferedCommand,
    ) -> Flow {
        let own = self.at.backend.as_ref().map(Backend::lane).cloned();
        let (shared, caps) = (self.shared.clone(), self.client.caps);
        let target = kill::target(&shared, &self.who, caps, self.client.id, own.as_ref(), id).await;
        if matches!(target, Target::OnNode) {
            return self.forward(otherwise, command).await;
        }
        if self.client.drop_command(command).await.is_err() {
            return END;
        }
        let why = match target {
            Target::OnNode => return GO_ON, // forwarded above
            Target::Itself if query_only => {
                return flow_after(
                    self.client.say_err(1, errno::QUERY_INTERRUPTED, *b"70100", INTERRUPTED).await,
                );
            }
            Target::Itself => {
                let NodeError { code, state, message } = NodeError::killed();
                let _ = self.client.say_err(1, code, state, &message).await;
                return END;
            }
            Target::Nobody(why) => why,
            Target::Session(place) => match kill::kill(&shared, &self.who, caps, &place, query_only).await {
                Ok(()) => return self.say_ok(FIRST).await,
                Err(why) => format!("{id} ({why})"),
            },
        };
        self.shared.counts.error(error_reply::UNKNOWN_THREAD);
        flow_after(self.client.say(error_reply::UNKNOWN_THREAD, 1, &why).await)
    }
}
