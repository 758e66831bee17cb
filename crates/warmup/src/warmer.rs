//! Keeps the standbys of one cluster warm: who is active says somebody else; each standby is replayed what the active node's streamer gives.
//!
//! ```text
//!   roles ──> [active: db1; standbys: db2, db3] ──> one replay from db1's streamer for each standby
//!      └────> anything else: all replays are broken off, at once
//! ```
//!
//! Invariant: a replay lives no longer than the roles under which it was begun. It is not ended but dropped: what waited in it is not run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::Access;
use crate::replay::figures::Figures;
use crate::replay::target::Target;
use crate::replay::{self, Settings};
use crate::source::{self, SourceError};

/// Who is what, now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// The node that takes the traffic, and the address of its streamer; nothing while there is none, several, or it is not known.
    pub active: Option<(String, String)>,
    /// The nodes to be warmed, and their addresses.
    pub standbys: BTreeMap<String, String>,
}

/// After a stream that could not be had, the next attempt waits so long.
const AGAIN: Duration = Duration::from_secs(1);
/// So often figures are logged.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Warms, until the roles' sender is gone. `target` makes a login out of a standby's address; `access` is how the
/// streamers are asked.
pub async fn warm(
    mut roles: watch::Receiver<Roles>,
    target: impl Fn(&str) -> Target,
    settings: Settings,
    may_be_writable: bool,
    access: Access,
) {
    loop {
        let now = roles.borrow_and_update().clone();
        let mut replays = JoinSet::new();
        if let Some((active, streamer)) = &now.active {
            for (standby, address) in &now.standbys {
                if standby == active {
                    continue;
                }
                tracing::info!("{standby} is warmed with what {active} is asked");
                let one = One {
                    standby: standby.clone(),
                    streamer: streamer.clone(),
                    target: Arc::new(target(address)),
                    settings: settings.clone(),
                    may_be_writable,
                    access: access.clone(),
                    figures: Arc::default(),
                };
                replays.spawn(one.run());
            }
        } else {
            tracing::info!("nobody is warmed: no node is known to take the traffic alone");
        }
        let changed = roles.changed().await;
        // With it all its sessions are gone.
        drop(replays);
        if changed.is_err() {
            return;
        }
    }
}

/// One standby.
struct One {
    standby: String,
    streamer: String,
    target: Arc<Target>,
    settings: Settings,
    may_be_writable: bool,
    access: Access,
    figures: Arc<Figures>,
}

impl One {
    /// Goes on until it is dropped.
    async fn run(self) {
        let mut said = String::new();
        let mut place = None;
        loop {
            let sentence = tokio::select! {
                sentence = self.once(&mut place) => sentence,
                never = self.tell() => match never {},
            };
            // Said once, not each second.
            if sentence != said {
                tracing::warn!("{} is not warmed now: {sentence}", self.standby);
                said = sentence;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Figures for the log, now and then.
    async fn tell(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(TELL_EVERY).await;
            let figures = &self.figures;
            let errors: u64 = figures.errors().values().sum();
            tracing::info!(
                "{}: {} statements run, {} left out as too late, lag {:.1} s, {errors} errors, {} bytes of the log missed",
                self.standby,
                figures.executed.load(Relaxed),
                figures.late.load(Relaxed),
                figures.lag().as_secs_f64(),
                figures.dropped_bytes.load(Relaxed),
            );
        }
    }

    /// Replays until that ends; gives the reason.
    async fn once(&self, place: &mut Option<String>) -> String {
        if let Err(refused) = self.target.check(self.may_be_writable).await {
            return refused.to_string();
        }
        let stream = match source::open(&self.access, &self.streamer, place.as_deref()).await {
            Ok(stream) => stream,
            Err(error) => {
                if matches!(error, SourceError::Gone(_)) {
                    *place = None;
                }
                return error.to_string();
            }
        };
        let target = Arc::clone(&self.target);
        let ended = replay::replay(
            stream,
            target,
            self.settings.clone(),
            Arc::clone(&self.figures),
            std::future::pending(),
        )
        .await;
        *place = self.figures.place();
        match ended {
            Ok(()) => format!("the streamer at {} ended its stream", self.streamer),
            Err(error) => format!("the stream of {} broke: {error}", self.streamer),
        }
    }
}
