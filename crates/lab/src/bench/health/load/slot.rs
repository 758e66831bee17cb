//! A slot: at most one transaction at a time, on at most one connection.

use std::os::fd::OwnedFd;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Sending,
    Reading,
    Closing,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: Option<OwnedFd>,
    /// Tells this socket's events from its forerunner's.
    pub(super) serial: u32,
    pub(super) phase: Phase,
    /// The socket has answered before.
    pub(super) is_reused: bool,
    /// From when the response time counts: when it was due, or when it began.
    pub(super) due: Duration,
    /// When it began, or began to close.
    pub(super) since: Duration,
    /// When the slot became free.
    pub(super) freed: Duration,
    /// Bytes of the request that were sent.
    pub(super) sent: usize,
    /// The beginning of an answer.
    pub(super) part: Vec<u8>,
}
