//! One client's session, as the proxy must know it to hand it from one node to another.
//!
//! A core: no sockets, no clock. The driver in the `proxy` crate moves the bytes; this crate decides.
//!
//! ```text
//!   a command ──> session::command ──> Next: forward it, answer it here, or end
//!   an answer ──> session::ended   ──> memory (schema, variables, prepared statements), transaction open or not
//!   a loss    ──> session::lost    ──> retry::Verdict: again, rolled back, outcome unknown, cut short
//!   a new node <── memory::restore  <── what must be said before the first statement there
//!   no node   ──> gate             ──> wait, in order, within limits
//! ```

pub mod gate;
pub mod login;
pub mod memory;
pub mod retry;
pub mod session;
