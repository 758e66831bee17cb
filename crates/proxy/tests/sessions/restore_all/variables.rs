//! Every system variable that a session may set, with values that a session might give it.
//!
//! The server itself says which there are and of which type; values are made from that, and those that it does not take are left out.

use fixture::client::Client;

/// A variable and what it may be set to, each value as SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub values: Vec<String>,
}

/// What nothing is made of, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("wsrep_on", "does nothing without a provider, and what it then says depends on the server"),
    ("innodb_tmpdir", "a directory"),
    ("innodb_ft_user_stopword_table", "a table"),
    ("sql_slave_skip_counter", "speaks of a replica's threads, which are the server's"),
    ("max_relay_log_size", "as above"),
    ("rand_seed1", "set together, see the steps"),
    ("rand_seed2", "set together, see the steps"),
];

/// What ends statements and connections by itself when it is small: never below one minute, or 64 MiB.
const AT_LEAST: &[(&str, &[&str])] = &[
    ("wait_timeout", &["61", "3600"]),
    ("interactive_timeout", &["62", "3601"]),
    ("idle_transaction_timeout", &["63", "3602"]),
    ("idle_readonly_transaction_timeout", &["64", "3603"]),
    ("idle_write_transaction_timeout", &["65", "3604"]),
    ("net_read_timeout", &["66", "3605"]),
    ("net_write_timeout", &["67", "3606"]),
    ("lock_wait_timeout", &["68", "3607"]),
    ("innodb_lock_wait_timeout", &["69", "3608"]),
    ("max_statement_time", &["70.5", "3609"]),
    ("max_session_mem_used", &["67108864", "1073741824"]),
    ("timestamp", &["1700000000.5", "1700000000", "DEFAULT", "0"]),
];

/// What the type does not tell.
const NAMED: &[(&str, &[&str])] = &[
    ("time_zone", &["'SYSTEM'", "'+05:00'", "'-03:30'"]),
    ("lc_time_names", &["'de_DE'", "'fr_FR'", "0"]),
    ("lc_messages", &["'de_DE'", "'en_US'"]),
    ("default_storage_engine", &["InnoDB", "Aria", "'MEMORY'", "MyISAM"]),
    ("storage_engine", &["InnoDB", "Aria"]),
    ("default_tmp_storage_engine", &["NULL", "Aria", "InnoDB"]),
    ("enforce_storage_engine", &["NULL", "InnoDB"]),
    ("default_master_connection", &["''"]),
    // Not RELEASE: a server then ends the connection with each COMMIT; the proxy's client keeps its own and gets a new link.
    ("completion_type", &["'NO_CHAIN'", "'CHAIN'", "1"]),
    ("system_versioning_asof", &["DEFAULT", "'2020-01-01 00:00:00'"]),
    ("session_track_system_variables", &["'*'", "''", "'autocommit'", "NULL"]),
    ("character_set_client", &["latin1", "utf8mb4", "'utf8mb3'", "binary"]),
    ("character_set_connection", &["latin1", "utf8mb4", "ucs2"]),
    ("character_set_results", &["latin1", "utf8mb4", "NULL", "binary", "ucs2", "utf16"]),
    ("character_set_filesystem", &["latin1", "utf8mb4"]),
    ("character_set_database", &["latin1", "utf8mb4"]),
    ("character_set_server", &["latin1", "utf8mb4"]),
    (
        "collation_connection",
        &["utf8mb4_bin", "latin1_german2_ci", "utf8mb4_unicode_520_nopad_ci", "'ucs2_bin'"],
    ),
    ("collation_database", &["latin1_bin", "utf8mb4_bin"]),
    ("collation_server", &["latin1_bin", "utf8mb4_bin"]),
    (
        "sql_mode",
        &[
            "''",
            "'ANSI_QUOTES'",
            "'NO_BACKSLASH_ESCAPES'",
            "'ANSI'",
            "'TRADITIONAL'",
            "'ORACLE'",
            "'PIPES_AS_CONCAT,NO_ZERO_DATE'",
            "CONCAT(@@sql_mode, ',HIGH_NOT_PRECEDENCE')",
            "'IGNORE_SPACE,EMPTY_STRING_IS_NULL'",
            "'SIMULTANEOUS_ASSIGNMENT,TIME_ROUND_FRACTIONAL'",
            "'PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION'",
        ],
    ),
    ("optimizer_switch", &["'index_merge=off'", "'mrr=on,derived_merge=off'", "'default'"]),
    ("optimizer_trace", &["'enabled=on'", "'enabled=off'"]),
    ("pseudo_thread_id", &["77", "1073741999"]),
];

/// Reads them from the server and tries each value there.
pub async fn all(client: &mut Client) -> Vec<Variable> {
    let asked = "SELECT LOWER(variable_name), variable_type, numeric_min_value, numeric_max_value, enum_value_list, global_value \
                 FROM information_schema.system_variables \
                 WHERE variable_scope IN ('SESSION', 'SESSION ONLY') AND read_only = 'NO' ORDER BY 1";
    let listed = client.run(asked).await;
    let mut all = vec![];
    for row in listed.rows() {
        let [name, kind, least, most, choices, global] = &row[..] else { panic!("{row:?}") };
        let name = name.text();
        if LEFT_OUT.iter().any(|(left_out, _)| *left_out == name) {
            continue;
        }
        let mut values = vec![];
        for value in
            plausible(&name, &kind.text(), [least, most, choices, global].map(fixture::client::Value::text))
        {
            let taken = client.query(format!("SET SESSION {name} = {value}")).await;
            assert!(!taken.is_lost(), "SET SESSION {name} = {value}: {taken:?}");
            if taken.error().is_none() {
                values.push(value);
            }
        }
        // Nothing of one may stand in the way of the next.
        client.reset().await;
        if !values.is_empty() {
            all.push(Variable { name, values });
        }
    }
    assert!(all.len() > 150, "the server tells of {} variables only", all.len());
    all
}

fn plausible(name: &str, kind: &str, [least, most, choices, global]: [String; 4]) -> Vec<String> {
    let named = AT_LEAST.iter().chain(NAMED).find(|(known, _)| *known == name);
    if let Some((_, values)) = named {
        return values.iter().map(|&value| value.to_owned()).collect();
    }
    match kind {
        "BOOLEAN" => ["ON", "OFF", "1", "0"].map(str::to_owned).to_vec(),
        "ENUM" => choices.split(',').map(|choice| format!("'{choice}'")).collect(),
        "SET" => {
            let choices: Vec<&str> = choices.split(',').collect();
            let last = choices.last().copied().unwrap_or_default();
            vec![
                "''".into(),
                format!("'{}'", choices[0]),
                format!("'{},{last}'", choices[0]),
                format!("'{last}'"),
            ]
        }
        "DOUBLE" => vec![least, "0.5".into(), "3.25".into()],
        kind if kind.contains("INT") => numbers(&least, &most, &global),
        _ => vec![],
    }
}

/// The least, the greatest that takes no room, and a few between, each a multiple of whatever a block may be.
fn numbers(least: &str, most: &str, global: &str) -> Vec<String> {
    const ROOM_MAX: i128 = 1 << 20;
    let number = |text: &str| text.parse::<i128>().ok();
    let (Some(least), Some(most)) = (number(least), number(most)) else { return vec![] };
    let mut values = vec![least, most.min(ROOM_MAX), (most / 2).min(65536)];
    if let Some(global) = number(global) {
        values.extend([(global * 2).clamp(least, most.min(ROOM_MAX)), (global / 2).max(least).min(ROOM_MAX)]);
    }
    values.retain(|value| (least..=most).contains(value));
    values.sort_unstable();
    values.dedup();
    values.iter().map(ToString::to_string).collect()
}
