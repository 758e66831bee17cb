//! Waits for the end of an idle connection, and finds out how it ended: a server process that dies ends its connections at once.

use std::io;

use protocol::ok::ERR;

use crate::wire::whole;
use crate::{Link, LinkError};

/// How the peer ended an idle connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Closed in good order (FIN), without an error packet.
    Closed,
    /// Reset.
    Reset,
    /// The server sent an error packet (1053, 1927, 4031, ...), and closes.
    Goodbye {
        /// The server's number.
        errno: u16,
        /// The server's sentence.
        message: String,
    },
    /// It sent other bytes without a request: they would be taken for the answer to the next one.
    Unasked,
    /// The local kernel gave the connection up (keepalive, no route): the peer may be dead, or only unreachable.
    Lost {
        /// What the kernel said.
        why: String,
    },
}

impl Link {
    /// Waits until the peer ends the idle connection, and tells how. Whatever it says counts as the end, and stays in the buffer. Holds
    /// no room for bytes before there are any. Cancel safe: call it again and nothing is lost.
    pub async fn ended(&mut self) -> Ended {
        if self.buffer.is_empty() {
            self.buffer.rest();
            let read = async {
                self.stream.readable().await?;
                self.buffer.fill(&mut self.stream).await
            };
            match read.await {
                Ok(0) => return Ended::Closed,
                Ok(_) => {}
                Err(error) => return of_io(&error),
            }
        }
        match whole(&self.buffer) {
            Some((_, payload)) if payload.first() == Some(&ERR) => match LinkError::of_err_packet(payload) {
                LinkError::Rejected { errno, message, .. } => Ended::Goodbye { errno, message },
                _ => Ended::Unasked,
            },
            _ => Ended::Unasked,
        }
    }
}

fn of_io(error: &io::Error) -> Ended {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            Ended::Reset
        }
        _ => Ended::Lost { why: error.to_string() },
    }
}
