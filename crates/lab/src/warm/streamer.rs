//! Runs `understudy slowlog serve` beside the active node, as a separate process.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::ground::Ground;
use crate::failover::http;
use crate::program;
use crate::stage::process::{Identity, Owned, ProcessParent};
use crate::wait;

/// Between two looks.
const PACE: Duration = Duration::from_millis(20);
/// Time limit until it responds.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Time limit of a query of its metrics.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// A streamer of the active node's slow log; dropping this value ends it.
pub struct Streamer {
    owned: Owned,
    address: String,
}

impl Streamer {
    /// Starts it, and waits until it responds.
    pub async fn start(ground: &Ground, process_parent: &ProcessParent) -> anyhow::Result<Self> {
        let address = {
            // Another program could take the port before the streamer binds it; then the streamer would fail to start.
            let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
            listener.local_addr()?.to_string()
        };
        let mut command = Command::new(program::understudy()?);
        command.args(["slowlog", "serve", "--listen", &address, "--file"]).arg(ground.slow_log()?);
        let log = ground.stage.directory().join("slowlog-serve.log");
        let streamer = Self { owned: process_parent.spawn(&command, Some(&log))?, address };
        let answers = wait::retried(START_LIMIT, PACE, async || streamer.events().await).await;
        answers.context("understudy slowlog serve does not answer")?;
        Ok(streamer)
    }

    /// The URL for a reader: the log from its first byte on.
    pub fn url(&self) -> String {
        format!("{}/slow?from=start", self.base())
    }

    /// `http://HOST:PORT`, for an Understudy program, which reads from now on.
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until there is a reader.
    pub async fn is_read(&self, within: Duration) -> anyhow::Result<()> {
        let is_read = async || Ok(self.metric("understudy_slowlog_readers").await? > 0);
        let is_read = wait::holds(within, PACE, is_read).await?;
        ensure!(is_read, "nobody reads what is streamed after {} s", within.as_secs());
        Ok(())
    }

    /// Events sent to readers so far.
    pub async fn events(&self) -> anyhow::Result<u64> {
        self.metric("understudy_slowlog_events_total").await
    }

    async fn metric(&self, name: &str) -> anyhow::Result<u64> {
        let (status, body) = http::ask(&self.address, "GET", "/metrics", "", None, ASK_LIMIT).await?;
        let text = body.as_str().unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        match line.and_then(|number| number.parse().ok()) {
            Some(events) => Ok(events),
            None => bail!("understudy slowlog serve answered {status} without {name}"),
        }
    }

    /// Waits until this many events were sent to readers.
    pub async fn gave(&self, events: u64, within: Duration) -> anyhow::Result<()> {
        let mut given = 0;
        let gave = async || {
            given = self.events().await?;
            Ok(given >= events)
        };
        let gave = wait::holds(within, PACE, gave).await?;
        ensure!(gave, "the streamer gave {given} of {events} events within {:.0} s", within.as_secs_f64());
        Ok(())
    }

    /// Its process.
    pub fn process(&self) -> Option<Identity> {
        Identity::of(self.owned.id())
    }

    /// Ends it, and with it the streams of its readers.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.owned.terminate()?;
        self.owned.ended().await.context("understudy slowlog serve cannot be waited for")?;
        Ok(())
    }
}
