//! Decides for every node what it is (synced, donor, silent, dead, ...), and writes a journal entry for each change.

use crate::about::About;
use crate::action::Level;
use crate::core::Core;
use crate::finding::{NodeState, Problem, Serves};
use crate::group::Group;
use crate::problem::judge;

/// Brings every node's state in line with what is known of it now.
pub(crate) fn judge_all(core: &mut Core, group: &mut dyn Group) {
    group.look_around(core);
    for id in core.nodes.ids() {
        let (against, serves_unseen) = (group.against(core, id), group.serves_unseen(core, id));
        let (finding, others) =
            judge(core.node(id), &core.settings, core.now, against, serves_unseen, || group.well(core, id));
        let gone = matches!(finding.state, NodeState::Dead | NodeState::Silent)
            || finding.serves == Serves::No && group.is_out(core, id);
        let now = core.now;
        let node = core.node_mut(id);
        // What was doubted is certain now: the node does not serve.
        if finding.serves == Serves::No && finding.problem != Problem::Unchecked {
            node.doubt = None;
        }
        if finding.serves == Serves::No {
            node.unfit_since.get_or_insert(now);
        } else {
            node.unfit_since = None;
        }
        (node.others, node.gone) = (others, gone);
        if finding == node.finding {
            continue;
        }
        let changed = finding.problem != node.finding.problem;
        let lost = finding.serves == Serves::No && node.finding.serves != Serves::No;
        if finding.state != node.finding.state {
            node.since = now;
        }
        if lost {
            node.lost_at.get_or_insert(now);
        }
        node.finding = finding;
        let finding = &node.finding;
        if changed && finding.problem != Problem::Unchecked {
            let is_grave =
                lost || finding.state == NodeState::Dead || finding.problem == Problem::NotCommitting;
            let level = if is_grave { Level::Warn } else { Level::Info };
            let word = group.word(finding.state);
            let text = format!("{} is {word}: {}", node.name, finding.sentence);
            let about =
                About::Node { node: node.name.clone(), state: finding.state, problem: finding.problem };
            core.say_about(about, level, text);
        }
    }
    group.judged(core);
    name_lost_statements(core);
}

/// Writes into the journal which statements ran on a node when it died.
fn name_lost_statements(core: &mut Core) {
    for id in core.nodes.ids() {
        let now = core.now;
        let node = core.node_mut(id);
        if node.finding.state == NodeState::Dead
            && let Some(report) = node.lost.report(now)
        {
            let text = format!("{} {report}", node.name);
            core.say(Level::Warn, text);
        }
    }
}
