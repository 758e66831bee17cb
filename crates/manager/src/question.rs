//! Asks a member of the group whether every other still acknowledges what the group sends; [`topology::galera::question`] has the why, and
//! what the answers mean.
//!
//! ```text
//!   asked   ──SET GLOBAL: each read asks── causal read ────────────────(unanswered)──────────x
//!   beside  ──options, look─────────────────look──look──look──look──look── put the option back
//! ```
//!
//! Two connections, since the first hangs when the answer is no. One question at a time: they share an option of the member. Its own
//! value is on disk by then ([`crate::loans`]); should this process be killed meanwhile, its next start puts it back.
//!
//! Cost, measured on MariaDB 10.11.19, three nodes on two processors: among living members 2 ms (median, idle), 6 to 8 ms (median under
//! load), 57 to 89 ms (99th percentile, overloaded). When one is dead, the connections and the patience: 0.1 s.

use std::pin::pin;
use std::time::Duration;

use link::{Link, Login};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use topology::galera::question::{Answer, Look, Question};
use topology::galera::sql;

use crate::act::Failed;
use crate::loans::{ASKS, Loans};

/// The standstill that proves a death before an eviction.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// For each step before and after the question itself.
const STEP: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK_GAP: Duration = Duration::from_millis(20);
/// A question always ends sooner by its own rule; this keeps a member that answers nothing from holding up the next question.
const WHOLE: Duration = Duration::from_secs(4);

/// Where questions wait for one another.
pub(crate) fn turn() -> Semaphore {
    Semaphore::new(1)
}

/// Asks the member at `address`.
pub(crate) async fn ask(
    address: &str,
    login: &Login,
    turn: &Semaphore,
    loans: &Loans,
    patience: Duration,
) -> Result<Answer, Failed> {
    let _mine = turn.acquire().await.map_err(|_| Failed::because("this process is stopping"))?;
    let connect = || Link::connect(address, login, STEP);
    let (mut asked, mut beside) = tokio::try_join!(connect(), connect())?;
    let (talk, options) =
        tokio::try_join!(asked.query(sql::TALK, STEP), beside.query(sql::PROVIDER_OPTIONS, STEP))?;
    let uuid = talk.value_of("wsrep_gcomm_uuid").unwrap_or_default();
    let own = loans.own(address, uuid, options.text(0, 0).unwrap_or_default(), ASKS).await;
    let put_back = own.and_then(|period| sql::set_period(sql::CAUSAL_PERIOD, &period));
    let answer = timeout(WHOLE, wait(&mut asked, &mut beside, put_back.is_some(), patience)).await;
    if let Some(statement) = put_back
        && beside.query(&statement, STEP).await.is_err()
    {
        let again = async { connect().await?.query(&statement, STEP).await };
        if let Err(error) = again.await {
            tracing::warn!("{address} keeps {}: {error}; run there: {statement}", sql::EACH_READ_ASKS);
        }
    }
    asked.quit();
    beside.quit();
    answer.unwrap_or_else(|_| Err(Failed::because("no answer in time")))
}

/// The read on one link, and looks on the other until it is clear. `sends`: the read must first be made to ask.
async fn wait(
    asked: &mut Link,
    beside: &mut Link,
    sends: bool,
    patience: Duration,
) -> Result<Answer, Failed> {
    asked.query(sql::WAIT_FOR_GROUP, STEP).await?;
    if sends {
        asked.query(sql::EACH_READ_ASKS, STEP).await?;
    }
    let before = look(beside).await?;
    let mut question = Question::new(&before, patience);
    let began = Instant::now();
    let mut read = pin!(asked.query(sql::BARRIER, WHOLE));
    loop {
        let next = async {
            sleep(LOOK_GAP).await;
            let sent = began.elapsed();
            look(beside).await.map(|look| (sent, look))
        };
        tokio::select! {
            biased;
            read = &mut read => {
                read?;
                // It may have passed since the one asked about is gone.
                let view = look(beside).await?.view;
                return Ok(if view == before.view { Answer::Acknowledged } else { Answer::Moved });
            }
            seen = next => {
                let (sent, look) = seen?;
                if let Some(answer) = question.look(sent, began.elapsed(), &look) {
                    return Ok(answer);
                }
            }
        }
    }
}

async fn look(link: &mut Link) -> Result<Look, Failed> {
    let rows = link.query(sql::DELIVERED, STEP).await?;
    Ok(Look::read(|name| rows.value_of(name)))
}
