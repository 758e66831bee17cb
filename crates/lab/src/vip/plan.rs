//! The command line of `lab vip`, and the constants of its scenarios.

use super::scenario::Scenario;
use crate::experiment::Output;

/// Priorities of db1, db2, db3: far enough apart that even with 100 ms adverts only one of them takes a free address first.
pub const PRIORITIES: [u8; 3] = [220, 190, 160];

/// Which addresses move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Families {
    /// One IPv4 address
    #[default]
    Ipv4,
    /// One IPv6 address; the adverts use IPv6, too
    Ipv6,
    /// One address of each family, always on the same machine
    Both,
}

impl Families {
    /// The name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
            Self::Both => "an IPv4 and an IPv6 address",
        }
    }
}

/// Three Galera nodes, three keepaliveds, one address: which node holds it at every moment, whatever happens to its holder (as root)
#[derive(Debug, clap::Args)]
pub struct VipPlan {
    /// Only this scenario; may be repeated [default: all]
    #[arg(long = "scenario", value_name = "SCENARIOS", value_enum, value_delimiter = ',')]
    pub(super) only: Vec<Scenario>,
    /// How often to run each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repetitions: u32,
    /// Which addresses move
    #[arg(long, value_enum, default_value_t)]
    pub(super) ip: Families,
    /// Interval between two adverts of the holder
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=10_000))]
    pub(super) advert_interval_ms: u32,
    /// The nodes keep Galera's own evs timeouts instead of the recommended ones
    #[arg(long)]
    pub(super) plain_evs: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

impl VipPlan {
    pub(super) fn scenarios(&self) -> &[Scenario] {
        if self.only.is_empty() { &Scenario::ALL } else { &self.only }
    }
}
