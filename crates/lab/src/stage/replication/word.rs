//! A replicated server's own status.

use std::fmt;

use anyhow::Context;
use serde::Serialize;

use super::super::{StageNode, sql};
use super::dialect::words;

/// The server's status, as it reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplicationWord {
    /// Whether clients may not write.
    pub read_only: bool,
    /// `gtid_current_pos`, or MySQL's `gtid_executed`: the transactions it has executed, from any source.
    pub position: String,
    /// The source it is configured to replicate from.
    pub source: Option<Source>,
    /// The semi-synchronous state, if it is enabled.
    pub semi_sync: Option<SemiSync>,
}

/// The state of replication from the source, as the replica reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// `10.77.0.1`.
    pub host: String,
    /// `Yes`, `No`, `Connecting`, ...: whether it receives from the source.
    pub receiving: String,
    /// `Yes`, `No`: whether it applies what was received.
    pub applying: String,
    /// By its own clock; none while it does not receive or apply.
    pub seconds_behind: Option<u64>,
    /// The last error of either; empty if there is none.
    pub error: String,
}

/// Semi-synchronous replication, both roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SemiSync {
    /// As a primary it waits for an acknowledgement; off: it fell back to asynchronous, or it is not the primary.
    pub waits: bool,
    /// Number of replicas that acknowledge to it.
    pub replicas: u32,
    /// As a replica it acknowledges.
    pub acknowledges: bool,
}

impl ReplicationWord {
    /// Whether it is writable and does not replicate.
    pub fn is_primary(&self) -> bool {
        !self.read_only && self.source.is_none()
    }

    /// Whether it replicates, and clients may not write.
    pub fn is_replicating(&self) -> bool {
        self.read_only && self.source.as_ref().is_some_and(Source::is_running)
    }
}

impl Source {
    /// Whether it receives and applies.
    pub fn is_running(&self) -> bool {
        self.receiving == "Yes" && self.applying == "Yes"
    }
}

impl fmt::Display for ReplicationWord {
    /// `primary, writable, at 0-1-7, 2 semi-sync replicas` or `replica of 10.77.0.1, read-only, at 0-1-7, 0 s behind`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.read_only { "read-only" } else { "writable" };
        let position = if self.position.is_empty() { "the beginning" } else { &self.position };
        match &self.source {
            None if self.read_only => write!(formatter, "follows nobody, {access}, at {position}")?,
            None => write!(formatter, "primary, {access}, at {position}")?,
            Some(source) => {
                write!(formatter, "replica of {}, {access}, at {position}, {source}", source.host)?
            }
        }
        match &self.semi_sync {
            Some(semi_sync) if self.is_primary() && semi_sync.waits => {
                let plural = if semi_sync.replicas == 1 { "" } else { "s" };
                write!(formatter, ", {} semi-sync replica{plural}", semi_sync.replicas)
            }
            Some(_) if self.is_primary() => formatter.write_str(", asynchronous (semi-sync has given up)"),
            Some(semi_sync) if semi_sync.acknowledges => formatter.write_str(", semi-sync"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.receiving.as_str(), self.applying.as_str(), self.seconds_behind) {
            ("Yes", "Yes", Some(seconds)) => write!(formatter, "{seconds} s behind"),
            ("Yes", "Yes", None) => formatter.write_str("running"),
            ("No", "No", _) if self.error.is_empty() => formatter.write_str("stopped"),
            (receiving, applying, _) => {
                write!(formatter, "receiving: {receiving}, applying: {applying}")?;
                // "error connecting to master ... retry-time: 1  maximum-retries: 100000  message: Can't connect ..."; MySQL's is "Message: ".
                let message = ["message: ", "Message: "].iter().find_map(|word| self.error.rsplit_once(word));
                let why = message.map_or(self.error.as_str(), |(_, why)| why);
                if why.is_empty() { Ok(()) } else { write!(formatter, " ({why})") }
            }
        }
    }
}

/// Queries the server's status.
pub async fn ask(node: &StageNode) -> anyhow::Result<ReplicationWord> {
    let words = words(node.product);
    let [waits, acknowledges] = words.semi_sync;
    let variables = pairs(
        node,
        &format!(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', '{}', '{waits}', '{acknowledges}')",
            words.position
        ),
    )
    .await?;
    let value = |name: &str| found(&variables, name);
    let with_semi_sync = [value(waits), value(acknowledges)];
    Ok(ReplicationWord {
        read_only: value("read_only") == Some("ON"),
        // MySQL puts each server's transactions on a line of their own.
        position: value(words.position)
            .with_context(|| format!("{} has no GTIDs", node.name))?
            .replace('\n', ""),
        source: source(node).await?,
        semi_sync: match with_semi_sync.contains(&Some("ON")) {
            true => Some(semi_sync(node).await?),
            false => None,
        },
    })
}

async fn pairs(node: &StageNode, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
    sql::run(&node.socket, sql, sql::STATUS_TIME_MAX).await
}

fn found<'a>(pairs: &'a [Vec<String>], name: &str) -> Option<&'a str> {
    let row = pairs.iter().find(|row| row.first().is_some_and(|key| key.eq_ignore_ascii_case(name)))?;
    row.get(1).map(String::as_str)
}

async fn source(node: &StageNode) -> anyhow::Result<Option<Source>> {
    let words = words(node.product);
    let [host, receiving, applying, behind] = words.columns;
    let rows = sql::run_named(&node.socket, words.status, sql::STATUS_TIME_MAX).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let value = |name: &str| {
        let column = row.iter().find(|(column, _)| column == name).map(|(_, value)| value.clone());
        column.with_context(|| format!("{} has no {name}", words.status))
    };
    let errors = [value("Last_IO_Error")?, value("Last_SQL_Error")?];
    Ok(Some(Source {
        host: value(host)?,
        receiving: value(receiving)?,
        applying: value(applying)?,
        seconds_behind: value(behind)?.parse().ok(),
        error: errors.into_iter().find(|error| !error.is_empty()).unwrap_or_default(),
    }))
}

async fn semi_sync(node: &StageNode) -> anyhow::Result<SemiSync> {
    let status = pairs(node, "SHOW GLOBAL STATUS LIKE 'Rpl\\_semi\\_sync%'").await?;
    let [waits, replicas, acknowledges] =
        words(node.product).semi_sync_status.map(|name| found(&status, name));
    Ok(SemiSync {
        waits: waits == Some("ON"),
        replicas: replicas.and_then(|count| count.parse().ok()).unwrap_or(0),
        acknowledges: acknowledges == Some("ON"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(receiving: &str, applying: &str, error: &str) -> ReplicationWord {
        let source = Source {
            host: "10.77.0.1".to_owned(),
            receiving: receiving.to_owned(),
            applying: applying.to_owned(),
            seconds_behind: (applying == "Yes").then_some(0),
            error: error.to_owned(),
        };
        ReplicationWord {
            read_only: true,
            position: "0-1-7".to_owned(),
            source: Some(source),
            semi_sync: None,
        }
    }

    #[test]
    fn a_word_says_what_a_reader_has_to_know() {
        let waits = |waits| SemiSync { waits, replicas: 2, acknowledges: false };
        let primary = |semi_sync| ReplicationWord {
            read_only: false,
            position: String::new(),
            source: None,
            semi_sync,
        };
        for (word, text) in [
            (primary(None), "primary, writable, at the beginning"),
            (primary(Some(waits(true))), "primary, writable, at the beginning, 2 semi-sync replicas"),
            (
                primary(Some(waits(false))),
                "primary, writable, at the beginning, asynchronous (semi-sync has given up)",
            ),
            (
                ReplicationWord { read_only: true, ..primary(Some(waits(true))) },
                "follows nobody, read-only, at the beginning",
            ),
            (replica("Yes", "Yes", ""), "replica of 10.77.0.1, read-only, at 0-1-7, 0 s behind"),
            (replica("No", "No", ""), "replica of 10.77.0.1, read-only, at 0-1-7, stopped"),
            (
                replica("Connecting", "Yes", "error connecting - retry-time: 1  message: no route"),
                "replica of 10.77.0.1, read-only, at 0-1-7, receiving: Connecting, applying: Yes (no route)",
            ),
        ] {
            assert_eq!(word.to_string(), text);
        }
    }

    #[test]
    fn a_replica_that_can_be_written_is_not_as_it_should_be() {
        assert!(replica("Yes", "Yes", "").is_replicating());
        assert!(!ReplicationWord { read_only: false, ..replica("Yes", "Yes", "") }.is_replicating());
        assert!(!replica("Connecting", "Yes", "").is_replicating());
    }
}
