//! Links that stand ready for orders, one to each server: a firewall that refuses new connections must not keep a primary from being fenced.
//!
//! ```text
//!   refresh (now and then) ──> stands ready ──take──> an order ──give back──> stands ready
//!                                   └── broken, or other account: a new one at the next refresh
//! ```
//!
//! An order takes the link that stands, and opens a new one where there is none, or where that one does not answer at once. A link is kept only
//! while the server has connections left for clients: the last one is for an administrator.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use link::{Link, LinkError, Login};
use tokio::time::{Instant, timeout};
use topology::flavor::Dialect;

use crate::rival;

/// A link that stands is looked at again after this long.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Where there is none, the next attempt to open one.
const OPEN_EVERY: Duration = Duration::from_secs(2);
/// The server ends the session of a program that has vanished after this long.
const IDLE_S: u64 = 60;
/// The time limit of a refresh.
const REFRESH_DEADLINE: Duration = Duration::from_secs(2);
/// The link that stands has this long before a new one is opened beside it.
const HEAD_START: Duration = Duration::from_millis(100);
/// How often the settings of a link that stands are tried to be made as those of a new one.
const TRIES: u32 = 3;

/// Literals of the orders are written for this mode.
const FOR_ORDERS: &str = "SET SESSION sql_mode = ''";

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Ready(Mutex<HashMap<String, Slot>>);

#[derive(Default)]
struct Slot {
    link: Option<(Link, Login)>,
    refreshed: Option<Instant>,
}

/// A link for one order.
pub(super) struct Taken {
    pub link: Link,
    /// It stood ready, and is given back when the order has ended.
    pub stood: bool,
}

impl Ready {
    fn slot<T>(&self, address: &str, work: impl FnOnce(&mut Slot) -> T) -> T {
        // A panic elsewhere leaves a slot that is whole.
        let mut slots = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(slots.entry(address.to_owned()).or_default())
    }

    /// Whether it is time for [`Ready::refresh`]; if so, it counts as done from now on.
    pub fn is_due(&self, address: &str) -> bool {
        self.slot(address, |slot| {
            let every = if slot.link.is_some() { LOOK_EVERY } else { OPEN_EVERY };
            let is_due = slot.refreshed.is_none_or(|at| at.elapsed() >= every);
            if is_due {
                slot.refreshed = Some(Instant::now());
            }
            is_due
        })
    }

    /// Removes the links to servers that are not in the list.
    pub fn keep_only(&self, addresses: &[&str]) {
        let mut slots = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slots.retain(|address, _| addresses.contains(&address.as_str()));
    }

    fn take(&self, address: &str, login: &Login) -> Option<Link> {
        let (link, account) = self.slot(address, |slot| slot.link.take())?;
        (account == *login && !link.stream.has_hung_up()).then_some(link)
    }

    /// Keeps a link for the next order, if it can be used on and there is no other.
    pub fn give_back(&self, address: &str, login: &Login, link: Link) {
        if link.is_busy() || link.stream.has_hung_up() {
            return;
        }
        let surplus = self.slot(address, |slot| match &slot.link {
            Some(_) => Some(link),
            None => {
                slot.link = Some((link, login.clone()));
                None
            }
        });
        if let Some(link) = surplus {
            link.quit();
        }
    }

    /// Sees to it that a link stands ready.
    pub async fn refresh(&self, address: &str, login: &Login) {
        let refreshed = timeout(REFRESH_DEADLINE, async {
            let standing = match self.take(address, login) {
                Some(mut link) => link.ping(REFRESH_DEADLINE).await.is_ok().then_some(link),
                None => None,
            };
            let mut link = match standing {
                Some(link) => link,
                None => open(address, login, REFRESH_DEADLINE).await?,
            };
            if rival::is_crowded(&mut link).await? {
                link.quit();
                return Ok(());
            }
            self.give_back(address, login, link);
            Ok::<(), LinkError>(())
        });
        if let Ok(Err(error)) = refreshed.await {
            tracing::debug!("{address}: the link for orders could not be refreshed: {error}");
        }
    }

    /// A link for an order.
    pub(super) async fn link(
        &self,
        address: &str,
        login: &Login,
        within: Duration,
    ) -> Result<Taken, LinkError> {
        let fresh = async { open(address, login, within).await.map(|link| Taken { link, stood: false }) };
        let Some(mut link) = self.take(address, login) else { return fresh.await };
        let standing = async move {
            // The limit that the last order has set may end this statement, which then has not lifted it.
            let mut tries = 0;
            while let Err(error) = link.query(&anew(&link), within).await {
                tries += 1;
                if tries == TRIES || !matches!(error, LinkError::Rejected { .. }) {
                    return Err(error);
                }
            }
            Ok(Taken { link, stood: true })
        };
        let mut standing = pin!(standing);
        match timeout(HEAD_START, &mut standing).await {
            Ok(Ok(taken)) => return Ok(taken),
            Ok(Err(_)) => return fresh.await,
            Err(_) => {}
        }
        let mut fresh = pin!(fresh);
        tokio::select! {
            biased;
            taken = &mut standing => match taken {
                Err(LinkError::TimedOut { .. }) | Ok(_) => taken,
                Err(_) => fresh.await,
            },
            taken = &mut fresh => match taken {
                Ok(_) => taken,
                Err(_) => standing.await,
            },
        }
    }
}

/// The session's settings as a new one has them, after an order that has changed them.
fn anew(link: &Link) -> String {
    let limit = match Dialect::of(&link.greeting.version) {
        Dialect::MariaDb => "max_statement_time",
        Dialect::MySql57 | Dialect::MySql80 | Dialect::MySql => "lock_wait_timeout",
    };
    format!("{FOR_ORDERS}, SESSION {limit} = DEFAULT")
}

async fn open(address: &str, login: &Login, within: Duration) -> Result<Link, LinkError> {
    let mut link = Link::connect(address, login, within).await?;
    link.query(&format!("{FOR_ORDERS}, SESSION wait_timeout = {IDLE_S}"), within).await?;
    Ok(link)
}
