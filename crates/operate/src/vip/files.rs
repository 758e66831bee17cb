//! Which files `understudy vip` shares with keepalived, and how keepalived's configuration is read.

use std::path::Path;

use cli::exit::Failure;

use super::conf_file::ConfFile;

/// Where states lie unless somebody says otherwise; root's own. (/run/understudy is the services': systemd gives all in it to their
/// user.) /run is emptied by a restart of the machine, and so is the state then.
pub(super) const STATE_DIRECTORY: &str = "/run/understudy-vip";
/// The one in it, unless an instance has a name of its own.
pub(super) const STATE_FILE: &str = "/run/understudy-vip/vip.state";
/// Where keepalived is configured.
pub(super) const CONF_FILE: &str = "/etc/keepalived/keepalived.conf";
/// Where a running keepalived says its process number.
pub(super) const PID_FILE: &str = "/run/keepalived.pid";

/// Reads keepalived's configuration.
pub(super) fn read_conf(path: &Path) -> Result<ConfFile, Failure> {
    let text = infile::read_text(path).map_err(|e| {
        Failure::Usage(format!(
            "cannot read {}: {e}; `understudy vip config` prints one, --config says where it is",
            path.display()
        ))
    })?;
    let conf = ConfFile::parse(&text);
    if conf.instances.iter().all(|instance| instance.addresses.is_empty()) {
        return Err(Failure::Usage(if conf.unread.is_empty() {
            format!("{} has no vrrp_instance with an address", path.display())
        } else {
            format!(
                "{} has no vrrp_instance with an address that can be read: {}",
                path.display(),
                conf.unread.join("; ")
            )
        }));
    }
    Ok(conf)
}
