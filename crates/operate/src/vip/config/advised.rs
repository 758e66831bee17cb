//! The configuration that we advise. The times in it follow from one another:
//!
//! ```text
//!   the node fails ── check interval ──> FAULT, "priority 0" ── skew: (256 - priority) / 256 adverts ──> the next one has it
//!   the host is lost ────────── 3 adverts + skew ─────────────────────────────────────────────────────> the next one has it
//! ```

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::block::put_addresses;
use super::{Config, Purpose};
use crate::vip::files::{STATE_DIRECTORY, STATE_FILE};
use cli::exit::Failure;

impl Config {
    /// The configuration that we advise.
    pub(super) fn advised(&self, program: &str) -> Result<String, Failure> {
        let (elected, excluded) = self.families()?;
        let password = self.password(&elected)?;
        let (name, check_name) = match self.purpose {
            Purpose::Database => (self.name.as_deref().unwrap_or("PXC"), "chk_node"),
            Purpose::Proxy => (self.name.as_deref().unwrap_or("PROXY"), "chk_proxy"),
        };
        let command = self.check(program)?;
        let mut text = self.global_defs(password.is_some());
        self.put_script(&mut text, check_name, &command);
        self.put_election(&mut text, name);
        if let Some(password) = password {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "    # Goes over the network in clear: it keeps out mistakes, not people.\n\
                 \x20   authentication {{\n        auth_type PASS\n        auth_pass {password}\n    }}\n"
            );
        }
        self.put_peers(&mut text);
        self.put_more_interfaces(&mut text);
        put_addresses(&mut text, "virtual_ipaddress", &elected);
        if !excluded.is_empty() {
            text.push_str(
                "    # Adverts carry one family; these move with them. One instance for both: they can never sit on two machines.\n",
            );
            put_addresses(&mut text, "virtual_ipaddress_excluded", &excluded);
        }
        let _ = write!(text, "    track_script {{\n        {check_name}\n    }}\n");
        self.notify(&mut text, program, &self.advised_state_file())?;
        text.push_str("}\n");
        Ok(text)
    }

    fn advised_state_file(&self) -> PathBuf {
        match (&self.state_file, &self.name) {
            (Some(file), _) => file.clone(),
            // Several instances of a machine have names: what one of them records is not the other's.
            (None, Some(name)) => Path::new(STATE_DIRECTORY).join(format!("{name}.state")),
            (None, None) => STATE_FILE.into(),
        }
    }

    fn advised_priority(&self) -> u8 {
        self.priority.unwrap_or(220)
    }

    /// What the whole keepalived is told: its user, the version of VRRP, how neighbours learn of a move.
    fn global_defs(&self, has_password: bool) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# An address that sits on a good machine. Written by `understudy vip config`; the same on all machines, but for the priority{peers}.\n\
             # Test it with `keepalived --config-test -f FILE`; what it says of this machine is said by `understudy vip status`.\n\n\
             global_defs {{\n\
             \x20   # The check and the notify commands run as this user, and only when nobody else can change their files.\n\
             \x20   script_user root\n\
             \x20   enable_script_security\n\n\
             {version}\n\
             \x20   # Neighbours learn the new place from gratuitous ARP and neighbour adverts: 3 at once, 3 more after 1 s for those\n\
             \x20   # that were not listening, and one every 10 s, which ends whatever a moment with two holders left in their caches.\n\
             \x20   vrrp_garp_master_repeat 3\n\
             \x20   vrrp_garp_master_delay 1\n\
             \x20   vrrp_garp_master_refresh 10\n\
             \x20   vrrp_garp_lower_prio_repeat 3\n\
             \x20   vrrp_garp_lower_prio_delay 1\n\
             \x20   vrrp_garp_interval 0.001\n\
             \x20   vrrp_gna_interval 0.001\n",
            peers = if self.peers.is_empty() { "" } else { " and the peers" },
            version = if has_password {
                "    # Only version 2 has a password, and it knows whole seconds only.\n    vrrp_version 2\n"
            } else {
                "    # Version 3 knows intervals below 1 s, and its skew time shrinks with them.\n    vrrp_version 3\n"
            },
        );
        if !self.peers.is_empty() {
            text.push_str("    # An advert from anybody else is no advert.\n    vrrp_check_unicast_src\n");
        }
        if self.advert_interval_ms < 1000 {
            text.push_str(
                "    # So short an interval needs a keepalived that is never kept waiting: the others would take the address meanwhile.\n\
                 \x20   vrrp_no_swap\n\
                 \x20   vrrp_rt_priority 50\n\
                 \x20   vrrp_rlimit_rttime 1000000\n",
            );
        }
        text.push_str("}\n\n");
        text
    }

    /// The check that decides, and how often it is asked.
    fn put_script(&self, text: &mut String, check_name: &str, command: &str) {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "vrrp_script {check_name} {{\n\
             \x20   # Only its exit code counts: 0 is good.\n\
             \x20   script \"{command}\"\n\
             \x20   # The time to notice a failed node is at most the interval and the check's own time.\n\
             \x20   interval {interval}\n\
             \x20   # Longer than the check's own deadline: keepalived's is only for a check that is itself stuck.\n\
             \x20   timeout {timeout}\n\
             \x20   # One bad answer is a fact here, not noise: what it asks is the node's own word.\n\
             \x20   fall {fall}\n\
             \x20   # Who comes back is good for a moment longer before it may take the address.\n\
             \x20   rise {rise}\n\
             \x20   # Bad until the first check says otherwise: a machine that starts must not take the address unasked.\n\
             \x20   init_fail\n\
             }}\n\n",
            interval = self.check_interval_s,
            timeout = self.check_timeout_s,
            fall = self.fall,
            rise = self.rise,
        );
    }

    /// The beginning of the instance: who takes the address, and when.
    fn put_election(&self, text: &mut String, name: &str) {
        let priority = self.advised_priority();
        let lost_ms = 3 * self.advert_interval_ms + self.skew_ms(priority);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "vrrp_instance {name} {{\n\
             \x20   # Everybody begins as a backup, and nobody takes the address from one that has it and is good: the address moves when\n\
             \x20   # its holder fails and at no other time, not when a machine of a higher priority comes back.\n\
             \x20   state BACKUP\n\
             \x20   nopreempt\n\
             \x20   interface {device}\n\
             \x20   virtual_router_id {id}\n\
             \x20   # Each machine its own, at least 30 apart. It decides who takes a free address, and how soon: a holder that fails\n\
             \x20   # says so, and the others wait (256 - priority) / 256 of an advert interval; here {skew} ms.\n\
             \x20   priority {priority}\n\
             \x20   # A holder that is lost without a word is missed after 3 of these and the wait: {lost_ms} ms.\n\
             \x20   advert_int {advert}\n",
            device = self.device(),
            id = self.virtual_router_id,
            skew = self.skew_ms(priority),
            advert = f64::from(self.advert_interval_ms) / 1000.0,
        );
    }

    /// Those that adverts go to, where not everybody gets them.
    fn put_peers(&self, text: &mut String) {
        if !self.peers.is_empty() {
            text.push_str("    unicast_peer {\n");
            for peer in &self.peers {
                let _ = writeln!(text, "        {peer}");
            }
            text.push_str("    }\n");
        }
    }
}
