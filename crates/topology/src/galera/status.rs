//! The status of a member, read from its answers. What the server does not report, or what cannot be read, stays unset.
//!
//! Pure: the shell passes a function that finds a value by its name, so that the order of the rows does not matter.

/// One answer to the status query. A value that was not reported stays `None`, which is not the same as off.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct GaleraStatus {
    /// wsrep_local_state: 1 Joining, 2 Donor/Desynced, 3 Joined, 4 Synced; 0 otherwise.
    pub local_state: Option<u8>,
    /// wsrep_local_state_comment.
    pub local_state_comment: String,
    /// wsrep_cluster_status: "Primary", "non-Primary", "Disconnected". No other kind of server's status has it.
    #[schema(required)]
    pub cluster_status: String,
    /// wsrep_cluster_size, members in this node's view.
    pub cluster_size: u32,
    /// wsrep_cluster_conf_id: grows with each membership change.
    pub conf_id: u64,
    /// wsrep_cluster_state_uuid.
    pub cluster_uuid: String,
    /// wsrep_gcomm_uuid: the node's name in the group, new at each start; what `evs.evict` takes.
    pub gcomm_uuid: String,
    /// wsrep_incoming_addresses: `host:port` of each member of the view. Empty where the list does not tell the members apart.
    pub members: Vec<String>,
    /// How many members that list has, also those without an address: an arbitrator (garbd) has none.
    pub listed: u32,
    /// The node's own entry in that list, by `local_index`; empty if it has none.
    pub listed_as: String,
    /// wsrep_local_index: its place in the view; no two members have the same.
    pub local_index: Option<u32>,
    /// wsrep_ready.
    pub ready: bool,
    /// wsrep_connected.
    pub connected: bool,
    /// wsrep_desync.
    pub desync: bool,
    /// wsrep_reject_queries is not NONE.
    pub reject_queries: bool,
    /// wsrep_sst_donor_rejects_queries.
    pub sst_donor_rejects: bool,
    /// read_only (any value but OFF/0).
    pub read_only: bool,
    /// pxc_maint_mode where it exists: DISABLED, SHUTDOWN, MAINTENANCE.
    pub pxc_maint_mode: Option<String>,
    /// wsrep_local_recv_queue, writesets received and not yet applied.
    pub recv_queue: u64,
    /// wsrep_last_committed.
    pub last_committed: u64,
    /// wsrep_flow_control_paused_ns.
    pub flow_control_paused_ns: u64,
    /// wsrep_flow_control_active / _requested where they exist.
    pub flow_control_active: bool,
    /// Threads_connected.
    pub threads_connected: u32,
    /// innodb_flush_log_at_trx_commit.
    pub flush_at_commit: Option<u8>,
}

impl GaleraStatus {
    /// Whether it reports itself as a ready member of the Primary component.
    pub fn is_whole(&self) -> bool {
        self.ready && self.is_primary()
    }

    /// It reports the same view as the other.
    pub fn is_in_view_of(&self, other: &Self) -> bool {
        (self.conf_id, &self.cluster_uuid) == (other.conf_id, &other.cluster_uuid)
    }

    /// It reports that view as another member of it. Where the view's numbers are equal by chance, this may be wrong.
    pub fn is_beside(&self, other: &Self) -> bool {
        let is_elsewhere_in_it = self.local_index.is_none() || self.local_index != other.local_index;
        self.is_primary()
            && self.is_in_view_of(other)
            && self.cluster_size == other.cluster_size
            && is_elsewhere_in_it
            && !self.gcomm_uuid.is_empty()
            && self.gcomm_uuid != other.gcomm_uuid
    }

    /// It lists nobody, not itself either: a server that is ending does, and says that it is Primary for a moment.
    pub fn is_listless(&self) -> bool {
        self.members.is_empty() && self.listed == 0
    }

    /// The group voted that its data differ from that of the others: it has left, and its position is void, so that it comes back by a full copy.
    pub fn is_inconsistent(&self) -> bool {
        self.local_state_comment.eq_ignore_ascii_case("Inconsistent")
    }

    /// Its component has the majority. While a view changes, a server says Primary and still has no number of a view for a moment (2^64 - 1;
    /// seen on MariaDB 10.11.19): what it reports beside that is of the view before.
    pub fn is_primary(&self) -> bool {
        self.cluster_status.eq_ignore_ascii_case("Primary") && self.conf_id != u64::MAX
    }
}

/// Reads the answers to [`super::sql::STATUS`] and [`super::sql::VARIABLES`]; each argument gives the value of a name.
pub fn read<'a>(
    status: impl Fn(&str) -> Option<&'a str>,
    variables: impl Fn(&str) -> Option<&'a str>,
) -> GaleraStatus {
    let text = |name: &str| status(name).unwrap_or("");
    let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
    let on = |value: Option<&str>| value.is_some_and(is_on);
    let list = Some(text("wsrep_incoming_addresses").trim()).filter(|list| !list.is_empty());
    let entries: Vec<&str> = list.into_iter().flat_map(|list| list.split(',')).map(str::trim).collect();
    let local_index = text("wsrep_local_index").parse::<u32>().ok();
    let listed_as = local_index.and_then(|index| entries.get(index as usize)).copied().unwrap_or_default();
    let is_named = |entry: &&&str| !entry.is_empty();
    let members: Vec<String> = entries.iter().filter(is_named).map(ToString::to_string).collect();
    let rejects = variables("wsrep_reject_queries").is_some_and(|value| !value.eq_ignore_ascii_case("NONE"));
    GaleraStatus {
        local_state: text("wsrep_local_state").parse().ok(),
        local_state_comment: text("wsrep_local_state_comment").into(),
        cluster_status: text("wsrep_cluster_status").into(),
        cluster_size: number("wsrep_cluster_size") as u32,
        conf_id: number("wsrep_cluster_conf_id"),
        cluster_uuid: text("wsrep_cluster_state_uuid").into(),
        gcomm_uuid: text("wsrep_gcomm_uuid").into(),
        ready: on(status("wsrep_ready")),
        connected: on(status("wsrep_connected")),
        desync: on(variables("wsrep_desync")),
        reject_queries: rejects,
        sst_donor_rejects: on(variables("wsrep_sst_donor_rejects_queries")),
        read_only: on(variables("read_only")) || on(variables("super_read_only")),
        pxc_maint_mode: variables("pxc_maint_mode").map(Into::into),
        recv_queue: number("wsrep_local_recv_queue"),
        last_committed: number("wsrep_last_committed"),
        flow_control_paused_ns: number("wsrep_flow_control_paused_ns"),
        flow_control_active: on(status("wsrep_flow_control_active"))
            || on(status("wsrep_flow_control_requested")),
        threads_connected: number("Threads_connected") as u32,
        flush_at_commit: variables("innodb_flush_log_at_trx_commit").and_then(|value| value.parse().ok()),
        members,
        listed: u32::try_from(entries.len()).unwrap_or(u32::MAX),
        listed_as: listed_as.to_owned(),
        local_index,
    }
}

/// MariaDB 12 has more values of read_only than ON; whatever does not mean "off" is on.
fn is_on(value: &str) -> bool {
    !["OFF", "0", "FALSE", "NO", ""].iter().any(|off| value.eq_ignore_ascii_case(off))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among<'a>(pairs: &'a [(&str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        move |name| pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    #[test]
    fn what_mariadb_says_is_read() {
        let status = [
            ("wsrep_local_state", "4"),
            ("wsrep_incoming_addresses", "10.0.0.2:3306,10.0.0.1:3306"),
            ("wsrep_local_index", "1"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_cluster_conf_id", "18446744073709551615"),
            ("wsrep_ready", "ON"),
            ("wsrep_flow_control_active", "false"),
        ];
        let variables = [("wsrep_reject_queries", "NONE"), ("read_only", "NO_LOCK")];
        let status = read(among(&status), among(&variables));
        assert_eq!((status.listed_as.as_str(), status.local_index), ("10.0.0.1:3306", Some(1)));
        assert_eq!(status.conf_id, u64::MAX);
        assert!(status.ready && status.read_only);
        assert!(!status.reject_queries && !status.flow_control_active && !status.connected);
    }

    #[test]
    fn an_arbitrator_has_no_address_and_a_place_among_the_members() {
        let status =
            [("wsrep_incoming_addresses", ",10.0.0.1:3306,10.0.0.2:3306"), ("wsrep_local_index", "1")];
        let status = read(among(&status), |_| None);
        assert_eq!(status.listed_as, "10.0.0.1:3306");
        assert_eq!(status.members, ["10.0.0.1:3306", "10.0.0.2:3306"]);
        assert_eq!(status.listed, 3);
    }

    #[test]
    fn nothing_said_is_nothing_claimed() {
        let status = read(|_| None, |_| None);
        assert_eq!(status, GaleraStatus::default());
        assert!(status.is_listless());
    }
}
