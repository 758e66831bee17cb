//! The members' own settings that are changed for a while, as they are on disk: one list for everything that changes a setting.
//!
//! ```text
//!   a link to a node   ──> meet: restore what an earlier run left ──> own: its values on disk ──> question, pacer: change, restore
//!   the end            ──> end: restore what is still changed ──> off the list
//! ```
//!
//! The hurry adds its loans to the list each time, and removes them. The two options in [`BRIEF`] are changed at too short notice for that
//! (an eviction waits for the question, a view change for the pace). Their owner's values are on the list for as long as this program runs,
//! and the disk is written only when one has changed. If a member reports the value that this program sets, and is on the list, the value
//! was set by this program, or by an earlier run that was killed. If it is not on the list, its owner has set it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::{Link, Login};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use topology::action::Sentence;
use topology::galera::sql;
use topology::galera::timers::is_set;
use topology::view::Level;

use crate::failed::Failed;
use crate::loan::Loan;
use crate::store::{Store, Work};

/// The options that are changed for a moment, with the value that is set, and Galera's default.
const BRIEF: [Brief; 2] = [ASKS, FAST_JOIN_RETRANS];
/// For the question to the group. Galera writes zero like this.
pub(crate) const ASKS: Brief = Brief { option: sql::CAUSAL_PERIOD, lent: "P", usual: "PT1S" };
/// For the pace.
pub(crate) const FAST_JOIN_RETRANS: Brief =
    Brief { option: sql::JOIN_PERIOD, lent: sql::JOIN_PERIOD_MIN, usual: "PT1S" };

/// The time limit for a write to disk.
const DISK: Duration = Duration::from_millis(500);
/// The time limit of each step with a member.
const STEP: Duration = Duration::from_secs(1);
/// A node that answers may not be in the group yet: how many tries there are, and the pause between them.
const MEET_TRIES: u32 = 10;
const MEET_GAP: Duration = Duration::from_secs(1);

/// See [`BRIEF`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief {
    option: &'static str,
    lent: &'static str,
    usual: &'static str,
}

impl Brief {
    /// Whether the member reports that the option has its owner's value again. A member without the option does not.
    pub fn is_given_back(self, options: &str) -> bool {
        sql::option(options, self.option).is_some() && !is_set(options, self.option, self.lent)
    }

    /// Whether the member certainly has the value that is set for a moment.
    pub fn is_lent(self, options: &str) -> bool {
        is_set(options, self.option, self.lent)
    }
}

pub(crate) struct Loans {
    store: Store,
    /// Name and address of each node.
    nodes: Mutex<Vec<(String, String)>>,
    /// As it is on disk.
    held: Mutex<Vec<Loan>>,
    /// Addresses of the nodes that were met in this run.
    met: Mutex<BTreeSet<String>>,
    /// Serialises the changes.
    writing: tokio::sync::Mutex<()>,
}

fn is_brief(loan: &Loan) -> bool {
    BRIEF.iter().any(|brief| brief.option == loan.option)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loans {
    /// `loans`: what was found on disk.
    pub fn new(store: Store, nodes: Vec<(String, String)>, loans: Vec<Loan>) -> Self {
        Self {
            store,
            nodes: Mutex::new(nodes),
            held: Mutex::new(loans),
            met: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// From now on these are the nodes, by name and address.
    pub fn set_nodes(&self, nodes: Vec<(String, String)>) {
        *locked(&self.nodes) = nodes;
    }

    /// The name of the node at that address, or else the address.
    fn name_of(&self, address: &str) -> String {
        let nodes = locked(&self.nodes);
        nodes.iter().find(|(_, known)| known == address).map_or(address, |(name, _)| name).to_owned()
    }

    /// The settings that the hurry has changed.
    pub fn of_hurry(&self) -> Vec<Loan> {
        locked(&self.held).iter().filter(|loan| !is_brief(loan)).cloned().collect()
    }

    /// Makes `loans` the settings that the hurry has changed, on disk first.
    pub async fn replace_of_hurry(&self, loans: Vec<Loan>) -> Result<(), String> {
        self.change(|held| {
            held.retain(is_brief);
            held.extend(loans);
        })
        .await
    }

    /// The owner's value of a brief option, on disk from now on; `None` when there is nothing to change. `options`: the member's provider
    /// options. A disk that fails does not keep the option from being changed, since that cannot wait.
    pub async fn own(&self, address: &str, gcomm_uuid: &str, options: &str, brief: Brief) -> Option<String> {
        let says = sql::option(options, brief.option)?;
        let held =
            locked(&self.held).iter().find(|loan| loan.is_of(address, gcomm_uuid, brief.option)).cloned();
        if is_set(options, brief.option, brief.lent) {
            return held.map(|loan| loan.own);
        }
        if held.is_some_and(|loan| loan.own == says) {
            return Some(says.to_owned());
        }
        let loan = Loan {
            node: self.name_of(address),
            address: address.to_owned(),
            gcomm_uuid: gcomm_uuid.to_owned(),
            option: brief.option.to_owned(),
            own: says.to_owned(),
            lent: brief.lent.to_owned(),
        };
        let saved = self.change(|held| {
            held.retain(|other| (&other.node, &other.option) != (&loan.node, &loan.option));
            held.push(loan);
        });
        if let Err(why) = saved.await {
            tracing::warn!("{address}: {} = {says} is not on disk: {why}", brief.option);
        }
        Some(says.to_owned())
    }

    /// A link to a node was opened: restores what an earlier run left changed, and puts the owner's values on disk. Returns a sentence to report.
    pub async fn meet(&self, address: &str, login: &Login, turn: &Semaphore) -> Option<Sentence> {
        for _ in 0..MEET_TRIES {
            match self.try_to_meet(address, login, turn).await {
                Ok(Some(told)) => return told,
                Ok(None) => {}
                Err(failed) => {
                    tracing::debug!("{address} does not say how its evs timers are set: {}", failed.why)
                }
            }
            sleep(MEET_GAP).await;
        }
        None
    }

    /// `None` while the node is not a member.
    async fn try_to_meet(
        &self,
        address: &str,
        login: &Login,
        turn: &Semaphore,
    ) -> Result<Option<Option<Sentence>>, Failed> {
        let mut link = Link::connect(address, login, STEP).await?;
        let view_state = link.query(sql::VIEW_STATE, STEP).await?;
        let is_name = |uuid: &&str| uuid.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0');
        let Some(uuid) = view_state.value_of("wsrep_gcomm_uuid").filter(is_name) else { return Ok(None) };
        // No question may run meanwhile, since its option would be restored in the middle of it.
        let mine = turn.acquire().await.map_err(|_| Failed::because("this process is stopping"))?;
        let is_first = !locked(&self.met).contains(address);
        let mut told = Vec::new();
        if is_first {
            for loan in self.brief_of(address) {
                if loan.give_back_over(&mut link).await? {
                    told.push(format!(
                        "{} = {} is given back, which an earlier run had changed",
                        loan.option, loan.own
                    ));
                }
            }
        }
        let options = link.query(sql::PROVIDER_OPTIONS, STEP).await?;
        drop(mine);
        let options = options.text(0, 0).unwrap_or_default();
        for brief in BRIEF {
            let own = self.own(address, uuid, options, brief).await;
            if is_first && own.is_none() && is_set(options, brief.option, brief.lent) {
                told.push(brief.stray());
            }
        }
        locked(&self.met).insert(address.to_owned());
        link.quit();
        let name = self.name_of(address);
        let text = || format!("{name}: {}", told.join("; "));
        Ok(Some((!told.is_empty()).then(|| Sentence::new(Level::Warn, text()))))
    }

    /// The program ends: restores what is still changed on the node, and removes it from the list.
    pub async fn end(&self, address: &str, login: &Login) {
        for loan in self.brief_of(address) {
            let given_back = timeout(STEP, loan.give_back(login)).await;
            if matches!(given_back, Ok(Ok(_)))
                && let Err(why) = self.change(|held| held.retain(|other| *other != loan)).await
            {
                // The next start finds nothing to restore.
                tracing::debug!("{address}: {} stays on disk: {why}", loan.option);
            }
        }
    }

    fn brief_of(&self, address: &str) -> Vec<Loan> {
        locked(&self.held).iter().filter(|loan| is_brief(loan) && loan.address == address).cloned().collect()
    }

    /// Changes the list, on disk first.
    async fn change(&self, change: impl FnOnce(&mut Vec<Loan>)) -> Result<(), String> {
        let _one = self.writing.lock().await;
        let mut loans = locked(&self.held).clone();
        change(&mut loans);
        if loans == *locked(&self.held) {
            return Ok(());
        }
        let (told, heard) = oneshot::channel();
        let told = Box::new(move |result: Result<(), crate::StoreError>| {
            // The one who asked may have given up.
            let _ = told.send(result);
        });
        let closed = || "the store is closed".to_owned();
        self.store.send(Work::Lend(loans.clone(), told)).map_err(|_| closed())?;
        match timeout(DISK, heard).await {
            Ok(Ok(Ok(()))) => {
                *locked(&self.held) = loans;
                Ok(())
            }
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(_)) => Err(closed()),
            Err(_) => Err(format!("the store did not write within {DISK:?}")),
        }
    }
}

impl Brief {
    /// About a member that reports the value that this program sets, although this program has not set it.
    fn stray(self) -> String {
        let Self { option, lent, usual } = self;
        let statement = sql::set_period(option, usual).unwrap_or_default();
        format!(
            "{option} is {lent}, and stays so: Galera's default is {usual}; if nobody set it on purpose, a version of Understudy \
             that was killed may have left it, run there: {statement}"
        )
    }
}
