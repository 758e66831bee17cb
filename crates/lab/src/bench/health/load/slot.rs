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
    /// Distinguishes events of this socket from those of the slot's previous one.
    pub(super) serial: u32,
    pub(super) phase: Phase,
    /// The socket has carried an earlier transaction.
    pub(super) is_reused: bool,
    /// Start of the response time: when the transaction was due, or when it began.
    pub(super) due: Duration,
    /// When the transaction began, or when the wait for the server's close began.
    pub(super) since: Duration,
    /// When the slot became free.
    pub(super) freed: Duration,
    /// Bytes of the request that were sent.
    pub(super) sent: usize,
    /// The part of the response received so far.
    pub(super) part: Vec<u8>,
}
