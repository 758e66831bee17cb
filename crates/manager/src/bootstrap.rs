//! Has the processes of lost nodes proven dead, and makes a component Primary; [`topology::galera::bootstrap`] says when.

use std::process::Stdio;
use std::time::Duration;

use link::{Link, Login};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
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
/// Of what it writes, no more is kept.
const SAID_BYTES_MAX: u64 = 64 << 10;

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
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = shell.spawn().map_err(|error| format!("proof_command cannot be run: {error}"))?;
    let group = Group(child.id());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = timeout(within, async { tokio::join!(said(out), said(err), child.wait()) }).await;
    let Ok((out, err, status)) = ended else {
        // What it has started goes with it: a look at the data that is left alone would keep the server from starting.
        drop(group);
        return Err(format!("proof_command did not end within {within:?}"));
    };
    let status = status.map_err(|error| format!("proof_command cannot be waited for: {error}"))?;
    group.has_ended();
    if !status.success() {
        let said = String::from_utf8_lossy(&err);
        let said = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
        let said: String = said.chars().take(SHOWN_MAX).collect();
        return Err(format!("proof_command ended with {status}, and said: {said}"));
    }
    Left::read(&String::from_utf8_lossy(&out)).map_err(|why| format!("proof_command: {why}"))
}

/// What comes out of a pipe, to its end; the first part of it is kept.
async fn said(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut said = Vec::new();
    if let Some(mut pipe) = pipe {
        // A pipe that breaks has said what it has said.
        let _ = (&mut pipe).take(SAID_BYTES_MAX).read_to_end(&mut said).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    said
}

/// The processes of a shell; ended when this is dropped, also because nobody waits for them any more.
struct Group(Option<u32>);

impl Group {
    /// The shell has ended by itself, and its number may be another's by now.
    fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let leader = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            // They may have ended in this moment.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
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
