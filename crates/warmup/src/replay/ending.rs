//! Kills the statements that an aborted replay still runs on its server. A server does not end a SELECT when its client disconnects, so
//! that a long one would continue to run on a server that may have become the active node.

use std::time::Duration;

use link::{Link, LinkError};
use tokio::time::{Instant, sleep};

use super::figures::Figures;
use super::target::Target;

/// An aborted task ends at its next await point, usually within microseconds.
const QUIET_WITHIN: Duration = Duration::from_secs(1);
/// The total time limit for connecting, listing and killing. A server that takes longer has more urgent problems.
const WITHIN: Duration = Duration::from_secs(5);

/// The pause after a failed connection attempt.
const AGAIN: Duration = Duration::from_millis(100);

/// Kills what the connections of a dropped replay are running, and returns how many statements that were.
pub async fn end(target: &Target, figures: &Figures) -> Result<usize, LinkError> {
    // After this no session sends a statement or opens a connection that would be missing from the list. A task that hangs is not waited
    // for: the statements of all others are killed in any case.
    let _ = tokio::time::timeout(QUIET_WITHIN, figures.running.quiet()).await;
    let work = async {
        let mut link = connected(target).await?;
        let (connections, oldest) = figures.running.take();
        if connections.is_empty() {
            link.quit();
            return Ok(0);
        }
        let uptime = link.query("SHOW GLOBAL STATUS LIKE 'Uptime'", WITHIN).await?;
        let uptime_s: u64 = uptime.text(0, 1).and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut ended = 0;
        // A server that was started since then has given these numbers to other connections.
        if uptime_s >= oldest.as_secs() {
            let numbers: Vec<String> = connections.iter().map(u32::to_string).collect();
            // Without the PROCESS privilege an account sees only its own sessions; with it, it must not kill those of other accounts.
            let running = link.query(&running(&numbers.join(",")), WITHIN).await?;
            for id in (0..running.len()).filter_map(|row| running.text(row, 0)?.parse::<u64>().ok()) {
                match link.query(&format!("KILL {id}"), WITHIN).await {
                    // It has ended by itself.
                    Err(LinkError::Rejected { .. }) => {}
                    killed => {
                        killed?;
                        ended += 1;
                    }
                }
            }
        }
        link.quit();
        Ok(ended)
    };
    tokio::time::timeout(WITHIN, work).await.unwrap_or(Err(LinkError::TimedOut { after: WITHIN }))
}

/// Opens a connection as soon as the server has room: after a failover all connections of the application arrive at the same time.
async fn connected(target: &Target) -> Result<Link, LinkError> {
    let begin = Instant::now();
    loop {
        match target.connect().await {
            Err(LinkError::Rejected { errno: 1040 | 1203 | 1226, .. } | LinkError::TimedOut { .. })
                if begin.elapsed() + AGAIN < WITHIN =>
            {
                sleep(AGAIN).await;
            }
            connected => return connected,
        }
    }
}

fn running(numbers: &str) -> String {
    format!(
        "SELECT id FROM information_schema.processlist \
         WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND command <> 'Sleep' AND id IN ({numbers})"
    )
}
