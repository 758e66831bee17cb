//! Understudy as the service under test: its configuration, its program and its API, as a user has them.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Value, json};

use super::case::Writers;
use super::http;
use crate::stage::ClusterKind;
use crate::stage::replication::{REPLICATION_PASSWORD, REPLICATION_USER};

/// The cluster's ID in `/api/cluster/<id>/...`.
const CLUSTER_ID: u32 = 5;
/// The response to an order may take its time limit plus the time to undo it.
const ORDER_PATIENCE: Duration = Duration::from_secs(40);

/// Which nodes are evicted
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evict {
    /// Nodes that refused or reset connections
    Proven,
    /// Silent nodes too
    Silent,
    /// None
    Never,
}

/// What is done while the group waits for a silent node
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Silent {
    /// Shorten the wait of the other nodes
    Hurry,
    /// Nothing
    Wait,
}

impl fmt::Display for Evict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// The settings that the lab varies; everything else keeps Understudy's own default.
#[derive(Clone, Debug, Default, Serialize, clap::Args)]
pub struct Knobs {
    /// Understudy: detect failures only by missed checks, as a load balancer does
    #[arg(long)]
    pub checks_only: bool,
    /// Understudy: which nodes to evict [default: Understudy's own]
    #[arg(long, value_enum)]
    pub evict: Option<Evict>,
    /// Understudy: what to do while the group waits for a silent node [default: Understudy's own]
    #[arg(long, value_enum)]
    pub silent: Option<Silent>,
    /// Understudy: ms between two probes [default: Understudy's own]
    #[arg(long)]
    pub probe_interval_ms: Option<u64>,
    /// Understudy: missed probes until a node is dead [default: Understudy's own]
    #[arg(long)]
    pub misses_max: Option<u32>,
    /// `listen.read`: a port for reads.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<SocketAddr>,
    /// `listen.split`: reads on replicas through the port for writes.
    #[arg(skip)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub split: bool,
    /// Complete tables of settings, appended to the configuration file.
    #[arg(skip)]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tables: String,
}

/// Inputs of a configuration file.
#[derive(Debug)]
pub struct ConfigInputs<'a> {
    /// The kind of the cluster.
    pub kind: ClusterKind,
    /// Name and `host:port` of each node.
    pub nodes: &'a [(String, String)],
    /// How many nodes take traffic.
    pub writers: Writers,
    /// Listen address for clients.
    pub mysql: &'a str,
    /// Listen address of the API.
    pub http: &'a str,
    /// Listen addresses of the health endpoint and the agent check, if they are used.
    pub health: Option<(SocketAddr, SocketAddr)>,
    /// The run's directory, which has state, key and password.
    pub dir: &'a Path,
    /// The monitor account.
    pub monitor_user: &'a str,
}

/// File names inside the run's directory.
impl ConfigInputs<'_> {
    fn key_file(&self) -> PathBuf {
        self.dir.join("api.key")
    }

    fn password_file(&self) -> PathBuf {
        self.dir.join("monitor.password")
    }

    /// The configuration file's text.
    pub fn config(&self, knobs: &Knobs) -> String {
        use std::fmt::Write;
        let quoted = |path: &Path| json!(path.display().to_string()).to_string();
        let mut text = format!(
            "[cluster]\nname = \"lab\"\nid = {CLUSTER_ID}\nkind = \"{}\"\nwriters = \"{}\"\n",
            self.kind.name(),
            self.writers
        );
        // Writing to a String cannot fail.
        for (name, address) in self.nodes {
            let _ = write!(text, "\n[[cluster.node]]\nname = \"{name}\"\naddress = \"{address}\"\n");
        }
        let _ = write!(
            text,
            "\n[cluster.monitor]\nuser = \"{}\"\npassword_file = {}\n",
            self.monitor_user,
            quoted(&self.password_file())
        );
        if knobs.checks_only {
            let _ = writeln!(text, "detect = \"checks\"");
        }
        if let Some(evict) = knobs.evict {
            let _ = writeln!(text, "evict = \"{evict}\"");
        }
        if let Some(silent) = knobs.silent {
            let _ = writeln!(text, "silent = \"{silent}\"");
        }
        if let Some(interval) = knobs.probe_interval_ms {
            let _ = writeln!(text, "interval_ms = {interval}");
        }
        if let Some(misses) = knobs.misses_max {
            let _ = writeln!(text, "misses_max = {misses}");
        }
        if let ClusterKind::Replication { .. } = self.kind {
            // Repetitions follow one another sooner than failovers may by default.
            let account = format!(
                "\n[cluster.replication]\nuser = \"{REPLICATION_USER}\"\npassword = \"{REPLICATION_PASSWORD}\"\nfailover_gap_ms = 0\n"
            );
            text.push_str(&account);
        }
        let _ = write!(text, "\n[listen]\nmysql = \"{}\"\nhttp = \"{}\"\n", self.mysql, self.http);
        if let Some(read) = knobs.read {
            let _ = writeln!(text, "read = \"{read}\"");
        }
        if knobs.split {
            let _ = writeln!(text, "split = true");
        }
        if let Some((health, agent)) = self.health {
            let _ = write!(text, "health = \"{health}\"\nagent = \"{agent}\"\n");
        }
        let _ = write!(
            text,
            "\n[api]\nkey_file = {}\n\n[state]\ndir = {}\n",
            quoted(&self.key_file()),
            quoted(self.dir)
        );
        text.push_str(&knobs.tables);
        text
    }

    /// Writes configuration, password and a new key; returns the configuration's path and the key.
    pub fn write(&self, knobs: &Knobs, password: &str) -> anyhow::Result<(PathBuf, String)> {
        let key: String = format!("{:032x}", rand::random::<u128>());
        private(&self.key_file(), &format!("{key}\n"))?;
        private(&self.password_file(), &format!("{password}\n"))?;
        let config = self.dir.join("understudy.toml");
        private(&config, &self.config(knobs))?;
        Ok((config, key))
    }
}

/// Writes a file that only its owner may read.
fn private(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let open = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    open.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sentence {
    /// When it was written, ms since 1970.
    pub at_unix_ms: u64,
    /// info, warn, error.
    pub level: String,
    /// The text of the entry.
    pub text: String,
}

/// The API of a running Understudy.
#[derive(Clone)]
pub struct Api {
    /// `host:port`.
    pub address: String,
    /// The key; the type has no Debug, so that the key is never printed.
    pub key: String,
}

/// The result of an order.
#[derive(Clone, Debug, Serialize)]
pub struct Ordered {
    /// Time from sending it to its response, ms.
    pub took_ms: f64,
    /// The message in the response.
    pub message: String,
}

/// An order that was answered with a refusal, as opposed to one without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the order {path} was answered {code}: {message}")]
pub struct Refused {
    path: String,
    /// The status code of HTTP.
    code: u16,
    message: String,
}

impl Api {
    fn path(rest: &str) -> String {
        format!("/api/cluster/{CLUSTER_ID}/{rest}")
    }

    /// The complete status.
    pub async fn status(&self) -> anyhow::Result<Value> {
        let path = Self::path("status");
        let (code, body) =
            http::ask(&self.address, "GET", &path, &self.key, None, Duration::from_secs(2)).await?;
        if code != 200 {
            bail!("Understudy's status answers {code}: {body}");
        }
        // Accepts both an envelope ({"success", ..., "data": {...}}) and the bare form.
        Ok(match body.get("data") {
            Some(data) if data.is_object() => data.clone(),
            _ => body,
        })
    }

    /// Fails with the reason while it is not ready: the gate must be open and all nodes synced.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let status = self.status().await?;
        let gate = status["gate"].as_str().or(status["gate"]["state"].as_str()).unwrap_or("?");
        if gate != "open" {
            bail!("its gate is {gate}: {}", status["hold_because"].as_str().unwrap_or("no reason given"));
        }
        for node in status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let state = node["state"].as_str().unwrap_or("?");
            if state != "synced" {
                bail!("it sees {} as {state}", node["name"].as_str().unwrap_or("a node"));
            }
        }
        Ok(())
    }

    async fn order(&self, path: &str, mut body: Value) -> anyhow::Result<Ordered> {
        body["apikey"] = json!(self.key);
        let began = std::time::Instant::now();
        let path = Self::path(path);
        let (code, answer) =
            http::ask(&self.address, "PUT", &path, &self.key, Some(&body), ORDER_PATIENCE).await?;
        let message = answer["message"].as_str().unwrap_or("(no message)").to_owned();
        if code != 200 || answer["success"] == json!(false) {
            return Err(Refused { path, code, message }.into());
        }
        Ok(Ordered { took_ms: crate::figures::ms(began.elapsed()), message })
    }

    /// Moves the writer; `to: None` lets Understudy choose.
    pub async fn switchover(&self, to: Option<&str>) -> anyhow::Result<Ordered> {
        self.order("switchover", to.map_or_else(|| json!({}), |to| json!({ "to": to }))).await
    }

    /// Takes a node out of the traffic.
    pub async fn drain(&self, node: &str) -> anyhow::Result<Ordered> {
        self.order(&format!("node/{node}/drain"), json!({})).await
    }

    /// Lets the node take sessions again.
    pub async fn undrain(&self, node: &str) -> anyhow::Result<Ordered> {
        self.order(&format!("node/{node}/undrain"), json!({})).await
    }

    /// The journal's entries since a moment.
    pub async fn journal(&self, since: SystemTime) -> anyhow::Result<Vec<Sentence>> {
        let since_ms = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let path = Self::path("journal");
        let (code, body) =
            http::ask(&self.address, "GET", &path, &self.key, None, Duration::from_secs(2)).await?;
        if code != 200 {
            bail!("Understudy's journal answers {code}");
        }
        Ok(sentences(&body).into_iter().filter(|s| s.at_unix_ms >= since_ms).collect())
    }
}

/// Finds the list of entries: the body itself, or the first list in it.
fn sentences(body: &Value) -> Vec<Sentence> {
    let inside =
        |value: &Value| value.as_object().and_then(|o| o.values().find_map(|v| v.as_array().cloned()));
    let rows =
        body.as_array().cloned().or_else(|| inside(body)).or_else(|| body.get("data").and_then(inside));
    let sentence = |row: &Value| {
        Some(Sentence {
            at_unix_ms: row["at_unix_ms"].as_u64()?,
            level: row["level"].as_str().unwrap_or("info").to_ascii_lowercase(),
            text: row["text"].as_str().or(row["sentence"].as_str())?.to_owned(),
        })
    };
    rows.unwrap_or_default().iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(nodes: &[(String, String)]) -> ConfigInputs<'_> {
        ConfigInputs {
            kind: ClusterKind::Galera,
            nodes,
            writers: Writers::One,
            mysql: "127.0.0.1:6033",
            http: "127.0.0.1:6080",
            health: None,
            dir: Path::new("/run/x \"y\""),
            monitor_user: "understudy",
        }
    }

    #[test]
    fn the_configuration_says_what_was_asked_and_nothing_else() {
        let nodes = [("db1".to_owned(), "10.77.0.1:3306".to_owned())];
        let plain = place(&nodes).config(&Knobs::default());
        assert!(
            plain.contains("writers = \"one\"")
                && plain.contains("name = \"db1\"\naddress = \"10.77.0.1:3306\"")
        );
        assert!(!plain.contains("evict") && !plain.contains("misses_max"), "defaults are Understudy's own");
        assert!(plain.contains(r#"key_file = "/run/x \"y\"/api.key""#), "paths are quoted: {plain}");
        let slow = Knobs {
            checks_only: true,
            evict: Some(Evict::Never),
            silent: Some(Silent::Wait),
            probe_interval_ms: Some(1000),
            misses_max: Some(3),
            read: Some(SocketAddr::from(([127, 0, 0, 1], 6034))),
            split: true,
            tables: String::new(),
        };
        let slow = place(&nodes).config(&slow);
        assert!(slow.contains(
            "detect = \"checks\"\nevict = \"never\"\nsilent = \"wait\"\ninterval_ms = 1000\nmisses_max = 3\n"
        ));
        assert!(slow.contains("read = \"127.0.0.1:6034\"\nsplit = true\n"), "{slow}");
    }

    #[test]
    fn the_journal_is_found_in_any_envelope() {
        let row = json!({"at_unix_ms": 5, "level": "Warn", "text": "db2 is dead", "term": 1});
        for body in
            [json!([row]), json!({"rows": [row]}), json!({"success": true, "data": {"journal": [row]}})]
        {
            assert_eq!(sentences(&body).len(), 1, "{body}");
        }
        assert!(sentences(&json!({"x": 1})).is_empty());
    }
}
