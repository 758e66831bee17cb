//! Where a node gets no heartbeats (they are off, the account lacks privileges, MySQL), the oldest unanswered commit of a client replaces them.
//!
//! A client's statement is late for many reasons, so it counts only after the server shows that its session has reached its commit. Nothing
//! is changed on the server: the list of sessions is read, and the bytes written to the logs. That needs PROCESS; without it nothing is
//! known.

use std::convert::Infallible;

use link::{Asker, LinkError};
use tokio::time::sleep;
use topology::flavor::Flavor;
use topology::heartbeat::{Beat, Commit, Sessions, Stall, is_at_commit, sql};
use topology::time::Now;

use super::{Heartbeat, LATE, LOOK_GAP, STEP, written};

/// The commit that replaces a heartbeat.
struct Watched {
    connection: u32,
    /// When its session was first seen at its commit, and last.
    since: Now,
    until: Now,
    /// The previous observation.
    seen: Option<Sessions>,
}

impl Watched {
    /// Whether it is this commit: the next one on the same connection is sent after this one was answered.
    fn is(&self, commit: &Commit) -> bool {
        commit.connection == self.connection && commit.asked <= self.until
    }
}

impl Heartbeat {
    /// Observes the clients' commits until it is dropped.
    pub(super) async fn by_traffic(&self) -> Infallible {
        let mut beside = self.asker();
        let mut watched: Option<Watched> = None;
        loop {
            // Taken before the question, so that a commit sent later is another one.
            let now = self.started.elapsed();
            let late = self.late(watched.as_ref());
            let seen = match &*late {
                [] => Ok(None),
                late => {
                    let before = watched.as_ref().and_then(|watched| watched.seen.as_ref());
                    self.look_at(&mut beside, late, before).await
                }
            };
            match seen {
                Ok(seen) => {
                    let goes_on =
                        |watched: &Watched| seen.as_ref().is_some_and(|(commit, _)| watched.is(commit));
                    // A commit that has ended shows that commits do end.
                    if watched.take_if(|watched| !goes_on(watched)).is_some() {
                        self.tell(Beat::Unknown).await;
                    }
                    if let Some((commit, seen)) = seen {
                        // The statement may have run for long before it reached its commit.
                        let since = watched.as_ref().map_or(now, |watched| watched.since);
                        let before = watched.as_ref().and_then(|watched| watched.seen.as_ref());
                        let stall = match self.stall(&seen, before, now.saturating_sub(since)) {
                            // A client's statement does not lock the heartbeat's table; and a backup may block changes to tables of some
                            // engines only.
                            Stall::OwnTable => Stall::Unknown,
                            // No counter shows what MySQL writes to its binlog.
                            Stall::Stuck if is_mysql(&mut beside) => Stall::Unknown,
                            stall => stall,
                        };
                        watched = Some(Watched {
                            connection: commit.connection,
                            since,
                            until: now,
                            seen: Some(seen),
                        });
                        self.tell(Beat::Waits { asked: since, stall }).await;
                    }
                }
                Err(error) => {
                    tracing::debug!("the sessions of {} cannot be seen: {error}", self.name);
                    beside.close();
                    if let Some(watched) = &mut watched {
                        watched.seen = None;
                    }
                }
            }
            sleep(LOOK_GAP).await;
        }
    }

    /// The commits that have waited for long, the oldest first. The one that is being watched comes first, even if its client has left.
    fn late(&self, watched: Option<&Watched>) -> Vec<Commit> {
        let now = self.started.elapsed();
        let is_late = |commit: &&Commit| now.saturating_sub(commit.asked) >= LATE;
        let wish = self.wish.borrow();
        let watched = watched.map(|watched| {
            let known = wish.commits.iter().find(|commit| commit.connection == watched.connection);
            known.copied().unwrap_or(Commit { connection: watched.connection, asked: watched.since })
        });
        let others = wish.commits.iter().filter(is_late).copied();
        watched
            .into_iter()
            .chain(others.filter(|other| watched.is_none_or(|it| it.connection != other.connection)))
            .collect()
    }

    /// The oldest of these whose session has reached its commit, and what the server shows of it and of others.
    async fn look_at(
        &self,
        beside: &mut Asker,
        late: &[Commit],
        before: Option<&Sessions>,
    ) -> Result<Option<(Commit, Sessions)>, LinkError> {
        let link = beside.link(STEP).await?;
        let sessions = link.query(&sql::sessions(late.iter().map(|commit| commit.connection)), STEP).await?;
        let rows: Vec<(Option<u32>, &str)> = (0..sessions.len())
            .map(|row| {
                let id = sessions.text(row, 0).and_then(|text| text.parse().ok());
                (id, sessions.text(row, 1).unwrap_or_default())
            })
            .collect();
        let state = |commit: &Commit| {
            let own = rows.iter().find(|(id, _)| *id == Some(commit.connection));
            own.map(|(_, state)| *state).filter(|state| is_at_commit(state))
        };
        let Some((commit, own)) = late.iter().find_map(|commit| Some((*commit, state(commit)?))) else {
            return Ok(None);
        };
        let others = rows.iter().filter(|(id, _)| *id != Some(commit.connection));
        let mut seen = Sessions {
            own: own.to_owned(),
            others: others.map(|(_, state)| (*state).to_owned()).collect(),
            written: written(link).await?,
            ..Sessions::default()
        };
        // It is a statement that changes rows, or its COMMIT, and not a change of a table's structure; while anything is written, others
        // are not blocked.
        seen.changes_wait =
            before.is_some_and(|before| before.written == seen.written) && seen.waits_for_everything();
        seen.is_large = self.sends_large(link).await?;
        Ok(Some((commit, seen)))
    }
}

fn is_mysql(beside: &mut Asker) -> bool {
    beside.opened().is_some_and(|link| Flavor::of(&link.greeting.version) == Flavor::MySql)
}
