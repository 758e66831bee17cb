//! One logged-in connection to a database node, for whoever needs one: the proxy's backends, the manager's probes and orders, the
//! health check. Over TCP, or over the server's unix socket.
//!
//! Enters: an address, an account and a deadline. Leaves: a [`Link`], over which one can run a small statement, wait for
//! the peer's end, or speak for oneself through its [`Transport`] and its [`Buffer`]. Invariant: what the peer sent is in the
//! buffer until somebody takes it, whoever read it; nothing here waits without a deadline, but for [`Link::ended`] and the like, whose
//! purpose it is.
//!
//! ```text
//!   Login --connect--> Link --query--> Rows
//!                        |---ended--> Ended      an idle link is an alarm wire: a process that dies ends it at once
//!                        |---reset-->            ends at once; what has arrived stays arrived
//!                        |---half_close-->       the server sees its client gone, and may still be read
//!                        |---cutter--> Cutter    cuts it from elsewhere
//!                        '---stream, buffer-->   the proxy's relay
//! ```

mod buffer;
mod connect;
mod ended;
mod error;
mod login;
mod query;
mod transport;
mod wire;

pub use buffer::Buffer;
pub use connect::{Endpoint, Link};
pub use ended::Ended;
pub use error::{LinkError, local_resource_error};
pub use login::{Login, Secret, attributes};
pub use query::Rows;
pub use transport::{Cutter, Transport};
