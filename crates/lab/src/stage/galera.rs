//! The Galera-specific part of a stage: what its servers need, how the group starts, and how a node rejoins it.

mod back;
mod config;
mod grastate;
mod start;
mod wait;
mod word;

pub use self::config::ADVISED_EVS;
pub(super) use self::config::{SMALL_MACHINE, node_lines};
pub(super) use self::start::{finish_template, template_lines};
pub use self::word::GaleraWord;
pub(super) use self::word::ask;

use super::account;

/// Privileges of the monitor account: what a manager needs, not everything, so that a missing grant is noticed here first.
///
/// `SUPER` covers `SET GLOBAL wsrep_provider_options` (eviction); `mysql` is read to learn client accounts; the schema with the account's
/// name holds marker rows. `TRIGGER` and `EXECUTE` let it see which tables are not transactional.
const MONITOR_GRANTS: &str = "SUPER, PROCESS, RELOAD, SHUTDOWN, CONNECTION ADMIN, READ_ONLY ADMIN, BINLOG MONITOR, SLAVE MONITOR, \
     REPLICATION SLAVE ADMIN, TRIGGER, EXECUTE";

pub(super) fn accounts() -> Vec<String> {
    let made = account::statements(MONITOR_GRANTS);
    account::SUPERFLUOUS.map(str::to_owned).into_iter().chain(made).collect()
}
