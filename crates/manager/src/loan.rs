//! A member's setting that was changed for a while, in the form on disk.

use topology::galera::sql;

/// It must be usable without any configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loan {
    /// The member's name in the configuration.
    pub node: String,
    /// `host:port`.
    pub address: String,
    /// Its gcomm uuid: another one means that it was restarted, and has its own value by itself.
    pub gcomm_uuid: String,
    /// Which option.
    pub option: String,
    /// Its own value, as it reported it.
    pub own: String,
    /// The values it may have been set to, separated by spaces. Any other value was set by somebody else, and is kept.
    pub lent: String,
}

impl Loan {
    /// Whether it is that member's option.
    pub fn is_of(&self, address: &str, gcomm_uuid: &str, option: &str) -> bool {
        self.address == address && self.gcomm_uuid == gcomm_uuid && self.option == option
    }

    /// The statement that an operator may run instead.
    pub fn statement(&self) -> String {
        sql::set_period(&self.option, &self.own).unwrap_or_default()
    }
}
