//! The settings that decide how long a failover takes, and the advised values.

use std::time::Duration;

/// The advised values in milliseconds, with the reasons. All but the last can be set while the node runs.
pub(super) const ADVISED: &[(&str, u64, &str)] = &[
    ("evs.keepalive_period", 200, "a heartbeat every 200 ms, so that silence is noticed"),
    ("evs.suspect_timeout", 600, "three lost heartbeats make a suspect"),
    ("evs.inactive_timeout", 2000, "what all agree on waits no longer than this"),
    ("evs.install_timeout", 1000, "the survivors' new view is agreed on within this"),
    ("evs.join_retrans_period", 200, "a lost message of that agreement is sent again after this"),
    ("evs.inactive_check_period", 100, "how often the above are looked at; needs a restart"),
];
/// The settings that are read from each node, and which cases of the table each one decides.
pub(super) const READ: &[(&str, &str)] = &[
    ("evs.keepalive_period", "frozen, vanished: how soon silence can be told from a pause"),
    ("evs.suspect_timeout", "non-graceful passive and all, unless evicted; frozen, vanished"),
    ("evs.inactive_timeout", "frozen, vanished: when members disagree on who is silent"),
    ("evs.install_timeout", "non-graceful, frozen, vanished: the survivors' agreement"),
    ("evs.join_retrans_period", "non-graceful, frozen, vanished: a lost message of that agreement"),
    ("evs.inactive_check_period", "non-graceful, frozen, vanished: how often silence is looked for"),
    ("gcache.size", "the return of a node: by the missing writesets (IST) or a full copy (SST)"),
    (
        "gcs.fc_limit",
        "graceful, semi-graceful, non-graceful active: what the next writer may have left to apply",
    ),
    ("gcs.fc_factor", "graceful active: how far that queue must fall before paused writers go on"),
    ("gcs.fc_single_primary", "graceful active: yes keeps gcs.fc_limit from growing with the members"),
    ("gcs.fc_master_slave", "graceful active: the older name of gcs.fc_single_primary"),
    (APPLIERS, "graceful, semi-graceful, non-graceful active: how fast the next writer applies it"),
    (SST_METHOD, "the return of a node by a full copy: whether its donor can go on serving"),
];
/// These two are variables of the server, not provider options.
pub(super) const APPLIERS: &str = "wsrep_slave_threads";
pub(super) const SST_METHOD: &str = "wsrep_sst_method";
/// The setting that needs a restart.
pub(super) const NEEDS_RESTART: &str = "evs.inactive_check_period";
/// A node that was away for this long should still return by IST.
pub(super) const WINDOW_WANTED: Duration = Duration::from_secs(3600);
