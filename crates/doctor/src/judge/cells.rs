//! The failover table of the seed article: which settings decide the duration of each case here, and the resulting duration.

use std::time::Duration;

use topology::galera::timers::WORTH;
use topology::settings::{EvictPolicy, SilencePolicy, Writers};

use super::nodes::{answered, window};
use super::report::Cell;
use super::stall::Stall;
use super::units::{kib, mib, seconds};
use crate::read::{MemberState, MissingPrivilege, NodeFacts};
use settings::{Settings, table as t};

pub(super) fn cells(settings: &Settings, nodes: &[NodeFacts]) -> Vec<Cell> {
    let (interval, misses_max) = (settings.get(&t::MONITOR_INTERVAL), settings.get(&t::MONITOR_MISSES));
    let (silence, follows_events) = (interval * misses_max, settings.follows_events());
    let suspect = answered(nodes).filter_map(|(_, said)| said.options.duration("evs.suspect_timeout")).max();
    let suspect_text = suspect.map_or("not known".to_owned(), seconds);
    let stall = Stall::of(nodes);
    let probes = format!(
        "interval_ms x misses_max = {} x {} = {}",
        interval.as_millis(),
        misses_max,
        seconds(silence)
    );
    let (evict, evict_text) = eviction(settings, nodes);
    let killed_is_noticed = if follows_events {
        "the kept-open link's end, confirmed by two refused connections".to_owned()
    } else {
        format!("{probes} (detect = \"checks\")")
    };
    let killed = match evict {
        EvictPolicy::Never => stall.sentence("5.3 s", "0.9 s"),
        EvictPolicy::Proven | EvictPolicy::Silent => "below 0.3 s of stalled writes (measured)".to_owned(),
    };
    let hurries = hurries(settings, nodes, suspect);
    let vanished = match evict {
        EvictPolicy::Silent => format!(
            "{} of silence, then eviction (measured 0.6 to 1.2 s in all with the defaults)",
            seconds(silence)
        ),
        _ if hurries && follows_events => "0.6 to 1.2 s of stalled writes (measured), since the other nodes' evs timers are shortened for the moment".to_owned(),
        _ if hurries => format!("{} of silence, then 0.5 to 0.9 s, since the other nodes' evs timers are shortened for the moment", seconds(silence)),
        EvictPolicy::Proven | EvictPolicy::Never => stall.sentence("10.3 s", "0.6 s"),
    };
    let silent = match settings.get(&t::MONITOR_SILENT) {
        SilencePolicy::Hurry => "silent = \"hurry\"",
        SilencePolicy::Wait => "silent = \"wait\"",
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
                settings.get(&t::SWITCHOVER_BUDGET).as_millis(),
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
                settings.get(&t::MONITOR_STOP_GRACE).as_millis()
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
            decided_by: format!("{probes}; evs.suspect_timeout = {suspect_text}; {evict_text}; {silent}"),
            comes_to: vanished,
            seed: "not tested",
        },
        the_return(nodes),
    ]
}

/// The eviction policy that these settings and privileges allow, and its text.
pub(super) fn eviction(settings: &Settings, nodes: &[NodeFacts]) -> (EvictPolicy, String) {
    let policy = settings.get(&t::MONITOR_EVICT);
    let word = match policy {
        EvictPolicy::Proven => "evict = \"proven\"",
        EvictPolicy::Silent => "evict = \"silent\"",
        EvictPolicy::Never => "evict = \"never\"",
    };
    match policy {
        EvictPolicy::Proven | EvictPolicy::Silent if lacks_evict(nodes) => {
            (EvictPolicy::Never, format!("{word}, which does nothing without {}", MissingPrivilege::EVICT))
        }
        EvictPolicy::Proven if !settings.follows_events() => {
            (EvictPolicy::Never, format!("{word}, which does nothing with detect = \"checks\""))
        }
        EvictPolicy::Proven | EvictPolicy::Silent if !are_all_ours(settings, nodes) => {
            let why = "does nothing while a member is not in the configuration (an arbitrator?)";
            (EvictPolicy::Never, format!("{word}, which {why}"))
        }
        policy => (policy, word.to_owned()),
    }
}

/// Whether some node's monitor account may not evict a member.
fn lacks_evict(nodes: &[NodeFacts]) -> bool {
    answered(nodes).any(|(_, said)| said.lacks.iter().any(|it| it.privilege == MissingPrivilege::EVICT))
}

/// Whether every member can be given orders about the group. An arbitrator takes none.
pub(super) fn are_all_ours(settings: &Settings, nodes: &[NodeFacts]) -> bool {
    members(nodes) as usize <= settings.nodes.len()
}

/// The size of the largest view.
pub(super) fn members(nodes: &[NodeFacts]) -> u32 {
    answered(nodes).filter_map(|(_, said)| said.cluster_size).max().unwrap_or(0)
}

/// Whether the evs timers of the other nodes are shortened while a node is silent.
fn hurries(settings: &Settings, nodes: &[NodeFacts], suspect: Option<Duration>) -> bool {
    settings.get(&t::MONITOR_SILENT) == SilencePolicy::Hurry
        && settings.get(&t::MONITOR_EVICT) != EvictPolicy::Silent
        && members(nodes) > 2
        && are_all_ours(settings, nodes)
        && suspect.is_some_and(|suspect| suspect >= WORTH)
        && !lacks_evict(nodes)
}

/// How many writesets the next writer may still have to apply: the receive queue length at which flow control pauses the writers.
fn queue(nodes: &[NodeFacts]) -> String {
    let limit = |said: &MemberState| {
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

/// The return of the node: not a case of the seed article's table, but the longest time of all when it needs a full copy.
fn the_return(nodes: &[NodeFacts]) -> Cell {
    let size = answered(nodes).filter_map(|(_, said)| said.options.bytes("gcache.size")).min();
    let rate = answered(nodes).filter_map(|(_, said)| said.bytes_per_second).reduce(f64::max);
    let comes_to =
        match size.zip(rate.filter(|rate| *rate >= 1.0)).and_then(|(size, rate)| window(size, rate)) {
            Some(window) => format!(
                "by the missing writesets (IST) when it was away for less than {}, else by a full copy (SST)",
                report::table::span(window.as_millis() as u64)
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
