//! What a session has that has set nothing: values that a server gives it at its login, or has for all of its sessions. A session that moves takes
//! along what it has set itself; the rest is the next node's. So it matters where the nodes differ, and a client must be told those values that the
//! protocol tells before its first statement.

use std::collections::BTreeMap;

use protocol::ok::status::{ANSI_QUOTES, AUTOCOMMIT, NO_BACKSLASH_ESCAPES};

use crate::rules::variables::is_on;

/// Rows of name and value: the variables by which statements mean, return or become something else. A server leaves out those that it does not
/// have.
pub const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('autocommit','character_set_server','collation_server','completion_type',\
    'default_storage_engine','default_week_format','div_precision_increment','explicit_defaults_for_timestamp','foreign_key_checks',\
    'group_concat_max_len','init_connect','innodb_lock_wait_timeout','innodb_strict_mode','interactive_timeout','lc_time_names','lock_wait_timeout',\
    'lower_case_table_names','max_allowed_packet','max_execution_time','max_statement_time','old_mode','sql_mode','sql_safe_updates',\
    'sql_select_limit','system_time_zone','time_zone','transaction_isolation','transaction_read_only','tx_isolation','tx_read_only',\
    'unique_checks','version','wait_timeout')";

/// This is set in an option file only.
const OF_START: [&str; 1] = ["lower_case_table_names"];
/// No option sets these.
const OF_HOST: [&str; 2] = ["system_time_zone", "version"];
/// A value is shown up to this many characters.
const SHOWN: usize = 60;

/// One server's answer to [`VARIABLES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionDefaults(BTreeMap<String, String>);

/// A variable that two servers have another value of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// Its name.
    pub name: &'a str,
    /// The value on the server that is looked at.
    pub here: &'a str,
    /// The value on the other.
    pub there: &'a str,
}

impl SessionDefaults {
    /// From rows of name and value.
    pub fn new<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let rows = rows.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Self(rows.collect())
    }

    /// Nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is not the same on `other`. A variable that one of the two does not have is none.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<Difference<'a>> {
        let is_local = |name: &str| {
            name != "system_time_zone" || self.0.get("time_zone").is_some_and(|it| it == "SYSTEM")
        };
        let differs = |(name, here): (&'a String, &'a String)| {
            let there = other.0.get(name).filter(|there| *there != here && is_local(name))?;
            Some(Difference { name, here, there })
        };
        self.0.iter().filter_map(differs).collect()
    }
}

impl Difference<'_> {
    /// For a sentence: `sql_mode = '' ('ANSI_QUOTES' on db1)`.
    pub fn text(&self, other: &str) -> String {
        format!("{} = {} ({} on {other})", self.name, shown(self.here), shown(self.there))
    }

    /// The statement that makes it the same for new sessions; `None` where only an option file or another version can.
    pub fn statement(&self) -> Option<String> {
        let can_be_set = !OF_START.contains(&self.name);
        self.line().filter(|_| can_be_set).map(|line| format!("SET GLOBAL {line}"))
    }

    /// The line for an option file; `None` where only another version can make it the same, or the host's time zone.
    pub fn line(&self) -> Option<String> {
        let is_option = !OF_HOST.contains(&self.name);
        is_option.then(|| format!("{} = {}", self.name, literal(self.there)))
    }
}

fn literal(value: &str) -> String {
    if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) }
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((at, _)) => literal(&format!("{}...", &value[..at])),
        None => literal(value),
    }
}

/// The status flags that a login begins with, by `autocommit` and `sql_mode`; `value` gives the value of a name. `None` where one of the two is not
/// said. A driver that is told "autocommit" where that is off sends no SET, and its writes are never committed; one that is not told
/// NO_BACKSLASH_ESCAPES escapes wrongly.
pub fn login_status<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Option<u16> {
    let (autocommit, sql_mode) = (value("autocommit")?, value("sql_mode")?);
    let has = |mode: &str| sql_mode.split(',').any(|it| it.eq_ignore_ascii_case(mode));
    let flags = [
        (is_on(autocommit), AUTOCOMMIT),
        (has("NO_BACKSLASH_ESCAPES"), NO_BACKSLASH_ESCAPES),
        // MySQL has no flag for it, and drivers do not ask.
        (has("ANSI_QUOTES"), ANSI_QUOTES),
    ];
    Some(flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_variables_count() {
        let of = |autocommit: &'static str, sql_mode: &'static str| {
            login_status(move |name| Some(if name == "autocommit" { autocommit } else { sql_mode }))
        };
        assert_eq!(of("ON", "STRICT_TRANS_TABLES"), Some(AUTOCOMMIT));
        assert_eq!(of("OFF", ""), Some(0));
        let both = Some(AUTOCOMMIT | NO_BACKSLASH_ESCAPES | ANSI_QUOTES);
        assert_eq!(of("ON", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"), both);
        assert_eq!(login_status(|name| (name == "autocommit").then_some("ON")), None);
    }

    #[test]
    fn a_difference_is_told_with_its_statement() {
        let of = |rows: &[(&'static str, &'static str)]| SessionDefaults::new(rows.iter().copied());
        let here = of(&[("sql_mode", "it's"), ("wait_timeout", "28800"), ("max_statement_time", "1.5")]);
        let there = of(&[("sql_mode", ""), ("wait_timeout", "60"), ("tx_isolation", "SERIALIZABLE")]);
        let told: Vec<_> =
            here.differences(&there).iter().map(|it| (it.text("db1"), it.statement())).collect();
        let set = |text: &str| Some(text.to_owned());
        assert_eq!(
            told,
            [
                ("sql_mode = 'it''s' ('' on db1)".to_owned(), set("SET GLOBAL sql_mode = ''")),
                ("wait_timeout = 28800 (60 on db1)".to_owned(), set("SET GLOBAL wait_timeout = 60")),
            ]
        );
        assert!(here.differences(&here.clone()).is_empty());
    }

    #[test]
    fn the_hosts_time_zone_counts_where_it_is_used() {
        let of =
            |zone, host| SessionDefaults::new([("time_zone", zone), ("system_time_zone", host)].into_iter());
        let (utc, cet) = (of("SYSTEM", "UTC"), of("SYSTEM", "CET"));
        assert_eq!(utc.differences(&cet).iter().map(Difference::statement).collect::<Vec<_>>(), [None]);
        assert!(of("+00:00", "UTC").differences(&of("+00:00", "CET")).is_empty());
    }
}
