//! Queries the state of replication. A server may refuse this query or leave it unanswered, and is still a member.
//!
//! Invariant: after an unanswered query the server is not queried again at once. Each such query costs a connection, and a server whose
//! thread waits for a lock keeps its end of that connection: with one per round, it would soon run out of connections.

use std::time::Duration;

use link::{Link, LinkError, Rows};
use tokio::time::Instant;
use topology::flavor::Flavor;
use topology::replication::{self, Channel};

/// Errors after which the server will never answer the statement on this connection: it does not know it, or the account lacks a privilege
/// (1142, 1227). Any other error (such as after KILL QUERY) concerns this one time.
const FOR_GOOD: [u16; 3] = [UNKNOWN_STATEMENT, 1142, 1227];
/// A syntax error: the server does not know the statement. If the other form of the statement fails with another error, that one is
/// reported.
const UNKNOWN_STATEMENT: u16 = 1064;
/// After an unanswered query the server is not queried again for this long; after each further one, for twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What earlier queries have shown.
#[derive(Default)]
pub struct ChannelReader {
    /// The statements that were permanently refused on this connection, with the errors.
    denied: Vec<(&'static str, Refusal)>,
    /// The length of the last pause, and when it ends.
    pause: Option<(Duration, Instant)>,
}

#[derive(Clone)]
struct Refusal {
    errno: u16,
    message: String,
}

/// The result of the query.
pub struct ChannelsAnswer {
    /// The replication channels, or why the server does not report them.
    pub channels: Result<Vec<Channel>, String>,
    /// The connection has an unanswered query, and cannot be used any more.
    pub is_spent: bool,
}

impl ChannelReader {
    /// A new login may have other privileges.
    pub fn forget_refusals(&mut self) {
        self.denied.clear();
    }

    /// Queries the channels, and waits until `until` at most.
    ///
    /// # Errors
    /// When the link has ended, or cannot be used any more.
    pub async fn ask(&mut self, link: &mut Link, until: Instant) -> Result<ChannelsAnswer, LinkError> {
        let not_told = |why: String, is_spent| ChannelsAnswer { channels: Err(why), is_spent };
        let now = Instant::now();
        if self.pause.is_some_and(|(_, ends)| now < ends) {
            return Ok(not_told(SILENT.into(), false));
        }
        if now >= until {
            return Ok(not_told("its own state took all of the time".into(), false));
        }
        let mut refusal: Option<Refusal> = None;
        for &statement in Flavor::of(&link.greeting.version).replication() {
            let denied = self.denied.iter().find(|(denied, _)| *denied == statement);
            let refused = match denied {
                Some((_, refused)) => refused.clone(),
                None => match link.query(statement, until.saturating_duration_since(Instant::now())).await {
                    Ok(rows) => {
                        self.pause = None;
                        return Ok(ChannelsAnswer { channels: Ok(channels(&rows)), is_spent: false });
                    }
                    Err(LinkError::Rejected { errno, message, .. }) => {
                        let refused = Refusal { errno, message };
                        if FOR_GOOD.contains(&errno) {
                            self.denied.push((statement, refused.clone()));
                        }
                        refused
                    }
                    Err(LinkError::TimedOut { .. }) => {
                        let pause = self.pause.map_or(PAUSE_MIN, |(last, _)| (2 * last).min(PAUSE_MAX));
                        self.pause = Some((pause, Instant::now() + pause));
                        return Ok(not_told(SILENT.into(), true));
                    }
                    Err(error) => return Err(error),
                },
            };
            if refusal.is_none() || refused.errno != UNKNOWN_STATEMENT {
                refusal = Some(refused);
            }
        }
        let why = refusal.map(|Refusal { errno, message }| format!("{errno} {message}"));
        Ok(not_told(why.unwrap_or_default(), false))
    }
}

/// Does not contain the waiting time, since each change of the text is a line in the log.
const SILENT: &str = "it gave no answer in time, and is asked again from time to time";

fn channels(rows: &Rows) -> Vec<Channel> {
    let value = |row, name: &str| rows.text(row, rows.column(name)?);
    (0..rows.len()).map(|row| replication::channel(|name| value(row, name))).collect()
}
