//! The names that nodes use for themselves and each other, and those in the configuration: the brain knows only the latter.
//!
//! A Galera member announces an address of its own; a replica follows its source under any name that leads to it.

use std::collections::{HashMap, HashSet};

use topology::galera::{Component, GaleraStatus};
use topology::replication::ReplicationStatus;

use crate::reading::ServerReading;

/// The other names that are known.
#[derive(Default)]
pub(crate) struct Aliases {
    /// A node's other name -> its configured address.
    known: HashMap<String, String>,
    /// By its configured address: the server_id that each server reported last.
    server_ids: HashMap<String, u32>,
}

impl Aliases {
    /// The names that the node with that configured address may have.
    pub fn names_of(&self, address: &str) -> Vec<String> {
        let others = self.known.iter().filter(|(_, known)| *known == address).map(|(name, _)| name.clone());
        others.chain([address.to_owned()]).collect()
    }

    /// What an earlier process had learnt: the addresses by which the members of the writer's component were listed. `addresses`: the
    /// configured ones.
    pub fn restored(component: Option<&Component>, addresses: &[&str]) -> Self {
        let members = component.into_iter().flat_map(|component| &component.members);
        let named = members.filter(|member| !member.listed_as.is_empty());
        let known = named.map(|member| (member.listed_as.clone(), member.address.clone())).collect();
        let mut aliases = Self { known, ..Self::default() };
        aliases.keep_only(addresses);
        aliases
    }

    /// Those addresses are configured now: each names its own node, and what was configured before names none.
    pub fn keep_only(&mut self, addresses: &[&str]) {
        let is_configured = |address: &String| addresses.contains(&address.as_str());
        self.known.retain(|name, known| is_configured(known) && !is_configured(name));
        self.server_ids.retain(|address, _| is_configured(address));
    }

    /// The report of the member at `address`, with the members by their configured addresses; without members, where they cannot be told apart.
    pub fn member(&mut self, address: &str, mut status: GaleraStatus) -> GaleraStatus {
        if status.listed != status.cluster_size || !tells_apart(&status.members) {
            status.members.clear();
            status.listed_as.clear();
        } else if status.listed_as == *address {
            self.known.remove(address);
        } else if !status.listed_as.is_empty() {
            self.known.insert(status.listed_as.clone(), address.to_owned());
        }
        for member in &mut status.members {
            if let Some(address) = self.known.get(member) {
                member.clone_from(address);
            }
        }
        status
    }

    fn meet(&mut self, address: &str, server_id: u32) {
        match self.server_ids.get_mut(address) {
            Some(known) => *known = server_id,
            None => drop(self.server_ids.insert(address.to_owned(), server_id)),
        }
    }

    /// The report of the server at `address`, with its sources by their configured addresses. While a source is connected, its server_id
    /// identifies it; that is remembered.
    pub fn server(&mut self, address: &str, standing: ServerReading) -> ReplicationStatus {
        let ServerReading { mut status, sources } = standing;
        self.meet(address, status.server_id);
        for (name, id) in sources {
            let mut of_this_id = self.server_ids.iter().filter(|(_, known)| **known == id);
            if let (Some((address, _)), None) = (of_this_id.next(), of_this_id.next()) {
                self.known.insert(name, address.clone());
            }
        }
        for channel in &mut status.channels {
            if let Some(address) = self.known.get(&channel.source) {
                channel.source.clone_from(address);
            }
        }
        status
    }
}

/// The reports of servers at one time, with their sources by their configured addresses; `addresses`: the servers' own, in the same order.
pub fn as_configured(
    standings: Vec<Option<ServerReading>>,
    addresses: &[&str],
) -> Vec<Option<ReplicationStatus>> {
    let mut aliases = Aliases::default();
    for (standing, address) in standings.iter().zip(addresses) {
        if let Some(standing) = standing {
            aliases.meet(address, standing.status.server_id);
        }
    }
    let named = standings.into_iter().zip(addresses);
    named.map(|(standing, address)| Some(aliases.server(address, standing?))).collect()
}

/// Whether the members' names are addresses and can be told apart. A server that was not given its own address reports AUTO, several may
/// report the same, and a member that came back without a restart may be missing from the names of a view that it belongs to (seen on
/// MariaDB 10.11.19). In these cases only the size of the view counts.
pub fn tells_apart(members: &[String]) -> bool {
    let distinct: HashSet<&String> = members.iter().collect();
    distinct.len() == members.len() && members.iter().all(|member| member.contains(':'))
}

#[cfg(test)]
mod tests {
    use topology::galera;
    use topology::replication::Channel;

    use super::*;

    fn says(server_id: u32, source: &str, connected_to: Option<u32>) -> ServerReading {
        let channels = vec![Channel { source: source.into(), ..Channel::default() }];
        let status = ReplicationStatus { server_id, channels, ..ReplicationStatus::default() };
        ServerReading {
            status,
            sources: connected_to.map(|id| (source.to_owned(), id)).into_iter().collect(),
        }
    }

    #[test]
    fn a_source_is_known_by_its_server_id_and_remembered_when_it_is_gone() {
        let source = |aliases: &mut Aliases, address, standing| {
            aliases.server(address, standing).channels[0].source.clone()
        };
        let aliases = &mut Aliases::default();
        assert_eq!(source(aliases, "b:3306", says(12, "db.example:3306", None)), "db.example:3306");
        source(aliases, "a:3306", says(11, "elsewhere:3306", None));
        assert_eq!(source(aliases, "b:3306", says(12, "db.example:3306", Some(11))), "a:3306");
        assert_eq!(source(aliases, "b:3306", says(12, "db.example:3306", None)), "a:3306");
        // Two servers of one id cannot be told apart.
        source(aliases, "c:3306", says(12, "elsewhere:3306", None));
        assert_eq!(source(aliases, "a:3306", says(11, "other:3306", Some(12))), "other:3306");
        // One of them was replaced by the other.
        aliases.keep_only(&["a:3306", "c:3306"]);
        assert_eq!(source(aliases, "a:3306", says(11, "other:3306", Some(12))), "c:3306");
    }

    #[test]
    fn members_are_known_by_what_they_told_and_by_what_was_kept() {
        let said = |list: &[&str], listed_as: &str| GaleraStatus {
            members: list.iter().map(ToString::to_string).collect(),
            listed: list.len() as u32,
            cluster_size: list.len() as u32,
            listed_as: listed_as.into(),
            ..GaleraStatus::default()
        };
        let list = ["172.17.0.2:3306", "172.17.0.3:3306"];
        let mut aliases = Aliases::default();
        assert_eq!(aliases.member("db1:3306", said(&list, list[0])).members, ["db1:3306", list[1]]);
        assert_eq!(aliases.member("db2:3306", said(&list, list[1])).members, ["db1:3306", "db2:3306"]);
        // The next process has them from the component.
        let process = galera::Process {
            address: "db1:3306".into(),
            listed_as: list[0].into(),
            ..galera::Process::default()
        };
        let component = Component { members: vec![process], ..Component::default() };
        let mut aliases = Aliases::restored(Some(&component), &["db1:3306", "db2:3306"]);
        assert_eq!(aliases.member("db2:3306", said(&list, list[1])).members, ["db1:3306", "db2:3306"]);
        // The configuration has db1 by the listed address since.
        let changed = [list[0], "db2:3306"];
        let mut restarted = Aliases::restored(Some(&component), &changed);
        aliases.keep_only(&changed);
        for aliases in [&mut restarted, &mut aliases] {
            assert_eq!(aliases.member("db2:3306", said(&list, list[1])).members, [list[0], "db2:3306"]);
        }
        let mut late = Aliases { known: [(list[0].into(), "db1:3306".into())].into(), ..Aliases::default() };
        assert_eq!(late.member(list[0], said(&list, list[0])).members, list);
        let auto = aliases.member("db2:3306", said(&["AUTO", "AUTO"], "AUTO"));
        assert_eq!((auto.members, auto.listed, auto.listed_as), (vec![], 2, String::new()));
    }

    #[test]
    fn whoever_spoke_later_is_known_as_well() {
        let standings =
            vec![Some(says(2, "db.example:3306", Some(1))), None, Some(says(1, "other:3306", None))];
        let statuses = as_configured(standings, &["a:1", "b:1", "c:1"]);
        let source = |at: usize| statuses[at].as_ref().map(|status| status.channels[0].source.clone());
        assert_eq!([source(0), source(1), source(2)], [Some("c:1".into()), None, Some("other:3306".into())]);
    }
}
