//! Shortens the timers of a group that waits for a silent member, and restores each member's own values. [`topology::galera::hurry`] says
//! when and why, [`topology::galera::timers`] what is set and in which order.
//!
//! ```text
//!            connect to all, and ask the group     own values on disk      set, read back      look each 5 ms         give back
//!   wish ──> ─────────────────────────────────> ─> ───────────────────> ─> ──────────────> ─> ────────────────────> ─> ────────> end
//!                 │ nobody is waited for                                      │ any failure       │ another view, eased, 4 s
//!                 └──> end, nothing changed                                   └───────────────────┴──────────> give back
//! ```
//!
//! Nothing is given back while the members agree on their next view: what is begun is carried to its end. With the long timers back in the
//! middle of it, those who suspect the silent member and those who do not come to no agreement before `evs.install_timeout` (7.5 s), and the whole group
//! loses its Primary component: measured 6.2 s without a commit for a member that stood still for 0.7 s.
//!
//! One task. Enters: the newest wish, and what an earlier run has not restored. Leaves: SET GLOBAL on the members, facts, advice.
//! Invariants: a value is on disk before it is changed; all members are in the next step before one is in the step after it; what is on
//! disk is restored, however long that takes, before this task forgets it.

mod member;
mod restore;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep};
use topology::NodeId;
use topology::action::Sentence;
use topology::fact::{Fact, Outcome};
use topology::galera;
use topology::galera::HurryEnd;
use topology::galera::question::Answer;
use topology::galera::timers::{self, KEEPALIVE, Mode};
use topology::settings::NodeSettings;
use topology::view::Level;

use self::member::{Member, each};
use crate::advice::{self, Topic};
use crate::failed::Failed;
use crate::loan::Loan;
use crate::loans::Loans;
use crate::means::{self, MeansNow};
use crate::note::Note;
use crate::question;

/// A standstill of the group that is long enough here, since the change is undone when it turns out otherwise.
const PATIENCE: Duration = Duration::from_millis(50);
/// The time between two observations of the members.
const LOOK_GAP: Duration = Duration::from_millis(5);
/// A group that agrees on its next view at once takes about 5 ms; one that takes longer is stuck, see [`Mode::Pressed`].
const STUCK: Duration = Duration::from_millis(15);
/// Twice the time of two rounds of the members' own checks for silent peers.
const LIMIT: Duration = Duration::from_secs(4);
/// The same while the members agree on their next view: longer than `evs.install_timeout` is by default.
const FORMING_LIMIT: Duration = Duration::from_secs(15);
/// A member that answers again is heard by the others, too, when they have been at rest for this long.
const CALM: Duration = Duration::from_millis(100);
/// The pause between two tries to restore values.
const BACK_GAP: Duration = Duration::from_millis(500);
/// After this many tries the operator is told, and keepalive periods are restored although a suspect timeout could not be.
const BACK_TRIES: u32 = 10;

/// The group that is to be hurried.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub number: u64,
    /// Id, name and address of each node.
    pub members: Vec<(NodeId, String, String)>,
    pub view: u64,
}

pub(crate) struct Worker {
    pub means: MeansNow,
    pub turn: Arc<Semaphore>,
    pub notes: mpsc::Sender<Note>,
    pub wish: watch::Receiver<Option<Wish>>,
    /// What was not restored yet, as it is on disk. It outlives this task if the task panics.
    pub loans: Arc<Loans>,
}

impl Worker {
    /// Runs until its sender of wishes is gone.
    pub async fn run(mut self) {
        self.give_back_of_earlier().await;
        let mut tries = 0;
        loop {
            tokio::select! {
                changed = self.wish.changed() => {
                    if changed.is_err() {
                        self.give_back(BACK_TRIES).await;
                        return;
                    }
                    let wish = self.wish.borrow_and_update().clone();
                    if let Some(wish) = wish {
                        let end = self.hurry(&wish).await;
                        tries = 0;
                        self.tell(galera::Outcome::HurryEnded { number: wish.number, end }).await;
                    }
                }
                () = sleep(BACK_GAP), if !self.lent().is_empty() => {
                    tries += 1;
                    self.give_back(tries).await;
                }
            }
        }
    }

    async fn give_back_of_earlier(&self) {
        if self.lent().is_empty() {
            return;
        }
        self.rest().await;
        self.give_back(0).await;
        let text = if self.lent().is_empty() {
            "an earlier run ended while evs timers were shortened: every member has its own again"
        } else {
            "an earlier run ended while evs timers were shortened: not every member can be given its own yet"
        };
        let sentence = Sentence::new(Level::Warn, text.to_owned());
        // A closed queue means that the manager ends; here and below.
        let _ = self.notes.send(Note::Say(sentence)).await;
    }

    /// From a wish to its end: every member has its own values again, or is known not to have.
    async fn hurry(&self, wish: &Wish) -> HurryEnd {
        let mut members = match self.prepare(wish).await {
            Ok(members) => members,
            Err(end) => return end,
        };
        let mut end = self.shorten(&mut members, Mode::Own, Mode::Quick).await;
        if end.is_none() {
            self.tell(galera::Outcome::Hurried { number: wish.number }).await;
            end = Some(self.wait(&mut members, wish.view).await);
        }
        members.iter().for_each(Member::leave);
        if end != Some(HurryEnd::GoesOn) {
            self.rest().await;
        }
        self.give_back(0).await;
        end.unwrap_or(HurryEnd::TimeUp)
    }

    /// The steps before anything is changed; ends with the members' own values on disk.
    async fn prepare(&self, wish: &Wish) -> Result<Vec<Member>, HurryEnd> {
        let Some((_, _, first)) = wish.members.first() else { return Err(HurryEnd::Unneeded) };
        let means = means::now(&self.means);
        let (met, answer) = tokio::join!(
            member::meet(&wish.members, &means.login, self.lent()),
            question::ask(first, &means.login, &self.turn, &self.loans, PATIENCE),
        );
        let members = match met {
            Ok(members) => members,
            Err(failed) => {
                // A member that does not answer here is slow, too: the brain decides whether it is silent.
                tracing::debug!("nobody is hurried: {}", failed.why);
                return Err(HurryEnd::Unneeded);
            }
        };
        let refusal = match answer {
            Err(failed) if failed.errno != 0 => Some(self.failed(first, failed).await),
            Ok(Answer::Hangs) if !members.iter().any(|member| member.own.is_slow()) => Some(HurryEnd::Short),
            Ok(Answer::Hangs) if self.is_withdrawn() => Some(HurryEnd::Unneeded),
            Ok(Answer::Hangs) if members.iter().all(|member| member.view == wish.view) => None,
            Ok(_) | Err(_) => Some(HurryEnd::Unneeded),
        };
        if let Some(end) = refusal {
            members.iter().for_each(Member::leave);
            return Err(end);
        }
        let mut loans = self.lent();
        for member in &members {
            loans.retain(|loan| loan.node != member.name);
            loans.extend(restore::of(member));
        }
        self.loans.replace_of_hurry(loans).await.map_err(HurryEnd::Failed)?;
        Ok(members)
    }

    /// Sets every member to a shorter mode, one option on all of them before the next. Returns the end if there was one.
    async fn shorten(&self, members: &mut Vec<Member>, from: Mode, to: Mode) -> Option<HurryEnd> {
        for option in timers::order(from, to) {
            if from == Mode::Own && self.is_withdrawn() {
                return Some(HurryEnd::Eased);
            }
            let set = each(members, move |mut member| async move {
                let done = member.set(option, &member.own.at(to, option)).await;
                (member, done)
            });
            if let Err((address, failed)) = set.await {
                return Some(self.failed(&address, failed).await);
            }
        }
        None
    }

    /// Observes the members until the group has gone on.
    async fn wait(&self, members: &mut Vec<Member>, view: u64) -> HurryEnd {
        let began = Instant::now();
        let mut talking_since: Option<Instant> = None;
        let mut pressed = false;
        let mut still_since: Option<Instant> = None;
        let mut limit = LIMIT;
        while began.elapsed() < limit {
            let look = each(members, |mut member| async move {
                let done = member.look().await;
                (member, done)
            });
            if let Err((address, failed)) = look.await {
                return self.failed(&address, failed).await;
            }
            if members.iter().all(|member| member.view != view) {
                return HurryEnd::GoesOn;
            }
            let forming_view = members.iter().all(|member| member.is_forming_view);
            let at_rest = members.iter().all(|member| !member.is_forming_view && member.view == view);
            limit = if at_rest { LIMIT } else { FORMING_LIMIT };
            if self.is_withdrawn() && at_rest {
                if still_since.get_or_insert_with(Instant::now).elapsed() >= CALM {
                    return HurryEnd::Eased;
                }
            } else {
                still_since = None;
            }
            let since = forming_view.then(|| *talking_since.get_or_insert_with(Instant::now));
            talking_since = since;
            if !pressed && since.is_some_and(|since| since.elapsed() >= STUCK) {
                pressed = true;
                if let Some(end) = self.shorten(members, Mode::Quick, Mode::Pressed).await {
                    return end;
                }
            }
            sleep(LOOK_GAP).await;
        }
        HurryEnd::TimeUp
    }

    /// Waits until no member that was changed is agreeing on a next view, but no longer than such an agreement takes. One that cannot be
    /// asked is not waited for.
    async fn rest(&self) {
        let began = Instant::now();
        let login = means::now(&self.means).login.clone();
        while began.elapsed() < FORMING_LIMIT && restore::any_forming_view(self.lent(), &login).await {
            sleep(LOOK_GAP).await;
        }
    }

    /// One try to restore everything that was changed. Suspect timeouts come first; keepalive periods follow when no suspect timeout is
    /// short any more, or when that was waited for long enough.
    async fn give_back(&self, tries: u32) {
        let means = means::now(&self.means);
        let mut lent = self.lent();
        let before = lent.len();
        let mut kept = Vec::new();
        for option in timers::order(Mode::Pressed, Mode::Own) {
            let due: Vec<Loan>;
            (due, lent) = lent.into_iter().partition(|loan| loan.option == option);
            if option == KEEPALIVE && !kept.is_empty() && tries < BACK_TRIES {
                kept.extend(due.into_iter().map(|loan| (loan, "it waits for another".to_owned())));
            } else {
                kept.extend(restore::give_back_all(due, &means.login).await);
            }
        }
        for (node, NodeSettings { name, .. }) in &means.nodes {
            let mine = kept.iter().find(|(loan, _)| loan.node == *name);
            let text = mine
                .filter(|_| tries >= BACK_TRIES)
                .map(|(loan, why)| advice::timers(name, why, &loan.statement()));
            if text.is_some() || mine.is_none() {
                let _ = self.notes.send(Note::Advice(*node, Topic::Timers, text)).await;
            }
        }
        lent.extend(kept.into_iter().map(|(loan, _)| loan));
        if lent.len() < before
            && let Err(why) = self.loans.replace_of_hurry(lent).await
        {
            // It is tried again, and then found to be restored.
            tracing::warn!("the store did not take that evs timers are given back: {why}");
        }
    }

    fn lent(&self) -> Vec<Loan> {
        self.loans.of_hurry()
    }

    async fn failed(&self, address: &str, failed: Failed) -> HurryEnd {
        let wish = self.wish.borrow().clone();
        let at = wish.iter().flat_map(|wish| &wish.members).find(|(_, _, known)| known == address);
        if let Some((node, name, _)) = at
            && failed.errno == 1227
        {
            let text = advice::timers_forbidden(name, &means::now(&self.means).login.user);
            let _ = self.notes.send(Note::Advice(*node, Topic::Timers, Some(text))).await;
        }
        HurryEnd::Failed(failed.why)
    }

    fn is_withdrawn(&self) -> bool {
        self.wish.has_changed().unwrap_or(true)
    }

    async fn tell(&self, outcome: galera::Outcome) {
        let _ = self.notes.send(Note::Fact(Fact::Outcome(Outcome::Galera(outcome)))).await;
    }
}
