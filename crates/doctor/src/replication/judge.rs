//! Turns the servers' answers into the report. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::accounts::Bypass;
use super::read::{NodeFacts, ServerState};
use crate::asked::{answered, named};
use crate::defaults;
use crate::judge::{Deciding, Finding, Findings, NodeReport, Report, Weight};
use crate::servers::told;
use manager::Marks;
use settings::Settings;
use topology::replication::setup::without_primary;
use topology::rules::privileges;
use topology::rules::variables::{self, IN_FILE, InFile, Rule};

/// The report; `marks` is what `serve` remembers against servers.
pub fn report(settings: &Settings, nodes: &[NodeFacts], marks: &Marks) -> Report {
    Report {
        cluster: settings.name.clone(),
        nodes: nodes.iter().map(node_report).collect(),
        deciding: variables::ALL
            .iter()
            .map(|rule| Deciding { setting: rule.name, cases: rule.should_be })
            .collect(),
        cells: vec![],
        findings: findings(settings, nodes, marks),
    }
}

fn node_report(node: &NodeFacts) -> NodeReport {
    let (said, unreachable) = match &node.said {
        Ok(said) => (said.clone(), None),
        Err(why) => (ServerState::default(), Some(why.clone())),
    };
    let value = |rule: &Rule| Some((rule.name.to_owned(), said.value(rule.name)?.to_owned()));
    NodeReport {
        name: node.name.clone(),
        address: node.address.clone(),
        version: said.value("version").unwrap_or_default().to_owned(),
        state: if unreachable.is_none() { said.role().to_owned() } else { String::new() },
        settings: variables::ALL.iter().filter_map(value).collect(),
        unreachable,
    }
}

/// All findings, the worst first.
fn findings(settings: &Settings, nodes: &[NodeFacts], marks: &Marks) -> Vec<Finding> {
    let mut findings = Findings::default();
    findings.unreached(nodes, "server");
    reach(nodes, &mut findings);
    primary(settings, nodes, marks, &mut findings);
    accounts(settings, nodes, &mut findings);
    // If semi-synchronous replication is enabled on any server, it should be on all.
    let semi_sync = answered(nodes).any(|(_, said)| {
        said.is_on("rpl_semi_sync_slave_enabled") || said.is_on("rpl_semi_sync_master_enabled")
    });
    rules(nodes, semi_sync, &mut findings);
    apart(nodes, &mut findings);
    findings.0.extend(defaults::apart(answered(nodes).map(|(name, said)| (name, &said.defaults))));
    filtered(nodes, &mut findings);
    remembered(nodes, marks, &mut findings);
    unlogged(nodes, &mut findings);
    acknowledged(nodes, semi_sync, &mut findings);
    bypass(settings, nodes, &mut findings);
    managers(nodes, &mut findings);
    files(nodes, semi_sync, &mut findings);
    findings.sorted()
}

fn reach(nodes: &[NodeFacts], findings: &mut Findings) {
    let galera = named(nodes, |said| said.is_on("wsrep_on"));
    findings.note(
        Weight::Problem,
        galera,
        "the server is a Galera node (wsrep_on), and cluster.kind is \"replication\"",
        "what is done to a primary and its replicas would break a Galera cluster",
    );
    let primaries = named(nodes, |said| said.role() == "primary");
    if primaries.len() > 1 {
        findings.note(
            Weight::Problem,
            primaries,
            "several servers are writable and follow nobody",
            "each of them takes writes that the others never get",
        );
    }
}

/// No server is the primary: who has most.
fn primary(settings: &Settings, nodes: &[NodeFacts], marks: &Marks, findings: &mut Findings) {
    if answered(nodes).any(|(_, said)| said.standing.is_none()) {
        return;
    }
    let standings = nodes.iter().map(|node| node.said.as_ref().ok()?.standing.clone()).collect();
    if let Some(what) = told(settings, marks, standings, without_primary) {
        findings.note(
            Weight::Problem,
            named(nodes, |_| true),
            what,
            "nobody is promoted without a memory of the primary, since it may have acknowledged what no other server has",
        );
    }
}

/// Groups nodes with the same value, so that it is reported once.
fn alike<T: Ord>(nodes: &[NodeFacts], of: impl Fn(&ServerState) -> Option<T>) -> BTreeMap<T, Vec<String>> {
    let mut alike: BTreeMap<T, Vec<String>> = BTreeMap::new();
    for (name, said) in answered(nodes) {
        if let Some(what) = of(said) {
            alike.entry(what).or_default().push(name.to_owned());
        }
    }
    alike
}

fn accounts(settings: &Settings, nodes: &[NodeFacts], findings: &mut Findings) {
    let monitor = &settings.monitor.user;
    let lacks = |said: &ServerState| Some(said.lacks.clone()).filter(|lacks| !lacks.is_empty());
    for (lacks, who) in alike(nodes, lacks) {
        let rights: Vec<&str> =
            lacks.iter().map(|missing| missing.split(':').next().unwrap_or(missing)).collect();
        let sql = manager::grants_with(settings.kind, monitor, &lacks);
        let what = format!("the monitor account {monitor} lacks {}", rights.join(" and "));
        findings.propose(Weight::Problem, who, what, lacks.join("; "), &[&sql], &[]);
    }
    let lacks = |said: &ServerState| Some(said.lacks_for_errant.clone()).filter(|lacks| !lacks.is_empty());
    for (lacks, who) in alike(nodes, lacks) {
        let rights = lacks.join(", ");
        let sql = format!("GRANT {rights} ON *.* TO {}", privileges::account(monitor));
        let what = format!("the monitor account {monitor} lacks {rights}");
        let because =
            "`understudy errant` needs it: to list what a server has and the primary has not, and to undo it";
        findings.propose(Weight::Advice, who, what, because, &[&sql], &[]);
    }
    let Some(replication) = &settings.replication else { return };
    for (wrong, who) in alike(nodes, |said| said.replicas_account.clone()) {
        let what = format!("the account that replicas log in with, {}, {wrong}", replication.user);
        let mut because = "nobody can follow this server when it is the primary".to_owned();
        if wrong.is_refusal() {
            because.push_str("; where the password in [cluster.replication] is wrong, put it right there and run `understudy reload` instead");
        }
        let sql = wrong.statements(&replication.user);
        let sql: Vec<&str> = sql.iter().map(String::as_str).collect();
        findings.propose(Weight::Problem, who, what, because, &sql, &[]);
    }
}

fn rules(nodes: &[NodeFacts], semi_sync: bool, findings: &mut Findings) {
    for rule in variables::ALL {
        for (value, who) in alike(nodes, |said| said.breaks(rule, semi_sync).map(str::to_owned)) {
            let what = format!("{} is {value}", rule.name);
            findings.propose(rule.weight, who, what, rule.because, &[&rule.sql()], &[&rule.line()]);
        }
    }
}

/// Settings that must differ between the servers, or must not.
fn apart(nodes: &[NodeFacts], findings: &mut Findings) {
    let ids = alike(nodes, |said| said.value("server_id").map(str::to_owned));
    for (id, who) in ids.into_iter().filter(|(_, who)| who.len() > 1) {
        findings.propose(
            Weight::Problem,
            who,
            format!("server_id is {id} on more than one server"),
            "a replica leaves out what has its own server_id, and GTIDs of different transactions are the same",
            &[],
            &["server_id = N   # another one on each server"],
        );
    }
    let domains = alike(nodes, |said| said.value("gtid_domain_id").map(str::to_owned));
    if domains.len() > 1 {
        let list: Vec<&str> = domains.keys().map(String::as_str).collect();
        findings.propose(
            Weight::Warning,
            domains.values().flatten().cloned().collect(),
            format!("gtid_domain_id differs: {}", list.join(", ")),
            "what two primaries wrote one after the other has no order then, and gtid_strict_mode keeps nobody from writing beside it",
            &["SET GLOBAL gtid_domain_id = 0"],
            &["gtid_domain_id = 0"],
        );
    }
}

/// Replicas that leave out some of what they receive.
fn filtered(nodes: &[NodeFacts], findings: &mut Findings) {
    for (filters, who) in alike(nodes, |said| said.standing.as_ref()?.status.filters()) {
        findings.note(
            Weight::Problem,
            who,
            format!("it has replication filters: {filters}"),
            "it does not have everything, so it never becomes the primary, and what it acknowledges may be nowhere. What was left out stays missing when the filters are taken out: \
             drain it, take them out of its my.cnf, make it a copy of the primary (mariadb-backup), and undrain it",
        );
    }
}

/// What is missing on servers, and none of their own reports shows any more.
fn remembered(nodes: &[NodeFacts], marks: &Marks, findings: &mut Findings) {
    let shows_none =
        |said: &ServerState| said.standing.as_ref().is_none_or(|it| it.status.filters().is_none());
    for (name, said) in answered(nodes) {
        if marks.renumbered.iter().any(|marked| marked == name) {
            findings.note(
                Weight::Problem,
                vec![name.to_owned()],
                "it has transactions from before the primary's numbers began anew (RESET MASTER there?), as `serve` has seen",
                "rows may be missing although the numbers agree, so it never becomes the primary: drain it, make it a copy of the primary (mariadb-backup), and \
                 undrain it",
            );
        }
        let had = marks.filtered.iter().find(|(marked, _)| marked == name).filter(|_| shows_none(said));
        if let Some((_, filters)) = had {
            findings.note(
                Weight::Problem,
                vec![name.to_owned()],
                format!("it had replication filters, as `serve` has seen: {filters}"),
                "what they left out is missing, so it never becomes the primary: drain it, make it a copy of the primary (mariadb-backup), and undrain it",
            );
        }
    }
}

/// Servers that log only some databases.
fn unlogged(nodes: &[NodeFacts], findings: &mut Findings) {
    for (filters, who) in
        alike(nodes, |said| Some(said.unlogged.clone()).filter(|filters| !filters.is_empty()))
    {
        findings.note(
            Weight::Problem,
            who,
            format!("it leaves some databases out of its binlog: {filters}"),
            "what is written there while it is the primary is on no other server, no position shows it, and a failover loses it: take that out of its my.cnf, restart \
             it, and make the others copies of it (mariadb-backup), if it has been the primary",
        );
    }
}

fn acknowledged(nodes: &[NodeFacts], semi_sync: bool, findings: &mut Findings) {
    if !semi_sync {
        findings.propose(
            Weight::Advice,
            named(nodes, |_| true),
            "replication is asynchronous: nobody waits for a replica",
            "what the primary committed last is lost when it dies, and keeps it from following when it comes back; with semi-synchronous replication \
             nothing that was acknowledged is lost, and a primary that is cut off takes no more writes, for the time of a round trip a commit",
            &["SET GLOBAL rpl_semi_sync_slave_enabled = ON"],
            &[
                "rpl_semi_sync_slave_enabled = ON",
                "rpl_semi_sync_master_wait_point = AFTER_SYNC",
                "rpl_semi_sync_master_timeout = 3600000",
                "init_rpl_role = SLAVE   # Understudy sets rpl_semi_sync_master_enabled on the primary",
            ],
        );
        return;
    }
    findings.propose(
        Weight::Problem,
        named(nodes, |said| said.role() == "primary" && !said.is_on("rpl_semi_sync_master_enabled")),
        "rpl_semi_sync_master_enabled is OFF on the primary",
        "replicas would acknowledge, and it does not wait for them: what it commits may be lost",
        &["SET GLOBAL rpl_semi_sync_master_enabled = ON"],
        &[],
    );
    let waits_for_nobody = |said: &ServerState| {
        said.role() == "primary"
            && said.is_on("rpl_semi_sync_master_enabled")
            && said.waits_for.unwrap_or(0) == 0
    };
    findings.note(
        Weight::Problem,
        named(nodes, waits_for_nobody),
        "no replica acknowledges to the primary",
        "its commits wait for one, or are not safe any more: see Rpl_semi_sync_master_clients and Rpl_semi_sync_master_status",
    );
}

fn bypass(settings: &Settings, nodes: &[NodeFacts], findings: &mut Findings) {
    let is_ours = |user: &str| user == settings.monitor.user;
    let others = |said: &ServerState| {
        let others: Vec<Bypass> =
            said.bypass.iter().flatten().filter(|account| !is_ours(&account.user)).cloned().collect();
        Some(others).filter(|others| !others.is_empty())
    };
    for (accounts, who) in alike(nodes, others) {
        let list: Vec<String> = accounts
            .iter()
            .map(|account| format!("'{}'@'{}' ({})", account.user, account.host, account.right))
            .collect();
        let sql: Vec<String> = accounts
            .iter()
            .map(|account| {
                format!("REVOKE {} ON *.* FROM '{}'@'{}'", account.right, account.user, account.host)
            })
            .collect();
        let sql: Vec<&str> = sql.iter().map(String::as_str).collect();
        findings.propose(
            Weight::Warning,
            who,
            format!("accounts that write in spite of read_only: {}", list.join(", ")),
            "what they write to a replica, or to a primary that was given up, the primary never gets. No application needs it; on the primary, for those that are not administrators",
            &sql,
            &[],
        );
    }
    findings.note(
        Weight::Advice,
        named(nodes, |said| said.bypass.is_none()),
        "who writes in spite of read_only cannot be told",
        "the monitor account may not read mysql.global_priv",
    );
}

/// Two managers would move the same servers in turn.
fn managers(nodes: &[NodeFacts], findings: &mut Findings) {
    let several = |said: &ServerState| Some(said.managers.clone()).filter(|from| from.len() > 1);
    for (from, who) in alike(nodes, several) {
        findings.note(
            Weight::Warning,
            who,
            format!("is managed by {} Understudys, connected from {}", from.len(), from.join(", ")),
            "when the primary is lost each decides, and they may promote different servers: stop all but one, or set cluster.manager = \"external\" \
             in the others (one that ended without a word is counted for 10 s more)",
        );
    }
}

fn files(nodes: &[NodeFacts], semi_sync: bool, findings: &mut Findings) {
    let wanted = || IN_FILE.iter().filter(|option| semi_sync || !option.semi_sync);
    for node in nodes {
        match &node.file {
            Some(Err(why)) => findings.note(
                Weight::Problem,
                vec![node.name.clone()],
                format!("its option file is not understood: {why}"),
                "how it will start cannot be told",
            ),
            Some(Ok(options)) => file(&node.name, options, semi_sync, findings),
            None => {}
        }
    }
    // Without the file, a value is known to be in it only if the server read it from there and nobody has changed it since.
    let mut unknown: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.file.is_none()) {
        let Ok(said) = &node.said else { continue };
        let is_known =
            |name: &str| said.variables.get(name).is_some_and(|variable| variable.origin == "CONFIG");
        let names = wanted().map(|option| option.name).filter(|name| !is_known(name));
        let set = variables::ALL.iter().filter(|rule| {
            let variable = said.variables.get(rule.name);
            let is_right =
                variable.is_some_and(|variable| variable.origin == "SQL" && (rule.is_right)(&variable.value));
            is_right && !rule.line().is_empty() && rule.name != "read_only"
        });
        unknown.entry(names.chain(set.map(|rule| rule.name)).collect()).or_default().push(node.name.clone());
    }
    for (names, who) in unknown.into_iter().filter(|(names, _)| !names.is_empty()) {
        let line = |name: &&str| {
            let in_file = IN_FILE.iter().find(|option| option.name == *name).map(InFile::line);
            in_file.or_else(|| Some(variables::named(name)?.line()))
        };
        let lines: BTreeSet<String> = names.iter().filter_map(line).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        findings.propose(
            Weight::Advice,
            who,
            format!("whether its option file has {} cannot be told from here", names.join(", ")),
            "a server that was restarted must take no writes and follow nobody before Understudy has compared it; what was set while it ran is gone then. Look, or name the file: --my-cnf NODE=FILE",
            &[],
            &lines,
        );
    }
}

/// Checks how a server will be set after its next start.
fn file(name: &str, options: &BTreeMap<String, String>, semi_sync: bool, findings: &mut Findings) {
    let value = |option: &str| options.get(option).map(String::as_str);
    let is_on = |value: &str| variables::is_on(value) || value.eq_ignore_ascii_case("TRUE");
    for option in IN_FILE.iter().filter(|option| semi_sync || !option.semi_sync) {
        let is_right = value(option.name).is_some_and(|value| match option.value {
            "ON" => is_on(value),
            should => value.eq_ignore_ascii_case(should),
        });
        if is_right {
            continue;
        }
        let is = value(option.name).map_or("is missing".to_owned(), |value| format!("is {value}"));
        findings.propose(
            Weight::Warning,
            vec![name.to_owned()],
            format!("{} {is} in its option file", option.name),
            option.because,
            &[],
            &[&option.line()],
        );
    }
    if value("rpl_semi_sync_master_enabled").is_some_and(is_on) {
        findings.propose(
            Weight::Warning,
            vec![name.to_owned()],
            "rpl_semi_sync_master_enabled is ON in its option file",
            "when it comes back as a replica its applier waits for acknowledgements that nobody gives it; Understudy sets it on the primary",
            &[],
            &["# rpl_semi_sync_master_enabled   (take it out)"],
        );
    }
    for rule in variables::ALL.iter().filter(|rule| semi_sync || !rule.semi_sync) {
        let line = rule.line();
        if let Some(value) = value(rule.name)
            && !line.is_empty()
            && !["read_only", "log_bin"].contains(&rule.name)
            && !(rule.is_right)(if is_on(value) { "ON" } else { value })
            && !(rule.is_right)(value)
        {
            let what = format!("{} is {value} in its option file", rule.name);
            findings.propose(rule.weight, vec![name.to_owned()], what, rule.because, &[], &[&line]);
        }
    }
}
