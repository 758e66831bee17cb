//! When a statement is due.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Speed;

/// Keeps recorded times, or does not.
pub(super) struct Pace {
    speed: Speed,
    /// When the first statement was recorded, and when it was replayed.
    first: Option<(u64, Instant)>,
}

impl Pace {
    pub(super) fn new(speed: Speed) -> Pace {
        Pace { speed, first: None }
    }

    /// Waits until a statement that was begun then is due.
    pub(super) async fn wait(&mut self, order_us: u64) {
        let Speed::Recorded(factor) = self.speed else { return };
        let (recorded_us, begin) = *self.first.get_or_insert_with(|| (order_us, Instant::now()));
        let after = Duration::from_micros(order_us.saturating_sub(recorded_us));
        // A factor of nothing, or one that gives times beyond all measure, waits for nobody.
        if let Ok(after) = Duration::try_from_secs_f64(after.as_secs_f64() / factor) {
            sleep_until(begin + after).await;
        }
    }
}
