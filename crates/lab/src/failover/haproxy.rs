//! HAProxy as the baseline, set up as the seed set up its load balancer: checks every 1 s, dead after 3.
//!
//! Its check is `option mysql-check` with an account without rights: a login each second. `writers = "one"` is one server with
//! the others as `backup`; `writers = "all"` is `leastconn`. Sessions of a server marked down are cut, so that clients learn
//! of it. Graceful goes through the runtime socket: `maint`, two seconds for sessions to leave (long-lived ones do not), then
//! they are cut: HAProxy cannot move a session.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::case::Writers;

/// The account of the check: no password (the check cannot send one), no rights.
pub const CHECK_USER: &str = "haproxy_check";

/// The configuration file.
pub fn config(nodes: &[(String, String)], writers: Writers, listen: &str, socket: &Path) -> String {
    use std::fmt::Write;
    let balance = match writers {
        Writers::One => "first",
        Writers::All => "leastconn",
    };
    let mut text = format!(
        "global\n    stats socket {} mode 600 level admin\n    maxconn 2000\n\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n    timeout check 1s\n\n\
         listen mysql\n    bind {listen}\n    balance {balance}\n    option mysql-check user {CHECK_USER}\n    \
         default-server inter 1s fall 3 rise 2 on-marked-down shutdown-sessions\n",
        socket.display()
    );
    for (index, (name, address)) in nodes.iter().enumerate() {
        let backup = if writers == Writers::One && index > 0 { " backup" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    server {name} {address} check{backup}");
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

    /// Takes a node out: no new sessions, `grace` for the ones there, then they are cut.
    pub async fn take_out(&self, node: &str, grace: Duration) -> anyhow::Result<()> {
        self.command(&format!("set server mysql/{node} state maint")).await?;
        let deadline = tokio::time::Instant::now() + grace;
        while tokio::time::Instant::now() < deadline {
            if self.servers().await?.iter().any(|(name, _, sessions)| name == node && *sessions == 0) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.command(&format!("shutdown sessions server mysql/{node}")).await?;
        Ok(())
    }

    /// Lets it take sessions again, when its checks say so.
    pub async fn take_in(&self, node: &str) -> anyhow::Result<()> {
        self.command(&format!("set server mysql/{node} state ready")).await.map(drop)
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
        let nodes: Vec<(String, String)> =
            ["db1", "db2"].map(|n| (n.to_owned(), format!("{n}:3306"))).to_vec();
        let one = config(&nodes, Writers::One, "127.0.0.1:1", Path::new("/x"));
        assert!(
            one.contains("server db1 db1:3306 check\n") && one.contains("server db2 db2:3306 check backup\n")
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
