//! What the lab measures of single parts, beside what others use in their place.

pub mod health;
pub mod slowlog;
