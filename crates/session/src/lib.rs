//! A client's session, with all that is needed to move it from one node to another.
//!
//! A core: it has no sockets and no clock. The driver in the `proxy` crate moves the bytes, and this crate decides.
//!
//! ```text
//!   a command ──> session::command ──> Next: forward it, answer it here, or end
//!                      │
//!                      v
//!                 exchange: one operation after the other, until the client has its answer; a loss is decided by retry
//!                      │
//!   an answer ──> session::ended ──> wanted (the session's state as the client wants it, on whichever node)
//!                      └──────────> standing (the state that exists on this link only)
//!   a new link <── wanted::restore, bound (the settings under which a statement was prepared)
//!   a link that is left while its node works ──> saving (reads from it what only it knows)
//!   a read that has ended ──> finished, as_text (a copy for the warming of other servers)
//!   no node ──> hold queue ──> waits, in order, within limits
//! ```

pub mod as_text;
pub mod bound;
pub mod charset;
pub mod command;
pub mod configured;
pub mod digests;
pub mod exchange;
pub mod finish;
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
