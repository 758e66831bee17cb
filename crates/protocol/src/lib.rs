//! The MySQL client/server protocol as MariaDB and MySQL speak it: packets, the login, commands, where an answer ends, GTIDs, the events
//! of a binlog, and a light look at SQL text.
//!
//! A core: bytes in, facts out. Nothing here reads a socket, and nothing here trusts a length that came from outside.

pub mod auth;
pub mod binlog;
mod bits;
pub mod capability;
pub mod certificate_proof;
pub mod command;
pub mod errno;
pub mod gtid;
pub mod handshake;
pub mod ok;
pub mod packet;
pub mod parameter;
pub mod response;
pub mod statement;
