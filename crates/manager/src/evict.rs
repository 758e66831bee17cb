//! Evicts a dead member from the group, and clears the survivors' lists of evicted members; [`topology::galera`] says when.

use std::time::Duration;

use link::{Link, Login, ask_once};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use topology::galera::question::Answer;
use topology::galera::sql;

use crate::act::{view, view_after};
use crate::failed::{Failed, in_time};
use crate::loans::Loans;
use crate::question;

/// Between two tries to clear a list, how many there are, and how long each may take.
const FORGET_GAP: Duration = Duration::from_millis(500);
const FORGET_TRIES: u32 = 10;
const FORGET_DEADLINE: Duration = Duration::from_secs(2);

/// How an eviction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Evicted,
    /// Not ordered: it lives.
    Spared,
}

/// Evicts `gcomm_uuid` from the group, through the node at `address`, out of view number `from`; returns when that node is in a
/// new view. A member that still acknowledges what the group sends is left alone: asking costs 0.1 s when it is dead.
pub(crate) async fn evict(
    address: &str,
    login: &Login,
    (turn, loans): (&Semaphore, &Loans),
    gcomm_uuid: &str,
    from: u64,
    within: Duration,
) -> Result<Done, Failed> {
    let moved = || Failed::because("the group's view changed meanwhile");
    in_time(within, async {
        let statement = sql::evict(gcomm_uuid)
            .ok_or_else(|| Failed::because(format!("{gcomm_uuid:?} is no gcomm uuid")))?;
        let mut link = Link::connect(address, login, within).await?;
        let before = view(&mut link, within).await?;
        if before != from.to_string() {
            return Err(moved());
        }
        match question::ask(address, login, turn, loans, question::PATIENCE).await? {
            Answer::Acknowledged => {
                link.quit();
                return Ok(Done::Spared);
            }
            Answer::Moved => return Err(moved()),
            Answer::Unclear => {
                return Err(Failed::because("the group is too slow to tell whether it is dead"));
            }
            Answer::Hangs => {}
        }
        link.query(&statement, within).await?;
        view_after(&mut link, &before, within).await?;
        link.quit();
        Ok(Done::Evicted)
    })
    .await
}

/// Clears the list of evicted members of the node at `address`, trying again for some seconds.
pub(crate) async fn forget(address: &str, login: &Login) -> Result<(), Failed> {
    let mut tries = 0;
    loop {
        let asked = ask_once(address, login, sql::FORGET_EVICTED, FORGET_DEADLINE);
        let cleared = in_time(FORGET_DEADLINE, async { asked.await.map(drop).map_err(Failed::from) }).await;
        tries += 1;
        if cleared.is_ok() || tries == FORGET_TRIES {
            return cleared;
        }
        sleep(FORGET_GAP).await;
    }
}
