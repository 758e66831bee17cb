//! Tells when transactions of the open loop are due, to some microseconds: tokio's own timer counts whole milliseconds, which is too coarse
//! for thousands of requests a second.

use std::num::NonZeroU64;
use std::time::Duration;

use anyhow::Context;
use rustix::thread::set_current_timer_slack;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::Clock;

/// A thread that sends each of these times of the run when it has come. It ends with the last, or when the receiver is dropped.
pub(super) fn due(
    times: impl Iterator<Item = Duration> + Send + 'static,
    clock: Clock,
) -> anyhow::Result<UnboundedReceiver<Duration>> {
    let (sender, receiver) = unbounded_channel();
    let tell = move || {
        // Otherwise the kernel may wake it 50 µs late. A kernel that refuses this is less exact, and no more.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        for due in times {
            std::thread::sleep(clock.until(due));
            if sender.send(due).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("lab-schedule".into()).spawn(tell).context("no thread")?;
    Ok(receiver)
}
