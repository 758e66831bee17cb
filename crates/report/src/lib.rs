//! Results as people and programs read them: tables for a terminal, the parts that pages and plots have in common, and the files of both.

pub mod file;
pub mod plot;
pub mod table;
pub mod words;

/// The look of the labs' pages: light and dark, for large screens and phones.
pub const STYLE: &str = include_str!("style.css");
