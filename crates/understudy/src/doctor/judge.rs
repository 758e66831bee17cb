//! From what the nodes said to what it means. No I/O: the same answers give the same report.
//!
//! The figures called measured are this project's own: three Galera nodes on one machine, MariaDB 10.11 with Galera 26.4.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use topology::settings::{EvictPolicy, Writers};

use super::read::{Lack, NodeFacts, Said};
use crate::settings::Settings;

/// The advised values, and why each is what it is. All but the last can be set while the node runs.
const ADVISED: &[(&str, u64, &str)] = &[
    ("evs.keepalive_period", 200, "a heartbeat every 200 ms, so that silence is noticed"),
    ("evs.suspect_timeout", 600, "three lost heartbeats make a suspect"),
    ("evs.inactive_timeout", 2000, "what all agree on waits no longer than this"),
    ("evs.install_timeout", 1000, "the survivors' new view is agreed on within this"),
    ("evs.join_retrans_period", 200, "a lost message of that agreement is sent again after this"),
    ("evs.inactive_check_period", 100, "how often the above are looked at; needs a restart"),
];
/// What is read of each node, and which cases of the table it decides.
const READ: &[(&str, &str)] = &[
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
const APPLIERS: &str = "wsrep_slave_threads";
const SST_METHOD: &str = "wsrep_sst_method";
/// The one that needs a restart.
const NEEDS_RESTART: &str = "evs.inactive_check_period";
/// A node that was away this long should come back by IST.
const WINDOW_WANTED: Duration = Duration::from_secs(3600);

/// All there is to say.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The cluster's name.
    pub cluster: String,
    /// What each node is set to.
    pub nodes: Vec<NodeReport>,
    /// Which cases each of those settings decides, in the same words as the table.
    pub deciding: Vec<Deciding>,
    /// The seed's table, with what decides each case here.
    pub cells: Vec<Cell>,
    /// What is wrong, or could be better.
    pub findings: Vec<Finding>,
}

/// One node's settings.
#[derive(Debug, Serialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Why it could not be asked.
    pub unreachable: Option<String>,
    /// Its version.
    pub version: String,
    /// Its state, in its own word.
    pub state: String,
    /// The settings that decide something, as `key = value`.
    pub settings: Vec<(String, String)>,
}

/// What one setting is good for.
#[derive(Debug, Serialize)]
pub struct Deciding {
    /// Its name.
    pub setting: &'static str,
    /// The cases.
    pub cases: &'static str,
}

/// One case of the failover table.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// Which.
    pub case: &'static str,
    /// What decides how long it takes, with its present values.
    pub decided_by: String,
    /// What that comes to.
    pub comes_to: String,
    /// What the seed article measured.
    pub seed: &'static str,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Must be put right: something does not work.
    Problem,
    /// Will hurt one day.
    Warning,
    /// Could be better.
    Advice,
}

/// One thing to know or to do.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// Which nodes.
    pub nodes: Vec<String>,
    /// What, as one sentence.
    pub what: String,
    /// Why, with the measured reason.
    pub because: String,
    /// SQL to run on each of these nodes.
    pub sql: Vec<String>,
    /// Lines for the server's configuration file, so that it lasts.
    pub my_cnf: Vec<String>,
}

impl Report {
    /// Whether something must be put right.
    pub fn must_act(&self) -> bool {
        self.findings.iter().any(|finding| finding.weight == Weight::Problem)
    }
}

/// The report.
pub fn report(settings: &Settings, nodes: &[NodeFacts]) -> Report {
    let mut findings = Vec::new();
    reach(nodes, &mut findings);
    grants(settings, nodes, &mut findings);
    membership(settings, nodes, &mut findings);
    timeouts(settings, nodes, &mut findings);
    gcache(nodes, &mut findings);
    flow_control(nodes, &mut findings);
    findings.sort_by_key(|finding| finding.weight);
    Report {
        cluster: settings.name.clone(),
        nodes: nodes.iter().map(node_report).collect(),
        deciding: READ.iter().map(|&(setting, cases)| Deciding { setting, cases }).collect(),
        cells: cells(settings, nodes),
        findings,
    }
}

fn answered(nodes: &[NodeFacts]) -> impl Iterator<Item = (&str, &Said)> {
    nodes.iter().filter_map(|node| Some((node.name.as_str(), node.said.as_ref().ok()?)))
}

fn named(nodes: &[NodeFacts], is: impl Fn(&Said) -> bool) -> Vec<String> {
    answered(nodes).filter(|(_, said)| is(said)).map(|(name, _)| name.to_owned()).collect()
}

fn node_report(node: &NodeFacts) -> NodeReport {
    let (said, unreachable) = match &node.said {
        Ok(said) => (said.clone(), None),
        Err(why) => (Said::default(), Some(why.clone())),
    };
    let value = |key: &str| match key {
        APPLIERS => said.appliers.map(|n| n.to_string()),
        SST_METHOD => Some(said.sst_method.clone()).filter(|method| !method.is_empty()),
        option => said.options.text(option).map(str::to_owned),
    };
    let settings = READ.iter().filter_map(|(key, _)| Some(((*key).to_owned(), value(key)?))).collect();
    NodeReport {
        name: node.name.clone(),
        address: node.address.clone(),
        unreachable,
        version: said.version,
        state: said.state,
        settings,
    }
}

// ---- findings

fn reach(nodes: &[NodeFacts], findings: &mut Vec<Finding>) {
    for node in nodes {
        if let Err(why) = &node.said {
            findings.push(Finding {
                weight: Weight::Problem,
                nodes: vec![node.name.clone()],
                what: format!("{} ({}) cannot be asked: {why}", node.name, node.address),
                because: "a node that the monitor cannot reach takes no sessions".into(),
                sql: vec![],
                my_cnf: vec![],
            });
        }
    }
}

fn grants(settings: &Settings, nodes: &[NodeFacts], findings: &mut Vec<Finding>) {
    let mut told: Vec<&[Lack]> = Vec::new();
    for (_, said) in answered(nodes) {
        let lacks = said.lacks.as_slice();
        if lacks.is_empty() || told.contains(&lacks) {
            continue;
        }
        told.push(lacks);
        findings.push(Finding {
            weight: Weight::Problem,
            nodes: named(nodes, |other| other.lacks == lacks),
            what: format!("the monitor account {} lacks {}", settings.monitor.user, Lack::privileges(lacks)),
            because: Lack::reasons(lacks),
            sql: vec![manager::grants_for(&settings.monitor.user)],
            my_cnf: vec![],
        });
    }
}

fn membership(settings: &Settings, nodes: &[NodeFacts], findings: &mut Vec<Finding>) {
    let mut note = |weight, nodes: Vec<String>, what: &str, because: &str, sql: &[&str]| {
        if !nodes.is_empty() {
            findings.push(Finding {
                weight,
                nodes,
                what: what.to_owned(),
                because: because.to_owned(),
                sql: sql.iter().map(|s| (*s).to_owned()).collect(),
                my_cnf: vec![],
            });
        }
    };
    note(
        Weight::Problem,
        named(nodes, |said| !said.wsrep_on),
        "wsrep is off: the node is not part of a Galera cluster",
        "only members of the group can take over from one another",
        &[],
    );
    note(
        Weight::Problem,
        named(nodes, |said| said.wsrep_on && said.cluster_status != "Primary"),
        "the node is not in the primary component",
        "it answers no queries until it is",
        &[],
    );
    note(
        Weight::Warning,
        named(nodes, |said| said.read_only),
        "the node is read_only",
        "it cannot become the writer",
        &["SET GLOBAL read_only=OFF"],
    );
    let uuids: BTreeSet<_> =
        answered(nodes).filter(|(_, s)| s.wsrep_on).map(|(_, s)| &s.cluster_uuid).collect();
    if uuids.len() > 1 {
        note(
            Weight::Problem,
            named(nodes, |said| said.wsrep_on),
            "the nodes belong to different clusters (wsrep_cluster_state_uuid differs)",
            "a write to one of them would be missing on the others",
            &[],
        );
    }
    let members = answered(nodes).filter_map(|(_, said)| said.cluster_size).max().unwrap_or(0);
    let everybody = || nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    if members == 1 || nodes.len() == 1 {
        note(Weight::Warning, everybody(), "there is only one node", "nobody can take over", &[]);
    } else if members == 2 {
        note(
            Weight::Warning,
            everybody(),
            "the group has two members",
            "when one of two vanishes the other has no majority and stops, too; a third member, or an arbitrator (garbd), prevents that",
            &[],
        );
    } else if members > 0 && members % 2 == 0 {
        note(
            Weight::Advice,
            everybody(),
            "the group has an even number of members",
            "a split into halves leaves no majority; an arbitrator (garbd) decides it",
            &[],
        );
    }
    if members > 0 && usize::try_from(members).is_ok_and(|members| members > nodes.len()) {
        let what = format!(
            "the group has {members} members and the configuration of {} names {}",
            settings.name,
            nodes.len()
        );
        note(
            Weight::Warning,
            everybody(),
            &what,
            "a member that is not named takes no sessions; an arbitrator (garbd) need not be named",
            &[],
        );
    }
    note(
        Weight::Warning,
        named(nodes, |said| !said.delayed.trim().is_empty()),
        "the node sees members that answer late (wsrep_evs_delayed)",
        "tight evs timeouts on a slow network throw out nodes that are alive",
        &[],
    );
}

fn timeouts(settings: &Settings, nodes: &[NodeFacts], findings: &mut Vec<Finding>) {
    let slower = |said: &Said, key: &str, ms: u64| {
        said.options.duration(key).is_some_and(|now| now > Duration::from_millis(ms))
    };
    let at_run_time: Vec<_> = ADVISED.iter().filter(|(key, ..)| *key != NEEDS_RESTART).collect();
    let who = named(nodes, |said| at_run_time.iter().any(|(key, ms, _)| slower(said, key, *ms)));
    if who.is_empty() {
        return;
    }
    let all =
        at_run_time.iter().map(|(key, ms, _)| format!("{key}={}", iso(*ms))).collect::<Vec<_>>().join("; ");
    let lasting =
        ADVISED.iter().map(|(key, ms, _)| format!("{key}={}", iso(*ms))).collect::<Vec<_>>().join("; ");
    let evict = match settings.monitor.evict {
        EvictPolicy::Never => {
            "with evict = \"never\" these timeouts decide kill -9, too (measured 5.3 s with the defaults, 0.9 s with these)"
        }
        EvictPolicy::Proven => "a killed node is evicted at once, so these matter for hosts that vanish",
        EvictPolicy::Silent => {
            "silent nodes are evicted as well, alive or not, and may have to be restarted by hand; with these timeouts that is not needed"
        }
    };
    findings.push(Finding {
        weight: Weight::Advice,
        nodes: who,
        what: "the group notices a silent member late: tighten the evs timeouts".into(),
        because: format!(
            "measured with a vanished host: writes stood still for 10.3 s with Galera's defaults and 0.6 s with these, and the host was back by itself 1.6 s after its link returned; {evict}. They are for a network whose round trips stay well below 100 ms: on a slower one they throw out nodes that are alive"
        ),
        sql: vec![format!("SET GLOBAL wsrep_provider_options='{all}'")],
        my_cnf: vec![format!("wsrep_provider_options=\"{lasting}\""), format!("# {NEEDS_RESTART} takes effect at the next start; keep what else your line has")],
    });
}

fn gcache(nodes: &[NodeFacts], findings: &mut Vec<Finding>) {
    for (name, said) in answered(nodes) {
        let (Some(size), Some(rate)) = (said.options.bytes("gcache.size"), said.bytes_per_second) else {
            continue;
        };
        // Below a byte a second a window says nothing.
        if rate < 1.0 {
            continue;
        }
        let Some(window) = window(size, rate).filter(|window| *window < WINDOW_WANTED) else { continue };
        let wanted = ((rate * WINDOW_WANTED.as_secs_f64()) / f64::from(1 << 20)).ceil() as u64;
        findings.push(Finding {
            weight: Weight::Advice,
            nodes: vec![name.to_owned()],
            what: format!("gcache.size = {} covers {} of writes", mib(size), crate::table::span(window.as_millis() as u64)),
            because: format!(
                "a node that was away longer than that needs a full copy (SST) instead of the missing writesets (IST); computed from {} a second, this node's average since its start",
                kib(rate)
            ),
            sql: vec![],
            my_cnf: vec![format!("wsrep_provider_options=\"gcache.size={wanted}M\""), "# for one hour; takes effect at the next start".into()],
        });
    }
}

fn flow_control(nodes: &[NodeFacts], findings: &mut Vec<Finding>) {
    for (name, said) in answered(nodes) {
        if let Some(paused) = said.paused.filter(|paused| *paused > 0.01) {
            findings.push(Finding {
                weight: Weight::Warning,
                nodes: vec![name.to_owned()],
                what: format!("flow control paused this node for {:.1} % of the time", paused * 100.0),
                because: format!(
                    "the slowest member holds all writers back (gcs.fc_limit = {}, wsrep_slave_threads = {}); the one whose wsrep_local_recv_queue grows is it",
                    said.options.text("gcs.fc_limit").unwrap_or("?"),
                    said.appliers.map_or("?".into(), |n| n.to_string())
                ),
                sql: vec![],
                my_cnf: vec![],
            });
        }
    }
}

// ---- the seed's table

fn cells(settings: &Settings, nodes: &[NodeFacts]) -> Vec<Cell> {
    let monitor = &settings.monitor;
    let silence = monitor.interval * monitor.misses_max;
    let suspect = answered(nodes).filter_map(|(_, said)| said.options.duration("evs.suspect_timeout")).max();
    let suspect_text = suspect.map_or("not known".to_owned(), seconds);
    let stall = Stall::of(nodes);
    let probes = format!(
        "interval_ms x misses_max = {} x {} = {}",
        monitor.interval.as_millis(),
        monitor.misses_max,
        seconds(silence)
    );
    let (evict, evict_text) = eviction(settings, nodes);
    let killed_is_noticed = if monitor.events {
        "the kept-open link's end, confirmed by two refused connections".to_owned()
    } else {
        format!("{probes} (detect = \"checks\")")
    };
    let killed = match evict {
        EvictPolicy::Never => stall.sentence("5.3 s", "0.9 s"),
        EvictPolicy::Proven | EvictPolicy::Silent => "below 0.3 s of stalled writes (measured)".to_owned(),
    };
    let vanished = match evict {
        EvictPolicy::Silent => format!(
            "{} of silence, then eviction (measured 0.6 to 1.2 s in all with the defaults)",
            seconds(silence)
        ),
        EvictPolicy::Proven | EvictPolicy::Never => stall.sentence("10.3 s", "0.6 s"),
    };
    let scope = match settings.writers {
        Writers::One => "the writer is the active node, the others are passive",
        Writers::All => "every node is active",
    };
    vec![
        Cell {
            case: "graceful: active, all",
            decided_by: format!(
                "switchover.budget_ms = {}; {}; {scope}",
                settings.budget.as_millis(),
                queue(nodes)
            ),
            comes_to:
                "as long as the running transactions take to end, and the next writer to apply its queue"
                    .into(),
            seed: "sub-second, no errors",
        },
        Cell {
            case: "graceful, semi-graceful: passive",
            decided_by: "nothing".into(),
            comes_to: "no effect".into(),
            seed: "no effect at all",
        },
        Cell {
            case: "semi-graceful: active, all",
            decided_by: format!(
                "the node's own goodbye (no timeout); stop_grace_ms = {}",
                monitor.stop_grace.as_millis()
            ),
            comes_to: "the kept-open link ends, the next writer is confirmed".into(),
            seed: "4 s with errors; 3 s",
        },
        Cell {
            case: "non-graceful (kill -9): active",
            decided_by: killed_is_noticed,
            comes_to: killed.clone(),
            seed: "4 s, errors",
        },
        Cell {
            case: "non-graceful (kill -9): passive, all",
            decided_by: format!("evs.suspect_timeout = {suspect_text}; {evict_text}"),
            comes_to: killed,
            seed: "6 s; 7 s with errors",
        },
        Cell {
            case: "frozen process, vanished host: any",
            decided_by: format!("{probes}; evs.suspect_timeout = {suspect_text}; {evict_text}"),
            comes_to: vanished,
            seed: "not tested",
        },
        the_return(nodes),
    ]
}

/// What eviction comes to with these settings and rights, and how to say it.
fn eviction(settings: &Settings, nodes: &[NodeFacts]) -> (EvictPolicy, String) {
    let monitor = &settings.monitor;
    let word = match monitor.evict {
        EvictPolicy::Proven => "evict = \"proven\"",
        EvictPolicy::Silent => "evict = \"silent\"",
        EvictPolicy::Never => "evict = \"never\"",
    };
    let lacks = |said: &Said| said.lacks.iter().any(|lack| lack.privilege == Lack::EVICT);
    let is_forbidden = answered(nodes).any(|(_, said)| lacks(said));
    match monitor.evict {
        EvictPolicy::Proven | EvictPolicy::Silent if is_forbidden => {
            (EvictPolicy::Never, format!("{word}, which does nothing without {}", Lack::EVICT))
        }
        EvictPolicy::Proven if !monitor.events => {
            (EvictPolicy::Never, format!("{word}, which does nothing with detect = \"checks\""))
        }
        policy => (policy, word.to_owned()),
    }
}

/// How much the next writer may have left to apply: the receive queue at which flow control pauses the writers.
fn queue(nodes: &[NodeFacts]) -> String {
    let limit = |said: &Said| {
        let limit: f64 = said.options.text("gcs.fc_limit")?.parse().ok()?;
        let fixed = ["gcs.fc_single_primary", "gcs.fc_master_slave"]
            .iter()
            .any(|key| said.options.text(key).is_some_and(|value| value.eq_ignore_ascii_case("yes")));
        let members = said.cluster_size.unwrap_or(1).max(1);
        Some(if fixed { limit } else { limit * f64::from(members).sqrt() })
    };
    match answered(nodes).filter_map(|(_, said)| limit(said)).reduce(f64::max) {
        Some(most) => format!("gcs.fc_limit: at most about {most:.0} writesets queued on the next writer"),
        None => "gcs.fc_limit = not known".into(),
    }
}

/// What happens afterwards: not a cell of the seed's table, and the longest time of all when it goes wrong.
fn the_return(nodes: &[NodeFacts]) -> Cell {
    let size = answered(nodes).filter_map(|(_, said)| said.options.bytes("gcache.size")).min();
    let rate = answered(nodes).filter_map(|(_, said)| said.bytes_per_second).reduce(f64::max);
    let comes_to =
        match size.zip(rate.filter(|rate| *rate >= 1.0)).and_then(|(size, rate)| window(size, rate)) {
            Some(window) => format!(
                "by the missing writesets (IST) when it was away for less than {}, else by a full copy (SST)",
                crate::table::span(window.as_millis() as u64)
            ),
            None => "by the missing writesets (IST): hardly anything is written".into(),
        };
    Cell {
        case: "the return of the node, after any case",
        decided_by: format!(
            "gcache.size = {} against {} of writes a second",
            size.map_or("not known".into(), mib),
            rate.map_or("an unknown amount".into(), kib)
        ),
        comes_to,
        seed: "not tested",
    }
}

/// How long writes at `rate` bytes a second fit into `size` bytes.
fn window(size: u64, rate: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(size as f64 / rate).ok()
}

/// How long Galera itself lets writes stand still when a member falls silent.
enum Stall {
    /// All nodes have Galera's defaults.
    Defaults,
    /// All nodes have the advised values, or tighter ones.
    Advised,
    /// Something else; with the longest evs.suspect_timeout.
    Other(Duration),
    /// No node said.
    Unknown,
}

impl Stall {
    fn of(nodes: &[NodeFacts]) -> Self {
        let all = |key: &str, is: &dyn Fn(Duration) -> bool| {
            answered(nodes).all(|(_, said)| said.options.duration(key).is_some_and(is))
        };
        let exactly = |seconds| move |now: Duration| now == Duration::from_secs(seconds);
        let advised = |(key, ms, _): &(&str, u64, &str)| {
            *key == NEEDS_RESTART || all(key, &|now| now <= Duration::from_millis(*ms))
        };
        let suspect =
            answered(nodes).filter_map(|(_, said)| said.options.duration("evs.suspect_timeout")).max();
        match suspect {
            None => Self::Unknown,
            Some(_)
                if all("evs.suspect_timeout", &exactly(5)) && all("evs.inactive_timeout", &exactly(15)) =>
            {
                Self::Defaults
            }
            Some(_) if ADVISED.iter().all(advised) => Self::Advised,
            Some(suspect) => Self::Other(suspect),
        }
    }

    /// With what was measured for the case at the defaults and at the advised values.
    fn sentence(&self, with_defaults: &str, with_advised: &str) -> String {
        match self {
            Self::Defaults => format!("{with_defaults} of stalled writes (measured with these defaults)"),
            Self::Advised => format!("{with_advised} of stalled writes (measured with these values)"),
            Self::Other(suspect) => format!("at least {} of stalled writes", seconds(*suspect)),
            Self::Unknown => "not known".to_owned(),
        }
    }
}

fn iso(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("PT{}S", ms / 1000) } else { format!("PT{}S", ms as f64 / 1000.0) }
}

fn seconds(d: Duration) -> String {
    format!("{} s", d.as_millis() as f64 / 1000.0)
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn kib(bytes: f64) -> String {
    format!("{:.1} KiB", bytes / 1024.0)
}

#[cfg(test)]
mod tests;
