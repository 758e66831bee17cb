//! `lab down`: ends a stage, or all of them, with everything that belongs to it.

use std::process::ExitCode;

use crate::stage;

/// Ends a stage and takes everything of it away
#[derive(Debug, clap::Args)]
pub struct DownArgs {
    /// Which one
    #[arg(long, default_value = "lab")]
    pub name: String,
    /// Every stage of yours, and what crashed runs left behind
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
}

/// Runs it.
pub async fn run(args: &DownArgs) -> anyhow::Result<ExitCode> {
    let (name, all) = (args.name.clone(), args.all);
    // On a blocking thread, which the runtime waits for: Ctrl-C does not stop it half-way.
    let ended = tokio::task::spawn_blocking(move || {
        if all { stage::down_all() } else { stage::down(&name).map(|()| vec![name]) }
    })
    .await??;
    if ended.is_empty() {
        println!("no stage was up");
    }
    for name in ended {
        println!("stage {name} is down");
    }
    Ok(ExitCode::SUCCESS)
}
