//! MHA's configuration: read as MHA reads it, and told as Understudy's own.

pub mod conf;
mod keys;
pub mod moved;
