//! The real sysbench (1.0) as the load, in the seed's restart loop: run, and when it ends by itself, sleep 1, run again.
//!
//! The loop lives here, not in a shell, so that it ends by process id and never leaves anything behind. Its output is kept
//! as one trace with the seed's own mark between two runs.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::second::Tell;
use super::session::Target;

/// What sysbench is asked for: the seed's command line in 1.0's words.
#[derive(Clone, Debug)]
pub struct SysbenchPlan {
    /// Where to.
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
    /// The arguments after `sysbench`. `--mysql-password` is the lab's own public word, no secret.
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
            // Galera deals auto-increment values out in steps; the ids must be 1..N on every cluster.
            args.push("--auto_inc=off".into());
        }
        args.push(command.into());
        args
    }

    /// Lets sysbench make its tables anew.
    pub async fn prepare(&self) -> anyhow::Result<()> {
        for command in ["cleanup", "prepare"] {
            let run = Command::new("sysbench").args(self.args(command)).kill_on_drop(true).output();
            let out = tokio::time::timeout(Duration::from_secs(120), run)
                .await
                .context("sysbench took more than 120 s to make its tables")?
                .context("cannot start sysbench: is the package installed?")?;
            if !out.status.success() {
                bail!("sysbench {command} failed: {}", String::from_utf8_lossy(&out.stdout).trim());
            }
        }
        Ok(())
    }
}

/// The loop, running. Dropping it kills sysbench.
pub struct Sysbench {
    text: Arc<Mutex<String>>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Sysbench {
    /// Starts the loop; each line also goes to `tell`.
    pub fn start(plan: SysbenchPlan, tell: Option<Tell>) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let (stop, signal) = watch::channel(false);
        let task = tokio::spawn(restart_loop(plan, Arc::clone(&text), tell, signal));
        Self { text, stop, task }
    }

    /// Ends it and returns all it printed.
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
    let keep = |line: &str| {
        if let Some(tell) = &tell {
            tell(line);
        }
        let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(line);
        text.push('\n');
    };
    loop {
        let mut child = Command::new("sysbench")
            .args(plan.args("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start sysbench: is the package installed?")?;
        let out = follow(child.stdout.take(), &keep);
        let err = follow(child.stderr.take(), &keep);
        tokio::select! {
            ended = async { tokio::join!(out, err, child.wait()).2 } => { ended?; }
            () = told(&mut stop) => return end(&mut child).await,
        }
        keep("( sysbench restarted )");
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = told(&mut stop) => return Ok(()),
        }
    }
}

/// Completes when the loop is to end; its owner's disappearance is such a word too.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn end(child: &mut Child) -> anyhow::Result<()> {
    child.kill().await.context("cannot end sysbench")
}

async fn follow(from: Option<impl AsyncRead + Unpin>, keep: &impl Fn(&str)) {
    let Some(from) = from else { return };
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        keep(&line);
    }
}
