//! Makes `manual_failover` idempotent: a repeated request gets the result of the first.
//!
//! A caller who lost the answer (a timeout, a broken line, `curl --retry`) asks again. Without a named target each request
//! would move the writer once more, so requests that arrive while one runs join it, and one that arrives within
//! [`REPEAT_WINDOW`] of a change of the writer is answered with the writer that there is. By whose doing it changed is all one: such a request,
//! at the end of a script that has moved the primary, or that an automatic failover has called, is to tell of that change. A request that names its target needs none of this: the
//! target is already the writer the second time.
//!
//! ```text
//!   Idle ── first request ──> Running ── success ──> Done(at) ── REPEAT_WINDOW later ──> Idle
//!                              │  └──── refusal ──────────────────────────────────────> Idle
//!                              └── further requests wait for the same answer
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use topology::Term;

use crate::reply::Reply;

/// How long after a change of the writer, or a success, a request without a target counts as its repetition.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(10);

type Waiting = watch::Receiver<Option<Reply>>;

/// The last, or the running, `manual_failover`.
#[derive(Default)]
pub struct Repeat {
    last: Mutex<Option<Last>>,
}

enum Last {
    Running(Waiting),
    Done { at: Instant, term: Term, reply: Reply },
}

/// What a request has to do.
pub enum Turn {
    /// Nothing: this is the result.
    Answered(Reply),
    /// Nothing: the writer changed that long ago.
    ChangedAlready(Duration),
    /// Wait for the failover that runs.
    Join(Waiting),
    /// Carry it out, and send the result to the others through this.
    Lead(watch::Sender<Option<Reply>>),
}

impl Repeat {
    /// What this request has to do. The writer changed `changed_ago`. `term` is the one in force: with another one an earlier success is no answer
    /// any more.
    pub fn turn(&self, now: Instant, term: Term, changed_ago: Option<Duration>) -> Turn {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has ended without an answer (its sender was dropped) is no longer joined.
        if let Some(Last::Running(running)) = &*last
            && running.has_changed().is_ok()
        {
            return Turn::Join(running.clone());
        }
        if let Some(ago) = changed_ago.filter(|ago| *ago < REPEAT_WINDOW) {
            return Turn::ChangedAlready(ago);
        }
        if let Some(Last::Done { at, term: then, reply }) = &*last
            && *then == term
            && now.duration_since(*at) < REPEAT_WINDOW
        {
            let ago = now.duration_since(*at).as_secs_f64();
            let note = format!("this was done {ago:.1} s ago and is not done again; name \"to\" to insist");
            return Turn::Answered(reply.clone().repeated(&note));
        }
        let (tell, told) = watch::channel(None);
        *last = Some(Last::Running(told));
        Turn::Lead(tell)
    }

    /// Called with the result by the request that has carried it out; `term` is the one in force afterwards.
    pub fn finish(&self, tell: &watch::Sender<Option<Reply>>, reply: &Reply, now: Instant, term: Term) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = reply.is_success().then(|| Last::Done { at: now, term, reply: reply.clone() });
        tell.send_replace(Some(reply.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> Reply {
        Reply::done("db2 writes now", serde_json::json!({ "writer": "db2" }))
    }

    #[test]
    fn a_repetition_is_answered_and_a_later_one_leads() {
        let repeat = Repeat::default();
        let start = Instant::now();
        let Turn::Lead(tell) = repeat.turn(start, Term(8), None) else { panic!("the first leads") };
        assert!(matches!(repeat.turn(start, Term(8), None), Turn::Join(_)));
        repeat.finish(&tell, &done(), start, Term(8));
        assert!(matches!(repeat.turn(start + REPEAT_WINDOW / 2, Term(8), None), Turn::Answered(_)));
        assert!(matches!(repeat.turn(start + REPEAT_WINDOW, Term(8), None), Turn::Lead(_)));
    }

    #[test]
    fn after_any_change_of_the_writer_nothing_is_moved() {
        let repeat = Repeat::default();
        let start = Instant::now();
        let Turn::Lead(tell) = repeat.turn(start, Term(7), None) else { panic!("the first leads") };
        repeat.finish(&tell, &done(), start, Term(8));
        assert!(matches!(repeat.turn(start, Term(9), Some(Duration::ZERO)), Turn::ChangedAlready(_)));
        assert!(matches!(repeat.turn(start, Term(9), Some(REPEAT_WINDOW)), Turn::Lead(_)));
    }

    #[test]
    fn a_refusal_or_a_vanished_leader_is_not_repeated() {
        let repeat = Repeat::default();
        let start = Instant::now();
        let Turn::Lead(tell) = repeat.turn(start, Term(8), None) else { panic!("the first leads") };
        repeat.finish(&tell, &Reply::bad_request("no"), start, Term(8));
        let Turn::Lead(tell) = repeat.turn(start, Term(8), None) else {
            panic!("a refusal may be tried again")
        };
        drop(tell);
        assert!(matches!(repeat.turn(start, Term(8), None), Turn::Lead(_)));
    }
}
