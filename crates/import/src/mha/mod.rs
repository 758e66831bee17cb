//! Reads MHA's configuration as MHA does.

pub mod conf;
pub mod shell;
#[cfg(test)]
mod tests;
pub mod tiny;
