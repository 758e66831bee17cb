//! The seed article's configuration.

use std::fmt::Write;
use std::path::Path;

use super::Config;
use super::block::put_addresses;
use cli::exit::Failure;

impl Config {
    /// The seed's own, with only what keepalived needs today.
    pub(super) fn seeds(&self, program: &str) -> Result<String, Failure> {
        let (elected, excluded) = self.families()?;
        let donor = u8::from(self.available_when_donor);
        let command = self
            .check_command
            .clone()
            .unwrap_or_else(|| format!("/usr/bin/clustercheck clustercheck password {donor}"));
        let state_file = self.state_file.as_deref().unwrap_or_else(|| Path::new("/tmp/keepalived.state"));
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# The seed's configuration, the same on all nodes. Equal priorities: when the holder fails, all others take the address at the\n\
             # same moment, and the one with the highest address of its own keeps it. `understudy vip config` without --like-the-seed avoids this.\n\
             global_defs {{\n    script_user root\n    enable_script_security\n}}\n\n\
             vrrp_script chk_pxc {{\n    # The password shows in `ps`.\n    script \"{command}\"\n    interval {interval}\n}}\n\n\
             vrrp_instance {name} {{\n    state MASTER\n    interface {device}\n    virtual_router_id {id}\n    priority {priority}\n",
            interval = self.check_interval_s,
            name = self.name.as_deref().unwrap_or("PXC"),
            device = self.device(),
            id = self.virtual_router_id,
            priority = self.priority.unwrap_or(100),
        );
        if self.advert_interval_ms != 1000 {
            let _ = writeln!(
                text,
                "    version 3\n    advert_int {}",
                f64::from(self.advert_interval_ms) / 1000.0
            );
        }
        self.put_more_interfaces(&mut text);
        for (block, addresses) in [("virtual_ipaddress", &elected), ("virtual_ipaddress_excluded", &excluded)]
        {
            if !addresses.is_empty() {
                put_addresses(&mut text, block, addresses);
            }
        }
        text.push_str("    track_script {\n        chk_pxc\n    }\n");
        text.push_str(
            "    # The seed writes by echo and `>`, which need a shell; keepalived runs these without one.\n",
        );
        self.notify(&mut text, program, state_file)?;
        text.push_str("}\n");
        Ok(text)
    }
}
