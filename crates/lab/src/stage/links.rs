//! A node's network: cutting and restoring its link, additional addresses, and programs that run in the node's namespace.

use std::net::Ipv6Addr;
use std::path::Path;
use std::time::Instant;

use super::{Stage, StageNode, process};

impl Stage {
    /// Cuts a node off or connects it again; returns when that was done.
    pub(crate) fn set_link(&self, node: &StageNode, up: bool) -> anyhow::Result<Instant> {
        self.network.set_link(node.number, up)?;
        let done = Instant::now();
        self.record(node, |entry| entry.vanished = !up)?;
        Ok(done)
    }

    /// Cuts a node off in a way that it cannot see (its link stays up), or connects it again; returns when that was done.
    ///
    /// # Errors
    /// On loopback.
    pub fn set_plugged(&self, name: &str, plugged: bool) -> anyhow::Result<Instant> {
        self.network.set_plugged(self.node(name)?.number, plugged)?;
        Ok(Instant::now())
    }

    /// Also gives every node and this side an IPv6 address. The servers are not reconfigured: they listen where they did before.
    ///
    /// # Errors
    /// On loopback, and where the kernel has no IPv6.
    pub fn add_ipv6(&self) -> anyhow::Result<()> {
        self.network.add_ipv6()
    }

    /// An IPv6 address of the network, by its last number.
    pub fn address_v6(&self, number: u8) -> Ipv6Addr {
        self.network.address_v6(number)
    }

    /// A command that runs `program` in a node's namespace, marked as part of the stage: it and its children end with the stage.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn command_in(&self, name: &str, program: &Path) -> anyhow::Result<std::process::Command> {
        let mut command = self.network.command_in(self.node(name)?.number, program);
        command.env(process::MARK, &self.directory);
        Ok(command)
    }
}
