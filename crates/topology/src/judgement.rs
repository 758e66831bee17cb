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
        let mut assessment =
            judge(core.node(id), &core.settings, core.now, group.against(core, id), || group.well(core, id));
        assessment.gone |= assessment.serves == Serves::No && group.is_out(core, id);
        let now = core.now;
        let node = core.node_mut(id);
        // What was doubted is certain now: the node does not serve.
        if assessment.serves == Serves::No && assessment.problem != "unchecked" {
            node.doubt = None;
        }
        if assessment.serves == Serves::No {
            node.unfit_since.get_or_insert(now);
        } else {
            node.unfit_since = None;
        }
        if assessment == node.assessment {
            continue;
        }
        let changed = assessment.problem != node.assessment.problem;
        let lost = assessment.serves == Serves::No && node.assessment.serves != Serves::No;
        if assessment.state != node.assessment.state {
            node.since = now;
        }
        if lost {
            node.lost_at.get_or_insert(now);
        }
        node.assessment = assessment;
        let assessment = &node.assessment;
        if changed && assessment.problem != "unchecked" {
            let is_grave =
                lost || assessment.state == NodeState::Dead || assessment.problem == NOT_COMMITTING;
            let level = if is_grave { Level::Warn } else { Level::Info };
            let word = group.word(assessment.state);
            let text = format!("{} is {word}: {}", node.name, assessment.reason);
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
        if node.assessment.state == NodeState::Dead
            && let Some(report) = node.lost.report(now)
        {
            let text = format!("{} {report}", node.name);
            core.say(Level::Warn, text);
        }
    }
}
