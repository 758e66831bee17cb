//! An address that moves, measured: three real nodes, three real keepaliveds, and one scenario after the other.
//!
//! ```text
//!   Scene (cluster, observer) ── for each scenario and repetition:
//!      raise (keepaliveds, client) ── fault ── what came of it ── mend, and nothing moves ── lower ──> Outcome ──> table, JSON
//! ```
//!
//! The verdict on "never two holders" is the observer's: the kernel's own events of all namespaces, in one order.

pub mod agent;
pub mod client;
pub mod observer;
pub mod result;
pub mod run;
pub mod scenario;
pub mod scene;
pub mod table;

use self::scenario::Scenario;

/// Of db1, db2, db3: far enough apart that with 100 ms adverts, too, only one of them takes a free address first.
pub const PRIORITIES: [u8; 3] = [220, 190, 160];

/// Which addresses move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Families {
    /// One of IPv4
    #[default]
    Ipv4,
    /// One of IPv6; the adverts are of IPv6, too
    Ipv6,
    /// One of each, on the same machine at all times
    Both,
}

impl Families {
    /// As the table has it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
            Self::Both => "an IPv4 and an IPv6 address",
        }
    }
}

/// A run, as asked for.
#[derive(Clone, Debug)]
pub struct VipPlan {
    /// In this order.
    pub scenarios: Vec<Scenario>,
    /// Of each.
    pub repetitions: u32,
    /// What moves. In the seed's own scenario it is of IPv4, whatever stands here.
    pub ip: Families,
    /// From one advert to the next.
    pub advert_interval_ms: u32,
    /// The nodes keep Galera's own timeouts instead of the advised ones.
    pub plain_evs: bool,
}
