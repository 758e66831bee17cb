//! From the rows of the status query to a [`GaleraStatus`]. A value that is not said, or not understood, stays unsaid.

use link::Rows;
use topology::fact::GaleraStatus;

/// A status, and the name under which the node itself appears among the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub status: GaleraStatus,
    /// This node's own entry in `status.members`, by wsrep_local_index.
    pub incoming: Option<String>,
}

pub(crate) fn read(status: &Rows, variables: &Rows) -> Reading {
    let text = |name: &str| status.value_of(name).unwrap_or("");
    let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
    let on = |value: Option<&str>| value.is_some_and(is_on);
    let members: Vec<String> = text("wsrep_incoming_addresses")
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(Into::into)
        .collect();
    let incoming =
        text("wsrep_local_index").parse::<usize>().ok().and_then(|index| members.get(index).cloned());
    let rejects =
        variables.value_of("wsrep_reject_queries").is_some_and(|value| !value.eq_ignore_ascii_case("NONE"));
    let status = GaleraStatus {
        local_state: text("wsrep_local_state").parse().ok(),
        local_state_comment: text("wsrep_local_state_comment").into(),
        cluster_status: text("wsrep_cluster_status").into(),
        cluster_size: number("wsrep_cluster_size") as u32,
        conf_id: number("wsrep_cluster_conf_id"),
        cluster_uuid: text("wsrep_cluster_state_uuid").into(),
        gcomm_uuid: text("wsrep_gcomm_uuid").into(),
        ready: on(status.value_of("wsrep_ready")),
        connected: on(status.value_of("wsrep_connected")),
        desync: on(variables.value_of("wsrep_desync")),
        reject_queries: rejects,
        sst_donor_rejects: on(variables.value_of("wsrep_sst_donor_rejects_queries")),
        read_only: on(variables.value_of("read_only")) || on(variables.value_of("super_read_only")),
        pxc_maint_mode: variables.value_of("pxc_maint_mode").map(Into::into),
        recv_queue: number("wsrep_local_recv_queue"),
        last_committed: number("wsrep_last_committed"),
        flow_control_paused_ns: number("wsrep_flow_control_paused_ns"),
        flow_control_active: on(status.value_of("wsrep_flow_control_active"))
            || on(status.value_of("wsrep_flow_control_requested")),
        threads_connected: number("Threads_connected") as u32,
        members,
    };
    Reading { status, incoming }
}

/// MariaDB 12 has more values for read_only than ON; whatever is not a way to say "off" is on.
fn is_on(value: &str) -> bool {
    !["OFF", "0", "FALSE", "NO", ""].iter().any(|off| value.eq_ignore_ascii_case(off))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(pairs: &[(&str, &str)]) -> Rows {
        let cell = |text: &str| Some(text.as_bytes().to_vec());
        Rows {
            rows: pairs.iter().map(|(name, value)| vec![cell(name), cell(value)]).collect(),
            ..Rows::default()
        }
    }

    #[test]
    fn what_mariadb_says_is_read() {
        let status = rows(&[
            ("wsrep_local_state", "4"),
            ("wsrep_incoming_addresses", "10.0.0.2:3306,10.0.0.1:3306"),
            ("wsrep_local_index", "1"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_cluster_conf_id", "18446744073709551615"),
            ("wsrep_ready", "ON"),
            ("wsrep_flow_control_active", "false"),
        ]);
        let variables = rows(&[("wsrep_reject_queries", "NONE"), ("read_only", "NO_LOCK")]);
        let reading = read(&status, &variables);
        assert_eq!(reading.incoming.as_deref(), Some("10.0.0.1:3306"));
        assert_eq!(reading.status.conf_id, u64::MAX);
        assert!(reading.status.ready && reading.status.read_only);
        assert!(
            !reading.status.reject_queries
                && !reading.status.flow_control_active
                && !reading.status.connected
        );
    }

    #[test]
    fn nothing_said_is_nothing_claimed() {
        let reading = read(&rows(&[]), &rows(&[]));
        assert_eq!(reading.status, GaleraStatus::default());
        assert_eq!(reading.incoming, None);
    }
}
