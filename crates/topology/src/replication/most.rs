//! Which of the servers that answer has most. Without a memory of the primary, that is all that an operator can go by when it is gone.
//!
//! Enters: the status of each server that answers. Leaves: who has all that any of them has, or that there is none; and a sentence with the
//! order that goes on with it.
//!
//! What a server has received counts, since it applies that before it takes over.

use protocol::gtid::Errant;

use super::reports::all_of;
use super::status::ReplicationStatus;
use super::successor::can_apply;
use super::words;

/// A server that answers.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    pub name: &'a str,
    pub status: &'a ReplicationStatus,
}

/// The transactions that `other` has and `one` has not; `Some("...")` also where that cannot be told.
pub(super) fn lacking(one: &ReplicationStatus, other: &ReplicationStatus) -> Option<String> {
    match lacks(one, other) {
        Ok(lacks) => (!lacks.is_empty()).then(|| lacks.to_string()),
        Err(why) => Some(why),
    }
}

/// The same, but only what `one` itself wrote first: it has lost those, or runs on numbers that began anew.
pub(super) fn lost_of_its_own(one: &ReplicationStatus, other: &ReplicationStatus) -> Option<String> {
    let lost = lacks(one, other).ok()?.of(one.origin());
    (!lost.is_empty()).then(|| lost.to_string())
}

fn lacks(one: &ReplicationStatus, other: &ReplicationStatus) -> Result<Errant, String> {
    let theirs = all_of(other);
    theirs.minus(&all_of(one).along(&theirs, |_| true)).map_err(|why| why.to_string())
}

/// The places of those that have all that any has. None: of any two, each has what the other has not.
pub(super) fn most(all: &[Held]) -> Vec<usize> {
    let has_all = |one: &usize| all.iter().all(|other| lacking(all[*one].status, other.status).is_none());
    (0..all.len()).filter(has_all).collect()
}

/// Why a server cannot be the primary, from its own status. That log_slave_updates is off counts only with `strict`: it can write and feed
/// replicas, and only they cannot get from it what it got from others.
pub(super) fn unfit(status: &ReplicationStatus, strict: bool) -> Option<String> {
    if status.galera {
        return Some("is a Galera node".into());
    }
    let finding = if strict { words::unfit(status) } else { words::unfit_to_stay(status) };
    let finding = finding.map(|finding| finding.sentence);
    let stopped = || {
        let mut channels = status.channels.iter();
        channels
            .any(|channel| !can_apply(status, channel))
            .then(|| "has received what it does not apply: its SQL thread is stopped".to_owned())
    };
    finding.or_else(stopped)
}

/// Who has most, as a sentence.
pub(super) fn sentence(all: &[Held]) -> String {
    let position = |held: &Held| {
        let has = held.status.has().map(|has| has.to_string()).filter(|has| !has.is_empty());
        has.unwrap_or_else(|| "no transaction".into())
    };
    let best = most(all);
    match (all, &*best) {
        ([], _) => "no server answers that could be the primary".into(),
        ([one], _) => format!("only {} answers, and has {}", one.name, position(one)),
        (_, []) => diverged(all),
        (_, some) if some.len() == all.len() => {
            format!("{} have the same: {}", names(all, some), position(&all[some[0]]))
        }
        (_, some) => {
            let less = (0..all.len()).filter(|place| !some.contains(place));
            let first = &all[some[0]];
            let each: Vec<String> = less
                .filter_map(|place| {
                    Some(format!("{} lacks {}", all[place].name, lacking(all[place].status, first.status)?))
                })
                .collect();
            let verb = if some.len() == 1 { "has" } else { "have" };
            format!("{} {verb} most, {}: {}", names(all, some), position(first), each.join(", "))
        }
    }
}

fn diverged(all: &[Held]) -> String {
    let pairs = all.iter().flat_map(|one| all.iter().map(move |other| (one, other)));
    let split = pairs.into_iter().find_map(|(one, other)| {
        let (more, less) = (lacking(other.status, one.status)?, lacking(one.status, other.status)?);
        Some(format!(
            "{} has {more}, which {} has not, and {} has {less}, which {} has not",
            one.name, other.name, other.name, one.name
        ))
    });
    let text = split.unwrap_or_else(|| "no server has all that the others have".into());
    format!("{text}: drain the one that is to be gone on without")
}

/// The order that makes the best server the primary. `first`: the places by preference.
pub(super) fn order(all: &[Held], first: &[usize], is_anybody_silent: bool) -> Option<String> {
    let best = most(all);
    let to =
        first.iter().find(|place| best.contains(place) && unfit(all[**place].status, false).is_none())?;
    let force = if is_anybody_silent { " --force" } else { "" };
    Some(format!("`understudy switchover --to {}{force}`", all[*to].name))
}

fn names(all: &[Held], places: &[usize]) -> String {
    places.iter().map(|place| all[*place].name).collect::<Vec<_>>().join(" and ")
}

/// No server is the primary: who has most, and what to do. `silent`: the servers that do not answer.
pub(super) fn advice(all: &[Held], first: &[usize], silent: &[&str]) -> String {
    let has_most = sentence(all);
    let (start, on) = match silent {
        [] => (String::new(), "make it the primary: "),
        [one] => {
            (format!("; {one} may have acknowledged what no other has: start it"), "or go on without it: ")
        }
        several => (
            format!("; {} may have acknowledged what no other has: start them", several.join(" and ")),
            "or go on without them: ",
        ),
    };
    let order = order(all, first, !silent.is_empty()).map(|order| format!("{on}{order}"));
    match (order, silent) {
        (Some(order), []) => format!("{has_most}; {order}"),
        (Some(order), _) => format!("{has_most}{start}, {order}"),
        (None, _) => format!("{has_most}{start}{}", unfitness(all)),
    }
}

/// Why those that have most cannot be the primary: a clause, or nothing.
fn unfitness(all: &[Held]) -> String {
    let best = most(all).into_iter();
    let each: Vec<String> = best
        .filter_map(|place| {
            let why = unfit(all[place].status, false)?;
            Some(format!("; {} cannot be the primary: it {why}", all[place].name))
        })
        .collect();
    each.concat()
}

#[cfg(test)]
mod tests {
    use protocol::gtid::{Family, History, Position};

    use super::*;

    fn at(position: &str, history: &str) -> ReplicationStatus {
        ReplicationStatus {
            log_bin: true,
            log_replica_updates: true,
            read_only: true,
            position: Position::parse(Family::MariaDb, position).ok(),
            history: History::parse(Family::MariaDb, history).ok(),
            ..ReplicationStatus::default()
        }
    }

    fn told(of: &[ReplicationStatus], silent: &[&str]) -> String {
        let held: Vec<Held> =
            of.iter().zip(["db2", "db3", "db4"]).map(|(status, name)| Held { name, status }).collect();
        let first: Vec<usize> = (0..held.len()).collect();
        advice(&held, &first, silent)
    }

    #[test]
    fn the_one_with_most_is_named_with_the_order() {
        let (less, more) = (at("0-1-5", "0-1-5"), at("0-1-7", "0-1-7"));
        assert_eq!(
            told(&[less.clone(), more.clone()], &["db1"]),
            "db3 has most, 0-1-7: db2 lacks 0-1-6..7; db1 may have acknowledged what no other has: start it, or go on without it: \
             `understudy switchover --to db3 --force`"
        );
        assert_eq!(
            told(&[less, more.clone(), more], &[]),
            "db3 and db4 have most, 0-1-7: db2 lacks 0-1-6..7; make it the primary: `understudy switchover --to db3`"
        );
    }

    #[test]
    fn diverged_servers_are_told_apart() {
        // Also if one of them has higher numbers, and the other had written nothing before.
        for last in [5, 9] {
            let split = [at("0-2-6", "0-1-4,0-2-6"), at(&format!("0-1-{last}"), &format!("0-1-{last}"))];
            let told = told(&split, &[]);
            assert!(told.starts_with("db2 has 0-2-"), "{told}");
            assert!(told.contains(&format!("{last}, which db2 has not")) && told.contains("drain"), "{told}");
            assert!(!told.contains("switchover"), "{told}");
        }
    }

    #[test]
    fn a_copy_has_the_same_although_its_binlog_does_not_name_everybody() {
        let copied = [at("0-2-100", "0-1-90,0-2-100"), at("0-2-100", "0-2-100")];
        assert!(
            told(&copied, &[]).starts_with("db2 and db3 have the same: 0-2-100"),
            "{}",
            told(&copied, &[])
        );
    }

    #[test]
    fn one_that_cannot_be_the_primary_is_not_ordered() {
        let mut filtered = at("0-1-7", "0-1-7");
        filtered.log_bin = false;
        let told = told(&[at("0-1-5", "0-1-5"), filtered], &["db1"]);
        assert!(!told.contains("switchover"), "{told}");
        assert!(
            told.ends_with("; db3 cannot be the primary: it could feed no replica: log_bin is off"),
            "{told}"
        );
    }
}
