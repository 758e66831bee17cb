//! Finds the errant transactions of a server: which binlogs are needed, fetched, read and compared with all that the primary has.

use super::ask::{Server, Standing};
use super::judge::{self, Errant};
use super::work::Work;
use super::{file, tool};
use crate::exit::Failure;

/// What was found.
pub struct Found {
    /// The transactions.
    pub errant: Errant,
    /// Where the server stood when its binlogs were fetched.
    pub standing: Standing,
    /// What it has received and not applied, and the primary has not: `0-3-7`; empty for none.
    pub received: String,
}

/// Looks. `account`: one with REPLICATION SLAVE.
pub async fn find(
    work: &Work,
    node: &mut Server,
    primary: &mut Server,
    account: &manager::Account,
) -> Result<Found, Failure> {
    let files = needed(node, &primary.standing().await?).await?;
    let standing = node.standing().await?;
    let channels = node.channels().await?;
    tool::fetch(work, &node.address, account, &files)?;
    let mut contents = Vec::new();
    for name in &files {
        let read = file::read(&tool::fetched(work, name), name);
        contents.push(read.map_err(|e| Failure::Failed(format!("{}: {e}", node.name)))?);
    }
    // Asked last: whatever the server has of the primary's, the primary has by then.
    let of_primary = primary.standing().await?;
    let mut received = standing.has.clone();
    for channel in &channels {
        if let Some(protocol::gtid::Position::MariaDb(position)) = channel.received() {
            received.add_position(&position);
        }
    }
    let received = received.minus(&standing.has.union(&of_primary.has)).to_string();
    Ok(Found { errant: judge::errant(&contents, &of_primary.has), standing, received })
}

/// The binlogs from the last one before which the server had nothing that the primary has not.
async fn needed(node: &mut Server, primary: &Standing) -> Result<Vec<String>, Failure> {
    let mut files = node.binlogs().await?;
    for at in (0..files.len()).rev() {
        if primary.has.contains(&node.before(&files[at]).await?) {
            return Ok(files.split_off(at));
        }
    }
    Ok(files)
}
