//! One member while the group is hurried: a connection, its own settings, and its state.

use std::time::Duration;

use link::{Link, Login};
use tokio::task::JoinSet;
use topology::NodeId;
use topology::galera::sql;
use topology::galera::timers::{Own, is_set};

use crate::failed::Failed;
use crate::loan::Loan;

/// The time limit of each step with a member: one that takes longer cannot be relied on.
const STEP: Duration = Duration::from_millis(500);

pub(super) struct Member {
    pub name: String,
    pub address: String,
    pub own: Own,
    pub gcomm_uuid: String,
    /// The number of its view.
    pub view: u64,
    /// It is agreeing with the others on their next view.
    pub is_forming_view: bool,
    link: Link,
}

/// Connects to all of them.
pub(super) async fn meet(
    nodes: &[(NodeId, String, String)],
    login: &Login,
    loans: Vec<Loan>,
) -> Result<Vec<Member>, Failed> {
    let mut tasks = JoinSet::new();
    for (place, (_, name, address)) in nodes.iter().enumerate() {
        let (name, address, login) = (name.clone(), address.clone(), login.clone());
        tasks.spawn(async move { (place, Member::connect(name, address, &login).await) });
    }
    let mut members = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        let (place, member) = joined.map_err(|_| Failed::because("a task broke"))?;
        members.push((place, member?));
    }
    members.sort_by_key(|(place, _)| *place);
    let mut members: Vec<Member> = members.into_iter().map(|(_, member)| member).collect();
    for member in &mut members {
        // It was not restored yet, so the value that it reports is not its own.
        for loan in
            loans.iter().filter(|loan| loan.node == member.name && loan.gcomm_uuid == member.gcomm_uuid)
        {
            member.own = member.own.clone().with(&loan.option, &loan.own);
        }
    }
    Ok(members)
}

/// Does the same for every member in parallel: the statements are sent to all of them at once. Returns the first failure, and the member it is from.
pub(super) async fn each<F>(
    members: &mut Vec<Member>,
    work: impl Fn(Member) -> F,
) -> Result<(), (String, Failed)>
where
    F: Future<Output = (Member, Result<(), Failed>)> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (place, member) in members.drain(..).enumerate() {
        let work = work(member);
        tasks.spawn(async move { (place, work.await) });
    }
    let mut back = Vec::new();
    let mut failure = None;
    while let Some(joined) = tasks.join_next().await {
        match joined {
            Ok((place, (member, done))) => {
                if let Err(failed) = done {
                    failure.get_or_insert_with(|| (member.address.clone(), failed));
                }
                back.push((place, member));
            }
            Err(_) => failure = Some((String::new(), Failed::because("a task broke"))),
        }
    }
    back.sort_by_key(|(place, _)| *place);
    members.extend(back.into_iter().map(|(_, member)| member));
    failure.map_or(Ok(()), Err)
}

impl Member {
    async fn connect(name: String, address: String, login: &Login) -> Result<Self, Failed> {
        let mut link = Link::connect(&address, login, STEP).await?;
        let options = link.query(sql::PROVIDER_OPTIONS, STEP).await?;
        let own = options
            .text(0, 0)
            .and_then(Own::read)
            .ok_or_else(|| Failed::because(format!("{name} does not say how its evs timers are set")))?;
        let (view, is_forming_view, gcomm_uuid) = (0, false, String::new());
        let mut member = Self { name, address, own, gcomm_uuid, view, is_forming_view, link };
        member.look().await?;
        Ok(member)
    }

    /// Updates its state.
    pub async fn look(&mut self) -> Result<(), Failed> {
        let rows = self.link.query(sql::VIEW_STATE, STEP).await?;
        self.view = rows.value_of("wsrep_cluster_conf_id").and_then(|view| view.parse().ok()).unwrap_or(0);
        self.is_forming_view = rows.value_of("wsrep_evs_state").is_some_and(|state| state != "OPERATIONAL");
        rows.value_of("wsrep_gcomm_uuid").unwrap_or_default().clone_into(&mut self.gcomm_uuid);
        Ok(())
    }

    /// Closes its connection.
    pub fn leave(&self) {
        self.link.quit();
    }

    /// Sets one option, and checks that it is in force.
    pub async fn set(&mut self, option: &str, value: &str) -> Result<(), Failed> {
        set(&mut self.link, &self.name, option, value).await
    }
}

/// Sets one option of the node at the end of `link`, and checks that it is in force.
pub(super) async fn set(link: &mut Link, name: &str, option: &str, value: &str) -> Result<(), Failed> {
    let statement = sql::set_period(option, value)
        .ok_or_else(|| Failed::because(format!("{value:?} is no length of time")))?;
    link.query(&statement, STEP).await?;
    let options = link.query(sql::PROVIDER_OPTIONS, STEP).await?;
    if options.text(0, 0).is_some_and(|options| is_set(options, option, value)) {
        return Ok(());
    }
    Err(Failed::because(format!("{name} took {option} = {value}, and says otherwise")))
}
