//! What the servers' last reports say: the questions that the rest of this folder asks of them.

use protocol::gtid::{History, Position};

use super::channel::Channel;
use super::status::ReplicationStatus;
use crate::NodeId;
use crate::belief::Belief;
use crate::core::Core;
use crate::status::Status;

/// The server's last status report, if it is one of a replicating server.
pub(super) fn own(node: &Belief) -> Option<&ReplicationStatus> {
    node.status.as_ref().and_then(Status::replication)
}

/// Whether the server answers, in whatever state it is.
pub(super) fn answers(node: &Belief) -> bool {
    node.linked && !node.gone && node.status.is_some()
}

/// Whether the server reports itself as writable and follows no other.
pub(super) fn writes(node: &Belief) -> bool {
    answers(node) && wrote(node)
}

/// Whether it did so in its last report, also if it does not answer any more.
pub(super) fn wrote(node: &Belief) -> bool {
    own(node).is_some_and(|status| !status.read_only && status.channels.is_empty())
}

/// The channel by which a server that answers says that it follows `primary`.
pub(super) fn channel_to(core: &Core, id: NodeId, primary: NodeId) -> Option<&Channel> {
    let channel = own(core.node(id)).filter(|_| answers(core.node(id)))?.source()?;
    (channel.source == core.node(primary).address).then_some(channel)
}

/// Whether it says that it is connected to `primary`.
pub(super) fn is_connected(core: &Core, id: NodeId, primary: NodeId) -> bool {
    channel_to(core, id, primary).is_some_and(|channel| channel.io_running)
}

/// All that a server has applied, by origin.
pub(super) fn history(status: &ReplicationStatus) -> Option<History> {
    let mut history = status.history.clone()?;
    // A server that was made from a copy of another has positions, and no binlog of what was before.
    for position in [&status.applied_as_replica, &status.position].into_iter().flatten() {
        history.add(position);
    }
    Some(history)
}

/// The same; empty where it is not known.
pub(super) fn applied(status: &ReplicationStatus) -> History {
    history(status).unwrap_or_else(|| History::empty(status.dialect.family()))
}

/// Whether a server has each of these transactions, applied or received. The origins are compared, too, and not only the numbers.
pub(super) fn has_each(status: &ReplicationStatus, position: &Position) -> bool {
    all_of(status).holds(position)
}

/// All that a server has applied or received.
pub(super) fn all_of(status: &ReplicationStatus) -> History {
    let mut all = applied(status);
    if let Some(has) = &status.has() {
        all.add(has);
    }
    all
}

/// The configured server at that address.
pub(super) fn ours(core: &Core, address: &str) -> Option<NodeId> {
    core.nodes.ids().find(|id| core.node(*id).address == address)
}

/// Whether it is connected to a source outside this cluster. A server whose source is gone may name that source by an address that is not
/// configured here.
pub(super) fn follows_stranger(core: &Core, status: &ReplicationStatus) -> bool {
    status.source().is_some_and(|channel| channel.io_running && ours(core, &channel.source).is_none())
}

/// Whether it receives from another server of this cluster, or will once that answers.
pub(super) fn follows_one_of_us(core: &Core, status: &ReplicationStatus) -> bool {
    let is_stopped = |channel: &Channel| channel.io_stopped && !channel.sql_running;
    status.channels.iter().any(|channel| !is_stopped(channel) && ours(core, &channel.source).is_some())
}

/// The servers from `id` on, each followed by the one before, if that leads back to `id`.
pub(super) fn ring(core: &Core, id: NodeId) -> Option<String> {
    let mut names = core.name(id).to_owned();
    let mut at = id;
    for _ in 0..core.nodes.len() {
        at = ours(core, &own(core.node(at)).filter(|_| answers(core.node(at)))?.source()?.source)?;
        names = format!("{names} follows {}", core.name(at));
        if at == id {
            return Some(names);
        }
        names.push_str(", which");
    }
    None
}

/// The name of the server at that address, or else the address.
pub(super) fn called<'a>(core: &'a Core, address: &'a str) -> &'a str {
    core.nodes.iter().find(|node| node.address == address).map_or(address, |node| &node.name)
}
