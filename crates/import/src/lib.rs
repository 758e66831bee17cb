//! Reads the configurations of other proxies and failover managers.

pub mod mha;
