//! Removes stages: the current one, one by its name, and the leftovers of crashed runs.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use super::disk;
use super::network::Network;
use super::process;
use super::stage_dir::{self, Record};

/// SIGKILL ends a server at once, but freeing its memory takes time.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Ends the processes of the stage in `directory`, then removes its network and its files. What no longer exists is not an error.
pub(super) fn clear(directory: &Path, network: Option<&Network>) -> anyhow::Result<()> {
    let record = stage_dir::read(directory).ok();
    let known = record.iter().flat_map(|record| &record.nodes).filter_map(|node| node.process);
    let mut processes: Vec<_> = known.collect();
    processes.extend(process::marked(directory));
    process::end_all(&processes, END_LIMIT)?;
    // One of them may have started a child between the search and its end.
    process::end_all(&process::marked(directory), END_LIMIT)?;
    if let Some(network) = network.cloned().or_else(|| record.as_ref().map(network_of)) {
        network.remove()?;
    }
    disk::unmount_under(directory)?;
    match std::fs::remove_dir_all(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot remove {}", directory.display())),
    }
    stage_dir::tidy_root()
}

fn network_of(record: &Record) -> Network {
    Network {
        stage: record.name.clone(),
        subnet: record.subnet,
        namespaced: record.namespaced,
        nodes: u8::try_from(record.nodes.len()).unwrap_or(u8::MAX),
    }
}

/// Ends one stage, whichever process started it.
///
/// # Errors
/// When there is no stage with that name.
pub fn down(name: &str) -> anyhow::Result<()> {
    stage_dir::check_name(name)?;
    let directory = stage_dir::root()?.join(name);
    if !directory.exists() {
        stage_dir::tidy_root()?;
        bail!("no stage named {name} is up");
    }
    clear(&directory, None)
}

/// Ends every stage of this user, crashed ones too; returns their names.
pub fn down_all() -> anyhow::Result<Vec<String>> {
    sweep(|_| true)
}

/// Ends the stages whose owner has ended and that were not meant to be kept; returns their names.
pub(super) fn leftovers() -> anyhow::Result<Vec<String>> {
    sweep(|record| record.is_none_or(Record::is_leftover))
}

fn sweep(wanted: impl Fn(Option<&Record>) -> bool) -> anyhow::Result<Vec<String>> {
    // Under the lock: a stage that has a directory but no record yet is being created by the lock's holder.
    let (root, held) = stage_dir::lock_root()?;
    let stages = stage_dir::stages(&root)?;
    drop(held);
    let mut ended = Vec::new();
    for (directory, record) in stages {
        if wanted(record.as_ref()) {
            clear(&directory, None)?;
            ended.push(
                directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            );
        }
    }
    stage_dir::tidy_root()?;
    Ok(ended)
}
