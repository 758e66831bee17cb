//! Reports to the manager the clients' commits that their nodes do not answer. They replace the heartbeat where none can be written.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use topology::fact::ProxyFact;

use crate::shared::Shared;

/// How often the sessions are checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Commits younger than this are not reported.
const LATE: Duration = Duration::from_millis(500);

/// Runs for as long as the proxy.
pub fn watch(shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        let mut times = interval(LOOK_EVERY);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = BTreeSet::new();
        loop {
            times.tick().await;
            let Some(shared) = Weak::upgrade(&shared) else { return };
            let commits = shared.registry.commits(LATE);
            let before = std::mem::replace(&mut told, commits.keys().copied().collect());
            for node in before.difference(&told).copied() {
                shared.tell(ProxyFact::CommitsWait { node, commits: vec![] });
            }
            for (node, commits) in commits {
                shared.tell(ProxyFact::CommitsWait { node, commits });
            }
        }
    });
}
