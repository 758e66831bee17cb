//! The scenarios: the fault of the address's holder, and the required result.

/// One fault scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Scenario {
    /// mysqld is stopped, keepalived as in the seed: equal priorities, state MASTER
    Seed,
    /// mysqld is stopped, keepalived as recommended by this project
    Stop,
    /// The stopped node, of the highest priority, comes back: the address must stay where it is
    Return,
    /// mysqld hangs (SIGSTOP)
    Hung,
    /// The node becomes a donor, and donors count as bad (third argument 0)
    Donor,
    /// The node becomes a donor, and donors count as good (third argument 1)
    DonorAllowed,
    /// The host is lost: its link goes down
    Vanish,
    /// The host is cut off and cannot notice it: its link stays up
    Partition,
    /// keepalived is stopped cleanly
    KeepalivedStop,
    /// keepalived's VRRP process is killed; its parent starts another
    KeepalivedCrash,
    /// All of keepalived is killed without a supervisor
    KeepalivedKill,
    /// All of keepalived is killed under a supervisor that does what this project's systemd drop-in does
    KeepalivedKillSupervised,
    /// mysqld is stopped on all nodes
    AllBad,
    /// Two `understudy serve` share the address; the holder is killed
    ProxyKill,
    /// The same, stopped cleanly
    ProxyStop,
}

impl Scenario {
    /// All scenarios, in the order of a run: the most expensive for the cluster come last.
    pub const ALL: [Self; 15] = [
        Self::Seed,
        Self::Stop,
        Self::Return,
        Self::Hung,
        Self::Donor,
        Self::DonorAllowed,
        Self::KeepalivedStop,
        Self::KeepalivedCrash,
        Self::KeepalivedKill,
        Self::KeepalivedKillSupervised,
        Self::Vanish,
        Self::Partition,
        Self::ProxyKill,
        Self::ProxyStop,
        Self::AllBad,
    ];

    /// The name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Seed => "mysqld stopped, the seed's configuration",
            Self::Stop => "mysqld stopped",
            Self::Return => "the stopped node returns",
            Self::Hung => "mysqld hangs",
            Self::Donor => "donor, not allowed (0)",
            Self::DonorAllowed => "donor, allowed (1)",
            Self::Vanish => "host lost, link down",
            Self::Partition => "host cut off, link up",
            Self::KeepalivedStop => "keepalived stopped",
            Self::KeepalivedCrash => "keepalived's VRRP process killed",
            Self::KeepalivedKill => "keepalived killed, alone",
            Self::KeepalivedKillSupervised => "keepalived killed, supervised",
            Self::AllBad => "mysqld stopped everywhere",
            Self::ProxyKill => "proxy killed",
            Self::ProxyStop => "proxy stopped",
        }
    }

    /// Whether it concerns proxies instead of database nodes.
    pub fn is_of_proxies(self) -> bool {
        matches!(self, Self::ProxyKill | Self::ProxyStop)
    }

    /// The required result for the address.
    pub fn ends(self) -> End {
        match self {
            Self::Return | Self::DonorAllowed => End::Stays,
            Self::AllBad => End::Nowhere,
            _ => End::Moves,
        }
    }

    /// The state that the victim's keepalived must have recorded at the end; `None`: it cannot or need not record one.
    pub fn state_of_loser(self) -> Option<&'static str> {
        match self {
            Self::Seed
            | Self::Stop
            | Self::Hung
            | Self::Donor
            | Self::Vanish
            | Self::Partition
            | Self::AllBad => Some("now fault"),
            Self::ProxyKill | Self::ProxyStop => Some("now fault"),
            Self::Return => Some("now backup"),
            Self::DonorAllowed => Some("now master"),
            Self::KeepalivedStop => Some("now stop"),
            Self::KeepalivedCrash => Some("now backup"),
            Self::KeepalivedKill | Self::KeepalivedKillSupervised => None,
        }
    }

    /// Why two holders are expected here; everywhere else they are a failure.
    pub fn may_overlap(self) -> Option<&'static str> {
        match self {
            Self::Seed => Some("equal priorities: the others take it at once, until they hear each other"),
            Self::KeepalivedKill => {
                Some("nothing takes the address from the kernel when keepalived is killed")
            }
            _ => None,
        }
    }
}

/// The result for the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It moves to another machine.
    Moves,
    /// It must not move.
    Stays,
    /// No node has it.
    Nowhere,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_run_once() {
        let mut all = Scenario::ALL.to_vec();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), <Scenario as clap::ValueEnum>::value_variants().len());
    }
}
