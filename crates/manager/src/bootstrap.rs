//! Has the processes of lost nodes proven dead, and makes a component Primary; [`topology::galera::bootstrap`] decides when.

use std::process::Output;
use std::time::Duration;

use futures_util::future::join_all;
use link::{Link, Login};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use topology::galera::position::Left;
use topology::galera::sql;

use crate::failed::{Failed, in_time};
use crate::shell::{Shell, last_words};

/// A running server accepts a connection within this time.
const LISTENS_WITHIN: Duration = Duration::from_millis(500);
/// How often the component is checked while it becomes Primary.
const LOOK_GAP: Duration = Duration::from_millis(20);

/// Runs the operator's command for a node. Only exit code 0 with a position, in time, is a proof.
pub(crate) async fn prove(
    command: Option<&str>,
    name: &str,
    address: &str,
    within: Duration,
) -> Result<Left, String> {
    let command = command.ok_or("no proof_command is set")?;
    match run(command, name, address, within).await? {
        Output { status, stdout, .. } if status.success() => {
            Left::read(&String::from_utf8_lossy(&stdout)).map_err(|why| format!("proof_command: {why}"))
        }
        said => Err(format!("proof_command ended with {}, and said: {}", said.status, last_words(&said))),
    }
}

/// The result of `proof_command` for a node whose server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// It does not call the node dead, and printed this. Correct, if the text is about a server that runs.
    Alive(String),
    /// It calls a server dead that answers, so it must never be believed.
    CallsItDead,
    /// It could not be run, did not end in time, or could not examine the node, so it could never prove anything.
    Failed(String),
}

/// Runs `proof_command` once for a node whose server answers, to see its result. The command must only examine and change nothing, as in
/// the real case; a running server needs no recovery.
pub async fn try_proof(command: &str, name: &str, address: &str, within: Duration) -> Trial {
    match run(command, name, address, within).await {
        Ok(said) if said.status.success() => Trial::CallsItDead,
        Ok(said) if said.status.code().is_none_or(|code| NOT_LOOKED.contains(&code)) => {
            Trial::Failed(format!("it ended with {}, and said: {}", said.status, last_words(&said)))
        }
        Ok(said) => Trial::Alive(last_words(&said)),
        Err(why) => Trial::Failed(why),
    }
}

/// Exit codes by which the shell reports that a program is missing or cannot be run, and ssh that it did not reach the host.
const NOT_LOOKED: [i32; 3] = [126, 127, 255];

/// Runs the command to its end.
async fn run(command: &str, name: &str, address: &str, within: Duration) -> Result<Output, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let environment = [("NODE", name), ("ADDRESS", address), ("HOST", host)];
    Shell { setting: "proof_command", command, environment: &environment, hidden: &[], input: &[] }
        .run(within)
        .await
}

/// The node whose component is made Primary, and the conditions at that moment.
pub(crate) struct Order {
    /// The address of the node that gets the order.
    pub address: String,
    /// Its gcomm uuid.
    pub gcomm_uuid: String,
    /// Members of its component.
    pub size: u32,
    /// Names and addresses of the nodes that are proven not to run.
    pub gone: Vec<(String, String)>,
    /// After this time the proofs are too old.
    pub begin_by: Instant,
}

/// Makes the component of a node Primary, and returns when it is. No order is given when the node has another gcomm uuid by now, when its
/// component has another size or is Primary already, when a server listens at the address of a dead node, or when the proofs are too old.
pub(crate) async fn bootstrap(order: &Order, login: &Login, within: Duration) -> Result<(), Failed> {
    in_time(within, async {
        let mut link = Link::connect(&order.address, login, within).await?;
        if let Some(name) = who_listens(&order.gone).await {
            return Err(Failed::because(format!(
                "{name} was proven not to run, and accepts connections by now"
            )));
        }
        link.query(sql::BOOTSTRAP_LIMIT, within).await?;
        let before = link.query(sql::COMPONENT, within).await?;
        let says = |name: &str| before.value_of(name).unwrap_or_default();
        if !says("wsrep_cluster_status").eq_ignore_ascii_case("non-Primary") {
            return Err(Failed::because(format!("it says {:?} by now", says("wsrep_cluster_status"))));
        }
        if says("wsrep_gcomm_uuid") != order.gcomm_uuid
            || says("wsrep_cluster_size") != order.size.to_string()
        {
            return Err(Failed::because("its component has changed meanwhile"));
        }
        if Instant::now() > order.begin_by {
            return Err(Failed::because("the proofs had become too old when it answered"));
        }
        link.query(sql::BOOTSTRAP, within).await?;
        loop {
            let now = link.query(sql::COMPONENT, within).await?;
            if now.value_of("wsrep_cluster_status").is_some_and(|word| word.eq_ignore_ascii_case("Primary")) {
                link.quit();
                return Ok(());
            }
            sleep(LOOK_GAP).await;
        }
    })
    .await
}

/// A node at whose address a server accepts connections. Silence and refusals mean nothing here, since the proofs decide.
async fn who_listens(nodes: &[(String, String)]) -> Option<String> {
    let looks = nodes.iter().map(|(name, address)| async move {
        let accepted = timeout(LISTENS_WITHIN, TcpStream::connect(address)).await;
        matches!(accepted, Ok(Ok(_))).then(|| name.clone())
    });
    join_all(looks).await.into_iter().flatten().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";

    async fn proof(command: Option<&str>, within: Duration) -> Result<Left, String> {
        prove(command, "db1", "10.0.0.1:3306", within).await
    }

    #[tokio::test]
    async fn only_exit_code_0_and_a_position_are_a_proof() {
        let within = Duration::from_secs(5);
        for (command, said) in [
            (format!("echo position {UUID}:7; exit 1"), "exit status: 1"),
            (format!("echo position {UUID}:7; kill -9 $$"), "signal: 9"),
            ("true".to_owned(), "one line `position UUID:SEQNO`"),
            (format!("echo position {UUID}:7"), "members none"),
            (format!("echo position {UUID}:-1"), "--wsrep-recover"),
            ("echo it runs >&2; exit 1".to_owned(), "it runs"),
            ("/no/such/program".to_owned(), "exit status: 127"),
        ] {
            let why = proof(Some(&command), within).await.unwrap_err();
            assert!(why.contains(said), "{command}: {why}");
        }
        let command = format!("echo position {UUID}:7; echo members $NODE $ADDRESS $HOST");
        let left = proof(Some(&command), within).await.unwrap();
        assert_eq!(left.position.seqno, 7);
        assert_eq!(left.members, ["db1", "10.0.0.1:3306", "10.0.0.1"]);
    }

    #[tokio::test]
    async fn a_command_is_tried_on_a_node_that_runs() {
        let tried = async |command: &str| try_proof(command, "db1", "a:1", Duration::from_secs(5)).await;
        let runs = tried("echo a server runs >&2; exit 1").await;
        assert_eq!(runs, Trial::Alive("a server runs".to_owned()));
        assert_eq!(tried("true").await, Trial::CallsItDead, "whatever it writes: it is wrong");
        let away = tried("echo no route to host >&2; exit 255").await;
        assert!(matches!(&away, Trial::Failed(why) if why.contains("no route to host")), "{away:?}");
        let late = try_proof("sleep 60", "db1", "a:1", Duration::from_millis(100)).await;
        assert!(matches!(&late, Trial::Failed(why) if why.contains("did not end within")), "{late:?}");
    }

    #[tokio::test]
    async fn a_server_that_listens_is_seen() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap().to_string();
        // Bound, so that nobody else gets the port, and not listening.
        let bound = tokio::net::TcpSocket::new_v4().unwrap();
        bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let closed = bound.local_addr().unwrap().to_string();
        let nodes = [("db1".to_owned(), closed.clone()), ("db2".to_owned(), open)];
        assert_eq!(who_listens(&nodes).await.as_deref(), Some("db2"));
        assert_eq!(who_listens(&nodes[..1]).await, None);
    }

    #[tokio::test]
    async fn no_command_and_one_that_does_not_end_prove_nothing() {
        let none = proof(None, Duration::from_secs(1)).await.unwrap_err();
        assert!(none.contains("no proof_command"), "{none}");
        let late = proof(Some("exec sleep 60"), Duration::from_millis(200)).await.unwrap_err();
        assert!(late.contains("did not end within"), "{late}");
        // What it started does not outlive it.
        let file = tempfile::NamedTempFile::new().unwrap();
        let command = format!("sleep 60 & echo $! > {}; wait", file.path().display());
        let late = proof(Some(&command), Duration::from_millis(500)).await.unwrap_err();
        assert!(late.contains("did not end within"), "{late}");
        let child = std::fs::read_to_string(file.path()).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        let is_over = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while !is_over() {
            assert!(std::time::Instant::now() < deadline, "{} goes on", child.trim());
            sleep(LOOK_GAP).await;
        }
    }
}
