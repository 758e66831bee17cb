//! Finds the errant transactions of a server: determines the binlogs that are needed, fetches and parses them, and compares them with all
//! that the primary has.

use protocol::gtid::mariadb::Run;

use super::ask::{GtidState, Server};
use super::judge::{self, Errant};
use super::work::Work;
use super::{file, tool};
use cli::exit::Failure;

/// The result of a search.
pub struct Found {
    /// The transactions.
    pub errant: Errant,
    /// The server's position when its binlogs were fetched.
    pub standing: GtidState,
    /// GTIDs that it has received and not applied, and that the primary lacks: `0-3-7`; empty for none.
    pub received: String,
    /// The primary's `server_id`.
    pub primary_id: u32,
}

/// Searches.
pub async fn find(
    work: &Work,
    node: &mut Server,
    primary: &mut Server,
    login: &tool::BinlogLogin,
) -> Result<Found, Failure> {
    let files = needed(work, node, &primary.standing().await?).await?;
    let standing = node.standing().await?;
    let channels = node.channels().await?;
    tool::fetch(work, &node.address, login, &files)?;
    let mut contents = Vec::new();
    for name in &files {
        let read = file::read(&tool::fetched(work, name), name);
        contents.push(read.map_err(|e| Failure::Failed(format!("{}: {e}", node.name)))?);
    }
    // Queried last: by then the primary has every transaction of its own that the server has.
    let of_primary = primary.standing().await?;
    let mut received = standing.has.clone();
    for channel in &channels {
        if let Some(protocol::gtid::Position::MariaDb(position)) = channel.received() {
            received.add_position(&position);
        }
    }
    // What another server wrote, and a primary that was made from a copy has without naming it.
    let of_others = |run: &Run| run.server != standing.server_id;
    let primary_has = of_primary.has.along(&standing.has, of_others);
    let received = received.minus(&standing.has.union(&primary_has)).to_string();
    let errant = judge::errant(&contents, &primary_has);
    Ok(Found { errant, standing, received, primary_id: of_primary.server_id })
}

/// The binlogs that may have errant transactions: from the last one before which the server had nothing that the primary lacks; all of them
/// when there is no such binlog.
async fn needed(work: &Work, node: &mut Server, primary: &GtidState) -> Result<Vec<String>, Failure> {
    let mut files = node.binlogs().await?;
    for at in (0..files.len()).rev() {
        if primary.has.contains(&node.before(&files[at].0).await?) {
            files.drain(..at);
            break;
        }
    }
    let (bytes, free) = (files.iter().map(|(_, bytes)| bytes).sum::<u64>(), work.free_bytes()?);
    if bytes > free {
        return Err(Failure::Failed(format!(
            "{} MiB of binlogs of {} are needed, and {} has {} MiB free: make room there",
            bytes >> 20,
            node.name,
            work.dir().display(),
            free >> 20
        )));
    }
    Ok(files.into_iter().map(|(name, _)| name).collect())
}
