//! Puts a node's data on its own file system, in memory, which can be filled without harm to the machine.
//!
//! Invariant: every mount is under the stage's directory, and is unmounted before that is removed, whichever process removes the stage.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use super::state::{Stage, StageNode};

/// The file that fills the file system.
const FILLER: &str = "lab-filler";

/// Mounts a file system at `directory`, which is created.
pub(super) fn mount(directory: &Path, size_mb: u32) -> anyhow::Result<()> {
    fs::create_dir_all(directory)?;
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &format!("size={size_mb}m,mode=0700"), "tmpfs"]).arg(directory);
    run(command).context("--disk-mb needs root, and the right to mount")
}

/// Unmounts whatever is mounted under `directory`.
pub(super) fn unmount_under(directory: &Path) -> anyhow::Result<()> {
    for place in mounted()?.into_iter().filter(|place| place.starts_with(directory)) {
        let mut command = Command::new("umount");
        // A process that was just killed may still hold its files.
        command.arg("--lazy").arg(&place);
        run(command)?;
    }
    Ok(())
}

fn mounted() -> anyhow::Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    // "36 35 98:0 /mnt1 /mnt2 rw,noatime ...": the fifth field is the mount point. A stage's paths have no spaces that would be escaped.
    Ok(table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect())
}

fn run(mut command: Command) -> anyhow::Result<()> {
    let output =
        command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

impl Stage {
    /// Fills a node's file system; returns when it was full.
    pub(crate) fn fill_disk(&self, node: &StageNode) -> anyhow::Result<Instant> {
        if !mounted()?.contains(&node.datadir) {
            bail!(
                "{} has no file system of its own that could be filled: start the stage with `lab up ... --disk-mb 300`",
                node.name
            );
        }
        let path = node.datadir.join(FILLER);
        let mut file = fs::File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        // Ever smaller pieces, so that not a single page is left.
        for size in [1 << 20, 4096] {
            let piece = vec![0_u8; size];
            loop {
                match file.write(&piece) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).with_context(|| format!("filling {}", path.display())),
                }
            }
        }
        Ok(Instant::now())
    }

    /// Removes the file that fills it.
    pub(crate) fn empty_disk(&self, node: &StageNode) -> anyhow::Result<()> {
        match fs::remove_file(node.datadir.join(FILLER)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).context("cannot remove what fills the disk")
            }
            _ => Ok(()),
        }
    }
}
