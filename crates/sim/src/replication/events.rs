//! One event of the event scheduler, on every MariaDB server of the model: where it is enabled, what is kept of that, and the orders about it.

use topology::replication::events::{Event, Listed};
use topology::replication::kept_events::{Kept, Left};

use super::server::Has;
use super::world::World;

/// What the manager keeps of it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    known: Option<Kept>,
    pub on_disk: Option<Kept>,
}

impl Memory {
    /// The manager's process starts.
    pub fn restart(&mut self) {
        self.known.clone_from(&self.on_disk);
    }
}

fn event() -> Event {
    let [schema, name, definer, character_set, collation] =
        ["shop", "tick", "app@%", "utf8mb4", "utf8mb4_general_ci"].map(str::to_owned);
    Event { schema, name, definer, character_set, collation }
}

impl World {
    /// Every server's event_scheduler is ON, and the primary runs the event.
    pub fn have_events(&mut self, primary: usize) {
        self.event_scheduler = true;
        self.servers[primary].event = Has::Enabled;
    }

    pub fn has_events(&self, node: usize) -> bool {
        self.event_scheduler && !self.servers[node].is_mysql
    }

    fn listed(&self, node: usize) -> Listed {
        let server = &self.servers[node];
        let list = |of: Has| if server.event == of { vec![event()] } else { vec![] };
        Listed {
            enabled: list(Has::Enabled),
            elsewhere: list(Has::Elsewhere),
            hidden: vec![],
            scheduler: true,
            read_only: server.read_only,
        }
    }

    fn address(&self, node: usize) -> String {
        format!("{}:3306", self.names[node])
    }

    /// Whether it is on disk.
    fn keep(&mut self, kept: Option<Kept>) -> bool {
        let Some(kept) = kept else { return true };
        self.kept.known = Some(kept.clone());
        if !self.disk_fails {
            self.kept.on_disk = Some(kept);
        }
        !self.disk_fails
    }

    /// A server is asked what it runs.
    pub fn look_at_events(&mut self, node: usize) {
        if self.has_events(node) {
            let now = self.listed(node);
            let kept = Kept::after_look(self.kept.known.as_ref(), &self.address(node), &now);
            self.keep(kept);
        }
    }

    /// The first step of stopping its events. Whether there is another.
    pub fn begin_to_stop_events(&mut self, node: usize, is_first: bool) -> bool {
        if !self.has_events(node) || self.servers[node].event != Has::Enabled {
            return false;
        }
        let now = self.listed(node);
        let kept = Kept::before_stop(self.kept.known.as_ref(), &self.address(node), &now, is_first);
        self.keep(kept)
    }

    pub fn stop_events(&mut self, node: usize) {
        self.servers[node].event = Has::Elsewhere;
    }

    /// One step of the order to run what ran before. `Some` when it has ended.
    pub fn run_events(
        &mut self,
        node: usize,
        has_replaced: bool,
        left: &mut Left,
    ) -> Option<Result<usize, String>> {
        if left.is_empty() {
            let now = self.listed(node);
            let kept = Kept::before_run(self.kept.known.as_ref(), &self.address(node), &now, has_replaced);
            self.keep(kept);
            *left = Kept::left(self.kept.known.as_ref(), &now);
            return match (left.is_empty(), left.is_unknown || self.servers[node].refuses_events) {
                (true, _) => Some(self.events_done(0)),
                (false, true) => Some(Err("Access denied".into())),
                (false, false) => None,
            };
        }
        self.servers[node].event = Has::Enabled;
        let count = std::mem::take(left).events.len();
        Some(self.events_done(count))
    }

    fn events_done(&mut self, count: usize) -> Result<usize, String> {
        let done = self.kept.known.as_ref().map(|known| Kept { is_due: false, ..known.clone() });
        self.keep(done);
        Ok(count)
    }

    /// The event is disabled on that server by an operator, as the primary.
    pub fn disable_event(&mut self, node: usize) {
        self.servers[node].event = Has::Nothing;
    }

    /// What an operator should do about that server, as the status shows it.
    pub fn note_advice(&mut self, node: usize) {
        let advice = self.brain.as_ref().map(|_| self.shown(node).advice).unwrap_or_default();
        let name = self.names[node].clone();
        if advice.is_empty() {
            self.note(&format!("advice about {name}: none"));
        }
        for text in advice {
            self.note(&format!("advice about {name}: {text}"));
        }
    }

    /// A server that runs the event and is not `open`, or `open` if it does not run it.
    pub fn runs_wrongly(&self, open: usize) -> Option<&str> {
        let is_wrong = |node: &usize| {
            let server = &self.servers[*node];
            let follows = server.source == Some(open);
            let runs = server.event == Has::Enabled;
            self.has_events(*node) && (*node == open && !runs || follows && runs)
        };
        (0..self.servers.len()).find(is_wrong).map(|node| &*self.names[node])
    }
}
