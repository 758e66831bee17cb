//! One logged-in connection to a database node, over TCP or over the server's unix socket. Used by the proxy's backends, the manager's
//! probes and orders, and the health check.
//!
//! Enters: an address, an account and a deadline. Leaves: a [`Link`], with which a caller can run a small statement, wait for
//! the end of the connection, or use its [`Transport`] and its [`Buffer`] directly. Invariant: received bytes stay in the
//! buffer until they are consumed, whoever has read them; nothing here waits without a deadline, except [`Link::ended`] and similar methods,
//! whose purpose that is.
//!
//! ```text
//!   Login --connect--> Link --query--> Rows
//!                        |---ended--> Ended      a process that dies ends its idle links at once
//!                        |---reset-->            ends at once; what the peer has received stays received
//!                        |---half_close-->       the server sees that its client left, and its answer can still be read
//!                        |---cutter--> Cutter    closes it from another task
//!                        '---stream, buffer-->   the proxy's relay
//! ```

pub mod abandoned;
mod asker;
mod authentication;
mod buffer;
mod connect;
mod ended;
mod error;
mod login;
mod query;
pub mod rsa;
mod server_tls;
mod transport;
mod wire;

pub use asker::{Asker, ask_once};
pub use buffer::Buffer;
pub use connect::{Endpoint, Link};
pub use ended::Ended;
pub use error::{LinkError, Unanswered, local_resource_error, unless_rejected};
pub use login::{Login, ProxyHeader, Secret, attributes};
pub use query::Rows;
pub use rustls::ServerConfig;
pub use server_tls::ServerTls;
pub use transport::{Codec, Cutter, Side, Transport};
