//! The events of MariaDB's event scheduler: what a server says of them, and the statements that move them.
//!
//! Seen on MariaDB 10.11.19:
//!   - an event runs with its definer's rights: where the definer has READ ONLY ADMIN, it writes on a server that is read only;
//!   - a replica has each event of its source as SLAVESIDE_DISABLED, and does not run it. It has those so, too, that are DISABLED at the
//!     source: only the source knows which ones are to run;
//!   - ALTER EVENT makes its sender the definer, and takes over the session's character set, in which the body is read: both are named;
//!   - an execution that has begun goes on when its event is disabled. It is a session with the command Connect;
//!   - SET GLOBAL event_scheduler needs SUPER; ALTER EVENT needs EVENT, to name a definer SET USER, and SET sql_log_bin BINLOG ADMIN.
//!
//! The statements are for a session whose sql_mode is empty. MySQL's super_read_only stops events by itself, and none are started there.

use serde::{Deserialize, Serialize};

use super::sql::text;

/// An event, with what ALTER EVENT would change beside its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its schema.
    pub schema: String,
    /// Its name there.
    pub name: String,
    /// `user@host`; of a role, the name only.
    pub definer: String,
    /// The character set of its body.
    pub character_set: String,
    /// The collation of the literals in its body.
    pub collation: String,
}

/// What a server says about its events that nobody has disabled for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Those that run while the scheduler does.
    pub enabled: Vec<Event>,
    /// Those that are for another server to run.
    pub elsewhere: Vec<Event>,
    /// Schemas whose events the account may not see: that none is listed of them says nothing.
    pub hidden: Vec<String>,
    /// event_scheduler is ON.
    pub scheduler: bool,
    /// read_only is ON.
    pub read_only: bool,
}

impl Listed {
    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.enabled.is_empty() && self.elsewhere.is_empty()
    }

    /// Whether it may be there, and the account may not see it.
    pub fn hides(&self, event: &Event) -> bool {
        self.hidden.contains(&event.schema)
    }

    /// The schemas of those of `known` that are not listed; see [`look`].
    pub fn schemas_of_missing<'a>(&self, known: &'a [Event]) -> Vec<&'a str> {
        let is_listed = |event: &&Event| self.enabled.iter().chain(&self.elsewhere).any(|it| it.is(event));
        let missing = known.iter().filter(|event| !is_listed(event));
        let mut schemas: Vec<&str> = missing.map(|event| event.schema.as_str()).collect();
        schemas.sort_unstable();
        schemas.dedup();
        schemas
    }
}

/// One row for each event that is not DISABLED, read by [`listed`]. Events are shown only with EVENT on their schema.
pub const LIST: &str = "SELECT EVENT_SCHEMA, EVENT_NAME, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, STATUS \
    FROM information_schema.EVENTS WHERE STATUS IN ('ENABLED','SLAVESIDE_DISABLED')";

/// Answered with no row, or with ER_DBACCESS_DENIED_ERROR where the account may not see the events of that schema: [`LIST`] has none of them then.
pub fn look(schema: &str) -> String {
    format!("SHOW EVENTS FROM {} LIKE ''", name(schema))
}

/// One row, asked after [`LIST`]: a server becomes read only before its events are disabled.
pub const SETTINGS: &str = concat!("SELECT @@GLOBAL.event_scheduler, ", is_read_only!());

/// Reads `rows` of [`LIST`], of which `value` gives the value in a row and a column, and the row of [`SETTINGS`].
pub fn listed<'a>(
    rows: usize,
    value: impl Fn(usize, usize) -> Option<&'a str>,
    settings: [Option<&str>; 2],
) -> Listed {
    let mut listed = Listed {
        scheduler: settings[0] == Some("ON"),
        read_only: settings[1] != Some("0"),
        ..Listed::default()
    };
    for row in 0..rows {
        let column = |column| value(row, column).unwrap_or_default().to_owned();
        let event = Event {
            schema: column(0),
            name: column(1),
            definer: column(2),
            character_set: column(3),
            collation: column(4),
        };
        let of_status = if column(5) == "ENABLED" { &mut listed.enabled } else { &mut listed.elsewhere };
        of_status.push(event);
    }
    listed
}

/// Ends [`UNLOGGED`].
pub const LOGGED: &str = "SET SESSION sql_log_bin = 1";

/// What the session does from now on stays on this server: no transaction of its own, nothing that a replica would follow.
pub const UNLOGGED: &str = "SET SESSION sql_log_bin = 0";

/// Starts the scheduler.
pub const START_SCHEDULER: &str = "SET GLOBAL event_scheduler = ON";

/// The sessions in which events run now. A client's session has that command, too, until it has logged in: it has named its account by then, and
/// runs nothing. An event's has a statement, but for its first moments under the scheduler's name. (Seen on MariaDB 10.11.19.)
pub const RUNNING: &str = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Connect' \
    AND USER NOT IN ('system user','unauthenticated user') AND (INFO IS NOT NULL OR USER = 'event_scheduler')";

/// Definers of events for which the server has no account: those events fail there. Needs SELECT on mysql.global_priv.
pub const WITHOUT_ACCOUNT: &str = "SELECT DISTINCT e.DEFINER FROM information_schema.EVENTS e LEFT JOIN mysql.global_priv p \
    ON TRIM(TRAILING '@' FROM e.DEFINER) = TRIM(TRAILING '@' FROM CONCAT(p.User, '@', p.Host)) WHERE p.User IS NULL";

impl Event {
    /// Whether both are the same event, whatever was altered in it.
    pub fn is(&self, other: &Self) -> bool {
        (&self.schema, &self.name) == (&other.schema, &other.name)
    }

    /// Has the server run it from now on.
    pub fn enable(&self) -> String {
        self.alter("ENABLE")
    }

    /// Has the server not run it any more, as on a replica.
    pub fn disable(&self) -> String {
        self.alter("DISABLE ON SLAVE")
    }

    /// Its schema and name.
    pub(super) fn qualified(&self) -> String {
        format!("{}.{}", name(&self.schema), name(&self.name))
    }

    /// Has the server run it, as a person would say it.
    pub(super) fn enable_by_hand(&self) -> String {
        format!(
            "SET NAMES {} COLLATE {}; ALTER DEFINER = {} EVENT {} ENABLE",
            self.character_set,
            self.collation,
            account(&self.definer),
            self.qualified()
        )
    }

    /// In one statement, since its own text must be read in the session's character set.
    fn alter(&self, how: &str) -> String {
        let own = "SET NAMES utf8mb4";
        format!(
            "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN {own}; RESIGNAL; END; \
             SET SESSION character_set_client = {}, collation_connection = {}; ALTER DEFINER = {} EVENT {} {how}; {own}; END",
            text(&self.character_set),
            text(&self.collation),
            account(&self.definer),
            self.qualified()
        )
    }
}

/// `user@host` as an account; a role has no host.
fn account(definer: &str) -> String {
    match definer.rsplit_once('@') {
        Some((user, host)) if !host.is_empty() => format!("{}@{}", name(user), name(host)),
        Some((role, _)) => name(role),
        None => name(definer),
    }
}

fn name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_altered() {
        let rows = [
            ["shop", "a `b", "app@10.%", "latin1", "latin1_swedish_ci", "ENABLED"],
            ["shop", "c", "cleaner", "utf8mb4", "utf8mb4_general_ci", "SLAVESIDE_DISABLED"],
        ];
        let value = |row: usize, column: usize| rows.get(row)?.get(column).copied();
        let listed = listed(rows.len(), value, [Some("ON"), Some("0")]);
        assert!(listed.scheduler && !listed.read_only);
        let [enabled] = &*listed.enabled else { panic!("{listed:?}") };
        assert_eq!(
            enabled.disable(),
            "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SET NAMES utf8mb4; RESIGNAL; END; \
             SET SESSION character_set_client = 'latin1', collation_connection = 'latin1_swedish_ci'; \
             ALTER DEFINER = `app`@`10.%` EVENT `shop`.`a ``b` DISABLE ON SLAVE; SET NAMES utf8mb4; END"
        );
        let [elsewhere] = &*listed.elsewhere else { panic!("{listed:?}") };
        assert!(elsewhere.enable().contains("ALTER DEFINER = `cleaner` EVENT `shop`.`c` ENABLE;"));
        assert!(!elsewhere.is(enabled));
        assert_eq!(look("a`b"), "SHOW EVENTS FROM `a``b` LIKE ''");
    }
}
