//! The figures of a cluster in Prometheus' text format, a row a family. Names end in their unit, counters in `_total`.

pub mod page;

use api::Node;
use api::proxy::{SplitStats, Stats};
use api::warm::Standby;
use manager::Samples;
use measure::capacity::passive::NodeCapacity;
use measure::histogram::Snapshot;
use measure::recovery::Forecast;
use topology::health::Question;
use topology::heartbeat::Stall;
use topology::replication::ReplicationStatus;
use topology::routes::LaneState;
use topology::status::Status;
use topology::view::{ClusterView, NodeState, NodeView, TrafficFlow};

use self::page::{Lines, Page, families};
use super::health::RULES;

/// All families that there are, for one cluster. `capacities`: of all nodes.
pub fn text(status: &api::Status, capacities: &[NodeCapacity], samples: &Samples) -> String {
    let view = &status.view;
    let probes = view.nodes.iter();
    let probes = probes.filter_map(|node| Some((node.name.clone(), samples.probe_times(node.id)?)));
    let mut page = Page::new(&[("cluster", &view.cluster), ("id", &status.id.to_string())]);
    page.add(CLUSTER, view);
    page.add(PROBES, &probes.collect::<Vec<_>>());
    page.add(PROXY, &status.proxy);
    page.add(AGES, view);
    if let Some(split) = &status.proxy.split {
        page.add(SPLIT, split);
    }
    if let Some(reads) = &status.read_port {
        page.add(READ_NODES, view);
        page.add(READ_PORT, reads);
    }
    if let Some(warm) = &status.warm {
        page.add(WARM, &warm.standbys);
    }
    page.add(RECOVERY, &status.nodes);
    page.add(CAPACITY, capacities);
    page.text
}

families! {
    CLUSTER(ClusterView) {
        gauge "understudy_build_info" "1; its label tells the version."
            => |_, lines| lines.add(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        gauge "understudy_term" "The number of the writer decision in force."
            => |view, lines| lines.one(view.term.0);
        gauge "understudy_gate_open" "1 when statements flow, 0 while they are held."
            => |view, lines| lines.one(u8::from(view.gate == TrafficFlow::Open));
        gauge "understudy_uptime_seconds" "Since the program started."
            => |view, lines| lines.one(view.now_ms / 1000);
        gauge "understudy_node_state" "1 for the state that the node is in, 0 for each other one."
            => |view, lines| for node in &view.nodes {
                for state in NodeState::ALL.iter().copied() {
                    lines.add(&[("node", &node.name), ("state", state.word())], u8::from(node.state == state));
                }
            };
        gauge "understudy_node_writer" "1 for the writer."
            => |view, lines| for node in &view.nodes { lines.node(&node.name, u8::from(node.writer)) };
        gauge "understudy_node_candidate" "1 for the node that would write next: the one that a switchover chooses."
            => |view, lines| for node in &view.nodes {
                lines.node(&node.name, u8::from(view.candidate.as_ref() == Some(&node.name)));
            };
        gauge "understudy_node_open" "1 when the node takes new transactions."
            => |view, lines| for node in &view.nodes { lines.node(&node.name, u8::from(node.lane == LaneState::Open)) };
        gauge "understudy_node_good" "1 when the health endpoint says that it may take traffic."
            => |view, lines| for node in &view.nodes {
                let is_good = view.ask(&node.name, Question::Member(RULES)).is_some_and(|found| found.is_ok());
                lines.node(&node.name, u8::from(is_good));
            };
        gauge "understudy_node_probe_misses" "Status queries missed in a row."
            => |view, lines| for node in &view.nodes { lines.node(&node.name, node.misses) };
        gauge "understudy_node_advice" "How much `status` advises to put right there, such as missing privileges."
            => |view, lines| for node in &view.nodes { lines.node(&node.name, node.advice.len()) };
        gauge "understudy_node_stuck_seconds" "How long the node has answered and not committed its heartbeat, by why; 0 when it commits, or gets none; nothing while it does not answer."
            => |view, lines| for node in answering(view) {
                for why in Stall::ALL.iter().copied() {
                    let seconds = node.stuck.filter(|stuck| stuck.why == why).map_or(0, |stuck| stuck.ms / 1000);
                    lines.add(&[("node", &node.name), ("why", why.word())], seconds);
                }
            };
        gauge "understudy_node_recv_queue" "Writesets received and not yet applied (wsrep_local_recv_queue); nothing while the node does not answer."
            => |view, lines| for node in answering(view) {
                if let Some(facts) = node.facts.as_ref().and_then(Status::galera) {
                    lines.node(&node.name, facts.recv_queue);
                }
            };
        gauge "understudy_node_behind_seconds" "How far a replica says that it is behind (Seconds_Behind_Master); nothing while it does not know."
            => |view, lines| for (name, facts) in servers(view) {
                if let Some(seconds) = facts.source().and_then(|channel| channel.lag_s) {
                    lines.node(name, seconds);
                }
            };
        gauge "understudy_node_acknowledging_replicas" "Replicas that acknowledge to a primary that waits for them (Rpl_semi_sync_master_clients)."
            => |view, lines| for (name, facts) in servers(view).filter(|(_, facts)| facts.semi_sync.primary_active) {
                lines.node(name, facts.semi_sync.replicas);
            };
        counter "understudy_failovers_begun_total" "How often the writer was lost and another was chosen to follow it."
            => |view, lines| lines.one(view.counts.failovers_begun);
        counter "understudy_failovers_done_total" "How often another one wrote after that."
            => |view, lines| lines.one(view.counts.failovers_done);
        counter "understudy_switchovers_total" "Planned moves of the writer by how they ended."
            => |view, lines| lines.by("result", [
                ("done", view.counts.switchovers_done),
                ("undone", view.counts.switchovers_undone),
                ("became_failover", view.counts.switchovers_became_failovers),
            ]);
        counter "understudy_group_evictions_total" "Members that were to be evicted from the Galera group (evs.evict) by what came of it."
            => |view, lines| lines.by("result", [
                ("done", view.counts.evictions_done),
                ("failed", view.counts.evictions_failed),
                ("spared", view.counts.evictions_spared),
            ]);
        counter "understudy_bootstraps_total" "How often the cluster was given a Primary component again (bootstrap = \"proven\")."
            => |view, lines| lines.one(view.bootstraps);
    }

    PROBES([(String, Snapshot)]) {
        histogram "understudy_probe_seconds" "How long the node took for the manager's questions; those without an answer are not in it."
            => |probes, lines| for (node, times) in probes { lines.histogram(&[("node", node)], times) };
    }

    PROXY(Stats) {
        gauge "understudy_node_sessions" "Client sessions with a link to the node."
            => |proxy, lines| for lane in &proxy.lanes { lines.node(&lane.node, lane.sessions) };
        gauge "understudy_node_running" "Transactions, or statements outside one, running on the node."
            => |proxy, lines| for lane in &proxy.lanes { lines.node(&lane.node, lane.running) };
        counter "understudy_node_transactions_total" "Transactions, and statements outside one, begun on the node."
            => |proxy, lines| for lane in &proxy.lanes { lines.node(&lane.node, lane.begun_total) };
        gauge "understudy_certificate_expires_unix_seconds" "When the certificate expires that clients are shown, in seconds since 1970."
            => |proxy, lines| if let Some(at) = proxy.certificate_expires_unix_s { lines.one(at) };
        counter "understudy_hold_held_total" "Statements that had to wait for a node."
            => |proxy, lines| lines.one(proxy.hold.held);
        counter "understudy_hold_ended_total" "Held statements by how their wait ended."
            => |Stats { hold, .. }, lines| lines.by("outcome", [
                ("resumed", hold.resumed), ("no_room", hold.evicted), ("expired", hold.expired), ("gone", hold.gone),
            ]);
        histogram "understudy_hold_seconds" "How long statements were held; those whose clients left before are not in it."
            => |proxy, lines| lines.histogram(&[], &proxy.hold.held_for);
        gauge "understudy_hold_waiting" "Statements waiting now."
            => |proxy, lines| lines.one(proxy.hold.waiting);
        gauge "understudy_hold_waiting_bytes" "Bytes of statements waiting now."
            => |proxy, lines| lines.one(proxy.hold.waiting_bytes);
        gauge "understudy_clients" "Clients connected now."
            => |proxy, lines| lines.one(proxy.clients);
        counter "understudy_clients_total" "Clients ever accepted."
            => |proxy, lines| lines.one(proxy.clients_total);
        counter "understudy_links_total" "Links made to nodes."
            => |proxy, lines| lines.one(proxy.links_total);
        counter "understudy_sessions_moved_total" "Sessions rebuilt on another node."
            => |proxy, lines| lines.one(proxy.sessions_moved);
        gauge "understudy_sessions_pinned" "Sessions that cannot move now."
            => |proxy, lines| lines.one(proxy.sessions_pinned);
        counter "understudy_statements_again_total" "Statements sent again after a loss."
            => |proxy, lines| lines.one(proxy.statements_again);
        counter "understudy_errors_total" "Errors that the proxy itself gave to clients."
            => errors;
    }

    AGES(ClusterView) {
        gauge "understudy_node_age_seconds" "So long ago the replica had all that the primary had then; nothing while that is not known."
            => |view, lines| for node in answering(view) {
                if let Some(age_ms) = node.reads.age_ms {
                    lines.node(&node.name, age_ms as f64 / 1e3);
                }
            };
    }

    SPLIT(SplitStats) {
        counter "understudy_split_statements_total" "With listen.split, statements by where they were answered: on a replica; on the primary for what they are, or since no replica took them, had come so far in time, or answered."
            => |split, lines| lines.by("place", [
                ("replica", split.replicas),
                ("primary", split.primary),
                ("primary_nobody", split.primary_nobody),
                ("primary_behind", split.primary_behind),
                ("primary_failed", split.primary_failed),
            ]);
        gauge "understudy_split_sessions" "Sessions with a second link to the node, for their reads."
            => |split, lines| for (node, sessions) in &split.lanes { lines.node(node, sessions) };
    }

    READ_NODES(ClusterView) {
        gauge "understudy_read_open" "1 when the node takes reads of the port for reads."
            => |view, lines| for node in &view.nodes {
                lines.node(&node.name, u8::from(node.reads.lane == Some(LaneState::Open)));
            };
    }

    READ_PORT(Stats) {
        gauge "understudy_read_sessions" "Sessions of the port for reads with a link to the node."
            => |reads, lines| for lane in &reads.lanes { lines.node(&lane.node, lane.sessions) };
        gauge "understudy_read_running" "What runs on the node for the port for reads."
            => |reads, lines| for lane in &reads.lanes { lines.node(&lane.node, lane.running) };
        gauge "understudy_read_clients" "Clients of the port for reads."
            => |reads, lines| lines.one(reads.clients);
        counter "understudy_read_sessions_moved_total" "Sessions of the port for reads that went on on another node."
            => |reads, lines| lines.one(reads.sessions_moved);
        gauge "understudy_read_hold_waiting" "Reads that wait for a node."
            => |reads, lines| lines.one(reads.hold.waiting);
        counter "understudy_read_hold_expired_total" "Reads that waited in vain."
            => |reads, lines| lines.one(reads.hold.expired);
        counter "understudy_read_errors_total" "Errors that the port for reads itself gave to clients."
            => errors;
    }

    WARM([Standby]) {
        gauge "understudy_warm_on" "1 while the standby is replayed what the active node is asked, 0 while it should be and is not; nothing where it should not be."
            => |seen, lines| for seen in seen.iter().filter(|seen| seen.state != "off") {
                lines.node(&seen.node, u8::from(seen.by.is_some()));
            };
        counter "understudy_warm_replayed_total" "Statements replayed on the standby that ended well."
            => |seen, lines| for seen in seen { lines.node(&seen.node, seen.totals.executed) };
        counter "understudy_warm_late_total" "Statements left out, since the standby did not come to run them in time."
            => |seen, lines| for seen in seen { lines.node(&seen.node, seen.totals.late) };
        counter "understudy_warm_dropped_bytes_total" "Bytes of the stream that the standby's replay missed."
            => |seen, lines| for seen in seen { lines.node(&seen.node, seen.totals.dropped_bytes) };
        counter "understudy_warm_unparsed_bytes_total" "Bytes of the stream that are no event."
            => |seen, lines| for seen in seen { lines.node(&seen.node, seen.totals.unparsed_bytes) };
        counter "understudy_warm_corrected_times_total" "Events whose recorded times cannot be true."
            => |seen, lines| for seen in seen { lines.node(&seen.node, seen.totals.corrected_times) };
        // A replay that does not run has none of these three: 0 would say that it is up to date.
        gauge "understudy_warm_waiting" "Statements that wait to be replayed."
            => |seen, lines| for seen in seen.iter().filter(|seen| seen.by.is_some()) { lines.node(&seen.node, seen.waiting) };
        gauge "understudy_warm_sessions" "Sessions of the replay on the standby."
            => |seen, lines| for seen in seen.iter().filter(|seen| seen.by.is_some()) { lines.node(&seen.node, seen.sessions) };
        gauge "understudy_warm_lag_seconds" "How far the replay is behind what it has read, in recorded time; nothing while it does not run."
            => |seen, lines| for seen in seen.iter().filter(|seen| seen.by.is_some()) {
                lines.node(&seen.node, seen.lag_ms as f64 / 1e3);
            };
        counter "understudy_warm_left_out_total" "Events that were not replayed, by why."
            => |seen, lines| for seen in seen {
                for (why, count) in &seen.totals.left_out {
                    lines.add(&[("node", &seen.node), ("why", why)], count);
                }
            };
        counter "understudy_warm_errors_total" "Replayed statements that failed, by class."
            => |seen, lines| for seen in seen {
                for (class, count) in &seen.totals.errors {
                    lines.add(&[("node", &seen.node), ("class", class)], count);
                }
            };
        gauge "understudy_warm_score_ratio" "The share of the active node's page accesses that the standby would serve from memory; nothing while that is not known."
            => |seen, lines| for seen in seen {
                if let Some(score) = seen.warmth.as_ref().and_then(|warmth| warmth.score.as_ref()) {
                    lines.node(&seen.node, format_args!("{:.4}", score.percent / 100.0));
                }
            };
        gauge "understudy_warm_forecast_disk_reads" "Pages that a failover to the standby would read from disk in its first two minutes; nothing while that is not known."
            => |seen, lines| for seen in seen {
                if let Some(forecast) = seen.warmth.as_ref().and_then(|warmth| warmth.forecast.as_ref()) {
                    lines.node(&seen.node, forecast.disk_reads);
                }
            };
    }

    RECOVERY([Node]) {
        gauge "understudy_recovery_window_seconds" "For so long from now the node may be away before it needs a full copy, at the present rate of writes; 0 when it needs one already, +Inf when nothing is written or deleted, nothing when it is not known."
            => |nodes, lines| for row in nodes.iter().filter_map(|node| node.recovery.as_ref()) {
                match row.forecast().map(Forecast::window) {
                    Some(Some(window)) => lines.node(&row.node, window.as_secs()),
                    Some(None) => lines.node(&row.node, "+Inf"),
                    None => {}
                }
            };
        gauge "understudy_recovery_away_seconds" "For so long the node has been away; 0 when it takes part, nothing when that is not known."
            => |nodes, lines| for row in nodes.iter().filter_map(|node| node.recovery.as_ref()) {
                if let Some(away_s) = if row.is_there { Some(0.0) } else { row.away_s } {
                    lines.node(&row.node, away_s as u64);
                }
            };
    }

    CAPACITY([NodeCapacity]) {
        gauge "understudy_node_apply_capacity_per_second" "Transactions a second that the node applied while it was busy all the time."
            => |nodes, lines| fractions(nodes, lines, |known| known.apply_per_s);
        gauge "understudy_node_apply_capacity_at_least_per_second" "Transactions a second that the node can apply at least, by what is known."
            => |nodes, lines| fractions(nodes, lines, |known| known.at_least_per_s);
        gauge "understudy_node_apply_peak_per_second" "The highest usual rate of a minute in the last 24 hours, in transactions a second."
            => |nodes, lines| fractions(nodes, lines, |known| known.peak_per_s);
        gauge "understudy_node_apply_times_peak" "At how many times that peak the node would fall behind."
            => |nodes, lines| fractions(nodes, lines, |known| known.times_peak);
    }
}

/// The nodes of which the last word is true now: of the others it is what they said before they fell silent, or let the monitor in no more.
fn answering(view: &ClusterView) -> impl Iterator<Item = &NodeView> {
    view.nodes.iter().filter(|node| {
        node.linked && !matches!(node.state, NodeState::Unknown | NodeState::Silent | NodeState::Dead)
    })
}

/// What a primary and its replicas say of themselves.
fn servers(view: &ClusterView) -> impl Iterator<Item = (&str, &ReplicationStatus)> {
    answering(view).filter_map(|node| Some((&*node.name, node.facts.as_ref()?.replication()?)))
}

fn errors(of: &Stats, lines: &mut Lines<'_>) {
    for error in &of.errors {
        lines.add(&[("code", &error.code.to_string()), ("name", &error.name)], error.count);
    }
}

/// A node of which one is not known has no line of it.
fn fractions(nodes: &[NodeCapacity], lines: &mut Lines<'_>, value: fn(&NodeCapacity) -> Option<f64>) {
    for known in nodes {
        if let Some(value) = value(known) {
            lines.node(&known.node, format_args!("{value:.4}"));
        }
    }
}

#[cfg(test)]
mod tests;
