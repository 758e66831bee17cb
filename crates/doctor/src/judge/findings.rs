//! Finds what is wrong with the nodes' settings, or could be better.

use std::time::Duration;

use topology::galera::Component;
use topology::settings::{EvictPolicy, SilencePolicy};

use super::cells::{are_all_ours, eviction, members};
use super::clusters::two_clusters;
use super::decisive::{ADVISED, NEEDS_RESTART, WINDOW_WANTED};
use super::nodes::{answered, named, window};
use super::report::{Finding, Findings, Weight};
use super::units::{iso, kib, mib};
use crate::defaults;
use crate::read::{MemberState, MissingPrivilege, NodeFacts};
use settings::{Settings, table as t};

/// All findings, the worst first.
pub(super) fn findings(settings: &Settings, nodes: &[NodeFacts], known: Option<&Component>) -> Vec<Finding> {
    let mut findings = Findings::default();
    findings.unreached(nodes, "node");
    grants(settings, nodes, &mut findings);
    findings.0.extend(two_clusters(nodes, known));
    membership(settings, nodes, &mut findings);
    timeouts(settings, nodes, &mut findings);
    findings.0.extend(defaults::apart(answered(nodes).map(|(name, said)| (name, &said.defaults))));
    gcache(nodes, &mut findings);
    flow_control(nodes, &mut findings);
    findings.sorted()
}

fn grants(settings: &Settings, nodes: &[NodeFacts], findings: &mut Findings) {
    let mut reported: Vec<&[MissingPrivilege]> = Vec::new();
    for (_, said) in answered(nodes) {
        let lacks = said.lacks.as_slice();
        if lacks.is_empty() || reported.contains(&lacks) {
            continue;
        }
        reported.push(lacks);
        let user = &settings.monitor.user;
        findings.propose(
            Weight::Problem,
            named(nodes, |other| other.lacks == lacks),
            format!("the monitor account {user} lacks {}", MissingPrivilege::privileges(lacks)),
            MissingPrivilege::reasons(lacks),
            &[&manager::grants_for(settings.kind, user)],
            &[],
        );
    }
}

fn membership(settings: &Settings, nodes: &[NodeFacts], findings: &mut Findings) {
    findings.note(
        Weight::Problem,
        named(nodes, |said| !said.wsrep_on),
        "wsrep is off: the node is not part of a Galera cluster",
        "only members of the group can take over from one another",
    );
    findings.note(
        Weight::Problem,
        named(nodes, |said| said.wsrep_on && said.cluster_status != "Primary"),
        "the node is not in the primary component",
        "it answers no queries until it is",
    );
    findings.propose(
        Weight::Warning,
        named(nodes, |said| said.read_only),
        "the node is read_only",
        "it cannot become the writer",
        &["SET GLOBAL read_only=OFF"],
        &[],
    );
    findings.note(
        Weight::Warning,
        named(nodes, |said| said.wsrep_on && !said.names_all_members()),
        "the members cannot be told apart by wsrep_incoming_addresses (AUTO, or one address for several)",
        "a component is then known only by the nodes that answer Understudy: a member that it cannot reach, or an arbitrator, may be any node, so that a \
         sound node may have to wait, or one that was bootstrapped alone may be taken for the cluster, while no other member answers; and bootstrap = \
         \"proven\" does nothing: set wsrep_node_incoming_address = HOST:PORT in each my.cnf, and restart",
    );
    let members = members(nodes);
    let everybody = || nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    if members == 1 || nodes.len() == 1 {
        findings.note(Weight::Warning, everybody(), "there is only one node", "nobody can take over");
    } else if members == 2 {
        findings.note(
            Weight::Warning,
            everybody(),
            "the group has two members",
            "when one of two vanishes the other has no majority and stops, too; a third member, or an arbitrator (garbd), prevents that",
        );
    } else if members > 0 && members.is_multiple_of(2) {
        findings.note(
            Weight::Advice,
            everybody(),
            "the group has an even number of members",
            "a split into halves leaves no majority; an arbitrator (garbd) decides it",
        );
    }
    if !are_all_ours(settings, nodes) {
        let what = format!(
            "the group has {members} members and the configuration of {} names {}",
            settings.name,
            nodes.len()
        );
        findings.note(
            Weight::Warning,
            everybody(),
            what,
            "a member that is not named takes no sessions, and no node is evicted while it is there, since it cannot be told to forget that; an arbitrator (garbd) need not be named",
        );
    }
    findings.note(
        Weight::Warning,
        named(nodes, |said| !said.delayed.trim().is_empty()),
        "the node sees members that answer late (wsrep_evs_delayed)",
        "tight evs timeouts on a slow network throw out nodes that are alive",
    );
}

fn timeouts(settings: &Settings, nodes: &[NodeFacts], findings: &mut Findings) {
    let slower = |said: &MemberState, key: &str, ms: u64| {
        said.options.duration(key).is_some_and(|now| now > Duration::from_millis(ms))
    };
    let at_run_time: Vec<_> = ADVISED.iter().filter(|(key, ..)| *key != NEEDS_RESTART).collect();
    let who = named(nodes, |said| at_run_time.iter().any(|(key, ms, _)| slower(said, key, *ms)));
    if who.is_empty() {
        return;
    }
    let option = |(key, ms, _): &(&str, u64, &str)| format!("{key}={}", iso(*ms));
    let all = at_run_time.iter().map(|advised| option(advised)).collect::<Vec<_>>().join("; ");
    let lasting = ADVISED.iter().map(option).collect::<Vec<_>>().join("; ");
    let (policy, word) = eviction(settings, nodes);
    let never = format!(
        "with {word}, these timeouts decide kill -9, too (measured 5.3 s with the defaults, 0.9 s with these)"
    );
    let evict = match policy {
        EvictPolicy::Proven if settings.get(&t::MONITOR_SILENT) == SilencePolicy::Hurry => {
            "Understudy shortens two of them by itself while the group waits for a silent node (silent = \"hurry\"), and evicts a killed node at once, so these matter while it is not there"
        }
        EvictPolicy::Never => &never,
        EvictPolicy::Proven => "a killed node is evicted at once, so these matter for hosts that vanish",
        EvictPolicy::Silent => {
            "silent nodes are evicted as well, alive or not, and may have to be restarted by hand; with these timeouts that is not needed"
        }
    };
    findings.propose(
        Weight::Advice,
        who,
        "the group notices a silent member late: tighten the evs timeouts",
        format!(
            "measured with a vanished host: writes stood still for 10.3 s with Galera's defaults and 0.6 s with these, and the host was back by itself 1.6 s after its link returned; {evict}. They are for a network whose round trips stay well below 100 ms: on a slower one they throw out nodes that are alive"
        ),
        &[&format!("SET GLOBAL wsrep_provider_options='{all}'")],
        &[
            &format!("wsrep_provider_options=\"{lasting}\""),
            &format!("# {NEEDS_RESTART} takes effect at the next start; keep what else your line has"),
        ],
    );
}

fn gcache(nodes: &[NodeFacts], findings: &mut Findings) {
    for (name, said) in answered(nodes) {
        let (Some(size), Some(rate)) = (said.options.bytes("gcache.size"), said.bytes_per_second) else {
            continue;
        };
        // Below a byte per second the window is meaningless.
        if rate < 1.0 {
            continue;
        }
        let Some(window) = window(size, rate).filter(|window| *window < WINDOW_WANTED) else { continue };
        let wanted = ((rate * WINDOW_WANTED.as_secs_f64()) / f64::from(1 << 20)).ceil() as u64;
        findings.propose(
            Weight::Advice,
            vec![name.to_owned()],
            format!(
                "gcache.size = {} covers {} of writes",
                mib(size),
                report::table::span(window.as_millis() as u64)
            ),
            format!(
                "a node that was away longer than that needs a full copy (SST) instead of the missing writesets (IST); computed from {} a second, this node's average since its start",
                kib(rate)
            ),
            &[],
            &[
                &format!("wsrep_provider_options=\"gcache.size={wanted}M\""),
                "# for one hour; takes effect at the next start",
            ],
        );
    }
}

fn flow_control(nodes: &[NodeFacts], findings: &mut Findings) {
    for (name, said) in answered(nodes) {
        if let Some(paused) = said.paused.filter(|paused| *paused > 0.01) {
            findings.note(
                Weight::Warning,
                vec![name.to_owned()],
                format!("flow control paused this node for {:.1} % of the time", paused * 100.0),
                format!(
                    "the slowest member holds all writers back (gcs.fc_limit = {}, wsrep_slave_threads = {}); the one whose wsrep_local_recv_queue grows is it",
                    said.options.text("gcs.fc_limit").unwrap_or("?"),
                    said.appliers.map_or("?".into(), |n| n.to_string())
                ),
            );
        }
    }
}
