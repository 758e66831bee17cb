//! Decides for every node what it is (synced, donor, silent, dead, ...), and writes a journal entry for each change.

use crate::action::Level;
use crate::core::Core;
use crate::election::ids;
use crate::finding::{NodeState, Serves};
use crate::group::Group;
use crate::problem::{NOT_COMMITTING, judge};

/// Brings every node's state in line with what is known of it now.
pub(crate) fn judge_all(core: &mut Core, group: &mut Group) {
    group.look_around(core);
    for id in ids(&core.nodes) {
        let mut verdict =
            judge(core.node(id), &core.settings, core.now, group.against(core, id), || group.well(core, id));
        verdict.gone |= verdict.serves == Serves::No && group.is_out(core, id);
        let now = core.now;
        let node = core.node_mut(id);
        // What was doubted is certain now: the node does not serve.
        if verdict.serves == Serves::No && verdict.problem != "unchecked" {
            node.doubt = None;
        }
        if verdict == node.verdict {
            continue;
        }
        let changed = verdict.problem != node.verdict.problem;
        let lost = verdict.serves == Serves::No && node.verdict.serves != Serves::No;
        if verdict.state != node.verdict.state {
            node.since = now;
        }
        if lost {
            node.lost_at.get_or_insert(now);
        }
        node.verdict = verdict;
        let verdict = &node.verdict;
        if changed && verdict.problem != "unchecked" {
            let is_grave = lost || verdict.state == NodeState::Dead || verdict.problem == NOT_COMMITTING;
            let level = if is_grave { Level::Warn } else { Level::Info };
            let word = group.word(verdict.state);
            let text = format!("{} is {word}: {}", node.name, verdict.reason);
            core.say(level, text);
        }
    }
    group.judged(core);
    name_lost_statements(core);
}

/// Writes into the journal which statements ran on a node when it died.
fn name_lost_statements(core: &mut Core) {
    for id in ids(&core.nodes) {
        let now = core.now;
        let node = core.node_mut(id);
        if node.verdict.state == NodeState::Dead
            && let Some(told) = node.lost.tell(now)
        {
            let text = format!("{} {told}", node.name);
            core.say(Level::Warn, text);
        }
    }
}
