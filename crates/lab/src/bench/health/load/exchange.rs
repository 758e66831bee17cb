//! One transaction on its connection: connect, send the request, read the response.

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::slot::Phase;
use super::{Load, TIMER};
use crate::bench::health::answer::{AnswerClass, Seen, Trouble, see};

/// A longer response is not from a health endpoint.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

impl Load {
    pub(super) fn connect(&mut self, at: u32) {
        if self.open(at) {
            self.submit(at);
        }
    }

    /// Opens a new connection. Returns whether it is established or in progress; if not, the transaction has ended.
    pub(super) fn open(&mut self, at: u32) -> bool {
        let family = if self.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let opened = rustix::net::socket_with(family, SocketType::STREAM, flags, None).and_then(|socket| {
            match rustix::net::connect(&socket, &self.address) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                Err(error) => Err(error),
            }
        });
        let slot = &mut self.slots[at as usize];
        slot.serial = slot.serial.wrapping_add(1);
        slot.phase = Phase::Sending;
        slot.is_reused = false;
        slot.sent = 0;
        match opened {
            Ok(socket) => {
                slot.socket = Some(socket);
                true
            }
            Err(error) => {
                self.end(at, AnswerClass::Transport(trouble(error)));
                false
            }
        }
    }

    /// Sends the request on a new connection and registers the socket with epoll.
    pub(super) fn submit(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let Some(socket) = &slot.socket else { return };
        // On the same machine the connection is often established already, and the request can be sent immediately.
        match attempt(socket, &self.request, &mut slot.sent) {
            Ok(true) => slot.phase = Phase::Reading,
            Ok(false) => {}
            Err(error) => return self.end(at, AnswerClass::Transport(trouble(error))),
        }
        let data = EventData::new_u64(u64::from(slot.serial) << 32 | u64::from(at));
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        let flags = if slot.phase == Phase::Sending { flags | EventFlags::OUT } else { flags };
        if let Err(error) = epoll::add(&self.epoll, socket, data, flags) {
            self.end(at, AnswerClass::Transport(trouble(error)));
        }
    }

    /// Sends the rest of the request.
    pub(super) fn send(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let Some(socket) = &slot.socket else { return };
        match attempt(socket, &self.request, &mut slot.sent) {
            Ok(true) => slot.phase = Phase::Reading,
            Ok(false) => {}
            Err(error) => self.lost(at, trouble(error)),
        }
    }

    /// The connection failed. The server may just have closed a keep-alive connection: then the request is retried on a new one.
    pub(super) fn lost(&mut self, at: u32, trouble: Trouble) {
        let slot = &mut self.slots[at as usize];
        if slot.is_reused && slot.part.is_empty() {
            slot.socket = None;
            self.reconnects += 1;
            self.connect(at);
        } else {
            self.end(at, AnswerClass::Transport(trouble));
        }
    }

    pub(super) fn event(&mut self, data: u64, flags: EventFlags) {
        if data == TIMER {
            return;
        }
        let (serial, at) = ((data >> 32) as u32, data as u32);
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        let Some(socket) = slot.socket.as_ref().filter(|_| slot.serial == serial) else { return };
        let is_ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        match slot.phase {
            Phase::Idle if is_ended => {
                slot.socket = None;
                self.reconnects += 1;
            }
            Phase::Idle => {}
            Phase::Sending => {
                if let Ok(Err(error)) = rustix::net::sockopt::socket_error(socket) {
                    return self.lost(at, trouble(error));
                }
                self.send(at);
                let is_sent = self.slots[at as usize].phase == Phase::Reading;
                if is_sent && (is_ended || flags.contains(EventFlags::IN)) {
                    self.read(at, serial, is_ended);
                }
            }
            Phase::Reading => self.read(at, serial, is_ended),
            Phase::Closing if is_ended => self.release(at, false),
            Phase::Closing => {}
        }
    }

    /// Reads until the response is complete or no more bytes are available.
    pub(super) fn read(&mut self, at: u32, serial: u32, is_ended: bool) {
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let slot = &mut self.slots[at as usize];
            let Some(socket) = slot.socket.as_ref().filter(|_| slot.serial == serial) else { break };
            let count = match rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    self.lost(at, trouble(error));
                    break;
                }
            };
            if count == 0 && slot.part.is_empty() {
                self.lost(at, Trouble::Closed);
                break;
            }
            let seen = if slot.part.is_empty() {
                see(&buffer[..count], false, &self.expect)
            } else {
                slot.part.extend_from_slice(&buffer[..count]);
                see(&slot.part, count == 0, &self.expect)
            };
            match seen {
                Seen::Whole { outcome, keeps } => {
                    self.answered(at, outcome, keeps, is_ended);
                    break;
                }
                Seen::Part if slot.part.len() > ANSWER_BYTES_MAX => {
                    self.end(at, AnswerClass::Wrong);
                    break;
                }
                Seen::Part => {
                    if slot.part.is_empty() {
                        slot.part.extend_from_slice(&buffer[..count]);
                    }
                    // The next bytes cause another event; an end that was already reported does not (edge-triggered), so then read on.
                    if count < buffer.len() && !is_ended {
                        break;
                    }
                }
            }
        }
        self.buffer = buffer;
    }
}

/// Sends the rest of the request; returns whether all of it is sent.
fn attempt(socket: &OwnedFd, request: &[u8], sent: &mut usize) -> Result<bool, Errno> {
    match rustix::net::send(socket, &request[*sent..], SendFlags::NOSIGNAL) {
        Ok(count) => {
            *sent += count;
            Ok(*sent == request.len())
        }
        Err(Errno::AGAIN | Errno::NOTCONN | Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

fn trouble(error: Errno) -> Trouble {
    match error {
        Errno::CONNREFUSED => Trouble::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Trouble::Reset,
        Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
            Trouble::Exhausted
        }
        _ => Trouble::Other,
    }
}
