//! HAProxy as the baseline, in two forms: configured as in the seed article (each node's own check every 1 s, dead after 3 failures), or
//! following one `understudy serve` by its agent check and its health endpoint.
//!
//! The check is clustercheck's over HTTP in both forms, so a donor or a node outside the primary component is down. In replication the check
//! asks which server is the primary: a load balancer does not promote one.
//!
//! `writers = "one"` is one server with the others as `backup`; `writers = "all"` is `leastconn`. Sessions of a server marked down
//! are cut, so that clients notice. Graceful is a drain, by the runtime socket or by Understudy: sessions have two seconds to end
//! (long-lived ones do not), then they are cut, since HAProxy cannot move a session.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::case::Writers;
use crate::wait;

/// The account of each node's own check: no password, no privileges.
pub const CHECK_USER: &str = "haproxy_check";

/// What HAProxy checks.
#[derive(Clone, Debug)]
pub enum Asked {
    /// The check that runs beside each node, on this port of the node's address.
    EachNode(u16),
    /// One `understudy serve`: its health endpoint and its agent check.
    Understudy {
        /// `listen.health`.
        health: SocketAddr,
        /// `listen.agent`.
        agent: SocketAddr,
    },
    /// The health endpoint of one `understudy serve`, which promotes the primary and reports here which server it is.
    Primary(SocketAddr),
    /// Nothing: an external tool enables and disables servers by the runtime socket. This one is enabled at first.
    Nobody(String),
}

impl Asked {
    /// The checks' lines in the `listen` section.
    fn checks(&self) -> String {
        const DOWN: &str = "on-marked-down shutdown-sessions";
        match self {
            Self::Nobody(_) => String::new(),
            Self::EachNode(port) => {
                format!(
                    "    option httpchk\n    default-server check port {port} inter 1s fall 3 rise 2 {DOWN}\n"
                )
            }
            Self::Understudy { health, agent } => format!(
                "    option httpchk\n    http-check send meth GET uri-lf /health/%[srv_name]?drained=1\n    \
                 default-server check addr {} port {} inter 200ms fall 2 rise 1 {DOWN}\n    \
                 default-server agent-check agent-addr {} agent-port {} agent-inter 100ms\n",
                health.ip(),
                health.port(),
                agent.ip(),
                agent.port()
            ),
            Self::Primary(health) => format!(
                "    option httpchk\n    http-check send meth GET uri-lf /health/%[srv_name]/writer\n    \
                 default-server check addr {} port {} inter 200ms fall 2 rise 1 {DOWN}\n",
                health.ip(),
                health.port()
            ),
        }
    }

    /// The rest of a node's `server` line.
    fn of_server(&self, name: &str) -> String {
        match self {
            Self::Nobody(first) if first != name => " disabled".to_owned(),
            Self::Nobody(_) => String::new(),
            Self::EachNode(_) | Self::Primary(_) => String::new(),
            Self::Understudy { .. } => format!(" agent-send \"{name}\\n\""),
        }
    }
}

/// The configuration file. `nodes`: name and `host:port`.
pub fn config(
    nodes: &[(String, String)],
    writers: Writers,
    asked: &Asked,
    listen: &str,
    socket: &Path,
) -> String {
    use std::fmt::Write;
    let balance = match writers {
        Writers::One => "first",
        Writers::All => "leastconn",
    };
    let mut text = format!(
        "global\n    stats socket {} mode 600 level admin\n    maxconn 2000\n\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n    timeout check 1s\n\n\
         listen mysql\n    bind {listen}\n    balance {balance}\n{}",
        socket.display(),
        asked.checks()
    );
    for (index, (name, address)) in nodes.iter().enumerate() {
        let tells_one = matches!(asked, Asked::Primary(_) | Asked::Nobody(_));
        let is_backup = writers == Writers::One && index > 0 && !tells_one;
        let backup = if is_backup { " backup" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    server {name} {address}{}{backup}", asked.of_server(name));
    }
    text
}

/// The state of a server as HAProxy reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// `UP`, `DOWN 1/2`, `DRAIN (agent)`, ...
    pub status: String,
    /// Number of current sessions.
    pub sessions: u32,
    /// Whether its last check succeeded. A server is UP before its first check.
    pub is_checked: bool,
}

/// The runtime socket of a running HAProxy.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Where it listens.
    pub socket: PathBuf,
}

impl Runtime {
    /// Sends one command and returns the response.
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

    /// The state of each server.
    pub async fn servers(&self) -> anyhow::Result<Vec<Server>> {
        servers(&self.command("show stat").await?)
    }

    /// Takes a node out: no new sessions, `grace` for the existing ones to end, then they are cut. Returns the number cut.
    ///
    /// First `drain` and not `maint`, for a fair comparison: a server in maintenance counts as marked down, and with
    /// `on-marked-down shutdown-sessions` (which the crash cells need) that cuts every session at once, without any grace time.
    pub async fn take_out(&self, node: &str, grace: Duration) -> anyhow::Result<u32> {
        self.order(&format!("set server mysql/{node} state drain")).await?;
        let cut = self.empty(node, grace).await?;
        self.order(&format!("set server mysql/{node} state maint")).await?;
        Ok(cut)
    }

    /// Waits until HAProxy also reports `status` (`DRAIN`, `DOWN`) for a node that Understudy has taken out.
    ///
    /// # Errors
    /// When it does not within `within`.
    pub async fn follows(&self, node: &str, status: &str, within: Duration) -> anyhow::Result<()> {
        wait::retried(within, Duration::from_millis(10), async || {
            let server = self.server(node).await?;
            let follows = server.status.starts_with(status);
            ensure!(follows, "{node} was taken out, and HAProxy has it as {}", server.status);
            Ok(())
        })
        .await
    }

    /// Gives the sessions of a drained node `grace` to end, then cuts them. Returns the number cut.
    pub async fn empty(&self, node: &str, grace: Duration) -> anyhow::Result<u32> {
        let mut left = 0;
        let is_empty = async || {
            left = self.server(node).await?.sessions;
            Ok(left == 0)
        };
        if !wait::holds(grace, Duration::from_millis(50), is_empty).await? {
            self.order(&format!("shutdown sessions server mysql/{node}")).await?;
        }
        Ok(left)
    }

    async fn server(&self, node: &str) -> anyhow::Result<Server> {
        let servers = self.servers().await?;
        let found = servers.into_iter().find(|server| server.name == node);
        found.with_context(|| format!("HAProxy knows no server {node}"))
    }

    /// Runs a command whose response is empty on success.
    async fn order(&self, command: &str) -> anyhow::Result<()> {
        let said = self.command(command).await?;
        if !said.trim().is_empty() {
            bail!("HAProxy was told {command:?} and said: {}", said.trim());
        }
        Ok(())
    }

    /// Lets the node take sessions again, once its checks succeed.
    pub async fn take_in(&self, node: &str) -> anyhow::Result<()> {
        self.order(&format!("set server mysql/{node} state ready")).await
    }
}

/// Parses `show stat`: CSV with a header line that begins with `# pxname`.
fn servers(csv: &str) -> anyhow::Result<Vec<Server>> {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().trim_start_matches("# ").split(',').collect();
    let place = |name: &str| {
        head.iter()
            .position(|field| *field == name)
            .with_context(|| format!("HAProxy's statistics have no {name}"))
    };
    let (server, status, sessions, check) =
        (place("svname")?, place("status")?, place("scur")?, place("check_status")?);
    let mut found = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        let (Some(name), Some(status), Some(check)) =
            (fields.get(server), fields.get(status), fields.get(check))
        else {
            bail!("HAProxy's statistics have a short line");
        };
        if !matches!(*name, "FRONTEND" | "BACKEND") {
            let sessions = fields.get(sessions).and_then(|n| n.parse().ok()).unwrap_or(0);
            // The status begins with "* " while the next check runs.
            let is_checked = check.ends_with("L7OK");
            found.push(Server {
                name: (*name).to_owned(),
                status: (*status).to_owned(),
                sessions,
                is_checked,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_has_backups_and_all_writers_have_none() {
        let nodes = ["db1", "db2"].map(|name| (name.to_owned(), format!("{name}:3306")));
        let each = Asked::EachNode(9200);
        let one = config(&nodes, Writers::One, &each, "127.0.0.1:1", Path::new("/x"));
        assert!(
            one.contains("server db1 db1:3306\n") && one.contains("server db2 db2:3306 backup\n"),
            "{one}"
        );
        assert!(one.contains("check port 9200 inter 1s fall 3"), "the seed's checks");
        let all = config(&nodes, Writers::All, &each, "127.0.0.1:1", Path::new("/x"));
        assert!(all.contains("balance leastconn") && !all.contains("backup"));
    }

    #[test]
    fn who_follows_understudy_names_the_node_in_both_questions() {
        let nodes = [("db1".to_owned(), "db1:3306".to_owned())];
        let (health, agent) = (SocketAddr::from(([127, 0, 0, 1], 1)), SocketAddr::from(([127, 0, 0, 1], 2)));
        let asked = Asked::Understudy { health, agent };
        let text = config(&nodes, Writers::All, &asked, "127.0.0.1:3", Path::new("/x"));
        assert!(
            text.contains("uri-lf /health/%[srv_name]?drained=1\n")
                && text.contains("check addr 127.0.0.1 port 1 "),
            "{text}"
        );
        assert!(
            text.contains("agent-port 2 ") && text.contains("server db1 db1:3306 agent-send \"db1\\n\"\n"),
            "{text}"
        );
    }

    #[test]
    fn of_a_primary_and_its_replicas_it_asks_who_the_primary_is() {
        let nodes = ["db1", "db2"].map(|name| (name.to_owned(), format!("{name}:3306")));
        let asked = Asked::Primary(SocketAddr::from(([127, 0, 0, 1], 1)));
        let text = config(&nodes, Writers::One, &asked, "127.0.0.1:3", Path::new("/x"));
        assert!(text.contains("uri-lf /health/%[srv_name]/writer\n"), "{text}");
        assert!(text.contains("server db2 db2:3306\n") && !text.contains("agent"), "{text}");
    }

    #[test]
    fn where_somebody_else_points_it_one_server_is_in() {
        let nodes = ["db1", "db2"].map(|name| (name.to_owned(), format!("{name}:3306")));
        let asked = Asked::Nobody("db2".to_owned());
        let text = config(&nodes, Writers::One, &asked, "127.0.0.1:3", Path::new("/x"));
        assert!(
            text.contains("server db1 db1:3306 disabled\n") && text.contains("server db2 db2:3306\n"),
            "{text}"
        );
        assert!(!text.contains("check port") && !text.contains("backup"), "{text}");
    }

    #[test]
    fn statistics_are_read_by_name() {
        let csv = "# pxname,svname,qcur,qmax,scur,smax,status,check_status\nmysql,FRONTEND,,,1,1,OPEN,\nmysql,db1,0,0,4,9,UP,* L7OK\n\
                   mysql,db2,0,0,0,0,DOWN 1/2,L7STS\nmysql,BACKEND,0,0,1,1,UP,\n\n";
        let server = |name: &str, status: &str, sessions, is_checked| Server {
            name: name.to_owned(),
            status: status.to_owned(),
            sessions,
            is_checked,
        };
        assert_eq!(
            servers(csv).unwrap(),
            [server("db1", "UP", 4, true), server("db2", "DOWN 1/2", 0, false)]
        );
        assert!(servers("what?\n").is_err());
    }
}
