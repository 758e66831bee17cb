//! The checks for a Galera cluster, in addition to those for any cluster.

use super::sight::{Look, Rule, Sight, look};
use super::wish::Row;
use crate::rules::Severity::{Note, Slow};

/// Writesets that are applied in a moment.
const QUEUE_SHORT: u64 = 100;

pub(super) const RULES: &[Rule] = &[
    Rule { check: "queue", look: queue },
    Rule { check: "flow_control", look: flow_control },
    Rule { check: "isolation", look: isolation },
    Rule { check: "writesets", look: writesets },
    Rule { check: "osu_method", look: osu_method },
];

fn queue(sight: &Sight) -> Option<Look> {
    let queue = sight.to.galera()?.recv_queue;
    let found = (queue > QUEUE_SHORT).then(|| {
        let text = format!("has {queue} writesets still to apply, which the switchover waits for");
        sight.to.found(Slow, text, "wait until wsrep_local_recv_queue has gone down")
    });
    look(found, sight.to, format!("has {queue} writesets still to apply"))
}

fn flow_control(sight: &Sight) -> Option<Look> {
    let peers = std::iter::once(sight.from).chain([sight.to]).chain(sight.others.iter().copied());
    let found: Vec<Row> = peers
        .filter(|peer| peer.galera().is_some_and(|status| status.flow_control_active))
        .map(|peer| {
            let text = "takes part in flow control: the whole group's writes are slowed down";
            peer.found(Slow, text, "find the node that cannot keep up: wsrep_local_recv_queue on each")
        })
        .collect();
    sight.to.galera()?;
    look(found, sight.to, "is not under flow control, nor is any other")
}

/// Seen on MariaDB 10.11: a replicated table change hangs for minutes while the node reports Synced.
fn isolation(sight: &Sight) -> Option<Look> {
    let sessions = &sight.to.server()?.sessions;
    let stuck = sessions.iter().find(|session| session.state.starts_with("Waiting to execute in isolation"));
    let found = stuck.map(|session| {
        let text = format!(
            "waits to execute a change of a table in isolation, for {} s (thread {}): nothing that comes after it is applied",
            session.state_s, session.id
        );
        sight.to.found(Slow, text, "wait until it has ended, or choose another node")
    });
    look(found, sight.to, "has no change of a table that waits for isolation")
}

fn writesets(sight: &Sight) -> Option<Look> {
    let (from, to) = (sight.from.server()?, sight.to.server()?);
    // 0 is no limit.
    let limit = |value: Option<u64>| value.map(|value| if value == 0 { u64::MAX } else { value });
    let mut found = Vec::new();
    for name in ["wsrep_max_ws_size", "wsrep_max_ws_rows"] {
        let (before, after) = (from.number(name), to.number(name));
        if limit(after)? < limit(before)? {
            let (before, after) = (before.unwrap_or(0), after.unwrap_or(0));
            let text =
                format!("has {name} = {after} where the writer has {before}: larger transactions fail there");
            found.push(sight.to.found(
                Note,
                text,
                format!("SET GLOBAL {name} = {before} there, and in my.cnf"),
            ));
        }
    }
    look(found, sight.to, "takes writesets as large as the writer's")
}

fn osu_method(sight: &Sight) -> Option<Look> {
    let before = sight.from.server()?.value("wsrep_OSU_method")?;
    let after = sight.to.server()?.value("wsrep_OSU_method")?;
    let found = (before != after).then(|| {
        let text = format!(
            "has wsrep_OSU_method = {after} where the writer has {before}: tables are changed otherwise"
        );
        sight.to.found(Note, text, format!("SET GLOBAL wsrep_OSU_method = '{before}' there"))
    });
    look(found, sight.to, format!("changes tables as the writer does: {after}"))
}
