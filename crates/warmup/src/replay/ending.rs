//! Kills the statements that an aborted replay still runs on its server. A server does not end a SELECT when its client goes away, so a long one
//! would go on, and that on a server which may be the active node by now.

use std::time::Duration;

use link::{Link, LinkError};
use tokio::time::{Instant, sleep};

use super::figures::Figures;
use super::target::Target;

/// An aborted task notices it at its next pause, which is a matter of microseconds.
const QUIET_WITHIN: Duration = Duration::from_secs(1);
/// Connecting, asking and ending may take so long together; then the server has other worries.
const WITHIN: Duration = Duration::from_secs(5);

/// After a connection that could not be made, the next attempt waits so long.
const AGAIN: Duration = Duration::from_millis(100);

/// Ends what the connections of a replay that was dropped are running, and says how many were.
pub async fn end(target: &Target, figures: &Figures) -> Result<usize, LinkError> {
    // Behind this no session sends anything, or opens a connection that would be missing from the list. Whoever hangs is not waited for: what all
    // others left running is ended in any case.
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
        // A server that was started since gives their numbers to others.
        if uptime_s >= oldest.as_secs() {
            let numbers: Vec<String> = connections.iter().map(u32::to_string).collect();
            // Whoever has no PROCESS privilege sees its own; whoever has it must not end another's.
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

/// A connection, as soon as there is one for it: behind a failover all of the application's come at once.
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
