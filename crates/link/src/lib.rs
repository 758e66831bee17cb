//! One logged-in connection to a database node, for whoever needs one: the proxy's backends, the manager's probes and orders, the
//! health check. Over TCP, or over the server's unix socket.
//!
//! Enters: an address, an account and a deadline. Leaves: a [`Link`], over which one can run a small statement, wait for
//! the peer's end, or take the socket and speak for oneself. Invariant: nothing here waits without a deadline, but for
//! [`Link::ended`], whose purpose it is.
//!
//! ```text
//!   Login --connect--> Link --query--> Rows
//!                        |---ended--> Ended      an idle link is an alarm wire: a process that dies ends it at once
//!                        |---reset-->            ends at once; what has arrived stays arrived
//!                        '---stream-->           the proxy's relay
//! ```

mod connect;
mod ended;
mod error;
mod login;
mod query;
mod wire;

pub use connect::{Link, Place, Stream};
pub use ended::Ended;
pub use error::{LinkError, own_lack};
pub use login::{Login, Secret, attributes};
pub use query::Rows;
