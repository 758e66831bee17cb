//! The keys of MHA 0.58, and what replaces each when a site moves to Understudy.
//!
//! Source: seed-tools.md, section 7. A key that is not here is an error in the commands with MHA's names, as in MHA; the conversion to
//! Understudy's configuration reports it and leaves it out.

/// What replaces a key.
pub enum Becomes {
    /// A setting in Understudy's configuration.
    Told,
    /// It is used only by the commands with MHA's names.
    Commands,
    /// It has no counterpart; why none is needed, or what to do instead.
    Nothing(&'static str),
}

use Becomes::{Commands, Nothing, Told};

const SSH: &str = "no SSH is used";
const BINLOGS: &str = "binary logs are not copied between hosts: replicas follow by GTID";
const SCRIPT: &str =
    "clients connect to Understudy, whose address stays; the commands with MHA's names call it";

/// All keys.
pub const KEYS: &[(&str, Becomes)] = &[
    ("hostname", Told),
    ("ip", Told),
    ("port", Told),
    ("candidate_master", Told),
    ("no_master", Told),
    ("user", Told),
    ("password", Told),
    ("repl_user", Told),
    ("repl_password", Told),
    ("ping_interval", Told),
    ("manager_workdir", Told),
    ("manager_log", Commands),
    ("master_ip_failover_script", Nothing(SCRIPT)),
    ("master_ip_online_change_script", Nothing(SCRIPT)),
    (
        "report_script",
        Nothing("`understudy journal` tells what was decided; the commands with MHA's names call it"),
    ),
    (
        "shutdown_script",
        Nothing(
            "nothing is powered off: links to an old primary are cut, and it is read only before it is used again; the commands with MHA's names call it",
        ),
    ),
    (
        "secondary_check_script",
        Nothing("the replicas are asked whether they still receive from a primary that is silent"),
    ),
    (
        "init_conf_load_script",
        Nothing("passwords may stand in files or in the environment: password_file, password_env"),
    ),
    ("ping_type", Nothing("the status query, pings between, and the traffic itself are watched")),
    ("check_repl_delay", Nothing("a replica applies all that it received before it is promoted")),
    ("check_repl_filter", Nothing("a replica with filters is never promoted")),
    (
        "latest_priority",
        Nothing("the replica that has most is promoted, then the one with the highest priority"),
    ),
    (
        "ignore_fail",
        Nothing(
            "a replica that does not answer is left out, unless it may have acknowledged what nobody else has",
        ),
    ),
    ("multi_tier_slave", Nothing("all servers follow the primary")),
    ("disable_log_bin", Nothing("a server without log_bin could feed no replica, and is never promoted")),
    ("use_gtid_auto_pos", Nothing("replicas always follow by GTID")),
    ("log_level", Nothing("set UNDERSTUDY_LOG in the environment")),
    ("node_label", Nothing("a node is called by its name")),
    ("skip_reset_slave", Nothing("a new primary always forgets its source")),
    ("master_pid_file", Nothing(SSH)),
    ("ssh_host", Nothing(SSH)),
    ("ssh_ip", Nothing(SSH)),
    ("ssh_port", Nothing(SSH)),
    ("ssh_user", Nothing(SSH)),
    ("ssh_connection_timeout", Nothing(SSH)),
    ("ssh_options", Nothing(SSH)),
    ("skip_init_ssh_check", Nothing(SSH)),
    ("remote_workdir", Nothing(SSH)),
    ("handle_raw_binlog", Nothing(BINLOGS)),
    ("master_binlog_dir", Nothing(BINLOGS)),
    ("client_bindir", Nothing("no client program is called")),
    ("client_libdir", Nothing("no client program is called")),
];

/// What replaces this key; `None` when MHA does not know it.
pub fn becomes(key: &str) -> Option<&'static Becomes> {
    KEYS.iter().find(|(known, _)| *known == key).map(|(_, becomes)| becomes)
}
