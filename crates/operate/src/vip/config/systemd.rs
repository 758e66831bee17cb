//! The drop-in for systemd's keepalived.service.

use super::Config;
use super::values::whole_path;
use cli::exit::Failure;

/// Where the packages of Debian and of Red Hat have it.
const KEEPALIVED: &str = "/usr/sbin/keepalived";
/// The variables of their units for the options of an administrator, such as another configuration file.
const KEEPALIVED_OPTIONS: &str = "$DAEMON_ARGS $KEEPALIVED_OPTIONS";

impl Config {
    /// What systemd has to do beside keepalived.
    pub(super) fn drop_in(&self, program: &str) -> Result<String, Failure> {
        let mut release = format!("{program} vip release");
        for (option, file) in [("--config", &self.conf), ("--pid-file", &self.pid_file)] {
            if let Some(file) = file {
                release = format!("{release} {option} {}", whole_path(file)?);
            }
        }
        Ok(format!(
            "# /etc/systemd/system/keepalived.service.d/understudy.conf, then `systemctl daemon-reload`.\n\
             # Written by `understudy vip config --systemd`.\n\
             [Unit]\n\
             # Tried again however often it fails.\n\
             StartLimitIntervalSec=0\n\n\
             [Service]\n\
             # keepalived leaves out a check that it cannot run, and then takes the address unasked: it must not start like that.\n\
             # Tested is what will run: with the options of /etc/default/keepalived (Debian) or /etc/sysconfig/keepalived (Red Hat).\n\
             Environment=DAEMON_ARGS= KEEPALIVED_OPTIONS=\n\
             ExecStartPre={KEEPALIVED} --config-test {KEEPALIVED_OPTIONS}\n\
             # A keepalived that is killed leaves its address in the kernel, and another machine takes it, too. This takes it away.\n\
             ExecStopPost={release}\n\
             Restart=always\n\
             RestartSec=1s\n"
        ))
    }
}
