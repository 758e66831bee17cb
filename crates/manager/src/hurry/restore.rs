//! What may be changed on a member for a while, and how it is restored.

use std::time::Duration;

use futures_util::future::join_all;
use link::{Link, Login, ask_once};
use topology::galera::sql;
use topology::galera::timers::{KEEPALIVE, Mode, SUSPECT, is_set};

use super::member::{Member, set};
use crate::failed::Failed;
use crate::loan::Loan;

const STEP: Duration = Duration::from_secs(1);

/// Everything that may be changed on a member.
pub(super) fn of(member: &Member) -> impl Iterator<Item = Loan> + use<'_> {
    let [quick, pressed] = [Mode::Quick, Mode::Pressed].map(|mode| move |option| member.own.at(mode, option));
    [SUSPECT, KEEPALIVE].into_iter().filter_map(move |option| {
        let (own, lent) = (member.own.value(option), format!("{} {}", quick(option), pressed(option)));
        (pressed(option) != own).then(|| Loan {
            node: member.name.clone(),
            address: member.address.clone(),
            gcomm_uuid: member.gcomm_uuid.clone(),
            option: option.to_owned(),
            own: own.to_owned(),
            lent,
        })
    })
}

/// One try for all, in parallel. Returns those that could not be restored, and why.
pub(super) async fn give_back_all(loans: Vec<Loan>, login: &Login) -> Vec<(Loan, String)> {
    let mut giving = Vec::new();
    for loan in loans {
        giving.push(async move { loan.give_back(login).await.err().map(|failed| (loan, failed.why)) });
    }
    join_all(giving).await.into_iter().flatten().collect()
}

/// Whether a member that one of them is of is agreeing with others on their next view.
pub(super) async fn any_forming_view(loans: Vec<Loan>, login: &Login) -> bool {
    let mut asking = Vec::new();
    for loan in loans.iter().filter(|loan| loan.option == SUSPECT) {
        asking.push(loan.is_forming_view(login));
    }
    join_all(asking).await.into_iter().any(|is_forming_view| is_forming_view.unwrap_or(false))
}

impl Loan {
    async fn is_forming_view(&self, login: &Login) -> Result<bool, Failed> {
        let rows = ask_once(&self.address, login, sql::VIEW_STATE, STEP).await?;
        let same = rows.value_of("wsrep_gcomm_uuid").is_some_and(|uuid| uuid == self.gcomm_uuid);
        Ok(same && rows.value_of("wsrep_evs_state").is_some_and(|state| state != "OPERATIONAL"))
    }

    /// Restores it; returns whether that was necessary.
    pub async fn give_back(&self, login: &Login) -> Result<bool, Failed> {
        let mut link = Link::connect(&self.address, login, STEP).await?;
        let done = self.give_back_over(&mut link).await;
        link.quit();
        done
    }

    /// The same over an existing link to its node.
    pub async fn give_back_over(&self, link: &mut Link) -> Result<bool, Failed> {
        let view_state = link.query(sql::VIEW_STATE, STEP).await?;
        if view_state.value_of("wsrep_gcomm_uuid").is_some_and(|uuid| uuid != self.gcomm_uuid) {
            return Ok(false);
        }
        let options = link.query(sql::PROVIDER_OPTIONS, STEP).await?;
        let options = options.text(0, 0).unwrap_or_default();
        if !self.lent.split(' ').any(|lent| is_set(options, &self.option, lent)) {
            return Ok(false);
        }
        set(link, &self.node, &self.option, &self.own).await.map(|()| true)
    }
}
