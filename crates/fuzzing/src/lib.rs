//! What must hold for any bytes that come from outside: one module for each parser or core that reads them, and in it one function that takes an input
//! and panics where something does not hold. The inputs are made by `tests/seeds.rs`, and by the fuzzer of `scripts/fuzz.sh`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod binlog;
mod command;
mod gtid;
mod handshake;
mod health;
mod login;
mod ndb;
mod packet;
mod packets;
mod proxy_header;
mod response;
mod slowlog;
mod statement;
mod transport;

/// Checks one input; panics where something does not hold for it.
pub type Check = fn(&[u8]);

/// Every check by its name, which is that of its seeds (`fuzz/seeds/NAME`).
pub const CHECKS: [(&str, Check); 13] = [
    ("binlog", binlog::holds),
    ("command", command::holds),
    ("gtid", gtid::holds),
    ("handshake", handshake::holds),
    ("health", health::holds),
    ("login", login::holds),
    ("ndb", ndb::holds),
    ("packet", packet::holds),
    ("proxy_header", proxy_header::holds),
    ("response", response::holds),
    ("slowlog", slowlog::holds),
    ("statement", statement::holds),
    ("transport", transport::holds),
];

/// The check of that name.
pub fn named(name: &str) -> Option<Check> {
    CHECKS.iter().find(|(known, _)| *known == name).map(|(_, check)| *check)
}
