//! Who is what by where the application is connected: each node is asked four times a second whether that account is there.
//!
//! Invariant: a node is warmed only while its own last answer, at most [`ANSWER_MAX`] and a pause old, says that the application is not there.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use link::{Asker, Link, LinkError, Login};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use warmup::warmer::Roles;

use super::{LOOK_EVERY, tell};
use cli::exit::Failure;

/// A node that takes longer to answer is not known.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Connecting may take so long.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Whether the application is there; or why that is not known.
type Answer = Result<bool, String>;

/// Follows it for as long as anybody listens. An account that may not see others' connections is refused.
pub(super) async fn follow(
    nodes: Vec<String>,
    login: Login,
    application: &str,
) -> Result<watch::Receiver<Roles>, Failure> {
    if nodes.len() < 2 {
        return Err(Failure::usage(
            "at least two nodes are needed: one takes the traffic, another is warmed",
        ));
    }
    for address in &nodes {
        if let Ok(mut link) = Link::connect(address, &login, CONNECT_MAX).await {
            let held = manager::rights::held(&mut link, CONNECT_MAX).await;
            link.quit();
            if held.is_ok_and(|held| !held.may("PROCESS")) {
                let user = &login.user;
                return Err(Failure::usage(format!(
                    "the account {user} does not see other accounts' connections on {address}: GRANT PROCESS ON *.* TO '{user}'@'%' there"
                )));
            }
        }
    }
    let begin = nodes.iter().map(|address| (address.clone(), Err("it has not been asked yet".to_owned())));
    let (answers, mut heard) = watch::channel::<BTreeMap<String, Answer>>(begin.collect());
    let query = query(application);
    let application = application.to_owned();
    let (sender, receiver) = watch::channel(roles(&answers.borrow(), &application));
    tokio::spawn(async move {
        let mut asking = JoinSet::new();
        for address in nodes {
            asking.spawn(ask(address, login.clone(), query.clone(), answers.clone()));
        }
        while !sender.is_closed() && heard.changed().await.is_ok() {
            let now = roles(&heard.borrow_and_update(), &application);
            tell(&sender, now);
        }
    });
    Ok(receiver)
}

/// The name is given as bytes: no quote in it can end a literal.
fn query(application: &str) -> String {
    let hex = hex::encode(application);
    format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = CONVERT(0x{hex} USING utf8mb4)")
}

/// Asks one node, for ever.
async fn ask(
    address: String,
    login: Login,
    query: String,
    answers: watch::Sender<BTreeMap<String, Answer>>,
) -> Infallible {
    let mut node = Asker::new(address.as_str(), login, CONNECT_MAX);
    loop {
        let answer = once(&mut node, &query).await;
        let answer = answer.map_err(|error| format!("it does not tell who is connected: {error}"));
        // Also when nothing has changed: whoever listens may be gone by now.
        answers.send_modify(|answers| {
            answers.insert(address.clone(), answer);
        });
        sleep(LOOK_EVERY).await;
    }
}

async fn once(node: &mut Asker, query: &str) -> Result<bool, LinkError> {
    let rows = node.ask(query, ANSWER_MAX).await?;
    let count = rows.text(0, 0).and_then(|text| text.parse::<u64>().ok());
    count.map(|count| count > 0).ok_or(LinkError::Closed)
}

fn roles(answers: &BTreeMap<String, Answer>, application: &str) -> Roles {
    let has = |answer: &Answer| answer.as_ref().is_ok_and(|is_connected| *is_connected);
    let connected: Vec<&String> =
        answers.iter().filter(|(_, answer)| has(answer)).map(|(address, _)| address).collect();
    let active = match connected[..] {
        [one] => Ok((one.clone(), one.clone())),
        [] => Err(format!("{application} is connected to none of the nodes")),
        [first, second, ..] => {
            Err(format!("{application} is connected to several nodes, {first} and {second} among them"))
        }
    };
    let others = answers.iter().filter(|(_, answer)| !has(answer));
    let standbys = others.map(|(address, answer)| {
        (address.clone(), answer.as_ref().map(|_| address.clone()).map_err(Clone::clone))
    });
    Roles { active, standbys: standbys.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_warmed_unless_the_application_is_on_exactly_one_node() {
        let answers = |one: Answer, two: Answer, three: Answer| {
            let all = [("a:1", one), ("b:1", two), ("c:1", three)];
            roles(&all.into_iter().map(|(address, answer)| (address.to_owned(), answer)).collect(), "app")
        };
        let well = answers(Ok(true), Ok(false), Err("down".into()));
        assert_eq!(well.active, Ok(("a:1".into(), "a:1".into())));
        assert_eq!((&well.standbys["b:1"], &well.standbys["c:1"]), (&Ok("b:1".into()), &Err("down".into())));
        assert!(!well.standbys.contains_key("a:1"));
        let none = answers(Ok(false), Ok(false), Err("down".into()));
        assert_eq!(none.active, Err("app is connected to none of the nodes".into()));
        let both = answers(Ok(true), Ok(true), Ok(false));
        assert_eq!(both.active, Err("app is connected to several nodes, a:1 and b:1 among them".into()));
        assert_eq!(both.standbys.keys().collect::<Vec<_>>(), ["c:1"]);
    }

    #[test]
    fn a_name_with_quotes_is_a_name() {
        assert!(query("a'b").contains("user = CONVERT(0x612762 USING utf8mb4)"));
    }
}
