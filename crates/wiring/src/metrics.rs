//! The figures in Prometheus' text format. Names end in their unit, counters in `_total`.

pub mod capacity;
mod warm;

use std::fmt::Write;

use manager::Samples;
use measure::histogram::Snapshot;
use proxy::{SplitStats, Stats};
use topology::health::Question;
use topology::heartbeat::Stall;
use topology::routes::LaneState;
use topology::status::Status;
use topology::view::NodeState;
use topology::view::{ClusterView, NodeView, TrafficFlow};
use warmup::warmer::warming_table::Seen;

use super::health::RULES;
use doctor::windows::Outlook;

/// All families, for one cluster.
pub fn text(
    id: u32,
    view: &ClusterView,
    samples: &Samples,
    proxy: &Stats,
    reads: Option<&Stats>,
    warm: Option<&[Seen]>,
    windows: &[Outlook],
) -> String {
    let mut page =
        Page { text: String::new(), cluster: format!("cluster=\"{}\",id=\"{id}\"", escape(&view.cluster)) };

    page.family("understudy_build_info", "gauge", "1; its label tells the version.");
    page.value("understudy_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.family("understudy_term", "gauge", "The number of the writer decision in force.");
    page.value("understudy_term", &[], view.term.0);
    page.family("understudy_gate_open", "gauge", "1 when statements flow, 0 while they are held.");
    page.value("understudy_gate_open", &[], u64::from(view.gate == TrafficFlow::Open));
    page.family("understudy_uptime_seconds", "gauge", "Since the program started.");
    page.value("understudy_uptime_seconds", &[], view.now_ms / 1000);
    nodes(&mut page, view);
    decisions(&mut page, view);
    probes(&mut page, view, samples);
    lanes(&mut page, proxy);
    hold(&mut page, proxy);
    clients(&mut page, proxy);
    ages(&mut page, view);
    if let Some(split) = &proxy.split {
        split_off(&mut page, split);
    }
    if let Some(reads) = reads {
        read_port(&mut page, view, reads);
    }
    if let Some(seen) = warm {
        warm::families(&mut page, seen);
    }
    recovery(&mut page, windows);
    page.text
}

fn nodes(page: &mut Page, view: &ClusterView) {
    page.family(
        "understudy_node_state",
        "gauge",
        "1 for the state that the node is in, 0 for each other one.",
    );
    for node in &view.nodes {
        for state in NodeState::ALL {
            let labels = [("node", node.name.as_str()), ("state", state.word())];
            page.value("understudy_node_state", &labels, u64::from(node.state == state));
        }
    }
    page.family("understudy_node_writer", "gauge", "1 for the writer.");
    for node in &view.nodes {
        page.value("understudy_node_writer", &[("node", &node.name)], u64::from(node.writer));
    }
    page.family("understudy_node_open", "gauge", "1 when the node takes new transactions.");
    for node in &view.nodes {
        page.value("understudy_node_open", &[("node", &node.name)], u64::from(node.lane == LaneState::Open));
    }
    page.family("understudy_node_good", "gauge", "1 when the health endpoint says that it may take traffic.");
    for node in &view.nodes {
        let is_good = view.ask(&node.name, Question::Member(RULES)).is_some_and(|found| found.is_ok());
        page.value("understudy_node_good", &[("node", &node.name)], u64::from(is_good));
    }
    page.family("understudy_node_probe_misses", "gauge", "Status queries missed in a row.");
    for node in &view.nodes {
        page.value("understudy_node_probe_misses", &[("node", &node.name)], u64::from(node.misses));
    }
    page.family(
        "understudy_node_advice",
        "gauge",
        "How much `status` advises to put right there, such as missing privileges.",
    );
    for node in &view.nodes {
        page.value("understudy_node_advice", &[("node", &node.name)], node.advice.len() as u64);
    }
    page.family(
        "understudy_node_stuck_seconds",
        "gauge",
        "How long the node has answered and not committed its heartbeat, by why; 0 when it commits, or gets none; nothing while it does not answer.",
    );
    for node in answering(view) {
        for why in Stall::ALL {
            let seconds = node.stuck.filter(|stuck| stuck.why == why).map_or(0, |stuck| stuck.ms / 1000);
            let labels = [("node", node.name.as_str()), ("why", why.word())];
            page.value("understudy_node_stuck_seconds", &labels, seconds);
        }
    }
    page.family(
        "understudy_node_recv_queue",
        "gauge",
        "Writesets received and not yet applied (wsrep_local_recv_queue); nothing while the node does not answer.",
    );
    for node in answering(view) {
        if let Some(facts) = node.facts.as_ref().and_then(Status::galera) {
            page.value("understudy_node_recv_queue", &[("node", &node.name)], facts.recv_queue);
        }
    }
    servers(page, view);
}

/// The nodes of which the last word is true now: of the others it is what they said before they fell silent, or let the monitor in no more.
fn answering(view: &ClusterView) -> impl Iterator<Item = &NodeView> {
    view.nodes.iter().filter(|node| {
        node.linked && !matches!(node.state, NodeState::Unknown | NodeState::Silent | NodeState::Dead)
    })
}

/// What the manager decided.
fn decisions(page: &mut Page, view: &ClusterView) {
    let counts = &view.counts;
    page.family(
        "understudy_failovers_begun_total",
        "counter",
        "How often the writer was lost and another was chosen to follow it.",
    );
    page.value("understudy_failovers_begun_total", &[], counts.failovers_begun);
    page.family("understudy_failovers_done_total", "counter", "How often another one wrote after that.");
    page.value("understudy_failovers_done_total", &[], counts.failovers_done);
    page.family("understudy_switchovers_total", "counter", "Planned moves of the writer by how they ended.");
    for (result, count) in [
        ("done", counts.switchovers_done),
        ("undone", counts.switchovers_undone),
        ("became_failover", counts.switchovers_became_failovers),
    ] {
        page.value("understudy_switchovers_total", &[("result", result)], count);
    }
    page.family(
        "understudy_group_evictions_total",
        "counter",
        "Members that were to be evicted from the Galera group (evs.evict) by what came of it.",
    );
    for (result, count) in [
        ("done", counts.evictions_done),
        ("failed", counts.evictions_failed),
        ("spared", counts.evictions_spared),
    ] {
        page.value("understudy_group_evictions_total", &[("result", result)], count);
    }
    page.family(
        "understudy_bootstraps_total",
        "counter",
        "How often the cluster was given a Primary component again (bootstrap = \"proven\").",
    );
    page.value("understudy_bootstraps_total", &[], view.bootstraps);
}

fn probes(page: &mut Page, view: &ClusterView, samples: &Samples) {
    page.family(
        "understudy_probe_seconds",
        "histogram",
        "How long the node took for the manager's questions; those without an answer are not in it.",
    );
    for node in &view.nodes {
        if let Some(times) = samples.probe_times(node.id) {
            page.histogram("understudy_probe_seconds", &[("node", &node.name)], &times);
        }
    }
}

/// For how long each node may be away.
fn recovery(page: &mut Page, windows: &[Outlook]) {
    page.family(
        "understudy_recovery_window_seconds",
        "gauge",
        "For so long from now the node may be away before it needs a full copy, at the present rate of writes; 0 when it needs one \
         already, +Inf when nothing is written or deleted, nothing when it is not known.",
    );
    for row in windows {
        let Some(forecast) = row.forecast() else { continue };
        let labels = [("node", row.node.as_str())];
        match forecast.window() {
            Some(window) => page.value("understudy_recovery_window_seconds", &labels, window.as_secs()),
            None => page.line("understudy_recovery_window_seconds", &labels, "+Inf"),
        }
    }
    page.family(
        "understudy_recovery_away_seconds",
        "gauge",
        "For so long the node has been away; 0 when it takes part, nothing when that is not known.",
    );
    for row in windows {
        let away = if row.is_there { Some(0) } else { row.away_s.map(|s| s as u64) };
        if let Some(away) = away {
            page.value("understudy_recovery_away_seconds", &[("node", &row.node)], away);
        }
    }
}

/// What a primary and its replicas say of themselves.
fn servers(page: &mut Page, view: &ClusterView) {
    let said = || answering(view).filter_map(|node| Some((&node.name, node.facts.as_ref()?.replication()?)));
    page.family(
        "understudy_node_behind_seconds",
        "gauge",
        "How far a replica says that it is behind (Seconds_Behind_Master); nothing while it does not know.",
    );
    for (name, facts) in said() {
        if let Some(seconds) = facts.source().and_then(|channel| channel.lag_s) {
            page.value("understudy_node_behind_seconds", &[("node", name)], seconds);
        }
    }
    page.family(
        "understudy_node_acknowledging_replicas",
        "gauge",
        "Replicas that acknowledge to a primary that waits for them (Rpl_semi_sync_master_clients).",
    );
    for (name, facts) in said().filter(|(_, facts)| facts.semi_sync.primary_active) {
        let replicas = u64::from(facts.semi_sync.replicas);
        page.value("understudy_node_acknowledging_replicas", &[("node", name)], replicas);
    }
}

/// How old is what replicas have.
fn ages(page: &mut Page, view: &ClusterView) {
    page.family(
        "understudy_node_age_seconds",
        "gauge",
        "So long ago the replica had all that the primary had then; nothing while that is not known.",
    );
    for node in answering(view) {
        if let Some(age_ms) = node.reads.age_ms {
            page.seconds("understudy_node_age_seconds", &[("node", &node.name)], age_ms);
        }
    }
}

/// Which statements went to replicas.
fn split_off(page: &mut Page, split: &SplitStats) {
    page.family(
        "understudy_split_statements_total",
        "counter",
        "With listen.split, statements by where they were answered: on a replica; on the primary for what they are, or since no \
         replica took them, had come so far in time, or answered.",
    );
    for (place, count) in [
        ("replica", split.replicas),
        ("primary", split.primary),
        ("primary_nobody", split.primary_nobody),
        ("primary_behind", split.primary_behind),
        ("primary_failed", split.primary_failed),
    ] {
        page.value("understudy_split_statements_total", &[("place", place)], count);
    }
    page.family(
        "understudy_split_sessions",
        "gauge",
        "Sessions with a second link to the node, for their reads.",
    );
    for (node, sessions) in &split.lanes {
        page.value("understudy_split_sessions", &[("node", node)], u64::from(*sessions));
    }
}

/// The port for reads.
fn read_port(page: &mut Page, view: &ClusterView, reads: &Stats) {
    page.family("understudy_read_open", "gauge", "1 when the node takes reads of the port for reads.");
    for node in &view.nodes {
        let is_open = node.reads.lane == Some(LaneState::Open);
        page.value("understudy_read_open", &[("node", &node.name)], u64::from(is_open));
    }
    page.family(
        "understudy_read_sessions",
        "gauge",
        "Sessions of the port for reads with a link to the node.",
    );
    for lane in &reads.lanes {
        page.value("understudy_read_sessions", &[("node", &lane.node)], u64::from(lane.sessions));
    }
    page.family("understudy_read_running", "gauge", "What runs on the node for the port for reads.");
    for lane in &reads.lanes {
        page.value("understudy_read_running", &[("node", &lane.node)], lane.running as u64);
    }
    for (name, kind, help, value) in [
        ("understudy_read_clients", "gauge", "Clients of the port for reads.", reads.clients),
        (
            "understudy_read_sessions_moved_total",
            "counter",
            "Sessions of the port for reads that went on on another node.",
            reads.sessions_moved,
        ),
        ("understudy_read_hold_waiting", "gauge", "Reads that wait for a node.", reads.hold.waiting),
        ("understudy_read_hold_expired_total", "counter", "Reads that waited in vain.", reads.hold.expired),
    ] {
        page.family(name, kind, help);
        page.value(name, &[], value);
    }
    page.family(
        "understudy_read_errors_total",
        "counter",
        "Errors that the port for reads itself gave to clients.",
    );
    for error in &reads.errors {
        let labels = [("code", &*error.code.to_string()), ("name", error.name)];
        page.value("understudy_read_errors_total", &labels, error.count);
    }
}

fn lanes(page: &mut Page, proxy: &Stats) {
    page.family("understudy_node_sessions", "gauge", "Client sessions with a link to the node.");
    for lane in &proxy.lanes {
        page.value("understudy_node_sessions", &[("node", &lane.node)], u64::from(lane.sessions));
    }
    page.family(
        "understudy_node_running",
        "gauge",
        "Transactions, or statements outside one, running on the node.",
    );
    for lane in &proxy.lanes {
        page.value("understudy_node_running", &[("node", &lane.node)], lane.running as u64);
    }
    page.family(
        "understudy_node_transactions_total",
        "counter",
        "Transactions, and statements outside one, begun on the node.",
    );
    for lane in &proxy.lanes {
        page.value("understudy_node_transactions_total", &[("node", &lane.node)], lane.begun_total);
    }
}

fn hold(page: &mut Page, proxy: &Stats) {
    let hold = &proxy.hold;
    page.family("understudy_hold_held_total", "counter", "Statements that had to wait for a node.");
    page.value("understudy_hold_held_total", &[], hold.held);
    page.family("understudy_hold_ended_total", "counter", "Held statements by how their wait ended.");
    for (outcome, count) in
        [("resumed", hold.resumed), ("no_room", hold.evicted), ("expired", hold.expired), ("gone", hold.gone)]
    {
        page.value("understudy_hold_ended_total", &[("outcome", outcome)], count);
    }
    page.family(
        "understudy_hold_seconds",
        "histogram",
        "How long statements were held; those whose clients left before are not in it.",
    );
    page.histogram("understudy_hold_seconds", &[], &hold.held_for);
    page.family("understudy_hold_waiting", "gauge", "Statements waiting now.");
    page.value("understudy_hold_waiting", &[], hold.waiting);
    page.family("understudy_hold_waiting_bytes", "gauge", "Bytes of statements waiting now.");
    page.value("understudy_hold_waiting_bytes", &[], hold.waiting_bytes);
}

fn clients(page: &mut Page, proxy: &Stats) {
    let single = [
        ("understudy_clients", "gauge", "Clients connected now.", proxy.clients),
        ("understudy_clients_total", "counter", "Clients ever accepted.", proxy.clients_total),
        ("understudy_links_total", "counter", "Links made to nodes.", proxy.links_total),
        (
            "understudy_sessions_moved_total",
            "counter",
            "Sessions rebuilt on another node.",
            proxy.sessions_moved,
        ),
        ("understudy_sessions_pinned", "gauge", "Sessions that cannot move now.", proxy.sessions_pinned),
        (
            "understudy_statements_again_total",
            "counter",
            "Statements sent again after a loss.",
            proxy.statements_again,
        ),
    ];
    for (name, kind, help, value) in single {
        page.family(name, kind, help);
        page.value(name, &[], value);
    }
    page.family("understudy_errors_total", "counter", "Errors that the proxy itself gave to clients.");
    for error in &proxy.errors {
        page.value(
            "understudy_errors_total",
            &[("code", &error.code.to_string()), ("name", error.name)],
            error.count,
        );
    }
}

struct Page {
    text: String,
    cluster: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.line(name, labels, &value.to_string());
    }

    /// Milliseconds, told in seconds.
    fn seconds(&mut self, name: &str, labels: &[(&str, &str)], ms: u64) {
        self.line(name, labels, &format!("{}", ms as f64 / 1e3));
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Snapshot) {
        let bucket = format!("{name}_bucket");
        let bounds = histogram.at_most.iter().map(|(bound, count)| (bound.as_secs_f64().to_string(), *count));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), histogram.count)]) {
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.value(&bucket, &labels, count);
        }
        self.line(&format!("{name}_sum"), labels, &format!("{:.6}", histogram.sum.as_secs_f64()));
        self.value(&format!("{name}_count"), labels, histogram.count);
    }

    /// With a number of four places.
    fn fraction(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.line(name, labels, &format!("{value:.4}"));
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        let _ = write!(self.text, "{name}{{{}", self.cluster);
        for (label, text) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escape(text));
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
