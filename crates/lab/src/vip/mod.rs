//! Measures an address that moves: three real nodes, three real keepaliveds, and one scenario after the other.
//!
//! ```text
//!   Scene (cluster, observer) ── for each scenario and repetition:
//!      raise (keepaliveds, client) ── fault ── observe ── heal, and nothing moves ── lower ──> ScenarioRun ──> table, JSON
//! ```
//!
//! "Never two holders" is judged by the observer: the kernel's own events of all namespaces, in one order.

pub mod agent;
pub mod client;
pub mod observer;
pub mod result;
pub mod run;
pub mod scenario;
pub mod scene;
pub mod table;

use self::scenario::Scenario;

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

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct VipPlan {
    /// The scenarios, in this order.
    pub scenarios: Vec<Scenario>,
    /// Repetitions of each scenario.
    pub repetitions: u32,
    /// Which addresses move. The seed's own scenario always uses IPv4.
    pub ip: Families,
    /// Interval between two adverts, ms.
    pub advert_interval_ms: u32,
    /// Whether the nodes keep Galera's own timeouts instead of the recommended ones.
    pub plain_evs: bool,
}
