//! How an account proves itself: the bytes of each authentication plugin, on the client's side and on the server's. No I/O.

pub mod native;
