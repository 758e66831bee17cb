//! Asks a member of the group whether every other one still acknowledges what the group sends. [`topology::galera::question`] explains why,
//! and what the answers mean.
//!
//! ```text
//!   asked   ──SET GLOBAL: each read sends─ causal read ────────────────(unanswered)──────────x
//!   beside  ──options, observe──────────────observe──observe──observe──observe── put the option back
//! ```
//!
//! Two connections are needed, since the first hangs when the answer is no. There is one question at a time, as they share an option of the
//! member. The member's own value is on disk by then ([`crate::loans`]); if this process is killed meanwhile, its next start puts it back.
//!
//! Cost, measured on MariaDB 10.11.19, three nodes on two processors: among living members 2 ms (median, idle), 6 to 8 ms (median under
//! load), 57 to 89 ms (99th percentile, overloaded). When one is dead, the connections and the patience: 0.1 s.

use std::pin::pin;
use std::time::Duration;

use link::{Link, Login, ask_once};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use topology::galera::question::{Answer, Look, Question};
use topology::galera::sql;

use crate::failed::Failed;
use crate::loans::{ASKS, Loans};

/// How long the group must stand still to prove a death before an eviction.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// The time limit of each step before and after the question itself.
const STEP: Duration = Duration::from_secs(1);
/// The time between two observations.
const LOOK_GAP: Duration = Duration::from_millis(20);
/// A question always ends sooner by its own rule; this keeps a member that answers nothing from delaying the next question.
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
    Ok(said(address, login, turn, loans, Ends::WhenClear(patience)).await?.answer)
}

/// Whether, within that time, a causal read passed for which every member of the view had to acknowledge a message that was sent after this call.
/// What the group delivers meanwhile is no proof here: it may have been sent before.
pub(crate) async fn is_proven_by_read(
    address: &str,
    login: &Login,
    turn: &Semaphore,
    loans: &Loans,
    within: Duration,
) -> Result<bool, Failed> {
    let ends = Ends::ByTheRead { by: Instant::now() + within };
    Ok(said(address, login, turn, loans, ends).await?.is_proven_by_read)
}

/// What ends a question.
#[derive(Clone, Copy)]
enum Ends {
    /// The first sign; on a fast network, this much time without one.
    WhenClear(Duration),
    /// The read, a change of the view, or the group standing still. The read itself may be late, as it also waits for what is to be applied.
    ByTheRead { by: Instant },
}

/// An answer.
struct Verdict {
    answer: Answer,
    is_proven_by_read: bool,
}

impl Verdict {
    /// By what was seen beside the read.
    fn seen(answer: Answer) -> Self {
        Self { answer, is_proven_by_read: false }
    }
}

async fn said(
    address: &str,
    login: &Login,
    turn: &Semaphore,
    loans: &Loans,
    ends: Ends,
) -> Result<Verdict, Failed> {
    let _mine = turn.acquire().await.map_err(|_| Failed::because("this process is stopping"))?;
    let connect = || Link::connect(address, login, STEP);
    let (mut asked, mut beside) = tokio::try_join!(connect(), connect())?;
    let (view_state, options) =
        tokio::try_join!(asked.query(sql::VIEW_STATE, STEP), beside.query(sql::PROVIDER_OPTIONS, STEP))?;
    let uuid = view_state.value_of("wsrep_gcomm_uuid").unwrap_or_default();
    let own = loans.own(address, uuid, options.text(0, 0).unwrap_or_default(), ASKS).await;
    let put_back = own.and_then(|period| sql::set_period(sql::CAUSAL_PERIOD, &period));
    let answer = timeout(WHOLE, wait(&mut asked, &mut beside, put_back.is_some(), ends)).await;
    if let Some(statement) = put_back
        && beside.query(&statement, STEP).await.is_err()
        && let Err(error) = ask_once(address, login, &statement, STEP).await
    {
        tracing::warn!("{address} keeps {}: {error}; run there: {statement}", sql::EACH_READ_ASKS);
    }
    asked.quit();
    beside.quit();
    answer.unwrap_or_else(|_| Err(Failed::because("no answer in time")))
}

/// The read on one link, and observations on the other, until there is an answer. `sends`: the member must first be set to send a message
/// for each read.
async fn wait(asked: &mut Link, beside: &mut Link, sends: bool, ends: Ends) -> Result<Verdict, Failed> {
    asked.query(sql::WAIT_FOR_GROUP, STEP).await?;
    if sends {
        asked.query(sql::EACH_READ_ASKS, STEP).await?;
    }
    let before = look(beside).await?;
    let patience = match ends {
        Ends::WhenClear(patience) => patience,
        Ends::ByTheRead { .. } => PATIENCE,
    };
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
                let options = beside.query(sql::PROVIDER_OPTIONS, STEP).await?;
                let view = look(beside).await?.view;
                return Ok(passed(before.view, view, options.text(0, 0).unwrap_or_default()));
            }
            seen = next => {
                let (sent, look) = seen?;
                let answer = question.look(sent, began.elapsed(), &look);
                match (answer, ends) {
                    (Some(Answer::Acknowledged | Answer::Unclear), Ends::ByTheRead { by }) if Instant::now() < by => {}
                    (Some(answer), _) => return Ok(Verdict::seen(answer)),
                    (None, _) => {}
                }
            }
        }
    }
}

/// What a read that passed means; `options`: the member's options afterwards.
fn passed(view_before: u64, view: u64, options: &str) -> Verdict {
    let answer = if view != view_before {
        // It may have passed because the suspected member is out of the view.
        Answer::Moved
    } else if ASKS.is_given_back(options) {
        // Another program that asks the same member has put the option back meanwhile, so the read may have been answered from memory.
        Answer::Unclear
    } else {
        Answer::Acknowledged
    };
    // A member without the option acknowledges enough to spare another, but nothing says that its read had to ask.
    Verdict { answer, is_proven_by_read: answer == Answer::Acknowledged && ASKS.is_lent(options) }
}

async fn look(link: &mut Link) -> Result<Look, Failed> {
    let rows = link.query(sql::DELIVERED, STEP).await?;
    Ok(Look::read(|name| rows.value_of(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_passed_counts_only_if_it_had_to_ask() {
        let passed = |view, options| {
            let said = passed(7, view, options);
            (said.answer, said.is_proven_by_read)
        };
        assert_eq!(passed(7, "evs.causal_keepalive_period = P; evs.x = 1"), (Answer::Acknowledged, true));
        assert_eq!(passed(7, "evs.x = 1"), (Answer::Acknowledged, false), "there is no such option");
        assert_eq!(passed(7, "evs.causal_keepalive_period = PT1S"), (Answer::Unclear, false));
        assert_eq!(passed(8, "evs.causal_keepalive_period = P"), (Answer::Moved, false));
        assert_eq!(passed(8, "evs.causal_keepalive_period = PT1S"), (Answer::Moved, false));
    }
}
