//! How long each node may be away before it needs a full copy: one row for each node, from what is known of all nodes.
//!
//! `recovery forecast`, the status, the metrics and the live view all use this, so that they agree. The input comes from the servers
//! ([`keeps`]) or from the samples of a running `serve` ([`watch`]); the forecast itself is computed in [`measure::recovery`].

pub mod keeps;
pub mod remembered;
#[cfg(test)]
mod tests;
pub mod watch;
mod words;

use std::time::Duration;

pub use api::recovery::{Outlook, Summary, Way};
use measure::recovery::galera::{self, Donor, Returning};
use measure::recovery::replication::{self, Retention};
use measure::recovery::{Forecast, WriteRate};
use protocol::gtid::Position;
use serde_json::json;
use topology::kind::Kind;

use self::keeps::Binlogs;
pub use self::words::{copy, notes, sentence, size, warning};

/// After this time, every other node has been queried again since a node went away.
const SETTLED: Duration = Duration::from_secs(5);

/// What is known of one node.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Its state, in one word.
    pub state: String,
    /// It is in service: a member of the group, or a server whose replication runs.
    pub is_there: bool,
    /// The program has just started, and has neither an answer of it nor an error.
    pub is_unasked: bool,
    /// How long it has been away, if its departure was seen.
    pub lasted: Option<Duration>,
    /// It was last seen by an earlier run of the program: `lasted` is an upper limit.
    pub is_remembered: bool,
    /// Why there is no forecast, when its position is not known.
    pub why: String,
    /// Its position, and what it can send to others.
    pub kept: Kept,
}

/// A node's position, and what it can send to others.
#[derive(Clone, Debug)]
pub enum Kept {
    /// For a Galera node.
    Galera {
        /// The last writeset that it has; -1 when it has none, or does not know.
        position: Option<i64>,
        /// The history of that position: `wsrep_cluster_state_uuid`, where it is known.
        history: Option<String>,
        /// Bytes of writesets since it went away, if they were counted.
        missed_bytes: Option<u64>,
        /// What it could send by IST; `None` if it does not answer.
        donor: Option<Donor>,
        /// It is a synced member of the primary component.
        may_donate: bool,
    },
    /// For a primary, or a replica.
    Replication {
        /// The GTIDs that it has.
        position: Option<Position>,
        /// Its binary logs, which include replicated transactions; `None` if it has none, or does not answer.
        binlogs: Option<Binlogs>,
        /// It is the primary.
        is_primary: bool,
        /// Bytes of binary logs written since it went away.
        missed_bytes: u64,
    },
}

/// What is known of all nodes.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The kind of cluster.
    pub kind: Kind,
    /// The nodes, in the order of the configuration.
    pub nodes: Vec<Known>,
    /// The present rate of writes.
    pub writes: WriteRate,
    /// For how long that rate was measured.
    pub measured: Duration,
    /// The busiest minute of the last hour, where that is known.
    pub busiest: Option<WriteRate>,
    /// The size of the data, in bytes.
    pub data_bytes: Option<u64>,
    /// The speed of the last observed full copy, in bytes per second.
    pub copied_bytes_per_s: Option<f64>,
    /// What is not known, and what would make it known; one sentence each.
    pub notes: Vec<String>,
}

impl Cluster {
    /// A row for each node.
    pub fn outlooks(&self) -> Vec<Outlook> {
        let copy = copy(&self.summary(), None);
        (0..self.nodes.len()).map(|place| self.outlook(place, &copy)).collect()
    }

    /// The facts about the whole cluster.
    pub fn summary(&self) -> Summary {
        Summary {
            write_bytes_per_s: self.writes.bytes_per_s,
            transactions_per_s: self.writes.transactions_per_s,
            window_s: self.measured.as_secs_f64(),
            busiest_write_bytes_per_s: self.busiest.map(|busiest| busiest.bytes_per_s),
            full_copy_bytes: self.data_bytes,
            copied_bytes_per_s: self.copied_bytes_per_s,
            notes: self.notes.clone(),
        }
    }

    fn outlook(&self, place: usize, copy: &str) -> Outlook {
        let node = &self.nodes[place];
        let forecast = self.forecast(place, self.writes);
        let busiest = self.busiest.and_then(|rate| self.forecast(place, rate).ok());
        let seconds = |forecast: Forecast| forecast.window().map(|window| window.as_secs_f64());
        let (position, donor, binlogs) = match &node.kept {
            Kept::Galera { position, donor, .. } => (json!(position), *donor, None),
            Kept::Replication { position, binlogs, .. } => {
                (json!(position.as_ref().map(ToString::to_string)), None, binlogs.clone())
            }
        };
        let mut outlook = Outlook {
            node: node.name.clone(),
            state: node.state.clone(),
            position,
            cached_downto: donor.map(|donor| donor.cached_downto),
            gcache_bytes: donor.map(|donor| donor.gcache_bytes),
            binlogs,
            returns_by: forecast.as_ref().ok().map(|forecast| Way::of(self.kind, *forecast)),
            because: forecast.as_ref().ok().and_then(|forecast| match forecast {
                Forecast::FullCopy(reason) => Some(*reason),
                Forecast::Missed(_) | Forecast::DependsOnSource(_) => None,
            }),
            donors: if matches!(forecast, Ok(Forecast::Missed(_))) {
                self.few_donors(place)
            } else {
                Vec::new()
            },
            is_there: node.is_there,
            is_remembered: node.is_remembered,
            away_s: node.lasted.map(|lasted| lasted.as_secs_f64()),
            away_max_s: forecast.as_ref().ok().copied().and_then(seconds),
            busiest_away_max_s: busiest.and_then(seconds),
            sentence: String::new(),
            why: forecast.err(),
        };
        outlook.sentence = sentence(&outlook, copy);
        outlook
    }

    fn others(&self, place: usize) -> impl Iterator<Item = &Known> {
        self.nodes.iter().enumerate().filter(move |(other, _)| *other != place).map(|(_, node)| node)
    }

    /// That no other node can send what this one misses; unless that is only not known yet.
    fn none_is_known(&self, place: usize, none: &str) -> String {
        let is_early = self.others(place).any(|other| other.is_unasked);
        if is_early { "the others have not all been asked yet" } else { none }.to_owned()
    }

    /// The members that can send what the node misses; empty when all can, or for the other kind of cluster.
    fn few_donors(&self, place: usize) -> Vec<String> {
        let Kept::Galera { position: Some(seqno), .. } = &self.nodes[place].kept else { return Vec::new() };
        let known = self.others(place).filter_map(Known::donor);
        let known: Vec<(&str, Donor)> = known.filter_map(|(name, donor, _)| Some((name, donor?))).collect();
        let serves = |donor: &Donor| u64::try_from(*seqno).is_ok_and(|position| donor.serves(position));
        if known.iter().all(|(_, donor)| serves(donor)) {
            return Vec::new();
        }
        known.into_iter().filter(|(_, donor)| serves(donor)).map(|(name, _)| name.to_owned()).collect()
    }

    /// What the node needs to return; an `Err` says why that is not known.
    fn forecast(&self, place: usize, writes: WriteRate) -> Result<Forecast, String> {
        let forecast = self.forecast_at(place, writes)?;
        // Without a rate the window would be infinite.
        if self.measured.is_zero() && matches!(forecast, Forecast::Missed(_)) {
            return Err("the rate of writes is not known yet".to_owned());
        }
        Ok(forecast)
    }

    fn forecast_at(&self, place: usize, writes: WriteRate) -> Result<Forecast, String> {
        let node = &self.nodes[place];
        match &node.kept {
            Kept::Galera { position, history, missed_bytes, .. } => {
                let able = self.others(place).filter_map(Known::donor);
                let able: Vec<(&str, Option<Donor>, Option<&str>)> = able.collect();
                if able.is_empty() {
                    return Err(self.none_is_known(place, "nobody else is Synced: there is no donor"));
                }
                let seqno = position.ok_or_else(|| node.why.clone())?;
                // Members of one component have the same history. If there are two histories, only members with the node's own can be its
                // donors.
                let theirs = |own: &str| able.iter().any(|(.., history)| *history == Some(own));
                let group = match history.as_deref().filter(|own| theirs(own)) {
                    Some(own) => Some(own),
                    None => able.iter().find_map(|(.., history)| *history),
                };
                let of_group = able.iter().filter(|(.., history)| history.is_none() || *history == group);
                let Some(donors) = of_group.map(|(_, donor, _)| *donor).collect::<Option<Vec<Donor>>>()
                else {
                    return Err("what the others keep is not known yet".to_owned());
                };
                let returning = Returning {
                    history: history.as_deref(),
                    seqno,
                    // Its last report may be newer than the last reports of the others.
                    is_gone: !node.is_there && node.lasted.is_none_or(|lasted| lasted >= SETTLED),
                    missed_bytes: *missed_bytes,
                };
                Ok(galera::forecast(returning, group, &donors, writes))
            }
            Kept::Replication { position, missed_bytes, .. } => {
                let sources = sources(self.others(place));
                if sources.is_empty() {
                    let none = "no other server answers that keeps binary logs which it could follow";
                    return Err(self.none_is_known(place, none));
                }
                let position = position.as_ref().ok_or_else(|| node.why.clone())?;
                let with = |(name, binlogs): &(&str, &Binlogs)| {
                    let purged = binlogs
                        .purged
                        .as_deref()
                        .and_then(|text| Position::parse(position.family(), text).ok());
                    let has_missed = match purged {
                        Some(purged) => position.contains(&purged).unwrap_or(false),
                        // Only their age limit is known; a note says so.
                        None if binlogs.is_hidden && (node.is_there || node.lasted.is_some()) => true,
                        None => {
                            return Err(format!(
                                "{name} does not tell where its binary logs begin: the monitor account needs BINLOG MONITOR (MySQL: REPLICATION CLIENT)"
                            ));
                        }
                    };
                    let retention = Retention {
                        has_missed,
                        age_max: binlogs.age_max_s.map(Duration::from_secs),
                        // A binary log file is deleted as a whole.
                        bytes_max: binlogs.bytes_max.map(|most| most.saturating_sub(binlogs.newest_bytes)),
                    };
                    let lasted = node.lasted.unwrap_or_default();
                    Ok(replication::forecast(retention, lasted, *missed_bytes, writes))
                };
                Ok(Forecast::of_all(&sources.iter().map(with).collect::<Result<Vec<_>, String>>()?))
            }
        }
    }
}

impl Known {
    /// Its name, what it could send, and its history, if the group may choose it as a donor; an inner `None`: its gcache is not known yet.
    fn donor(&self) -> Option<(&str, Option<Donor>, Option<&str>)> {
        match &self.kept {
            Kept::Galera { donor, may_donate: true, history, .. } => {
                Some((&self.name, *donor, history.as_deref()))
            }
            _ => None,
        }
    }
}

/// The servers that a returning server may replicate from: the primary, or if that does not answer, all that could become it.
fn sources<'a>(others: impl Iterator<Item = &'a Known>) -> Vec<(&'a str, &'a Binlogs)> {
    let all: Vec<(&str, &Binlogs, bool)> = others
        .filter(|other| other.is_there)
        .filter_map(|other| match &other.kept {
            Kept::Replication { binlogs: Some(binlogs), is_primary, .. } => {
                Some((other.name.as_str(), binlogs, *is_primary))
            }
            _ => None,
        })
        .collect();
    let primary = all.iter().find(|(.., is_primary)| *is_primary).copied();
    let chosen = match primary {
        Some(primary) => vec![primary],
        None => all,
    };
    chosen.into_iter().map(|(name, binlogs, _)| (name, binlogs)).collect()
}
