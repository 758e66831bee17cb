//! Blocks that both configurations have.

use std::fmt::Write;
use std::path::Path;

use super::Config;
use super::values::plain_path;
use crate::vip::address::Address;
use cli::exit::Failure;

impl Config {
    /// Those beside the one of the address.
    pub(super) fn put_more_interfaces(&self, text: &mut String) {
        if let [_, more @ ..] = self.interfaces.as_slice()
            && !more.is_empty()
        {
            text.push_str("    # These must be up, too; the one above is watched without being named here.\n    track_interface {\n");
            for device in more {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "        {device}");
            }
            text.push_str("    }\n");
        }
    }

    pub(super) fn notify(&self, text: &mut String, program: &str, state_file: &Path) -> Result<(), Failure> {
        let file = plain_path(state_file)?;
        let log = match &self.notify_log {
            Some(log) => format!(" --log {}", plain_path(log)?),
            None => String::new(),
        };
        for state in ["master", "backup", "fault", "stop"] {
            let _ = writeln!(
                text,
                "    notify_{state} \"{program} vip notify {state} --state-file {file}{log}\""
            );
        }
        Ok(())
    }
}

/// Addresses as keepalived takes them. A deprecated IPv6 address is not chosen for connections that this machine opens: they
/// would break when it moves. IPv4 needs no such word: an address in a network that the machine is in already is never chosen.
pub(super) fn put_addresses(text: &mut String, block: &str, addresses: &[Address]) {
    let _ = writeln!(text, "    {block} {{");
    for address in addresses {
        let deprecated = if address.ip.is_ipv6() { " preferred_lft 0" } else { "" };
        let _ = writeln!(text, "        {address}{deprecated}");
    }
    text.push_str("    }\n");
}
