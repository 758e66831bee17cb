//! Reads MHA's configuration as MHA does, and converts it to Understudy's.

pub mod conf;
mod keys;
pub mod moved;
#[cfg(test)]
mod net;
pub mod shell;
pub mod tiny;
