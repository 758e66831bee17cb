//! `lab down`: ends a stage, or all of them, and removes everything that belongs to it.

use std::process::ExitCode;

use crate::stage;

/// Ends a stage and removes everything that belongs to it
#[derive(Debug, clap::Args)]
pub struct DownArgs {
    /// Name of the stage
    #[arg(long, default_value = "lab")]
    pub name: String,
    /// Every stage of this user, and what crashed runs left behind
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
}

/// Runs the command.
pub async fn run(args: &DownArgs) -> anyhow::Result<ExitCode> {
    let (name, all) = (args.name.clone(), args.all);
    // On a blocking thread, which the runtime waits for: Ctrl-C cannot interrupt it halfway.
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
