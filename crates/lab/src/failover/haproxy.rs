//! HAProxy as the baseline, set up as the seed set up its load balancer: checks every 1 s, dead after 3.
//!
//! Its check is the seed's too: clustercheck by HTTP (see [`super::clustercheck`]), so that a donor or a node without the
//! primary component is down for it. `writers = "one"` is one server with the others as `backup`; `writers = "all"` is
//! `leastconn`. Sessions of a server marked down are cut, so that clients learn of it. Graceful goes through the runtime
//! socket: `drain`, two seconds for sessions to leave (long-lived ones do not), then they are cut, since HAProxy cannot move a
//! session, and `maint`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::case::Writers;

/// The account of the check: no password (the check cannot send one), no rights.
pub const CHECK_USER: &str = "haproxy_check";

/// The configuration file. `nodes`: name, `host:port`, and the port of its check on this side.
pub fn config(nodes: &[(String, String, u16)], writers: Writers, listen: &str, socket: &Path) -> String {
    use std::fmt::Write;
    let balance = match writers {
        Writers::One => "first",
        Writers::All => "leastconn",
    };
    let mut text = format!(
        "global\n    stats socket {} mode 600 level admin\n    maxconn 2000\n\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n    timeout check 1s\n\n\
         listen mysql\n    bind {listen}\n    balance {balance}\n    option httpchk\n    \
         default-server inter 1s fall 3 rise 2 on-marked-down shutdown-sessions\n",
        socket.display()
    );
    for (index, (name, address, check)) in nodes.iter().enumerate() {
        let backup = if writers == Writers::One && index > 0 { " backup" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    server {name} {address} check addr 127.0.0.1 port {check}{backup}");
    }
    text
}

/// The runtime socket of a running HAProxy.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Where it listens.
    pub socket: PathBuf,
}

impl Runtime {
    /// Sends one command and returns the answer.
    pub async fn command(&self, command: &str) -> anyhow::Result<String> {
        let exchange = async {
            let mut stream = UnixStream::connect(&self.socket).await?;
            stream.write_all(format!("{command}\n").as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            anyhow::Ok(answer)
        };
        tokio::time::timeout(Duration::from_secs(2), exchange)
            .await
            .context("HAProxy's runtime socket does not answer")?
            .with_context(|| format!("HAProxy's runtime socket: {command}"))
    }

    /// (name, status, current sessions) of each server.
    pub async fn servers(&self) -> anyhow::Result<Vec<(String, String, u32)>> {
        servers(&self.command("show stat").await?)
    }

    /// Takes a node out: no new sessions, `grace` for the ones there, then they are cut. Returns how many were.
    ///
    /// `drain` and not `maint` comes first, to be fair: a server in maintenance counts as marked down, and with
    /// `on-marked-down shutdown-sessions` (which the crash cells need) that cuts every session at once, without any grace.
    pub async fn take_out(&self, node: &str, grace: Duration) -> anyhow::Result<u32> {
        self.order(&format!("set server mysql/{node} state drain")).await?;
        let deadline = tokio::time::Instant::now() + grace;
        let left = loop {
            let servers = self.servers().await?;
            let left = servers.iter().find(|(name, _, _)| name == node).map(|(_, _, sessions)| *sessions);
            let left = left.with_context(|| format!("HAProxy knows no server {node}"))?;
            if left == 0 || tokio::time::Instant::now() >= deadline {
                break left;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        if left > 0 {
            self.order(&format!("shutdown sessions server mysql/{node}")).await?;
        }
        self.order(&format!("set server mysql/{node} state maint")).await?;
        Ok(left)
    }

    /// A command that has nothing to say when it was done.
    async fn order(&self, command: &str) -> anyhow::Result<()> {
        let said = self.command(command).await?;
        if !said.trim().is_empty() {
            bail!("HAProxy was told {command:?} and said: {}", said.trim());
        }
        Ok(())
    }

    /// Lets it take sessions again, when its checks say so.
    pub async fn take_in(&self, node: &str) -> anyhow::Result<()> {
        self.order(&format!("set server mysql/{node} state ready")).await
    }
}

/// Reads `show stat`: CSV with a head line that begins with `# pxname`.
fn servers(csv: &str) -> anyhow::Result<Vec<(String, String, u32)>> {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().trim_start_matches("# ").split(',').collect();
    let place = |name: &str| {
        head.iter()
            .position(|field| *field == name)
            .with_context(|| format!("HAProxy's statistics have no {name}"))
    };
    let (server, status, sessions) = (place("svname")?, place("status")?, place("scur")?);
    let mut found = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        let (Some(name), Some(status)) = (fields.get(server), fields.get(status)) else {
            bail!("HAProxy's statistics have a short line");
        };
        if !matches!(*name, "FRONTEND" | "BACKEND") {
            let sessions = fields.get(sessions).and_then(|n| n.parse().ok()).unwrap_or(0);
            found.push(((*name).to_owned(), (*status).to_owned(), sessions));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_has_backups_and_all_writers_have_none() {
        let nodes =
            [("db1", 9001), ("db2", 9002)].map(|(n, check)| (n.to_owned(), format!("{n}:3306"), check));
        let one = config(&nodes, Writers::One, "127.0.0.1:1", Path::new("/x"));
        assert!(
            one.contains("server db1 db1:3306 check addr 127.0.0.1 port 9001\n")
                && one.contains("server db2 db2:3306 check addr 127.0.0.1 port 9002 backup\n")
        );
        assert!(one.contains("inter 1s fall 3"), "the seed's checks");
        let all = config(&nodes, Writers::All, "127.0.0.1:1", Path::new("/x"));
        assert!(all.contains("balance leastconn") && !all.contains("backup"));
    }

    #[test]
    fn statistics_are_read_by_name() {
        let csv = "# pxname,svname,qcur,qmax,scur,smax,status\nmysql,FRONTEND,,,1,1,OPEN\nmysql,db1,0,0,4,9,UP\nmysql,db2,0,0,0,0,DOWN 1/2\nmysql,BACKEND,0,0,1,1,UP\n\n";
        assert_eq!(
            servers(csv).unwrap(),
            [("db1".into(), "UP".into(), 4), ("db2".into(), "DOWN 1/2".into(), 0)]
        );
        assert!(servers("what?\n").is_err());
    }
}
