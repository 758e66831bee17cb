//! The real sysbench (1.0) as the load, in the seed's restart loop: run, and when it exits by itself, sleep 1, run again.
//!
//! The loop is here and not in a shell, so that processes are ended by their ID and nothing is left behind, even when this program
//! is killed. The output is kept as one trace with the seed's own mark between two runs; the mark also has the time since the last report
//! line, since a run that cannot connect ends without a line, immediately or after a timeout.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::watch;
use tokio::time::Instant;

use super::second::Tell;
use super::session::Target;
use crate::peer;
use crate::stage::process::{Owned, ProcessParent};
use crate::trace::{Trace, restart_mark};

/// Parameters of sysbench: the seed's command line with the options of 1.0.
#[derive(Clone, Debug)]
pub struct SysbenchPlan {
    /// Where to connect.
    pub target: Target,
    /// `--tables`.
    pub tables: u32,
    /// `--table-size`.
    pub rows: u32,
    /// `--threads`.
    pub threads: u32,
    /// `--rate`, transactions a second.
    pub rate: f64,
}

impl SysbenchPlan {
    /// The arguments after `sysbench`. `--mysql-password` is the lab's own public password, not a secret.
    pub fn args(&self, command: &str) -> Vec<String> {
        let Target { host, port, user, password, schema } = &self.target;
        let mut args = vec![
            "oltp_read_write".to_owned(),
            "--db-driver=mysql".into(),
            format!("--mysql-host={host}"),
            format!("--mysql-port={port}"),
            format!("--mysql-user={user}"),
            format!("--mysql-password={password}"),
            format!("--mysql-db={schema}"),
            format!("--tables={}", self.tables),
            format!("--table-size={}", self.rows),
        ];
        if command == "run" {
            args.extend([
                format!("--threads={}", self.threads),
                format!("--rate={}", self.rate),
                "--report-interval=1".into(),
                "--time=0".into(),
                "--events=0".into(),
            ]);
        } else {
            // Galera assigns auto-increment values in steps; the ids must be 1..N on every cluster.
            args.push("--auto_inc=off".into());
        }
        args.push(command.into());
        args
    }

    /// Lets sysbench recreate its tables.
    pub async fn prepare(&self) -> anyhow::Result<()> {
        let process_parent = ProcessParent::new()?;
        for command in ["cleanup", "prepare"] {
            let mut child = start(&process_parent, &self.args(command))?;
            let (out, err) = child.output();
            let said = Mutex::new(String::new());
            let keep = |line: &str| {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.push_str(line);
                said.push('\n');
            };
            let out = follow(out.map(ChildStdout::from_std).transpose()?, &keep);
            let err = follow(err.map(ChildStderr::from_std).transpose()?, &keep);
            let run = async { tokio::join!(out, err, child.ended()).2 };
            let status = tokio::time::timeout(Duration::from_secs(120), run)
                .await
                .context("sysbench took more than 120 s to make its tables")?
                .context("cannot wait for sysbench")?;
            if !status.success() {
                bail!(
                    "sysbench {command} failed: {}",
                    said.lock().unwrap_or_else(PoisonError::into_inner).trim()
                );
            }
        }
        Ok(())
    }
}

/// Starts a sysbench that dies with this program, however that ends.
fn start(process_parent: &ProcessParent, args: &[String]) -> anyhow::Result<Owned> {
    let mut command = std::process::Command::new(peer::find("sysbench")?);
    command.args(args);
    process_parent.spawn_piped(&command).context("cannot start sysbench")
}

/// The running loop. Dropping it kills sysbench.
pub struct Sysbench {
    text: Arc<Mutex<String>>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Sysbench {
    /// Starts the loop; each line is also sent to `tell`.
    pub fn start(plan: SysbenchPlan, tell: Option<Tell>) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let (stop, signal) = watch::channel(false);
        let task = tokio::spawn(restart_loop(plan, Arc::clone(&text), tell, signal));
        Self { text, stop, task }
    }

    /// Whether the last second it reported had commits.
    pub fn flows(&self) -> bool {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        Trace::parse(&text).is_ok_and(|trace| trace.flows())
    }

    /// Stops the loop and returns all output.
    pub async fn stop(self) -> anyhow::Result<String> {
        let _ = self.stop.send(true);
        self.task.await.context("the sysbench loop broke")??;
        Ok(std::mem::take(&mut self.text.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

async fn restart_loop(
    plan: SysbenchPlan,
    text: Arc<Mutex<String>>,
    tell: Option<Tell>,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let process_parent = ProcessParent::new()?;
    // When the last report line or mark was written: the next mark reports the time since then.
    let seen = Mutex::new(Instant::now());
    let keep = |line: &str| {
        if line.trim_start().starts_with('[') {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        if let Some(tell) = &tell {
            tell(line);
        }
        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(line);
        text.push('\n');
    };
    loop {
        // Dropping it kills it and waits for its end.
        let mut child = start(&process_parent, &plan.args("run"))?;
        let (out, err) = child.output();
        let out = follow(out.map(ChildStdout::from_std).transpose()?, &keep);
        let err = follow(err.map(ChildStderr::from_std).transpose()?, &keep);
        tokio::select! {
            ended = async { tokio::join!(out, err, child.ended()).2 } => { ended.context("cannot wait for sysbench")?; }
            () = stopped(&mut stop) => return Ok(()),
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = stopped(&mut stop) => {}
        }
        let since = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *seen, Instant::now()).elapsed()
        };
        keep(&restart_mark(since));
        if *stop.borrow() {
            return Ok(());
        }
    }
}

/// Completes when the loop is to stop, also when its owner was dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn follow(from: Option<impl AsyncRead + Unpin>, keep: &impl Fn(&str)) {
    let Some(from) = from else { return };
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        keep(&line);
    }
}
