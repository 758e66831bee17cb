//! The slow log of MariaDB (10.x, 11.x), MySQL (5.5, 5.6, 5.7 and newer) and Percona Server: one grammar for all of them.
//!
//! ```text
//!   bytes, in pieces --Reader--> Item::Event     one whole entry, borrowed: its bytes, its offset, what it says
//!                                Item::Banner    what a server writes when it opens the file
//!                                Item::Unparsed  whatever is neither, with the reason
//!
//!   the bytes of all items, one behind another, are the bytes that were fed
//!
//!   Event --Sampling--> kept or not       --alone::write--> bytes that are complete without earlier entries
//!   Event --Order-----> by their starts   Event --Writer--> bytes of a log
//! ```
//!
//! Parsing only: no file, no clock. Memory limits are in [`Limits`]; whatever exceeds one is an [`Item::Unparsed`] and is counted in
//! [`Counts`].
//!
//! # Where an entry ends
//! The format does not contain the length of a statement, so an entry ends where the head of the next one begins, and the text of a
//! statement may contain something that looks like a head. Outside of quotes and comments a line that looks like a head is one. Within open
//! quotes the entries behind it decide (`join.rs`): a statement with a broken quote ends there, and a string that contains a log goes on.
//! One case cannot be recognised: a text of several statements, one of which is a comment in the form of a head. SQL from a log therefore
//! deserves no more trust than the clients that sent it.

pub mod alone;
mod begin;
mod clock;
mod event;
mod fields;
mod grammar;
mod head;
mod join;
mod order;
mod quotes;
mod reader;
mod sample;
mod scan;
pub mod time;
mod write;

pub use clock::{LogClock, Times};
pub use event::{Clock, Command, Dialect, Event, Rate, RateBy, Rows, Schema};
pub use fields::Fields;
pub use order::{Order, OrderLimits, Ordered};
pub use reader::{Counts, Item, Limits, Reader, Start};
pub use sample::Sampling;
pub use scan::Why;
pub use write::Writer;
