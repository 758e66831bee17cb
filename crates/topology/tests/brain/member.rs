//! What a modelled Galera node reports.

use std::collections::BTreeSet;

use topology::galera::GaleraStatus;

/// A node as it is in a modelled group.
pub struct Member<'a> {
    pub is_primary: bool,
    pub conf_id: u64,
    pub cluster_uuid: &'a str,
    pub gcomm_uuid: String,
    /// The numbers of the members of its component.
    pub component: &'a BTreeSet<usize>,
    pub seqno: u64,
    /// Its place in the list of nodes.
    pub number: usize,
    /// wsrep_incoming_addresses does not name the members.
    pub is_auto: bool,
}

impl Member<'_> {
    pub fn status(self) -> GaleraStatus {
        let Self { is_primary, is_auto, .. } = self;
        let place = self.component.iter().position(|member| *member == self.number);
        let named = self.component.iter().filter(|_| !is_auto);
        GaleraStatus {
            local_state: Some(if is_primary { 4 } else { 0 }),
            cluster_status: if is_primary { "Primary" } else { "non-Primary" }.into(),
            cluster_size: self.component.len() as u32,
            conf_id: if is_primary { self.conf_id } else { u64::MAX },
            cluster_uuid: self.cluster_uuid.into(),
            gcomm_uuid: self.gcomm_uuid,
            members: named.map(|member| address(*member)).collect(),
            listed: self.component.len() as u32,
            local_index: place.map(|place| place as u32),
            ready: is_primary,
            connected: true,
            last_committed: self.seqno,
            flush_at_commit: Some(1),
            ..GaleraStatus::default()
        }
    }
}

pub fn address(number: usize) -> String {
    format!("db{}:3306", number + 1)
}
