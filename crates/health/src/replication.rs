//! Asking a server how it replicates: the one question of a round that it may refuse, or leave open, and be a member all the same.
//!
//! Invariant: a server that leaves it open is not asked again at once. Each such question costs a link, and a server whose thread waits
//! for a lock keeps its end of it: asked in each round, it would soon have no connection left for anybody.

use std::time::Duration;

use link::{Link, LinkError, Rows};
use tokio::time::Instant;
use topology::flavor::Flavor;
use topology::replication::{self, Channel};

/// What a server says of a statement that it will never answer on this link: it does not know it, or the account may not use it. Any
/// other refusal (a KILL QUERY, say) is of this one time.
const FOR_GOOD: [u16; 3] = [UNKNOWN_STATEMENT, 1142, 1227];
/// It does not know the statement. The other form is the one that tells what is wrong.
const UNKNOWN_STATEMENT: u16 = 1064;
/// After a silence it is left alone for so long; after each further one for twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// But for no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What asking has taught so far.
#[derive(Default)]
pub struct Asker {
    /// The statements that were refused for good on this link, and how.
    denied: Vec<(&'static str, Refusal)>,
    /// The pause after the last silence, and until when it lasts.
    pause: Option<(Duration, Instant)>,
}

#[derive(Clone)]
struct Refusal {
    errno: u16,
    message: String,
}

/// What came of it.
pub struct ChannelsAnswer {
    /// Its sources, or why it does not tell them.
    pub channels: Result<Vec<Channel>, String>,
    /// The link still owes an answer, and is of no use any more.
    pub is_spent: bool,
}

impl Asker {
    /// A new login has rights of its own.
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

/// The same words however long it was waited for: each change of them is a line in the log.
const SILENT: &str = "it gave no answer in time, and is asked again from time to time";

fn channels(rows: &Rows) -> Vec<Channel> {
    let value = |row, name: &str| rows.text(row, rows.column(name)?);
    (0..rows.len()).map(|row| replication::channel(|name| value(row, name))).collect()
}
