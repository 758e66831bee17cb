//! The buffer pool of one server, loaded on another: which pages the active node has in memory, in the numbers of the standby's own files.
//!
//! ```text
//!   active node                                                        standby
//!   dump_now ──> ib_buffer_pool ──> Snapshot ──> text, HTTP ──> translate ──> ib_buffer_pool ──> load_now
//!                + its tablespaces    (text)                    + its tablespaces
//! ```
//!
//! A dump names pages as `tablespace number, page number`. The numbers of tablespaces are each server's own, so they are translated by the
//! tablespaces' names. Page numbers are not translated: on a standby that was made from a physical copy they are nearly the same, on one that was
//! loaded from a logical dump they are a hint. No contents are copied, and nothing is written but the server's own dump file.
//!
//! `snapshot`, `spaces`, `text` and `translate` decide, without input or output; `server` asks servers, `load` has one load, `http` answers for the streamer.

mod http;
mod load;
mod server;
mod snapshot;
mod spaces;
mod text;
mod translate;

pub use http::router;
pub use load::{Allowed, Loaded, Progress, load};
pub use server::{PoolError, Server};
pub use snapshot::{Malformed, Page, Snapshot};
pub use spaces::{Space, SpaceKind, Spaces};
pub use text::{Parser, write};
pub use translate::{LeftOut, Translated, translate};
