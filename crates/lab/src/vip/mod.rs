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

/// A run, as asked for.
#[derive(Clone, Debug)]
pub struct VipPlan {
    /// In this order.
    pub scenarios: Vec<Scenario>,
    /// Of each.
    pub repetitions: u32,
    /// From one advert to the next.
    pub advert_interval_ms: u32,
    /// The nodes keep Galera's own timeouts instead of the advised ones.
    pub plain_evs: bool,
}
