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

use self::result::Report;
use self::scenario::Scenario;
use crate::experiment::{Experiment, Output, Place};

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
    only: Vec<Scenario>,
    /// How often to run each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Which addresses move
    #[arg(long, value_enum, default_value_t)]
    ip: Families,
    /// Interval between two adverts of the holder
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=10_000))]
    advert_interval_ms: u32,
    /// The nodes keep Galera's own evs timeouts instead of the recommended ones
    #[arg(long)]
    plain_evs: bool,
    #[command(flatten)]
    output: Output,
}

impl VipPlan {
    fn scenarios(&self) -> &[Scenario] {
        if self.only.is_empty() { &Scenario::ALL } else { &self.only }
    }
}

impl Experiment for VipPlan {
    type Results = Report;

    fn output(&self) -> &Output {
        &self.output
    }

    fn steps(&self) -> u64 {
        self.scenarios().len() as u64 * u64::from(self.repetitions)
    }

    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Report> {
        run::run(self, place.progress).await
    }
}
