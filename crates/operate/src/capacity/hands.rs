//! Carries the procedure's orders out on the node, and has the node's own server undo them should this process be lost.
//!
//! Four sessions on the node:
//! - *orders*: short statements, made anew when it breaks;
//! - *lock*: holds FLUSH TABLES WITH READ LOCK. Its end is the lock's end, and `wait_timeout` ends it when its client is silent;
//! - *desync*: gives the one order that may hang, and whose effect must not come after its undoing. Its number is kept until its answer is there;
//! - *guard*: a block of statements that the server runs by itself ([`sql::galera_guard`]): after the time that the lock may last it ends the
//!   lock's session, and has the node synchronised again when its queue is short. It runs since before the first order. Should this process be
//!   killed, the server ends its SLEEP within 5 s, and it does its work at once; should the way to the node be lost, it does so when its time is up.
//!
//! Invariant: the node is desynchronised, or its SQL thread is stopped, only while a guard was seen to run on it (unless that was waived).

use std::time::Duration;

use link::Link;
use measure::capacity::procedure::{Order, Plan};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use topology::kind::Kind;

use super::before;
use super::named_asker::NamedAsker;
use super::sql;
use super::traffic::Traffic;

/// An order may take so long, where nothing else is said.
const ORDER_MAX: Duration = Duration::from_secs(10);
/// What undoes an order answers so soon, or the next way is tried.
const UNDO_MAX: Duration = Duration::from_secs(3);
/// The lock waits so long for statements that run on the node.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// The server ends the lock by itself so much after it should have ended.
const LOCK_MARGIN: Duration = Duration::from_secs(5);
/// A guard is seen to run after so long, or there is none.
const GUARD_MAX: Duration = Duration::from_secs(5);
/// Clients may take so long to leave a node that is taken out.
const LEAVE_MAX: Duration = Duration::from_secs(10);
/// The guard waits so long for a node that is behind. It is a session that sleeps: nobody feels it.
const GUARD_WAITS_MAX: Duration = Duration::from_secs(24 * 3600);
/// Between two looks at a condition.
const PACE: Duration = Duration::from_millis(100);

/// See the head of this file.
pub struct Hands {
    /// What kind of cluster.
    pub kind: Kind,
    /// How long things may last.
    pub plan: Plan,
    /// The way of orders.
    pub orders: NamedAsker,
    /// Proxy, health endpoint and address.
    pub traffic: Traffic,
    /// Accounts whose sessions are no clients'.
    pub ignored: Vec<String>,
    /// Clients that stay are no reason to stop.
    pub may_be_in_use: bool,
    /// Without a guard.
    pub is_unguarded: bool,
    lock: Option<(Link, u64)>,
    /// The session that was told to desynchronise the node and has not answered: it may still do so.
    hangs: Option<u64>,
    guard: Option<Guard>,
}

/// The block that the server runs.
struct Guard {
    /// Ends with the block; an error is why the server did not carry it out to its end.
    task: JoinHandle<Result<(), String>>,
    session: u64,
}

impl Hands {
    /// Hands that have done nothing yet.
    pub fn new(plan: Plan, orders: NamedAsker, traffic: Traffic) -> Self {
        Self {
            kind: plan.kind,
            plan,
            orders,
            traffic,
            ignored: Vec::new(),
            may_be_in_use: false,
            is_unguarded: false,
            lock: None,
            hangs: None,
            guard: None,
        }
    }

    /// Does it. An order to undo something does nothing where nothing is to be undone.
    ///
    /// # Errors
    /// Why it was not done, or why that is not known.
    pub async fn obey(&mut self, order: Order) -> Result<(), String> {
        match (order, self.kind) {
            (Order::TakeOut, _) => {
                self.traffic.take_out().await?;
                self.until_left().await
            }
            (Order::PutBack, _) => self.traffic.put_back().await,
            (Order::Desync, _) => self.desync().await,
            (Order::Resync, _) => self.resync().await,
            (Order::Stop, Kind::Galera) => self.lock().await,
            (Order::Resume, Kind::Galera) => self.unlock().await,
            (Order::Stop, Kind::Replication) => {
                self.start_guard(&sql::replica_guard(self.lock_max()), false).await?;
                self.order(sql::STOP_APPLYING).await
            }
            (Order::Resume, Kind::Replication) => {
                self.order(sql::START_APPLYING).await?;
                self.end_guard().await;
                Ok(())
            }
        }
    }

    /// Why the guard does not run any more, when it should.
    pub fn guard_lost(&self) -> Option<&'static str> {
        let is_over = self.guard.as_ref().is_some_and(|guard| guard.task.is_finished());
        is_over.then_some("the session on the node that would undo everything has ended")
    }

    /// A guard runs, and would undo what is left.
    pub fn is_guarded(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| !guard.task.is_finished())
    }

    fn lock_max(&self) -> Duration {
        self.plan.hold + LOCK_WAIT + LOCK_MARGIN
    }

    async fn order(&mut self, sql: &str) -> Result<(), String> {
        self.orders.ask(sql, ORDER_MAX).await.map(|_| ())
    }

    /// Waits until no client is connected to the node.
    async fn until_left(&mut self) -> Result<(), String> {
        let until = Instant::now() + LEAVE_MAX;
        while !self.may_be_in_use {
            let rows = self.orders.ask(sql::SESSIONS, ORDER_MAX).await?;
            let there = before::clients(&rows, &self.ignored);
            if there.is_empty() {
                break;
            }
            if Instant::now() > until {
                return Err(format!(
                    "clients are connected to it past the proxy, and would read old data: {} (--allow in-use overrides this)",
                    there.join("; ")
                ));
            }
            sleep(PACE).await;
        }
        Ok(())
    }

    /// The lock's session comes first: the guard has to know its number.
    async fn desync(&mut self) -> Result<(), String> {
        let prepare = sql::prepare(true, LOCK_WAIT, self.lock_max());
        let (lock, session) = self.orders.session(&prepare).await?;
        self.lock = Some((lock, session));
        let (mut order, ordering) = self.orders.session(&sql::prepare_order(ORDER_MAX)).await?;
        let sessions = (session, ordering);
        let guard = sql::galera_guard(sessions, self.lock_max(), self.plan.queue_short, GUARD_WAITS_MAX);
        self.start_guard(&guard, false).await?;
        self.hangs = Some(ordering);
        order.query(&topology::galera::sql::desync(true), ORDER_MAX).await.map_err(|e| e.to_string())?;
        self.hangs = None;
        order.quit();
        Ok(())
    }

    /// When this fails, the guard stays: it waits for the end of an order that hangs, too.
    async fn resync(&mut self) -> Result<(), String> {
        if let Some(session) = self.hangs {
            self.kill(session)
                .await
                .map_err(|why| format!("the order to desynchronise it hangs in session {session}: {why}"))?;
            self.hangs = None;
        }
        self.order(&topology::galera::sql::desync(false)).await?;
        let rows = self.orders.ask(sql::DESYNC, ORDER_MAX).await?;
        if rows.text(0, 0) != Some("0") {
            return Err("somebody has desynchronised it again".to_owned());
        }
        self.end_guard().await;
        Ok(())
    }

    /// Another guard in place of one that has ended before its time, while the node still is desynchronised and nothing is locked any more.
    pub async fn guard_anew(&mut self) {
        if self.kind != Kind::Galera || self.guard_lost().is_none() {
            return;
        }
        self.guard = None;
        let nobody = self.hangs.unwrap_or(0);
        let guard =
            sql::galera_guard((nobody, nobody), Duration::ZERO, self.plan.queue_short, GUARD_WAITS_MAX);
        match self.start_guard(&guard, true).await {
            Ok(()) if self.guard.is_none() => {
                eprintln!("another session on the node's server has undone the rest")
            }
            Ok(()) => eprintln!("another session on the node's server would undo the rest"),
            Err(why) => eprintln!(
                "nothing on the node's server would undo the rest ({why}): let this command end by itself"
            ),
        }
    }

    /// Not while a client has written something that it has not committed: it would wait with its locks.
    async fn lock(&mut self) -> Result<(), String> {
        let rows = self.orders.ask(sql::WRITING, ORDER_MAX).await?;
        let writing = before::clients(&rows, &self.ignored);
        if !writing.is_empty() {
            return Err(format!("clients have open transactions there that write: {}", writing.join("; ")));
        }
        let (lock, _) = self.lock.as_mut().ok_or("the session for the lock is gone")?;
        lock.query(sql::LOCK, ORDER_MAX).await.map(|_| ()).map_err(|e| {
            format!("{e}: nobody may write there meanwhile, and a statement that runs longer than {} s is not waited for",
                LOCK_WAIT.as_secs())
        })
    }

    /// By the session that has it; should that not answer, by ending that session.
    async fn unlock(&mut self) -> Result<(), String> {
        let Some((mut lock, session)) = self.lock.take() else { return Ok(()) };
        if lock.query(sql::UNLOCK, UNDO_MAX).await.is_ok() {
            lock.quit();
        } else {
            drop(lock);
            self.kill(session).await?;
        }
        self.guard_anew().await;
        Ok(())
    }

    /// Ends a session, and sees that it has ended.
    async fn kill(&mut self, session: u64) -> Result<(), String> {
        // It may have ended by itself: whether it is there is what counts.
        let killed = self.orders.ask(&sql::kill(session), UNDO_MAX).await;
        let until = Instant::now() + ORDER_MAX;
        loop {
            let rows = self.orders.ask(&sql::session(session), UNDO_MAX).await?;
            if rows.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(killed.err().unwrap_or_else(|| format!("session {session} does not end")));
            }
            sleep(PACE).await;
        }
    }

    /// `may_be_done`: it does not wait for anything but a short queue.
    async fn start_guard(&mut self, block: &str, may_be_done: bool) -> Result<(), String> {
        if self.is_unguarded {
            return Ok(());
        }
        let most = self.lock_max() + GUARD_WAITS_MAX;
        let prepare = sql::prepare(self.kind == Kind::Galera, LOCK_WAIT, most);
        let (mut link, session) = self.orders.session(&prepare).await?;
        let block = block.to_owned();
        // Twice the time that it takes at the most.
        let task =
            tokio::spawn(
                async move { link.query(&block, most * 2).await.map(drop).map_err(|e| e.to_string()) },
            );
        self.guard = Some(Guard { task, session });
        self.seen_to_run(session, may_be_done).await
    }

    async fn seen_to_run(&mut self, session: u64, may_be_done: bool) -> Result<(), String> {
        let until = Instant::now() + GUARD_MAX;
        loop {
            let rows = self.orders.ask(&sql::session(session), ORDER_MAX).await?;
            let is_over = self.guard.as_ref().is_none_or(|guard| guard.task.is_finished());
            if rows.text(0, 0).is_some_and(|text| !text.is_empty()) && !is_over {
                return Ok(());
            }
            if is_over || Instant::now() > until {
                let why = match self.guard.take() {
                    Some(guard) if guard.task.is_finished() => match guard.task.await {
                        // On a busy machine it may have done all that it had to do before this look.
                        Ok(Ok(())) if may_be_done => return Ok(()),
                        Ok(Err(why)) => why,
                        _ => "it ended".to_owned(),
                    },
                    _ => "it is not seen to run".to_owned(),
                };
                return Err(format!(
                    "the server does not keep the session that would undo everything: {why}"
                ));
            }
            sleep(PACE).await;
        }
    }

    /// It has nothing to do any more. What it does when it lives on is harmless now, and would not be in a later run: it is ended.
    async fn end_guard(&mut self) {
        if let Some(guard) = self.guard.take() {
            if let Err(why) = self.kill(guard.session).await {
                eprintln!("session {} of the node's server could not be ended: {why}", guard.session);
            }
            guard.task.abort();
        }
    }
}
