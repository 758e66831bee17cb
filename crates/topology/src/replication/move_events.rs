//! Has the new primary run the events that the old one ran ([`super::events`]), and has every other server stop its own.
//!
//! A server that is made read only, or a replica, stops its events as a part of that order. What ran is kept on disk
//! ([`super::kept_events`]). A primary that does not run all of it is told again until it does, and that is a standing finding meanwhile.

use std::time::Duration;

use super::Errand;
use super::events::{Event, START_SCHEDULER};
use super::kept_events::Left;
use super::reports::{answers, own};
use super::state::{Replication, Unrun, Unstopped};
use crate::core::Core;
use crate::view::Level;
use crate::{NodeId, Term};

/// How long the new primary may take to enable its events. It writes meanwhile, and cannot be given another order.
const WITHIN: Duration = Duration::from_secs(5);
/// The same when it is told again: an order of an operator should not wait for long.
const AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// The time between two attempts.
const AGAIN_GAP: Duration = Duration::from_secs(10);
/// The time before the first of them to stop events.
const STOP_GAP: Duration = Duration::from_secs(1);
/// So many events are named in a sentence, each with its statement.
const NAMED_MAX: usize = 5;

impl Replication {
    /// Has the new primary run the events that the old one ran. An old primary that is lost runs them as soon as it comes back, and they may
    /// write there whatever it says of itself: it is made read only before anything else.
    pub(super) fn move_events(&mut self, core: &mut Core, from: NodeId, to: NodeId, term: Term) {
        if core.settings.replication.dry_run || core.settings.replication.is_external() {
            return;
        }
        let scheduler = |id| own(core.node(id)).and_then(|status| status.event_scheduler);
        if from != to && scheduler(from) == Some(true) && !answers(core.node(from)) {
            self.server_mut(from).may_write = Some(term);
        }
        for server in self.servers.iter_mut() {
            server.events = None;
        }
        if scheduler(to).is_some() {
            let again = core.now + WITHIN + AGAIN_GAP;
            let unrun = Unrun { term, has_replaced: from != to, again, finding: None };
            self.run_events(core, to, unrun, WITHIN);
        }
    }

    /// The primary is told again to run events, if it does not run them all.
    pub(super) fn run_events_again(&mut self, core: &mut Core, primary: NodeId) {
        let is_due = |unrun: &Unrun| core.now >= unrun.again;
        if self.is_ordered(core, primary) || !self.server(primary).events.as_ref().is_some_and(is_due) {
            return;
        }
        if let Some(unrun) = self.server_mut(primary).events.take() {
            let again = core.now + AGAIN_WITHIN + AGAIN_GAP;
            self.run_events(core, primary, Unrun { again, ..unrun }, AGAIN_WITHIN);
        }
    }

    fn run_events(&mut self, core: &mut Core, node: NodeId, unrun: Unrun, within: Duration) {
        let Unrun { term, has_replaced, .. } = unrun;
        self.server_mut(node).events = Some(unrun);
        self.order(core, node, term, within, Errand::RunEvents { has_replaced });
    }

    pub(super) fn events_run(&mut self, core: &mut Core, node: NodeId, term: Term, count: usize) {
        let unrun = self.server_mut(node).events.take_if(|unrun| unrun.term == term);
        let name = core.name(node);
        if count > 0 {
            let events = if count == 1 { "event" } else { "events" };
            core.say(Level::Info, format!("{name} runs {count} {events} that ran on the primary"));
        } else if unrun.is_some_and(|unrun| unrun.finding.is_some()) {
            let text = format!(
                "{name} runs all events that ran on the primary, but for those that were disabled or dropped"
            );
            core.say(Level::Info, text);
        }
    }

    pub(super) fn events_failed(
        &mut self,
        core: &mut Core,
        node: NodeId,
        term: Term,
        why: &str,
        left: &Left,
    ) {
        let text = finding(core.name(node), why, left);
        let again = core.now + AGAIN_GAP;
        // The next decision has broken it off, and gives the order anew when it is carried out.
        let is_over = self.fence.is_some();
        let unrun = self.server_mut(node).events.as_mut().filter(|unrun| unrun.term == term);
        let Some(unrun) = unrun else { return };
        unrun.again = again;
        if is_over {
            return;
        }
        let said = unrun.finding.replace((left.clone(), text.clone()));
        // The reason may be another each time.
        if said.is_none_or(|(before, _)| before != *left) {
            core.say(Level::Warn, text);
        }
    }

    /// The server has answered an order by which its events were to be stopped. `left`: why some are not.
    pub(super) fn events_stopped(&mut self, core: &mut Core, node: NodeId, left: Option<String>) {
        let before = self.server_mut(node).unstopped.take();
        let name = core.name(node);
        let Some(why) = left else {
            if before.is_some() {
                core.say(Level::Info, format!("all events of {name} are stopped"));
            }
            return;
        };
        let seconds = AGAIN_GAP.as_secs();
        let finding = format!(
            "not all events of {name} are stopped, and they may write there while it is read only: {why}; tried again every {seconds} s"
        );
        // After a failover that could not wait for it, the next attempt comes soon.
        let gap = if before.is_some() { AGAIN_GAP } else { STOP_GAP };
        self.server_mut(node).unstopped = Some(Unstopped { again: core.now + gap, finding: finding.clone() });
        if before.is_none() {
            core.say(Level::Warn, finding);
        }
    }

    /// A server that does not write is told again to stop its events, if some may run on.
    pub(super) fn stop_events_again(&mut self, core: &mut Core, id: NodeId, term: Term) {
        let is_due = |unstopped: &Unstopped| core.now >= unstopped.again;
        if self.fence.is_none() && self.server(id).unstopped.as_ref().is_some_and(is_due) {
            self.order(core, id, term, AGAIN_WITHIN, Errand::StopEvents);
        }
    }

    /// What runs there and should not, or does not run and should, as a sentence.
    pub(super) fn events_finding(&self, id: NodeId) -> Option<&str> {
        let server = self.server(id);
        let unrun = || server.events.as_ref()?.finding.as_ref().map(|(_, text)| text.as_str());
        server.unstopped.as_ref().map(|unstopped| unstopped.finding.as_str()).or_else(unrun)
    }
}

fn finding(server: &str, why: &str, left: &Left) -> String {
    let seconds = AGAIN_GAP.as_secs();
    if left.is_empty() {
        return format!(
            "whether all events that ran on the primary run on {server} is not known: {why}; asked again every {seconds} s"
        );
    }
    if left.events.is_empty() {
        return format!(
            "no event runs on {server}: {why}; tried again every {seconds} s; the statement for it: {START_SCHEDULER}"
        );
    }
    let named = &left.events[..left.events.len().min(NAMED_MAX)];
    let more = left.events.len() - named.len();
    let of_named =
        |text: fn(&Event) -> String, between: &str| named.iter().map(text).collect::<Vec<_>>().join(between);
    let names = of_named(Event::qualified, ", ");
    let and_more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let start = if left.scheduler { format!("{START_SCHEDULER}; ") } else { String::new() };
    let statements = of_named(Event::enable_by_hand, "; ");
    let off = "drop it, or ALTER EVENT ... DISABLE";
    if left.is_unknown {
        return format!(
            "which events ran on the primary before {server} is not known ({why}), and none of these runs there: {names}{and_more}; \
             to run one: {statements}; one that is not to run: {off}"
        );
    }
    format!(
        "events that ran on the primary do not run on {server}: {names}{and_more}: {why}; tried again every {seconds} s; \
         the statements for it: {start}{statements}{and_more}; one that is not to run any more: {off}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_does_not_run_is_told_with_its_statement() {
        let event = |name: String| {
            let [schema, definer, character_set, collation] =
                ["shop", "app@%", "latin1", "latin1_swedish_ci"].map(str::to_owned);
            Event { schema, name, definer, character_set, collation }
        };
        let events: Vec<Event> = (1..=7).map(|number| event(format!("e{number}"))).collect();
        let left = Left { events, scheduler: true, is_unknown: false };
        let told = finding("db2", "no", &left);
        assert!(
            told.contains("do not run on db2: `shop`.`e1`, ") && told.contains("`shop`.`e5` and 2 more: no;")
        );
        let statement = "SET GLOBAL event_scheduler = ON; SET NAMES latin1 COLLATE latin1_swedish_ci; \
            ALTER DEFINER = `app`@`%` EVENT `shop`.`e1` ENABLE; ";
        assert!(told.contains(statement) && !told.contains("`e6`"), "{told}");
        let told = finding("db2", "no", &Left { events: vec![], ..left.clone() });
        assert!(told.starts_with("no event runs on db2: no;") && told.ends_with(START_SCHEDULER), "{told}");
        let told = finding("db2", "no", &Left { is_unknown: true, ..left });
        assert!(told.starts_with("which events ran on the primary before db2 is not known (no)"), "{told}");
        assert!(finding("db2", "no", &Left::default()).contains("is not known: no; asked again"));
    }
}
