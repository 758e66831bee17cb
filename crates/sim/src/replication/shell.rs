//! The actions of the brain, and how the shells answer them.

use std::time::Duration;

use topology::action::Action;
use topology::brain::Restored;
use topology::fact::{Fact, Outcome};
use topology::replication::Written;

use super::world::World;

impl World {
    pub fn act(&mut self, action: Action) {
        let line = match action {
            Action::Publish(routes) => match self.publish(routes) {
                Some(line) => line,
                None => return,
            },
            Action::Persist {
                number,
                term,
                writer,
                sessions_max,
                failed_over_ago,
                is_writer_incomplete,
                renumbered,
                filtered,
            } => {
                let restored = Restored {
                    term,
                    writer,
                    sessions_max,
                    failed_over_ago,
                    is_writer_incomplete,
                    renumbered,
                    filtered,
                    component: None,
                    written: None,
                    away: None,
                };
                self.persist(number, restored);
                format!("persist term {term}")
            }
            Action::Replication(action) => self.begin_order(action),
            Action::Remember { written } => return self.remember(written),
            Action::Probe { node } => return self.ask(usize::from(node.0)),
            Action::Confirm { node } => return self.connect_anew(usize::from(node.0)),
            Action::Say(sentence) => {
                self.note_price(&sentence.text);
                format!("say {}: {}", sentence.level.word(), sentence.text)
            }
            Action::Answer { id, reply } => {
                let before = self.answered.insert(id.0, reply.is_ok());
                assert_eq!(before, None, "an order was answered twice");
                match reply {
                    Ok(done) => format!("answer: {}", done.sentence),
                    Err(refused) => format!("refused {}: {}", refused.code, refused.sentence),
                }
            }
            Action::Barrier { .. } | Action::Galera(_) => panic!("asked of a Galera cluster: {action:?}"),
            Action::PublishReads(routes) => {
                self.reads = Some(routes);
                return;
            }
            Action::Reached(_) | Action::ReadAccounts { .. } | Action::ReadTables { .. } => return,
        };
        self.note(&line);
    }

    /// What the primary reported last is written to disk, soon.
    fn remember(&mut self, written: Written) {
        let process = self.process;
        let delay = self.delay(0, 8);
        let at = self.now;
        self.later(delay, move |world| {
            if !world.disk_fails && world.may_write_to_disk(process) {
                world.disk.written = Some((written, Duration::ZERO));
                world.written_at = at;
            }
        });
    }

    pub fn persist(&mut self, number: u64, what: Restored) {
        let process = self.process;
        let failed_over = what.failed_over_ago.map(|ago| self.now.saturating_sub(ago));
        let delay = if self.chance(3) { self.delay(100, 400) } else { self.delay(0, 8) };
        let fails = self.disk_fails;
        self.later(delay, move |world| {
            let is_ours = process == world.process;
            let lands = !fails && world.may_write_to_disk(process);
            if lands && what.term >= world.disk.term {
                let written = world.disk.written.take();
                world.disk = Restored { written, ..what };
                world.failed_over = failed_over;
            }
            let why = "full".to_owned();
            let came =
                if lands { Outcome::Persisted { number } } else { Outcome::PersistFailed { number, why } };
            if is_ours {
                world.tell(Fact::Outcome(came));
            }
        });
    }
}
