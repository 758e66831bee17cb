//! Actions on the nodes: the barrier, and reading the accounts. Each is a task on a connection of its own, so that they run in parallel and
//! one that hangs delays no other. Each has a deadline, and ends with a fact for the brain.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows, ask_once};
use protocol::errno;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use topology::account::Account;
use topology::flavor::Flavor;
use topology::galera::sql;

use crate::failed::{Failed, in_time};
use crate::loans::Loans;
use crate::question;

/// The time limit for wsrep_desync, which hangs while the group waits for the node.
const DESYNC_DEADLINE: Duration = Duration::from_secs(5);

/// Longer than a member answers a causal read from memory (evs.causal_keepalive_period, 1 s).
const MEMORY_MAX: Duration = Duration::from_millis(1500);
/// A view that still has the lost member after this long may keep it: from then on the members are asked whether all of them acknowledge.
/// A killed member is out of the view sooner.
const FIRST_QUESTION: Duration = Duration::from_millis(150);
/// The pause between two of these questions.
const QUESTION_GAP: Duration = Duration::from_millis(100);
/// How often the view is read while its change is waited for.
const VIEW_LOOK: Duration = Duration::from_millis(5);

/// Passes when the node reports that it has applied all that the group had, is a synced member of the Primary component, and is writable.
///
/// A causal read that is under way while the group changes its view is never answered (measured on MariaDB 10.11.19: it hangs
/// beyond 3 s, while writes go on; the provider gives it up after repl.causal_read_timeout, 30 s). One that begins after the
/// change takes a millisecond. So the view is watched beside it on a second connection, and each change begins the read anew.
///
/// Just after the loss of a member, a causal read may be answered from memory (see [`topology::galera::question`]), and miss what that
/// member wrote last. It is therefore run when the view is without the lost member, by any of the names in `lost`; or, if the view keeps it
/// (only this process has lost it, it woke, or the view has no names), when a read that is not answered from memory has passed: every member, the
/// lost one too, has then acknowledged a message later than all that the lost one had delivered before; or else after [`MEMORY_MAX`].
pub(crate) async fn barrier(
    address: &str,
    login: &Login,
    lost: Option<&[String]>,
    at_least: Option<u64>,
    (turn, loans): (&Semaphore, &Loans),
    within: Duration,
) -> Result<(), Failed> {
    in_time(within, async {
        let mut watch = Link::connect(address, login, within).await?;
        if let Some(lost) = lost {
            let is_proven = |within| question::is_proven_by_read(address, login, turn, loans, within);
            until_without(&mut watch, lost, turn, is_proven, within).await?;
        }
        let mut view = view(&mut watch, within).await?;
        loop {
            let read = causal_read(address, login, at_least, within);
            let changed = view_after(&mut watch, &view, within);
            tokio::select! {
                biased;
                result = read => return result,
                now = changed => view = now?,
            }
        }
    })
    .await
}

/// Returns when the node's view has no member with one of these names, or all members of it are proven to acknowledge; at the latest after
/// [`MEMORY_MAX`].
async fn until_without<Q: Future<Output = Result<bool, Failed>>>(
    watch: &mut Link,
    lost: &[String],
    turn: &Semaphore,
    is_proven: impl Fn(Duration) -> Q,
    within: Duration,
) -> Result<(), Failed> {
    let until = Instant::now() + MEMORY_MAX;
    let mut question_at = Some(Instant::now() + FIRST_QUESTION);
    loop {
        let members = watch.query(sql::MEMBERS, within).await?;
        let members = members.value_of("wsrep_incoming_addresses").unwrap_or_default();
        let is_there = members.split(',').any(|member| lost.iter().any(|name| name == member.trim()));
        if !is_there || Instant::now() >= until {
            return Ok(());
        }
        // An eviction's question goes first: it is what gets the lost member out of the view.
        if question_at.is_some_and(|at| Instant::now() >= at) && turn.available_permits() > 0 {
            question_at = match is_proven(until.saturating_duration_since(Instant::now())).await {
                Ok(true) => return Ok(()),
                Ok(false) => Some(Instant::now() + QUESTION_GAP),
                // Such as a lacking privilege: the time decides.
                Err(_) => None,
            };
        }
        sleep(VIEW_LOOK).await;
    }
}

async fn causal_read(
    address: &str,
    login: &Login,
    at_least: Option<u64>,
    within: Duration,
) -> Result<(), Failed> {
    let until = Instant::now() + within;
    let left = || until.saturating_duration_since(Instant::now());
    let mut link = Link::connect(address, login, within).await?;
    link.query(sql::WAIT_FOR_GROUP, left()).await?;
    let word = link.query(sql::BARRIER, left()).await?;
    if word.text(0, 0) != Some("0") {
        return Err(Failed::because("it is read only"));
    }
    if word.text(0, 1) != Some("1") {
        return Err(Failed::because("wsrep_on is OFF there: what it writes would not reach the others"));
    }
    let member = link.query(sql::STILL_MEMBER, left()).await?;
    let says = |name: &str, wanted: &str| {
        member.value_of(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted))
    };
    if !says("wsrep_ready", "ON") || !says("wsrep_cluster_status", "Primary") {
        return Err(Failed::because("it is not a ready member of the Primary component"));
    }
    let has: Option<u64> = member.value_of("wsrep_last_committed").and_then(|seqno| seqno.parse().ok());
    if let Some((has, at_least)) = has.zip(at_least).filter(|(has, at_least)| has < at_least) {
        let text = format!(
            "it has applied everything up to write set {has}, and the cluster had committed {at_least}: start the node that has it; or, only if what is \
             between them may be lost, undrain this one"
        );
        return Err(Failed::because(text));
    }
    Ok(())
}

/// The number of the node's present view.
pub(crate) async fn view(link: &mut Link, within: Duration) -> Result<String, Failed> {
    let rows = link.query(sql::VIEW, within).await?;
    Ok(rows.value_of("wsrep_cluster_conf_id").unwrap_or_default().to_owned())
}

/// Waits for another view; returns its number.
pub(crate) async fn view_after(link: &mut Link, before: &str, within: Duration) -> Result<String, Failed> {
    loop {
        sleep(VIEW_LOOK).await;
        let now = view(link, within).await?;
        if now != before {
            return Ok(now);
        }
    }
}

/// Reads the account table.
pub(crate) async fn accounts(address: &str, login: &Login, within: Duration) -> Result<Vec<Account>, Failed> {
    in_time(within, async {
        let mut link = Link::connect(address, login, within).await?;
        let flavor = Flavor::of(&link.greeting.version);
        let rows = table_of(&mut link, flavor, within).await?;
        // There may be thousands of JSON documents, which must not delay the thread that probes.
        tokio::task::spawn_blocking(move || crate::accounts::read(flavor, &rows))
            .await
            .map_err(|_| Failed::because("reading it was broken off"))
    })
    .await
}

/// The accounts of a node, for a command.
///
/// # Errors
/// Why they could not be read.
pub async fn account_table(address: &str, login: &Login, within: Duration) -> Result<Vec<Account>, String> {
    accounts(address, login, within).await.map_err(|failed| failed.why)
}

/// The first of the flavor's statements that the server knows.
async fn table_of(link: &mut Link, flavor: Flavor, within: Duration) -> Result<Rows, LinkError> {
    let mut asked = Err(LinkError::Closed);
    for statement in flavor.accounts() {
        asked = link.query(statement, within).await;
        if !matches!(asked, Err(LinkError::Rejected { errno: errno::BAD_FIELD_ERROR, .. })) {
            break;
        }
    }
    asked
}

/// Makes the group wait, or not wait, for the node at `address` when it falls behind.
pub(crate) async fn desync(address: &str, login: &Login, on: bool) -> Result<(), Failed> {
    let statement = sql::desync(on);
    let asked = ask_once(address, login, &statement, DESYNC_DEADLINE);
    in_time(DESYNC_DEADLINE, async { asked.await.map(drop).map_err(Failed::from) }).await
}
