//! The table of rules for a primary and its replicas: what makes a server unfit, by its own status and by whom it follows.
//!
//! Enters: a server's status, and who the primary is. Leaves: the finding of the first rule that is broken. Without one, the server may be
//! the primary, or be promoted.

use protocol::gtid::Family;

use super::channel::Channel;
use super::sql;
use super::status::ReplicationStatus;
use crate::finding::{Finding, Problem, Rules};
use crate::flavor::Dialect;

/// What a rule looks at.
pub(super) struct Sight<'a> {
    pub status: &'a ReplicationStatus,
    /// The name of the one it follows.
    pub source: &'a str,
    /// The primary's name and address, when there is one and it is another server.
    pub primary: Option<(&'a str, &'a str)>,
    /// The primary answers.
    pub primary_answers: bool,
    /// The transactions that it has and the primary has not.
    pub errant: Option<&'a str>,
    /// It has transactions from before the primary's numbers began anew.
    pub is_renumbered: bool,
    /// It is connected to a source outside this cluster.
    pub follows_stranger: bool,
    /// The servers that follow each other, when it is one of them.
    pub ring: Option<String>,
    /// The primary's binlog_format, when it is known.
    pub format: &'a str,
}

impl<'a> Sight<'a> {
    fn source(&self) -> Option<&'a Channel> {
        self.status.source()
    }
}

pub struct Rule {
    pub problem: Problem,
    matches: fn(&Sight) -> bool,
    sentence: fn(&Sight) -> String,
    /// Before a move: the sentence when the rule is not broken.
    pub well: &'static str,
    /// Before a move: what to do, in MariaDB's statements.
    pub remedy: &'static str,
}

/// Rules about a server's own status, whether it is the primary or not.
pub fn examine(status: &ReplicationStatus) -> Option<Finding> {
    status.galera.then(|| {
        Problem::GaleraNode.found("is a Galera node, and cluster.kind is \"replication\": set \"galera\"")
    })
}

/// Rules about a server that is not the primary; the most serious ones first.
const REPLICA: &[Rule] = &[
    Rule {
        problem: Problem::Renumbered,
        matches: |s| s.is_renumbered,
        sentence: |s| renumbered(primary(s)),
        well: "has no transactions from before the primary's numbers began anew",
        remedy: "drain it, make it a copy of the primary (mariadb-backup), and undrain it",
    },
    Rule {
        problem: Problem::Errant,
        matches: |s| s.errant.is_some(),
        sentence: |s| format!("has transactions that the primary has not: {}", s.errant.unwrap_or_default()),
        well: "has no transactions that the primary has not",
        remedy: "`understudy errant list` shows them, and whether they can be undone; otherwise make the server a copy of the primary",
    },
    Rule {
        problem: Problem::Stray,
        matches: |s| s.primary.is_some() && s.status.channels.is_empty(),
        sentence: |s| format!("follows nobody, and is to follow {}", primary(s)),
        well: "follows a source",
        remedy: "wait until Understudy has it follow the primary; `understudy status` says what keeps it",
    },
    Rule {
        problem: Problem::SeveralSources,
        matches: |s| s.status.channels.len() > 1,
        sentence: |s| format!("follows {} sources at once", s.status.channels.len()),
        well: "follows one source",
        // MariaDB ends semi-synchronous acknowledging on the whole server when one of its channels stops.
        remedy: "once Slave_SQL_Running_State is 'Slave has read all relay log' for them: STOP SLAVE 'NAME'; RESET SLAVE 'NAME' ALL there for all sources but \
         the primary; then STOP ALL SLAVES IO_THREAD; START ALL SLAVES IO_THREAD there, or it acknowledges nothing any more",
    },
    Rule {
        problem: Problem::Stranger,
        matches: |s| s.follows_stranger,
        sentence: |s| stranger(s.source),
        well: "follows nobody outside of this cluster",
        remedy: "have it follow a server of this cluster, or put that one in the configuration",
    },
    Rule {
        problem: Problem::Ring,
        matches: |s| s.ring.is_some(),
        sentence: |s| ring(s.ring.as_deref().unwrap_or_default(), s.status.dialect),
        well: "is in no ring",
        remedy: "once Slave_SQL_Running_State is 'Slave has read all relay log': STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF on the one that is \
         to be the primary",
    },
    Rule {
        problem: Problem::OtherSource,
        matches: |s| {
            s.source().zip(s.primary).is_some_and(|(channel, (_, address))| channel.source != address)
        },
        sentence: |s| format!("follows {}, and is to follow {}", s.source, primary(s)),
        well: "follows the primary",
        remedy: "wait until Understudy has it follow the primary",
    },
    Rule {
        problem: Problem::NotApplying,
        matches: |s| s.source().is_some_and(|channel| !channel.sql_running),
        sentence: |s| {
            let error = s.source().map_or("", |channel| &channel.error);
            let why = if error.is_empty() { "its SQL thread is stopped" } else { error };
            format!("does not apply what it receives: {why}")
        },
        well: "applies what it receives",
        remedy: "SHOW SLAVE STATUS there: mend what it stumbled over, then START SLAVE",
    },
    Rule {
        problem: Problem::Delayed,
        matches: |s| s.source().is_some_and(|channel| channel.delay_s > 0),
        sentence: |s| {
            format!("is kept {} s behind on purpose", s.source().map_or(0, |channel| channel.delay_s))
        },
        well: "is not kept behind on purpose",
        remedy: "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 0; START SLAVE there",
    },
    Rule {
        problem: Problem::Filtered,
        matches: |s| s.status.filters().is_some() || s.status.had_filters.is_some(),
        sentence: |s| match s.status.filters() {
            Some(filters) => format!("has replication filters ({filters}): it does not have everything"),
            None => format!(
                "had replication filters ({}), and what they left out is missing: drain this server, make it a copy of {}, and undrain it",
                s.status.had_filters.as_deref().unwrap_or_default(),
                s.primary.map_or("the primary", |(name, _)| name)
            ),
        },
        well: "has no replication filters",
        remedy: "drain it, take the filters out of its my.cnf, make it a copy of the primary (mariadb-backup), and undrain it: what was left out is missing",
    },
    Rule {
        problem: Problem::NotByGtid,
        matches: |s| s.source().is_some_and(|channel| !channel.by_gtid) || s.status.position.is_none(),
        sentence: |s| not_by_gtid(s.status),
        well: "follows by GTID",
        remedy: "once Slave_SQL_Running_State is 'Slave has read all relay log': STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE there",
    },
    Rule {
        problem: Problem::NoBinlog,
        matches: |s| !s.status.log_bin || !s.status.log_replica_updates,
        sentence: |s| {
            let updates = match s.status.dialect {
                Dialect::MySql => "log_replica_updates",
                Dialect::MariaDb | Dialect::MySql57 | Dialect::MySql80 => "log_slave_updates",
            };
            let what = if s.status.log_bin { updates } else { "log_bin" };
            format!("could feed no replica: {what} is off")
        },
        well: "has log_bin and log_slave_updates",
        remedy: "set log_bin and log_slave_updates in its my.cnf, and restart it",
    },
    Rule {
        problem: Problem::NotFetching,
        matches: |s| s.primary_answers && s.source().is_some_and(|channel| !channel.io_running),
        sentence: |s| {
            let error = s.source().map_or("", |channel| &channel.error);
            let why = if error.is_empty() { "its IO thread is not connected" } else { error };
            let what = if is_torn(error) { torn(primary(s)) } else { String::new() };
            format!("does not receive from {}: {why}{what}", primary(s))
        },
        well: "has an I/O thread that says it is connected to the primary",
        remedy: "SHOW SLAVE STATUS there: look at Last_IO_Error",
    },
];

/// The traits of a server that last whichever server it follows.
const LASTING: [Problem; 4] = [Problem::Delayed, Problem::Filtered, Problem::NotByGtid, Problem::NoBinlog];

/// About a server with transactions from before the primary's numbers began anew.
fn renumbered(primary: &str) -> String {
    format!(
        "has transactions from before the primary's numbers began anew (RESET MASTER there?): rows may be missing here although the numbers agree; \
         drain this server, make it a copy of {primary}, and undrain it"
    )
}

/// It cannot continue to read the primary's binlog, which contains an incomplete event. (Error 1743, and with it 1595, as MariaDB 10.11.19
/// reports them.)
fn is_torn(error: &str) -> bool {
    ["could not queue event from master", "event checksum verification failed"]
        .iter()
        .any(|text| error.contains(text))
}

/// The remedy for that, to end a sentence.
fn torn(primary: &str) -> String {
    format!(
        "; if {primary}'s disk was full and a session that waited for space was killed, its binlog is broken there (MDEV-27803), and connecting anew \
         does not help: make this server a copy of {primary} anew"
    )
}

/// Advice about a server that may be chosen all the same.
const ADVICE: &[Rule] = &[Rule {
    // As a replica it applies any format, but as the primary it would log in its own.
    problem: Problem::BinlogFormat,
    matches: |s| {
        let own = &s.status.binlog_format;
        !own.is_empty() && !s.format.is_empty() && !own.eq_ignore_ascii_case(s.format)
    },
    sentence: |s| {
        let (own, format) = (&s.status.binlog_format, s.format);
        format!(
            "has binlog_format = {own}, and {} has {format}: SET GLOBAL binlog_format = '{format}' there, and in its my.cnf",
            primary(s)
        )
    },
    well: "",
    remedy: "",
}];

/// About a server whose source is outside this cluster.
pub(super) fn stranger(source: &str) -> String {
    format!(
        "follows {source}, which is no server of this cluster: put that one in the configuration, or have this one follow one of ours"
    )
}

/// About a server that replicates by file and position.
fn not_by_gtid(status: &ReplicationStatus) -> String {
    let dialect = status.dialect;
    let by_gtid = match dialect {
        Dialect::MariaDb => "CHANGE MASTER TO MASTER_USE_GTID = slave_pos",
        Dialect::MySql57 | Dialect::MySql80 => "CHANGE MASTER TO MASTER_AUTO_POSITION = 1",
        Dialect::MySql => "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1",
    };
    if dialect.family() == Family::MySql && status.position.is_none() {
        return "has no GTIDs: set gtid_mode = ON and enforce_gtid_consistency = ON on every server".into();
    }
    // The same on MariaDB, where there is only one source.
    let stop = if dialect == Dialect::MariaDb { "STOP SLAVE" } else { sql::stop(dialect) };
    let start = sql::start(dialect);
    format!("does not follow by GTID: once it has applied what it received, {stop}; {by_gtid}; {start} there")
}

/// What makes a server that follows another a primary by hand.
pub(super) fn alone(dialect: Dialect) -> String {
    let stop = if dialect == Dialect::MariaDb { "STOP SLAVE" } else { sql::stop(dialect) };
    format!("{stop}; {}", sql::forget(dialect, ""))
}

/// About servers with one server_id; `others` are those that this one shares it with.
pub(super) fn same_id(id: u32, others: &str) -> String {
    format!(
        "has server_id = {id}, and so has {others}: a replica leaves out what has its own server_id, and GTIDs of different transactions are the \
         same. Set another one in its my.cnf, and restart it"
    )
}

/// About a server in a ring of servers that follow each other.
pub(super) fn ring(names: &str, dialect: Dialect) -> String {
    let alone = alone(dialect);
    format!(
        "follows in a ring: {names}; on the one that is to be the primary, once it has applied what it received, run {alone}; SET GLOBAL read_only = OFF"
    )
}

/// About several servers that are writable and follow no other.
pub(super) fn two_primaries(names: &[&str]) -> String {
    format!(
        "cannot be told from another primary: {} are writable and follow nobody; SET GLOBAL read_only = ON on all but one",
        names.join(" and ")
    )
}

/// About a primary that follows another server.
pub(super) fn primary_follows(source: &str, dialect: Dialect) -> String {
    let alone = alone(dialect);
    format!(
        "it is the primary, and follows {source}, so that what is written there comes to it: {alone} there"
    )
}

/// The advice about a server that is not the primary.
pub(super) fn advice(sight: &Sight) -> Vec<String> {
    ADVICE.iter().filter(|rule| (rule.matches)(sight)).map(|rule| (rule.sentence)(sight)).collect()
}

/// The sentences of the rules about these problems.
pub(super) fn said(sight: &Sight, problems: &[Problem]) -> Vec<String> {
    let rules =
        REPLICA.iter().chain(ADVICE).filter(|rule| problems.contains(&rule.problem) && (rule.matches)(sight));
    rules.map(|rule| (rule.sentence)(sight)).collect()
}

/// What the rules about a replica are about.
pub fn problems() -> impl Iterator<Item = Problem> {
    REPLICA.iter().map(|rule| rule.problem)
}

/// The primary, as [`each`] looks at it.
pub struct Primary<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its address.
    pub address: &'a str,
    /// What it said last.
    pub status: Option<&'a ReplicationStatus>,
}

/// Every rule about a replica of `primary`, and what it finds against this server. What only the brain can know is given: `problem`, and
/// its sentence.
pub fn each(
    status: &ReplicationStatus,
    primary: &Primary,
    problem: Option<Problem>,
    reason: &str,
) -> Vec<(&'static Rule, Option<String>)> {
    let sight = Sight {
        status,
        source: status.source().map_or("", |channel| &channel.source),
        primary: Some((primary.name, primary.address)),
        primary_answers: primary.status.is_some(),
        errant: None,
        is_renumbered: false,
        follows_stranger: false,
        ring: None,
        format: primary.status.map_or("", |status| &status.binlog_format),
    };
    REPLICA
        .iter()
        .map(|rule| {
            let found = if problem == Some(rule.problem) {
                Some(reason.to_owned())
            } else {
                (rule.matches)(&sight).then(|| (rule.sentence)(&sight))
            };
            (rule, found)
        })
        .collect()
}

fn primary<'a>(sight: &Sight<'a>) -> &'a str {
    sight.primary.map_or("another", |(name, _)| name)
}

/// The finding against a server that is about to take over, whichever server it follows now.
pub(super) fn unfit(status: &ReplicationStatus) -> Option<Finding> {
    let sight = Sight {
        status,
        source: "",
        primary: None,
        primary_answers: false,
        errant: None,
        is_renumbered: false,
        follows_stranger: false,
        ring: None,
        format: "",
    };
    first(&sight, |rule| LASTING.contains(&rule.problem))
}

/// The same about a server that goes on as the primary that it was. What it got from others its replicas have already, so that
/// log_slave_updates does not matter.
pub(super) fn unfit_to_stay(status: &ReplicationStatus) -> Option<Finding> {
    // The last of the rules that count.
    unfit(status).filter(|finding| finding.problem != Problem::NoBinlog || !status.log_bin)
}

/// The finding against a server that is to take over and has stopped at an event that it cannot apply.
pub(super) fn cannot_apply(status: &ReplicationStatus) -> Option<Finding> {
    let stopped = status.channels.iter().find(|channel| !channel.sql_running && !channel.error.is_empty())?;
    Some(Problem::NotApplying.found(format!("does not apply what it receives: {}", stopped.error)))
}

/// The first rule that a server breaks which is not the primary.
pub(super) fn replica(sight: &Sight) -> Option<Finding> {
    first(sight, |_| true)
}

fn first(sight: &Sight, counts: impl Fn(&Rule) -> bool) -> Option<Finding> {
    REPLICA.iter().find(|rule| counts(rule) && (rule.matches)(sight)).map(|rule| {
        rule.problem.found(match refused_by_source(rule, sight) {
            Some(also) => format!("{}, and {also}", (rule.sentence)(sight)),
            None => (rule.sentence)(sight),
        })
    })
}

/// A trait that lasts does not hide that the server's source refuses it.
fn refused_by_source(rule: &Rule, sight: &Sight) -> Option<String> {
    let lasts = LASTING.contains(&rule.problem);
    let not_fetching = REPLICA.iter().find(|rule| rule.problem == Problem::NotFetching).filter(|_| lasts)?;
    let has_error = sight.source().is_some_and(|channel| !channel.error.is_empty());
    (has_error && (not_fetching.matches)(sight)).then(|| (not_fetching.sentence)(sight))
}

/// The finding from a server's own status alone, except for what `rules` forgive.
///
/// # Errors
/// The finding.
pub fn admit(status: &ReplicationStatus, rules: Rules) -> Result<(), Finding> {
    if let Some(finding) = examine(status) {
        return Err(finding);
    }
    if status.read_only && !rules.read_only {
        return Err(Problem::ReadOnly.found("is read only: read_only is set"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Serves;
    use protocol::gtid::Position;

    const PRIMARY: (&str, &str) = ("db1", "db1:3306");

    fn good() -> ReplicationStatus {
        ReplicationStatus {
            read_only: true,
            log_bin: true,
            log_replica_updates: true,
            position: Position::parse(Family::MariaDb, "0-1-5").ok(),
            channels: vec![Channel {
                source: PRIMARY.1.into(),
                io_running: true,
                sql_running: true,
                by_gtid: true,
                ..Channel::default()
            }],
            ..ReplicationStatus::default()
        }
    }

    fn found(change: impl FnOnce(&mut ReplicationStatus), errant: Option<&str>) -> Option<(Problem, Serves)> {
        let mut status = good();
        change(&mut status);
        replica(&sight(&status, errant)).map(|finding| (finding.problem, finding.serves))
    }

    fn sight<'a>(status: &'a ReplicationStatus, errant: Option<&'a str>) -> Sight<'a> {
        Sight {
            status,
            source: "db1",
            primary: Some(PRIMARY),
            primary_answers: true,
            errant,
            is_renumbered: false,
            follows_stranger: false,
            ring: None,
            format: "ROW",
        }
    }

    fn channel(change: impl FnOnce(&mut Channel)) -> Option<(Problem, Serves)> {
        found(|status| change(&mut status.channels[0]), None)
    }

    #[test]
    fn each_rule_speaks_for_its_own_trouble() {
        let no = |problem| Some((problem, Serves::No));
        assert_eq!(found(|_| (), None), None);
        assert_eq!(found(|_| (), Some("0-2-1")), no(Problem::Errant));
        assert_eq!(found(|status| status.channels.clear(), None), no(Problem::Stray));
        assert_eq!(
            found(|status| status.channels.push(Channel::default()), None),
            no(Problem::SeveralSources)
        );
        assert_eq!(channel(|channel| channel.source = "db9:3306".into()), no(Problem::OtherSource));
        assert_eq!(channel(|channel| channel.sql_running = false), no(Problem::NotApplying));
        assert_eq!(channel(|channel| channel.delay_s = 60), no(Problem::Delayed));
        assert_eq!(
            channel(|channel| channel.filters = vec!["Replicate_Do_DB = x".into()]),
            no(Problem::Filtered)
        );
        assert_eq!(found(|status| status.had_filters = Some("x".into()), None), no(Problem::Filtered));
        assert_eq!(channel(|channel| channel.by_gtid = false), no(Problem::NotByGtid));
        assert_eq!(found(|status| status.log_bin = false, None), no(Problem::NoBinlog));
        assert_eq!(found(|status| status.log_replica_updates = false, None), no(Problem::NoBinlog));
        assert_eq!(
            channel(|channel| channel.io_running = false),
            Some((Problem::NotFetching, Serves::Stays))
        );
        let mut status = good();
        status.channels[0].io_running = false;
        status.channels[0].error = "Relay log write failure: could not queue event from master".into();
        let torn = replica(&sight(&status, None)).unwrap();
        assert_eq!(torn.problem, Problem::NotFetching);
        assert!(torn.sentence.ends_with("make this server a copy of db1 anew"), "{}", torn.sentence);
        let status = good();
        let found_in = |sight: &Sight| replica(sight).map(|finding| (finding.problem, finding.serves));
        assert_eq!(
            found_in(&Sight { follows_stranger: true, ..sight(&status, None) }),
            no(Problem::Stranger)
        );
        assert_eq!(
            found_in(&Sight { ring: Some("db1, db2".into()), ..sight(&status, None) }),
            no(Problem::Ring)
        );
        let format = |format: &str| {
            let status = ReplicationStatus { binlog_format: format.into(), ..good() };
            assert!(replica(&sight(&status, None)).is_none());
            advice(&sight(&status, None))
        };
        assert_eq!(format("row"), Vec::<String>::new());
        assert!(format("STATEMENT")[0].starts_with("has binlog_format = STATEMENT, and db1 has ROW: "));
    }

    #[test]
    fn whoever_could_never_be_the_primary_is_unfit_whomever_it_follows() {
        let unfit = |change: fn(&mut ReplicationStatus)| {
            let mut status = good();
            change(&mut status);
            unfit(&status).is_some()
        };
        assert!(!unfit(|_| ()));
        assert!(!unfit(|status| status.channels.clear()));
        assert!(unfit(|status| status.channels[0].filters = vec!["Replicate_Do_DB = x".into()]));
        assert!(unfit(|status| {
            status.channels.clear();
            status.had_filters = Some("x".into());
        }));
        assert!(unfit(|status| status.channels[0].delay_s = 1));
        assert!(unfit(|status| status.log_bin = false));
    }
}
