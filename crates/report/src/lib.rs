//! Results as people and programs read them: documents, tables and plots, written once for a terminal and for a page, and the files of both.

pub mod document;
pub mod file;
pub mod plot;
pub mod table;
pub mod words;
