//! Loads the buffer pool of one server on another: which pages the active node has in memory, with the tablespace numbers of the standby.
//!
//! ```text
//!   active node                                                        standby
//!   dump_now ──> ib_buffer_pool ──> Snapshot ──> text, HTTP ──> translate ──> ib_buffer_pool ──> load_now
//!                + its tablespaces    (text)                    + its tablespaces
//! ```
//!
//! A dump lists pages as `tablespace number, page number`. Each server has its own tablespace numbers, so they are translated by the
//! tablespaces' names. Page numbers are not translated: on a standby that was made from a physical copy they are nearly the same, on one
//! that was loaded from a logical dump they are only a hint. No page contents are copied, and only the server's own dump file is written.
//!
//! `snapshot`, `spaces`, `text` and `translate` do no I/O; `server` queries servers, `load` runs one load, `http` serves the dump for the
//! streamer.

mod http;
mod load;
mod server;
mod snapshot;
mod spaces;
mod text;
mod translate;

pub use http::router;
pub use load::{Allowed, Loaded, Progress, load, preview};
pub use server::{PoolError, Server};
pub use snapshot::{Malformed, Page, Snapshot};
pub use spaces::{Space, SpaceKind, Spaces};
pub use text::{Parser, write};
pub use translate::{LeftOut, Translated, translate};
