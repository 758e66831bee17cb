//! An operator's orders. Those that only wait for the disk are carried out here, the others by the plan.
//!
//! Invariant: one order at a time, and every order gets exactly one answer.

use super::{Brain, Plan};
use crate::NodeId;
use crate::action::Level;
use crate::core::{Before, Running, Saving};
use crate::disk::Written;
use crate::judgement::judge_all;
use crate::order::{Order, OrderId};
use crate::plan::Budget;
use crate::routes::LaneState;
use crate::settings::Settings;

/// The end of a drain.
#[derive(Clone, Copy, Debug)]
struct Undrain {
    /// It ends one that was for other work, such as a measurement.
    is_temporary: bool,
}

impl Brain {
    // ---- orders

    pub(super) fn order(&mut self, id: OrderId, order: Order) {
        let since = self.core.now;
        let node = match &order {
            Order::Switchover { to, .. } => *to,
            Order::Drain { node, .. } | Order::Undrain { node, .. } | Order::SetSessionsMax { node, .. } => {
                Some(*node)
            }
        };
        if let Some(node) = node
            && !self.core.known(node)
        {
            let names: Vec<&str> = self.core.nodes.iter().map(|node| node.name.as_str()).collect();
            let text = format!("there is no such node; the nodes are {}", names.join(", "));
            self.core.refuse(id, "unknown_node", text);
            return;
        }
        if let Some(saving) = &self.core.saving {
            let text =
                format!("another order is running: {}; try again when it has ended", saving.running.what);
            self.core.refuse(id, "busy", text);
            return;
        }
        // The beliefs may have changed since they were last judged.
        judge_all(&mut self.core, &mut *self.group);
        let running = |what: String| Running { id, since, what };
        match order {
            Order::Switchover { to, budget, force } => match &mut self.plan {
                Plan::One(plan) => {
                    let what = match to {
                        Some(to) => format!("switchover to {} was ordered", self.core.name(to)),
                        None => "a switchover was ordered".to_owned(),
                    };
                    let budget = Budget::new(since, budget, force);
                    plan.switchover(&mut self.core, &mut *self.group, running(what), to, budget, force);
                }
                Plan::All(_) => self.core.refuse(
                    id,
                    "no_writer",
                    "all nodes write (writers = \"all\"), so there is no writer to move: drain the node instead",
                ),
            },
            Order::Drain { node, budget, force, temporary } => {
                self.drain(id, node, Budget::new(since, budget, force), temporary);
            }
            Order::SetSessionsMax { node, sessions_max: Some(0) } => {
                self.drain(id, node, Budget::new(since, Settings::HANDOVER_BUDGET, false), false);
            }
            Order::Undrain { node, temporary } => {
                let belief = self.core.node(node);
                if temporary && belief.drained() && belief.drain_is_lasting {
                    let name = self.core.name(node).to_owned();
                    let running = running(format!("the end of a temporary drain of {name} was ordered"));
                    self.core.answer_unchanged(&running, format!(
                        "{name} stays drained: an operator ordered it, or this program was restarted since; `understudy undrain {name}` ends that"
                    ));
                    return;
                }
                self.limit(id, node, None, Some(Undrain { is_temporary: temporary }));
            }
            Order::SetSessionsMax { node, sessions_max } => self.limit(id, node, sessions_max, None),
        }
    }

    fn drain(&mut self, id: OrderId, node: NodeId, budget: Budget, temporary: bool) {
        let core = &mut self.core;
        let name = core.name(node).to_owned();
        let running = Running { id, since: core.now, what: format!("drain of {name} was ordered") };
        let was_drained = core.node(node).drained();
        if was_drained && temporary && !core.node(node).drain_is_lasting {
            let text = format!(
                "{name} is drained for other work already: try again when that has ended, or end it with `understudy undrain {name}`"
            );
            core.refuse(id, "busy", text);
            return;
        }
        if was_drained && core.node(node).lane == LaneState::Shut {
            core.node_mut(node).drain_is_lasting |= !temporary;
            core.answer_unchanged(&running, format!("{name} already is drained"));
            return;
        }
        if !was_drained {
            core.node_mut(node).drain_is_lasting = !temporary;
        }
        match &mut self.plan {
            Plan::One(plan) => {
                if plan.drain(core, &*self.group, &running, node, budget) {
                    return;
                }
                if let Some(doing) = plan.doing(core) {
                    core.refuse(id, "busy", format!("a {doing} is running: try again when it has ended"));
                    return;
                }
                core.node_mut(node).drain_is_lasting |= !temporary;
                let done = format!("{name} is drained: it is not the writer, and will not become it");
                let before = Before::of(core.node(node));
                self.change(running, node, Some(0), done, before);
            }
            Plan::All(plan) => plan.drain(core, running, node, budget),
        }
    }

    fn limit(&mut self, id: OrderId, node: NodeId, sessions_max: Option<u32>, undrain: Option<Undrain>) {
        // Only an operator's own order says something about the node's data.
        let is_word = undrain.is_some_and(|undrain| !undrain.is_temporary);
        let undrain = undrain.is_some();
        let doing = self.doing();
        let core = &mut self.core;
        let name = core.name(node).to_owned();
        let what =
            format!("{} of {name} was ordered", if undrain { "undrain" } else { "a limit of sessions" });
        let running = Running { id, since: core.now, what };
        let before = core.node(node).sessions_max;
        // A failover may be waiting for just that.
        let accepted = if is_word { self.group.accept(core, node) } else { None };
        match accepted {
            Some(Err(why)) => return core.refuse(id, "two_clusters", why),
            Some(Ok(())) if before != Some(0) => {
                core.answer_done(&running, format!("{name}'s component is the cluster from now on"));
                return;
            }
            _ => {}
        }
        if let Some(doing) = doing {
            core.refuse(id, "busy", format!("a {doing} is running: try again when it has ended"));
            return;
        }
        let sessions_max = if undrain { core.node(node).sessions_max_before } else { sessions_max };
        if undrain && before != Some(0) || before == sessions_max {
            let text = if undrain {
                format!("{name} was not drained")
            } else {
                format!("{name} already has that limit")
            };
            core.answer_unchanged(&running, text);
            return;
        }
        let belief = core.node(node);
        let is_said = is_word && (belief.is_renumbered || belief.had_filters.is_some());
        let done = match sessions_max {
            Some(limit) if undrain => format!("{name} takes sessions again, at most {limit}"),
            Some(limit) => format!("{name} takes at most {limit} sessions"),
            None if undrain => format!("{name} takes sessions again"),
            None => format!("{name} has no limit of sessions any more"),
        };
        let done =
            if is_said { format!("{done}, and counts as a copy of the primary from now on") } else { done };
        let before = Before::of(core.node(node));
        if is_word {
            // The operator's word that it is a copy of the primary again.
            core.node_mut(node).is_renumbered = false;
            core.node_mut(node).had_filters = None;
        }
        self.change(running, node, sessions_max, done, before);
    }

    /// A change that takes effect at once, and is answered when it is on disk.
    fn change(
        &mut self,
        running: Running,
        node: NodeId,
        sessions_max: Option<u32>,
        done: String,
        before: Before,
    ) {
        let core = &mut self.core;
        core.node_mut(node).limit(sessions_max);
        let ticket = core.persist();
        core.saving = Some(Saving { running, ticket, done, node, before });
    }

    pub(super) fn save(&mut self) {
        let core = &mut self.core;
        let Some(saving) = core.saving.take() else { return };
        match core.disk.state(saving.ticket) {
            (Written::Pending, _) => core.saving = Some(saving),
            (Written::Done, _) => {
                if core.node(saving.node).drained() {
                    core.stop_expected(saving.node);
                } else {
                    core.stop_unexpected(saving.node);
                }
                core.say(Level::Info, saving.done.clone());
                core.answer_done(&saving.running, saving.done);
            }
            (Written::Failed, why) => {
                let text =
                    format!("{}, and could not be written to disk: {why}; it is undone", saving.running.what);
                saving.before.put_back(core.node_mut(saving.node));
                // A write that was given up may still happen, so the current state is written after it.
                core.persist();
                core.say(Level::Error, text.clone());
                core.refuse(saving.running.id, "store", text);
                judge_all(core, &mut *self.group);
            }
        }
    }
}
