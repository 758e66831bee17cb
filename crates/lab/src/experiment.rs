//! An experiment: a command line that says what is measured, one run of it, and results, which are printed and written in the same way whatever
//! was measured.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use report::file::{write_json, write_text};
use serde::Serialize;

use crate::failover::progress::Progress;
use crate::stage::ClusterKind;
use crate::stage::process::Identity;

/// What is to be measured, as the command line says it.
pub trait Experiment {
    /// What a run gives.
    type Results: Results;

    /// The files that were asked for.
    fn output(&self) -> &Output;

    /// Where the report goes as one HTML file, if that was asked for.
    fn html(&self) -> Option<&Path> {
        None
    }

    /// Steps of the progress bar.
    fn steps(&self) -> u64;

    /// Runs it once.
    async fn run(&self, place: &Place<'_>) -> anyhow::Result<Self::Results>;
}

/// What was measured; serialised, it is all figures.
pub trait Results: Serialize {
    /// The table for the terminal.
    fn table(&self) -> String;

    /// The report as one HTML file, where there is one.
    fn page(&self) -> Option<String> {
        None
    }

    /// Writes what else belongs to everything (`--out-dir`).
    fn write_rest(&self, _dir: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    /// Whether the run shows what it has to.
    fn is_good(&self) -> bool;

    /// The exit code; an error says what is wrong.
    fn verdict(&self) -> anyhow::Result<ExitCode> {
        Ok(if self.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The kinds of cluster
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Cluster {
    /// Three MariaDB Galera nodes
    #[default]
    Galera,
    /// A MariaDB primary with two replicas
    Replication,
}

/// The cluster that is measured.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// Which kind of cluster
    #[arg(long, value_enum, default_value_t)]
    pub cluster: Cluster,
    /// Replication: a commit returns before a replica has it, so that a failover may lose acknowledged transactions [default: semi-synchronous]
    #[arg(long)]
    pub asynchronous: bool,
}

impl ClusterArgs {
    /// The kind of stage.
    pub fn kind(self) -> ClusterKind {
        match self.cluster {
            Cluster::Galera => ClusterKind::Galera,
            Cluster::Replication => ClusterKind::Replication { semi_sync: !self.asynchronous },
        }
    }
}

/// The files that may be asked for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Output {
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write everything: table.txt, result.json, and what there is of pages, logs and files of each measurement
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
}

/// Where an experiment runs.
pub struct Place<'a> {
    /// For configurations, keys and state; removed at the end, without the logs if everything is to be kept.
    pub work: &'a Path,
    /// For files that are part of everything; removed at the end if that was not asked for.
    pub out: &'a Path,
    /// Shows what happens.
    pub progress: &'a Progress,
}

/// Runs the experiment, prints its table, writes the requested files. Exit code 1 when it does not show what it has to.
pub async fn conduct(experiment: &impl Experiment) -> anyhow::Result<ExitCode> {
    let (output, work) = (experiment.output(), WorkDir::new()?);
    let out = output.out_dir.clone().unwrap_or_else(|| work.path.join("out"));
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let progress = Progress::new(experiment.steps());
    let results = experiment.run(&Place { work: &work.path, out: &out, progress: &progress }).await;
    progress.end();
    if let Some(dir) = &output.out_dir {
        work.keep_logs(dir)?;
    }
    let results = results?;

    let table = format!("{}\n", results.table().trim_end());
    print!("{table}");
    if let Some(path) = &output.json {
        write_json(path, &serde_json::to_value(&results)?)?;
    }
    let page = results.page();
    if let (Some(path), Some(page)) = (experiment.html(), &page) {
        write_text(path, page)?;
        println!("the picture: {}", path.display());
    }
    if let Some(dir) = &output.out_dir {
        write_text(&dir.join("table.txt"), &table)?;
        write_json(&dir.join("result.json"), &serde_json::to_value(&results)?)?;
        if let Some(page) = &page {
            write_text(&dir.join("report.html"), page)?;
        }
        results.write_rest(dir)?;
        println!("everything: {}", dir.display());
    }
    results.verdict()
}

/// Prefix of the work directory's name; the process ID follows.
const WORK_DIR: &str = "understudy-lab-";

/// The directory of a run; removed when it ends, however it ends.
struct WorkDir {
    path: PathBuf,
}

impl WorkDir {
    fn new() -> anyhow::Result<Self> {
        Self::sweep();
        let path = std::env::temp_dir().join(format!("{WORK_DIR}{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).with_context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Self { path })
    }

    /// Removes what killed runs left: directories of this user whose process has ended. What cannot be removed stays.
    fn sweep() {
        use std::os::unix::fs::MetadataExt;
        let own = rustix::process::geteuid().as_raw();
        for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(WORK_DIR)?.parse::<u32>().ok());
            let ours = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == own);
            if let Some(pid) = pid.filter(|_| ours)
                && Identity::of(pid).is_none_or(|process| !process.is_alive())
            {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Copies the log files of the proxies, and no secrets, to `to`/logs.
    fn keep_logs(&self, to: &Path) -> anyhow::Result<()> {
        let entries =
            std::fs::read_dir(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        for entry in entries.flatten() {
            let Ok(files) = std::fs::read_dir(entry.path()) else { continue };
            for file in
                files.flatten().filter(|file| file.path().extension().is_some_and(|kind| kind == "log"))
            {
                if let Ok(text) = std::fs::read_to_string(file.path()) {
                    let [of, name] = [&entry, &file].map(|it| it.file_name().to_string_lossy().into_owned());
                    write_text(&to.join("logs").join(format!("{of}-{name}")), &text)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}
