//! Asks a server for the state of its replication: the one question of a round that it may refuse or leave unanswered and be a member all the same.
//!
//! Invariant: a server that leaves it unanswered is not asked again at once. Each such question costs a link, and a server whose thread
//! waits for a lock keeps its end of that link: asked in each round, it would soon have no connection left.

use std::time::Duration;

use link::{Link, LinkError, Rows};
use tokio::time::Instant;
use topology::flavor::Flavor;
use topology::replication::{self, Channel};

/// Errors after which the server will never answer the statement on this link: it does not know it, or the account lacks a privilege. Any
/// other error (such as after KILL QUERY) concerns this one time.
const FOR_GOOD: [u16; 3] = [UNKNOWN_STATEMENT, 1142, 1227];
/// The server does not know the statement. The error for the other form is the one that is reported.
const UNKNOWN_STATEMENT: u16 = 1064;
/// After an unanswered question the server is not asked for this long; after each further one, for twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What earlier questions have shown.
#[derive(Default)]
pub struct Asker {
    /// The statements that were refused for good on this link, and how.
    denied: Vec<(&'static str, Refusal)>,
    /// The last pause, and its end.
    pause: Option<(Duration, Instant)>,
}

#[derive(Clone)]
struct Refusal {
    errno: u16,
    message: String,
}

/// The result.
pub struct ChannelsAnswer {
    /// Its channels, or why it does not report them.
    pub channels: Result<Vec<Channel>, String>,
    /// The link still owes an answer, and cannot be used any more.
    pub is_spent: bool,
}

impl Asker {
    /// A new login may have other privileges.
    pub fn forget_refusals(&mut self) {
        self.denied.clear();
    }

    /// Asks, and waits until `until` at most.
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

/// The same words however long it was waited for, since each change of them is a line in the log.
const SILENT: &str = "it gave no answer in time, and is asked again from time to time";

fn channels(rows: &Rows) -> Vec<Channel> {
    let value = |row, name: &str| rows.text(row, rows.column(name)?);
    (0..rows.len()).map(|row| replication::channel(|name| value(row, name))).collect()
}
