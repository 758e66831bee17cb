//! What `understudy` and `understudy-lab` have in common as commands: how a command line is read, how a command ends, and the threads of one
//! that needs some.

pub mod duration;
pub mod exit;
pub mod exposed;
pub mod foreground;
pub mod line;
pub mod notify;
pub mod runtime;
