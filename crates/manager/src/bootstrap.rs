//! Has the processes of lost nodes proven dead, and makes a component Primary; [`topology::galera::bootstrap`] says when.

use std::process::Stdio;
use std::time::Duration;

use link::{Link, Login};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use topology::NodeId;
use topology::galera::position::Left;
use topology::galera::sql;

use crate::act::{Failed, in_time};

/// How often the component is looked at while it becomes Primary.
const LOOK_GAP: Duration = Duration::from_millis(20);
/// Of a proof's complaint, at most so many characters are shown.
const SHOWN_MAX: usize = 200;

/// What came of one proof.
type Proof = (NodeId, Result<Left, String>);

/// Runs the operator's command once for each node (id, name, address), side by side. Whatever is not exit code 0 and a position in time is no
/// proof.
pub(crate) async fn prove(
    command: Option<&str>,
    nodes: Vec<(NodeId, String, String)>,
    within: Duration,
) -> Vec<Proof> {
    let Some(command) = command else {
        return nodes
            .into_iter()
            .map(|(node, ..)| (node, Err("no proof_command is set".to_owned())))
            .collect();
    };
    let all: Vec<NodeId> = nodes.iter().map(|(node, ..)| *node).collect();
    let mut running = JoinSet::new();
    for (node, name, address) in nodes {
        let command = command.to_owned();
        running.spawn(async move { (node, prove_one(&command, &name, &address, within).await) });
    }
    let mut proofs: Vec<Proof> = Vec::new();
    while let Some(ended) = running.join_next().await {
        proofs.extend(ended.ok());
    }
    // A task that broke off has proven nothing.
    for node in all {
        if !proofs.iter().any(|(proven, _)| *proven == node) {
            proofs.push((node, Err("its proof broke off".to_owned())));
        }
    }
    proofs
}

async fn prove_one(command: &str, name: &str, address: &str, within: Duration) -> Result<Left, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .envs([("NODE", name), ("ADDRESS", address), ("HOST", host)])
        // What it starts is not the service that systemd waits for.
        .env_remove("NOTIFY_SOCKET")
        .env_remove("WATCHDOG_USEC")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = match timeout(within, shell.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(format!("proof_command cannot be run: {error}")),
        Err(_) => return Err(format!("proof_command did not end within {within:?}")),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
        let said: String = said.chars().take(SHOWN_MAX).collect();
        return Err(format!("proof_command ended with {}, and said: {said}", output.status));
    }
    Left::read(&String::from_utf8_lossy(&output.stdout)).map_err(|why| format!("proof_command: {why}"))
}

/// Makes the component of the node at `address` Primary, and returns when it is. Nothing is ordered when the node has another name in the
/// group by now, when its component has another size, or when that is Primary already.
pub(crate) async fn bootstrap(
    address: &str,
    login: &Login,
    gcomm_uuid: &str,
    size: u32,
    within: Duration,
) -> Result<(), Failed> {
    in_time(within, async {
        let mut link = Link::connect(address, login, within).await?;
        let before = link.query(sql::COMPONENT, within).await?;
        let says = |name: &str| before.value_of(name).unwrap_or_default();
        if !says("wsrep_cluster_status").eq_ignore_ascii_case("non-Primary") {
            return Err(Failed::because(format!("it says {:?} by now", says("wsrep_cluster_status"))));
        }
        if says("wsrep_gcomm_uuid") != gcomm_uuid || says("wsrep_cluster_size") != size.to_string() {
            return Err(Failed::because("its component has changed meanwhile"));
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

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";

    async fn proof(command: Option<&str>, within: Duration) -> Result<Left, String> {
        let nodes = vec![(NodeId(0), "db1".to_owned(), "10.0.0.1:3306".to_owned())];
        let mut proofs = prove(command, nodes, within).await;
        assert_eq!(proofs.len(), 1);
        proofs.remove(0).1
    }

    #[tokio::test]
    async fn only_exit_code_0_and_a_position_are_a_proof() {
        let within = Duration::from_secs(5);
        for (command, said) in [
            (format!("echo position {UUID}:7; exit 1"), "exit status: 1"),
            (format!("echo position {UUID}:7; kill -9 $$"), "signal: 9"),
            ("true".to_owned(), "one line `position UUID:SEQNO`"),
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
    async fn no_command_and_one_that_does_not_end_prove_nothing() {
        let none = proof(None, Duration::from_secs(1)).await.unwrap_err();
        assert!(none.contains("no proof_command"), "{none}");
        let late = proof(Some("exec sleep 60"), Duration::from_millis(200)).await.unwrap_err();
        assert!(late.contains("did not end within"), "{late}");
    }
}
