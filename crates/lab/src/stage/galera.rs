//! What of a stage is Galera's.

pub(super) mod grastate;
