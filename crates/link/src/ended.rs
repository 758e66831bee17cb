//! The alarm wire: waiting for an idle connection's end, and what the end tells.

use std::io;

use protocol::ok::ERR;

use crate::wire::whole;
use crate::{Link, LinkError};

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
    /// It said something else that nobody had asked for: whatever is asked now, the answer would be taken for another's.
    Unasked,
    /// Our kernel gave the peer up (keepalive, no route): it may be dead, or only out of reach.
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
