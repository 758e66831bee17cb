//! The events of MariaDB's event scheduler: the new primary is ordered to run those that the old one ran; the statements for that.
//!
//! Seen on MariaDB 10.11.19:
//!   - an event runs with its definer's rights: where the definer has READ ONLY ADMIN, it writes on a server that is read only;
//!   - a replica has each event of its source as SLAVESIDE_DISABLED, and does not run it. It has those so, too, that are DISABLED at the
//!     source: only the source knows which ones are to run;
//!   - ALTER EVENT makes its sender the definer, and takes over the session's character set, in which the body is read: both are named;
//!   - an execution that has begun goes on when its event is disabled. It is a session with the command Connect;
//!   - SET GLOBAL event_scheduler needs SUPER; ALTER EVENT needs EVENT, to name a definer SET USER, and SET sql_log_bin BINLOG ADMIN.
//!
//! A server that is made read only, or a replica, stops its events as a part of that order. The statements are for a session whose sql_mode
//! is empty. MySQL's super_read_only stops events by itself, and none are started there.
//!
//! What ran is kept on disk ([`super::kept_events`]). A primary that does not run all of it is told again until it does, and that is a standing
//! finding meanwhile.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::external::is_external;
use super::kept_events::Left;
use super::sight::{answers, own};
use super::sql::text;
use super::{Errand, Replication};
use crate::core::Core;
use crate::time::Now;
use crate::view::Level;
use crate::{NodeId, Term};

/// How long the new primary may take to enable its events. It writes meanwhile, and cannot be given another order.
const WITHIN: Duration = Duration::from_secs(5);
/// The same when it is told again: an order of an operator should not wait for long.
const AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// The time between two attempts.
const AGAIN_GAP: Duration = Duration::from_secs(10);
/// The time before the first of them to stop events.
const STOP_GAP: Duration = Duration::from_secs(1);
/// So many events are named in a sentence, each with its statement.
const NAMED_MAX: usize = 5;

/// A server is to run events, and has not answered yet that it does.
#[derive(Clone, Debug)]
pub(super) struct Unrun {
    term: Term,
    has_replaced: bool,
    /// When it is told again.
    again: Now,
    /// If that was tried: what does not run, and the sentence about it.
    finding: Option<(Left, String)>,
}

/// A server is read only, and some of its events may run on, whose definers may write there.
#[derive(Clone, Debug)]
pub(super) struct Unstopped {
    /// When it is told again to stop them.
    again: Now,
    /// The sentence about it.
    finding: String,
}

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
pub const SETTINGS: &str = "SELECT @@GLOBAL.event_scheduler, @@GLOBAL.read_only";

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

/// The sessions in which events run now. A client's session has that command only until it has logged in.
pub const RUNNING: &str = "SELECT ID FROM information_schema.PROCESSLIST \
    WHERE COMMAND = 'Connect' AND USER NOT IN ('system user','unauthenticated user')";

/// Definers of events for which the server has no account: those events fail there. Needs SELECT on mysql.global_priv.
pub const WITHOUT_ACCOUNT: &str = "SELECT DISTINCT e.DEFINER FROM information_schema.EVENTS e LEFT JOIN mysql.global_priv p \
    ON TRIM(TRAILING '@' FROM e.DEFINER) = TRIM(TRAILING '@' FROM CONCAT(p.User, '@', p.Host)) WHERE p.User IS NULL";

impl Replication {
    /// Has the new primary run the events that the old one ran. An old primary that is lost runs them as soon as it comes back, and they may
    /// write there whatever it says of itself: it is made read only before anything else.
    pub(super) fn move_events(&mut self, core: &mut Core, from: NodeId, to: NodeId, term: Term) {
        if core.settings.replication.dry_run || is_external(core) {
            return;
        }
        let scheduler = |id| own(core.node(id)).and_then(|status| status.event_scheduler);
        if from != to && scheduler(from) == Some(true) && !answers(core.node(from)) {
            self.server_mut(from).may_write = Some(term);
        }
        for server in &mut self.servers {
            server.events = None;
        }
        if scheduler(to).is_some() {
            let again = core.now + WITHIN + AGAIN_GAP;
            let unrun = Unrun { term, has_replaced: from != to, again, finding: None };
            self.run_events(core, to, unrun, WITHIN);
        }
    }

    /// The primary is told again to run events, if it does not run them all.
    pub(super) fn run_events_again(&mut self, core: &mut Core, primary: NodeId) {
        let is_due = |unrun: &Unrun| core.now >= unrun.again;
        if self.is_ordered(core, primary) || !self.server(primary).events.as_ref().is_some_and(is_due) {
            return;
        }
        if let Some(unrun) = self.server_mut(primary).events.take() {
            let again = core.now + AGAIN_WITHIN + AGAIN_GAP;
            self.run_events(core, primary, Unrun { again, ..unrun }, AGAIN_WITHIN);
        }
    }

    fn run_events(&mut self, core: &mut Core, node: NodeId, unrun: Unrun, within: Duration) {
        let Unrun { term, has_replaced, .. } = unrun;
        self.server_mut(node).events = Some(unrun);
        self.order(core, node, term, within, Errand::RunEvents { has_replaced });
    }

    pub(super) fn events_run(&mut self, core: &mut Core, node: NodeId, term: Term, count: usize) {
        let unrun = self.server_mut(node).events.take_if(|unrun| unrun.term == term);
        let name = core.name(node);
        if count > 0 {
            let events = if count == 1 { "event" } else { "events" };
            core.say(Level::Info, format!("{name} runs {count} {events} that ran on the primary"));
        } else if unrun.is_some_and(|unrun| unrun.finding.is_some()) {
            let text = format!(
                "{name} runs all events that ran on the primary, but for those that were disabled or dropped"
            );
            core.say(Level::Info, text);
        }
    }

    pub(super) fn events_failed(
        &mut self,
        core: &mut Core,
        node: NodeId,
        term: Term,
        why: &str,
        left: &Left,
    ) {
        let text = finding(core.name(node), why, left);
        let again = core.now + AGAIN_GAP;
        // The next decision has broken it off, and gives the order anew when it is carried out.
        let is_over = self.fence.is_some();
        let unrun = self.server_mut(node).events.as_mut().filter(|unrun| unrun.term == term);
        let Some(unrun) = unrun else { return };
        unrun.again = again;
        if is_over {
            return;
        }
        let said = unrun.finding.replace((left.clone(), text.clone()));
        // The reason may be another each time.
        if said.is_none_or(|(before, _)| before != *left) {
            core.say(Level::Warn, text);
        }
    }

    /// The server has answered an order by which its events were to be stopped. `left`: why some are not.
    pub(super) fn events_stopped(&mut self, core: &mut Core, node: NodeId, left: Option<String>) {
        let before = self.server_mut(node).unstopped.take();
        let name = core.name(node);
        let Some(why) = left else {
            if before.is_some() {
                core.say(Level::Info, format!("all events of {name} are stopped"));
            }
            return;
        };
        let seconds = AGAIN_GAP.as_secs();
        let finding = format!(
            "not all events of {name} are stopped, and they may write there while it is read only: {why}; tried again every {seconds} s"
        );
        // After a failover that could not wait for it, the next attempt comes soon.
        let gap = if before.is_some() { AGAIN_GAP } else { STOP_GAP };
        self.server_mut(node).unstopped = Some(Unstopped { again: core.now + gap, finding: finding.clone() });
        if before.is_none() {
            core.say(Level::Warn, finding);
        }
    }

    /// A server that does not write is told again to stop its events, if some may run on.
    pub(super) fn stop_events_again(&mut self, core: &mut Core, id: NodeId, term: Term) {
        let is_due = |unstopped: &Unstopped| core.now >= unstopped.again;
        if self.fence.is_none() && self.server(id).unstopped.as_ref().is_some_and(is_due) {
            self.order(core, id, term, AGAIN_WITHIN, Errand::StopEvents);
        }
    }

    /// What runs there and should not, or does not run and should, as a sentence.
    pub(super) fn events_finding(&self, id: NodeId) -> Option<&str> {
        let server = self.server(id);
        let unrun = || server.events.as_ref()?.finding.as_ref().map(|(_, text)| text.as_str());
        server.unstopped.as_ref().map(|unstopped| unstopped.finding.as_str()).or_else(unrun)
    }
}

fn finding(server: &str, why: &str, left: &Left) -> String {
    let seconds = AGAIN_GAP.as_secs();
    if left.is_empty() {
        return format!(
            "whether all events that ran on the primary run on {server} is not known: {why}; asked again every {seconds} s"
        );
    }
    if left.events.is_empty() {
        return format!(
            "no event runs on {server}: {why}; tried again every {seconds} s; the statement for it: {START_SCHEDULER}"
        );
    }
    let named = &left.events[..left.events.len().min(NAMED_MAX)];
    let more = left.events.len() - named.len();
    let of_named =
        |text: fn(&Event) -> String, between: &str| named.iter().map(text).collect::<Vec<_>>().join(between);
    let names = of_named(Event::qualified, ", ");
    let and_more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let start = if left.scheduler { format!("{START_SCHEDULER}; ") } else { String::new() };
    let statements = of_named(Event::enable_by_hand, "; ");
    let off = "drop it, or ALTER EVENT ... DISABLE";
    if left.is_unknown {
        return format!(
            "which events ran on the primary before {server} is not known ({why}), and none of these runs there: {names}{and_more}; \
             to run one: {statements}; one that is not to run: {off}"
        );
    }
    format!(
        "events that ran on the primary do not run on {server}: {names}{and_more}: {why}; tried again every {seconds} s; \
         the statements for it: {start}{statements}{and_more}; one that is not to run any more: {off}"
    )
}

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
    fn qualified(&self) -> String {
        format!("{}.{}", name(&self.schema), name(&self.name))
    }

    /// Has the server run it, as a person would say it.
    fn enable_by_hand(&self) -> String {
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

    #[test]
    fn each_thing_that_does_not_run_is_told_with_its_statement() {
        let event = |name: String| {
            let [schema, definer, character_set, collation] =
                ["shop", "app@%", "latin1", "latin1_swedish_ci"].map(str::to_owned);
            Event { schema, name, definer, character_set, collation }
        };
        let events: Vec<Event> = (1..=7).map(|number| event(format!("e{number}"))).collect();
        let left = Left { events, scheduler: true, is_unknown: false };
        let told = finding("db2", "no", &left);
        assert!(
            told.contains("do not run on db2: `shop`.`e1`, ") && told.contains("`shop`.`e5` and 2 more: no;")
        );
        let statement = "SET GLOBAL event_scheduler = ON; SET NAMES latin1 COLLATE latin1_swedish_ci; \
            ALTER DEFINER = `app`@`%` EVENT `shop`.`e1` ENABLE; ";
        assert!(told.contains(statement) && !told.contains("`e6`"), "{told}");
        let told = finding("db2", "no", &Left { events: vec![], ..left.clone() });
        assert!(told.starts_with("no event runs on db2: no;") && told.ends_with(START_SCHEDULER), "{told}");
        let told = finding("db2", "no", &Left { is_unknown: true, ..left });
        assert!(told.starts_with("which events ran on the primary before db2 is not known (no)"), "{told}");
        assert!(finding("db2", "no", &Left::default()).contains("is not known: no; asked again"));
    }
}
