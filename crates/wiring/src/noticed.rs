//! What clients noticed of each change of the writer, as the proxy's counters tell: an entry in the journal, some seconds after the change.

use std::sync::Arc;
use std::time::Duration;

use api::proxy::Stats;
use manager::{Journal, unix_ms};
use proxy::StatsReader;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use topology::Term;
use topology::about::{About, Clients};
use topology::action::Sentence;
use topology::view::{ClusterView, Counts, Level, TrafficFlow};

/// Between two looks at the counters.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks in a row at which nothing waits before the change is over for the clients: by then, idle sessions have mostly moved, too.
const CALM_LOOKS: u32 = 3;

/// Writes into the journal until the manager ends, or this is dropped.
pub async fn tell(journal: Journal, view: watch::Receiver<Arc<ClusterView>>, proxy: StatsReader) {
    let mut tick = interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut account = Account::default();
    while view.has_changed().is_ok() {
        tick.tick().await;
        let stats = proxy.counted().await;
        let (term, moves, flows) = {
            let view = view.borrow();
            (view.term, moves(view.counts), view.gate == TrafficFlow::Open)
        };
        if let Some(clients) = account.look(Look { at_unix_ms: unix_ms(), term, moves, flows, stats }) {
            let (level, text) = sentence(term, &clients);
            journal.note(term, Sentence { level, text, about: About::Clients(clients) });
        }
    }
}

/// What was begun and ended of the writer's moves.
fn moves(counts: Counts) -> [u64; 3] {
    [counts.failovers_begun, counts.switchovers_done, counts.switchovers_undone]
}

/// The counters at one moment.
#[derive(Clone)]
struct Look {
    at_unix_ms: u64,
    term: Term,
    /// Those that were undone do not show in the term.
    moves: [u64; 3],
    /// Whether statements flow.
    flows: bool,
    stats: Stats,
}

/// Finds the changes in what is seen at the looks.
#[derive(Default)]
struct Account {
    /// The last look before the change, and the one before that: what led to the decision is in the counters already at the last one.
    before: Option<Look>,
    last: Option<Look>,
    /// Statements did not flow, whoever writes afterwards.
    was_interrupted: bool,
    calm_looks: u32,
}

impl Account {
    /// What the clients noticed, when a change is over.
    fn look(&mut self, now: Look) -> Option<Clients> {
        let last = self.last.get_or_insert_with(|| now.clone());
        if !now.flows || now.stats.hold.waiting > 0 {
            self.was_interrupted |= !now.flows;
            self.calm_looks = 0;
            return None;
        }
        if (now.term, now.moves) == (last.term, last.moves) && !self.was_interrupted {
            self.before = self.last.replace(now);
            return None;
        }
        self.calm_looks += 1;
        if self.calm_looks < CALM_LOOKS {
            return None;
        }
        (self.calm_looks, self.was_interrupted) = (0, false);
        let last = self.last.replace(now.clone());
        let before = self.before.take().or(last)?;
        let clients = noticed(&before, &now);
        // Of a start at which nobody waited nothing is told.
        let is_told = before.term > Term(0) || clients.held > 0 || !clients.errors.is_empty();
        is_told.then_some(clients)
    }
}

fn noticed(before: &Look, now: &Look) -> Clients {
    let (old, new) = (&before.stats, &now.stats);
    let errors = new.errors.iter().filter_map(|error| {
        let earlier = old.errors.iter().find(|other| other.code == error.code).map_or(0, |other| other.count);
        let count = error.count.saturating_sub(earlier);
        (count > 0).then_some((error.code, count))
    });
    let at_most = new.hold.held_for.bound_since(&old.hold.held_for);
    Clients {
        since_unix_ms: before.at_unix_ms,
        connected: new.clients,
        held: new.hold.held.saturating_sub(old.hold.held),
        held_at_most_ms: at_most.map(|bound| bound.as_millis() as u64),
        left: new.hold.gone.saturating_sub(old.hold.gone),
        moved: new.sessions_moved.saturating_sub(old.sessions_moved),
        again: new.statements_again.saturating_sub(old.statements_again),
        errors: errors.collect(),
    }
}

fn sentence(term: Term, clients: &Clients) -> (Level, String) {
    let Clients { held, held_at_most_ms, moved, errors, .. } = clients;
    let waited = match (held, held_at_most_ms) {
        (0, _) => "no statement waited".to_owned(),
        (held, Some(ms)) => format!("{held} statements waited, none of them for more than {ms} ms"),
        (held, None) => format!("{held} statements waited"),
    };
    let told: Vec<String> = errors.iter().map(|(code, count)| format!("{code} ({count})")).collect();
    let (level, told) = match told.as_slice() {
        [] => (Level::Info, "no error was sent".to_owned()),
        told => (Level::Warn, format!("errors sent: {}", told.join(", "))),
    };
    (level, format!("clients, at the change to term {term}: {waited}; {moved} sessions moved; {told}"))
}

#[cfg(test)]
mod tests {
    use api::proxy::ErrorCount;

    use super::*;

    fn look(at_s: u64, term: u64, waiting: u64, held: u64, lost: u64) -> Look {
        let mut stats = Stats::default();
        (stats.hold.waiting, stats.hold.held) = (waiting, held);
        stats.errors = vec![ErrorCount { code: 9104, name: "session_lost".into(), count: lost }];
        Look { at_unix_ms: at_s * 1000, term: Term(term), moves: [0; 3], flows: true, stats }
    }

    #[test]
    fn what_was_noticed_is_told_once_when_nothing_waits_any_more() {
        let mut account = Account::default();
        // Nobody waited at the first start; the next change is counted from two looks before it.
        let looks = [(0, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 7, 1), (2, 0, 1), (2, 3, 2)];
        for (at_s, (term, waiting, lost)) in looks.into_iter().enumerate() {
            let held = 10 + waiting;
            assert_eq!(account.look(look(at_s as u64, term, waiting, held, lost)), None, "second {at_s}");
        }
        for at_s in [8, 9] {
            assert_eq!(account.look(look(at_s, 2, 0, 20, 2)), None, "second {at_s}");
        }
        let told = account.look(look(10, 2, 0, 20, 2)).unwrap();
        let wanted = Clients { since_unix_ms: 3000, held: 10, errors: vec![(9104, 2)], ..Clients::default() };
        assert_eq!(told, wanted);
        let (level, text) = sentence(Term(2), &told);
        assert_eq!(level, Level::Warn);
        assert_eq!(
            text,
            "clients, at the change to term 2: 10 statements waited; 0 sessions moved; errors sent: 9104 (2)"
        );
        for at_s in 11..20 {
            assert_eq!(account.look(look(at_s, 2, 0, 20, 2)), None);
        }
        // An interruption after which the same node writes.
        assert_eq!(account.look(Look { flows: false, ..look(20, 2, 4, 24, 2) }), None);
        for at_s in [21, 22] {
            assert_eq!(account.look(look(at_s, 2, 0, 24, 3)), None);
        }
        let told = account.look(look(23, 2, 0, 24, 3)).unwrap();
        assert_eq!((told.held, told.errors, told.since_unix_ms), (4, vec![(9104, 1)], 18_000));
    }
}
