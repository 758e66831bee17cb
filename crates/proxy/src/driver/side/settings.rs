//! Gives a link to a replica the settings that the session has on the primary, as far as they affect the answer to a read.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use session::value::put_value;
use topology::fact::ConnectFailure;

use crate::backend::Backend;

/// Settings that affect the answer to a read and may differ between servers. Rows of name and value.
pub(super) const SETTINGS: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN ('autocommit','big_tables','block_encryption_mode','character_set_client',\
    'character_set_collations','character_set_connection','character_set_database','character_set_results','character_set_server',\
    'collation_connection','collation_database','collation_server','cte_max_recursion_depth','default_regex_flags','default_week_format',\
    'div_precision_increment','group_concat_max_len','lc_messages','lc_time_names','lower_case_table_names',\
    'max_allowed_packet','max_error_count','max_join_size','max_recursive_iterations','max_sort_length','max_statement_time',\
    'note_verbosity','old','old_mode','old_passwords','sql_auto_is_null','sql_big_selects','sql_buffer_result','sql_mode','sql_notes',\
    'sql_quote_show_create','sql_safe_updates','sql_select_limit','sql_warnings','standard_compliant_cte','system_time_zone',\
    'system_versioning_asof','time_zone','tx_isolation','transaction_isolation')";

/// Without these from the primary, the settings cannot be compared.
pub(super) const INDISPENSABLE: [&str; 3] = ["sql_mode", "time_zone", "collation_connection"];
/// They follow from the schema.
const NOT_SET: [&str; 2] = ["character_set_database", "collation_database"];
/// A session cannot set them: where they differ, a read may have another answer.
const FIXED: [&str; 3] = ["lower_case_table_names", "max_allowed_packet", "system_time_zone"];

/// The one of these that a session keeps from its start when the server's global value is changed.
const OF_SESSION: &str = "max_allowed_packet";

/// Why a link to a replica does not get the session's settings.
pub(super) enum Unsettled {
    /// It broke.
    Lost(ConnectFailure),
    /// The replica refuses a setting; the text names it.
    Refused(String),
    /// A setting differs there and cannot be set. `is_of_server`: for every session.
    Unlike { why: String, is_of_server: bool },
}

/// Sets on a new link to a replica what the session has inherited from the primary's settings.
pub(super) async fn settle(
    backend: &mut Backend,
    on_primary: &link::Rows,
    within: Duration,
) -> Result<(), Unsettled> {
    let refused = |why: &str| Unsettled::Refused(why.to_owned());
    let here = backend.query(SETTINGS, within).await.map_err(Unsettled::Lost)?;
    let here = here.ok_or_else(|| refused("its settings are not told"))?;
    let mut set = String::new();
    for row in 0..on_primary.len() {
        let (Some(name), Some(value)) = (on_primary.text(row, 0), on_primary.text(row, 1)) else {
            return Err(refused("a setting of the primary cannot be read"));
        };
        let name = name.to_ascii_lowercase();
        if NOT_SET.contains(&name.as_str()) || here.value_of(&name) == Some(value) {
            continue;
        }
        if FIXED.contains(&name.as_str()) {
            let why = format!("{name} is {value} on the primary and not there");
            return Err(Unsettled::Unlike { why, is_of_server: name != OF_SESSION });
        }
        set.push_str(if set.is_empty() { "SET SESSION " } else { ", SESSION " });
        set.push_str(&format!("`{name}`="));
        put_value(&mut set, &name, value.as_bytes());
    }
    if set.is_empty() {
        return Ok(());
    }
    let taken = backend.query(&set, within).await.map_err(Unsettled::Lost)?;
    taken.map(drop).ok_or_else(|| Unsettled::Refused(format!("it refuses {set}")))
}

/// A hash of the session's settings on the primary, except for those that follow from its schema.
pub(super) fn settings_hash(on_primary: &link::Rows) -> u64 {
    let mut hash = DefaultHasher::new();
    for row in 0..on_primary.len() {
        let name = on_primary.text(row, 0).unwrap_or_default().to_ascii_lowercase();
        if !NOT_SET.contains(&name.as_str()) {
            (name, on_primary.text(row, 1)).hash(&mut hash);
        }
    }
    hash.finish()
}
