//! What each node says that decides which may be bootstrapped, and the order itself.

use std::time::Duration;

use anyhow::{Context as _, bail};
use link::{Link, LinkError, Login};
use tokio::time::{Instant, sleep};
use topology::flavor::Flavor;
use topology::galera::bootstrap::{Answer, Word};
use topology::galera::sql;

use doctor::asked::{self, NodeFacts};
use doctor::read::explain;
use settings::Settings;

/// One statement, or a connection, may take this long.
const DEADLINE: Duration = Duration::from_secs(5);
/// From the order until the component is Primary.
const PRIMARY_MAX: Duration = Duration::from_secs(10);
const LOOK_GAP: Duration = Duration::from_millis(20);

/// What asking a node came to.
pub(super) struct NodeAnswer {
    pub(super) word: Word,
    /// Whose server it is, when it answers.
    pub(super) flavor: Option<Flavor>,
}

/// Asks every node, at the same time. Only reads.
pub(super) async fn all(settings: &Settings, login: &Login) -> Vec<NodeFacts<NodeAnswer>> {
    asked::each(settings, async |address| {
        Ok(match answer(address, login).await {
            Ok((answer, flavor)) => NodeAnswer { word: Word::Answers(answer), flavor: Some(flavor) },
            Err(error) => {
                let how = explain(&error, settings.kind, &settings.monitor.user);
                let word = if is_silence(&error) { Word::Silent(how) } else { Word::Alive(how) };
                NodeAnswer { word, flavor: None }
            }
        })
    })
    .await
}

/// Nobody has said anything: the process may be dead, or cut off. Anything else is a sign of life.
fn is_silence(error: &LinkError) -> bool {
    matches!(
        error,
        LinkError::Refused
            | LinkError::NoSocket
            | LinkError::Reset
            | LinkError::Closed
            | LinkError::TimedOut { .. }
            | LinkError::Unreachable(_)
    )
}

async fn answer(address: &str, login: &Login) -> Result<(Answer, Flavor), LinkError> {
    let mut link = Link::connect(address, login, DEADLINE).await?;
    let rows = link.query(sql::STATUS, DEADLINE).await?;
    let flavor = Flavor::of(&link.greeting.version);
    link.quit();
    let text = |name: &str| rows.value_of(name).unwrap_or_default().to_owned();
    let number = |name: &str| {
        rows.value_of(name).and_then(|value| value.parse::<u64>().ok()).ok_or_else(|| {
            LinkError::Protocol(format!("it does not tell {name}: is it a Galera node, and is wsrep_on set?"))
        })
    };
    let answer = Answer {
        cluster_status: text("wsrep_cluster_status"),
        uuid: text("wsrep_cluster_state_uuid"),
        last_committed: number("wsrep_last_committed")?,
        recv_queue: number("wsrep_local_recv_queue")?,
        size: u32::try_from(number("wsrep_cluster_size")?).unwrap_or(u32::MAX),
        conf_id: number("wsrep_cluster_conf_id")?,
        gcomm_uuid: text("wsrep_gcomm_uuid"),
    };
    Ok((answer, flavor))
}

/// Makes the component of the node Primary, unless it is no longer what was decided about; returns when it is.
pub(super) async fn bootstrap(address: &str, login: &Login, decided: &Answer) -> anyhow::Result<()> {
    let mut link = Link::connect(address, login, DEADLINE).await?;
    link.query(sql::BOOTSTRAP_LIMIT, DEADLINE).await?;
    let before = link.query(sql::COMPONENT, DEADLINE).await?;
    let says = |name: &str| before.value_of(name).unwrap_or_default();
    if says("wsrep_gcomm_uuid") != decided.gcomm_uuid
        || says("wsrep_cluster_size") != decided.size.to_string()
        || !says("wsrep_cluster_status").eq_ignore_ascii_case(&decided.cluster_status)
    {
        bail!("its component has changed meanwhile: ask again");
    }
    link.query(sql::BOOTSTRAP, DEADLINE).await.context("pc.bootstrap was refused")?;
    let until = Instant::now() + PRIMARY_MAX;
    while Instant::now() < until {
        let now = link.query(sql::COMPONENT, DEADLINE).await?;
        if now.value_of("wsrep_cluster_status").is_some_and(|word| word.eq_ignore_ascii_case("Primary")) {
            link.quit();
            return Ok(());
        }
        sleep(LOOK_GAP).await;
    }
    bail!(
        "pc.bootstrap was ordered, and it is in no Primary component after {} s: look at its error log",
        PRIMARY_MAX.as_secs()
    )
}
