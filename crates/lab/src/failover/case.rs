//! The cells of the seed's table: the fault, the role of the node, and what the seed measured.

use std::fmt;

use serde::Serialize;

use crate::stage::ClusterKind;

/// The fault injected into a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// Traffic is moved off the node first, then it is stopped.
    Graceful,
    /// Its server is stopped cleanly (SIGTERM) while traffic runs, without notice to the proxy.
    SemiGraceful,
    /// Its process is killed (SIGKILL): the host still responds, with resets.
    NonGraceful,
    /// Its process is stopped without ending (SIGSTOP): connections stay open but silent.
    Freeze,
    /// Its host leaves the network: packets are dropped, nothing responds.
    Vanish,
}

impl Case {
    /// The seed's three rows, then ours.
    pub const ALL: [Self; 5] =
        [Self::Graceful, Self::SemiGraceful, Self::NonGraceful, Self::Freeze, Self::Vanish];

    /// The title of the row.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Graceful => "Graceful",
            Self::SemiGraceful => "Semi-graceful",
            Self::NonGraceful => "Non-graceful",
            Self::Freeze => "Frozen",
            Self::Vanish => "Vanished",
        }
    }

    /// A short description of the fault.
    pub const fn means(self) -> &'static str {
        match self {
            Self::Graceful => "traffic moved first, then the server stopped",
            Self::SemiGraceful => "SIGTERM under traffic",
            Self::NonGraceful => "SIGKILL",
            Self::Freeze => "SIGSTOP",
            Self::Vanish => "its network link down",
        }
    }
}

/// The role of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One node takes the traffic, and it is the node with the fault.
    Active,
    /// One node takes the traffic, and it is another one.
    Passive,
    /// All nodes take traffic, the node with the fault too.
    All,
}

impl Scope {
    /// The seed's columns.
    pub const ALL: [Self; 3] = [Self::Active, Self::Passive, Self::All];

    /// The title of the column, in the seed's words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Active => "1 node (active)",
            Self::Passive => "1 node (passive)",
            Self::All => "all nodes",
        }
    }

    /// The columns that apply to a kind of cluster: in replication only the primary is written.
    pub const fn of(cluster: ClusterKind) -> &'static [Self] {
        match cluster {
            ClusterKind::Galera => &Self::ALL,
            ClusterKind::Replication { .. } => &[Self::Active, Self::Passive],
        }
    }

    /// The value of `writers` in the configuration that gives this scope.
    pub const fn writers(self) -> Writers {
        match self {
            Self::Active | Self::Passive => Writers::One,
            Self::All => Writers::All,
        }
    }
}

/// How many nodes take traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writers {
    /// One node; the others stand by.
    One,
    /// All nodes.
    All,
}

impl fmt::Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one",
            Self::All => "all",
        })
    }
}

/// The seed's cell in its own words; `None` for cells that it does not have.
pub const fn seed_says(cluster: ClusterKind, case: Case, scope: Scope) -> Option<&'static str> {
    match cluster {
        ClusterKind::Galera => seed_says_of_galera(case, scope),
        ClusterKind::Replication { .. } => match (case, scope) {
            (Case::Graceful, Scope::Active) => Some("sub-second (no errors)"),
            (Case::NonGraceful, Scope::Active) => Some("18 seconds (errors)"),
            _ => None,
        },
    }
}

const fn seed_says_of_galera(case: Case, scope: Scope) -> Option<&'static str> {
    Some(match (case, scope) {
        (Case::Graceful, Scope::Active | Scope::All) => "sub-second (no errors)",
        (Case::Graceful | Case::SemiGraceful, Scope::Passive) => "no effect at all",
        (Case::SemiGraceful | Case::NonGraceful, Scope::Active) => "4 seconds (errors)",
        (Case::SemiGraceful, Scope::All) => "3 seconds",
        (Case::NonGraceful, Scope::Passive) => "6 seconds (no errors)",
        (Case::NonGraceful, Scope::All) => "7 seconds (errors)",
        (Case::Freeze | Case::Vanish, _) => return None,
    })
}

/// Explains the columns; printed below every table.
pub const COLUMNS_MEAN: &str = "Active means that the node took the traffic, passive that it took none while one other node \
took all of it; all nodes means that every node took traffic, this one too.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_has_nine_cells() {
        let cells = Case::ALL
            .into_iter()
            .flat_map(|case| Scope::ALL.map(|scope| seed_says(ClusterKind::Galera, case, scope)));
        assert_eq!(cells.flatten().count(), 9);
    }
}
