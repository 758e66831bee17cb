//! `understudy check` and the drop-ins, from outside, on a real Galera node: every byte and exit code that somebody's load balancer
//! counts on, and that they stay right while the database hangs, ends and comes back, under loads, and through xinetd and systemd's way.
//!
//! ```text
//!   tests                                              what they stand on
//!   node: what is said of a Galera node, and how       check_dir: the files of one check
//!    └ answers, settings, starters, http, python       running: a check that runs
//!   hang, replication, load, places, terminal          asking: HTTP and lines from outside
//! ```

mod answers;
mod asking;
mod check_dir;
mod hang;
mod http;
mod load;
mod node;
mod places;
mod python;
mod replication;
mod running;
mod settings;
mod starters;
mod terminal;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const UP: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 40\r\n\r\n\
                  Percona XtraDB Cluster Node is synced.\r\n";
const DOWN: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 44\r\n\r\n\
                    Percona XtraDB Cluster Node is not synced.\r\n";
const READ_ONLY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 43\r\n\r\n\
                         Percona XtraDB Cluster Node is read-only.\r\n";
const DISABLED: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 51\r\n\r\n\
                        Percona XtraDB Cluster Node is manually disabled.\r\n";
/// What must never be seen.
const SECRET: &str = "hush-4711";
/// An answer comes from memory; this is for a busy machine.
const SOON: Duration = Duration::from_secs(1);
/// How often the check of most tests asks.
const INTERVAL: Duration = Duration::from_millis(50);
/// What a hung database may take to be noticed, and a little for a busy machine.
const HUNG_TIME_MAX: Duration = Duration::from_millis(1200);

/// Tests that measure time, or that fill the machine, run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
