//! The alarm wire: waiting for an idle connection's end, and what the end tells.

use crate::wire::ANSWER_MAX;
use crate::{Link, LinkError, Stream};
use protocol::ok::ERR;

/// How the peer ended an idle connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Closed in good order and without a word.
    Closed,
    /// Reset.
    Reset,
    /// The server said why (1053, 1927, 4031, ...), and closes.
    Goodbye {
        /// The server's number.
        errno: u16,
        /// The server's sentence.
        message: String,
    },
    /// Our kernel gave the peer up (keepalive, no route): it may be dead, or only out of reach.
    Lost {
        /// What the kernel said.
        why: String,
    },
}

impl<S: Stream> Link<S> {
    /// Waits until the peer ends the idle connection, and tells how. Cancel safe: call it again and nothing is lost.
    /// Anything but an error that the server says unasked is ignored.
    pub async fn ended(&mut self) -> Ended {
        loop {
            while let Some((_, payload)) = self.inbox.take() {
                if payload.first() == Some(&ERR)
                    && let LinkError::Rejected { errno, message, .. } = LinkError::of_err_packet(&payload)
                {
                    return Ended::Goodbye { errno, message };
                }
            }
            if self.inbox.unread().len() > ANSWER_MAX {
                return Ended::Lost { why: "the peer sends without being asked, and without end".into() };
            }
            match self.inbox.fill(&mut self.stream).await {
                Ok(0) => return Ended::Closed,
                Ok(_) => {}
                Err(error) => {
                    return match error.kind() {
                        std::io::ErrorKind::ConnectionReset
                        | std::io::ErrorKind::ConnectionAborted
                        | std::io::ErrorKind::BrokenPipe => Ended::Reset,
                        _ => Ended::Lost { why: error.to_string() },
                    };
                }
            }
        }
    }
}
