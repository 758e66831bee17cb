//! One client's session, as the proxy must know it to hand it from one node to another.
//!
//! A core: no sockets, no clock. The driver in the `proxy` crate moves the bytes; this crate decides.
//!
//! ```text
//!   a command ──> session::command ──> Next: forward it, answer it here, or end
//!                      │
//!                      v
//!                 exchange: one operation after the other until the client has its answer; a loss asks retry
//!                      │
//!   an answer ──> session::ended ──> wanted (what the client wants, whatever node it stands on)
//!                      └──────────> standing (what this one link has, and no other)
//!   a fresh link <── wanted::restore, bound (what a prepared statement was prepared under)
//!   a link that is left in good order ──> saving (what it alone knows is read from it first)
//!   a read that has ended ──> finished, as_text (told to whoever warms another server)
//!   no node ──> hold queue ──> wait, in order, within limits
//! ```

pub mod as_text;
pub mod bound;
pub mod command;
pub mod exchange;
pub mod finished;
pub mod hold_queue;
pub mod login;
pub mod names;
pub mod retry;
pub mod saving;
pub mod session;
pub mod split;
pub mod standing;
pub mod suspects;
mod user_variables;
pub mod value;
pub mod wanted;
