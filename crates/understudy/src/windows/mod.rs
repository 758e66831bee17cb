//! For how long each node may be away before it needs a full copy: from what is known of all nodes to one row for each.
//!
//! `recovery forecast`, the status, the metrics and the live view all have it from here, so that they say the same. What is known comes from
//! the servers ([`keeps`]) or from the samples of a running `serve` (`wiring/windows.rs`); what follows from it is [`measure::recovery`]'s.

pub mod keeps;
pub mod remembered;
#[cfg(test)]
mod tests;
mod words;

use std::time::Duration;

use measure::recovery::galera::{self, Donor, Returning};
use measure::recovery::replication::{self, Retention};
use measure::recovery::{Forecast, Reason, WriteRate};
use protocol::gtid::Position;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use topology::kind::Kind;

use self::keeps::Binlogs;
pub use self::words::{notes, sentence, size, warning};

/// After so long every other node was asked again since a node went away.
const SETTLED: Duration = Duration::from_secs(5);

/// What is known of one node.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// A word for what it is.
    pub state: String,
    /// It takes part: a member of the group, or a server whose replication runs.
    pub is_there: bool,
    /// For how long it has been away, where that was seen.
    pub lasted: Option<Duration>,
    /// It was an earlier run of the program that saw it last: it has been away for so long at the most.
    pub is_remembered: bool,
    /// Why nothing can be said of it, when its position is not known.
    pub why: String,
    /// What it has, and keeps for others.
    pub kept: Kept,
}

/// What a node has, and keeps for others.
#[derive(Clone, Debug)]
pub enum Kept {
    /// Of a Galera node.
    Galera {
        /// It has every writeset up to this; -1 when it has none, or does not know.
        position: Option<i64>,
        /// Whose history that is: `wsrep_cluster_state_uuid`, where it is known.
        history: Option<String>,
        /// Bytes of writesets since it went away, where they were counted.
        missed_bytes: Option<u64>,
        /// What it could send; nothing of one that does not answer.
        donor: Option<Donor>,
        /// It is a member of the primary component and has everything.
        may_donate: bool,
    },
    /// Of a primary, or a replica.
    Replication {
        /// It has every transaction up to this.
        position: Option<Position>,
        /// Its binary logs, with the transactions of others, too; nothing of one that keeps none, or does not answer.
        binlogs: Option<Binlogs>,
        /// It is the primary.
        is_primary: bool,
        /// Bytes of binary logs that were written since it went away.
        missed_bytes: u64,
    },
}

/// What is known of all of them.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Of which kind.
    pub kind: Kind,
    /// In the configuration's order.
    pub nodes: Vec<Known>,
    /// The present rate of writes.
    pub writes: WriteRate,
    /// That was measured for so long.
    pub measured: Duration,
    /// The busiest minute of the last hour, where that is known.
    pub busiest: Option<WriteRate>,
    /// The data, bytes.
    pub data_bytes: Option<u64>,
    /// The speed of the last full copy that was seen, bytes a second.
    pub copied_bytes_per_s: Option<f64>,
    /// What is not known, and what would help; a sentence each.
    pub notes: Vec<String>,
}

/// What concerns all nodes: as JSON, and back from that of a running server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Bytes of writesets, or of binary logs, in a second.
    pub write_bytes_per_s: f64,
    /// Transactions in a second.
    pub transactions_per_s: f64,
    /// For how long those were measured, seconds.
    pub window_s: f64,
    /// The same of the busiest minute of the last hour, where that is known.
    pub busiest_write_bytes_per_s: Option<f64>,
    /// What a full copy has to move, bytes.
    pub full_copy_bytes: Option<u64>,
    /// The speed of the last full copy that was seen, bytes a second.
    #[serde(default)]
    pub copied_bytes_per_s: Option<f64>,
    /// What is not known, and what would help; a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One node's row: as JSON, and back from that of a running server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outlook {
    /// Its name.
    pub node: String,
    /// A word for what it is.
    pub state: String,
    /// It has everything up to this: a number (Galera), or GTIDs.
    pub position: Value,
    /// The oldest writeset that it can send (Galera).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_downto: Option<u64>,
    /// Its gcache's size, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcache_bytes: Option<u64>,
    /// Its binary logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binlogs: Option<Binlogs>,
    /// How it would return now.
    pub returns_by: Option<Way>,
    /// Why by a full copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Reason>,
    /// The members that have what it misses, where not all have (Galera).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub donors: Vec<String>,
    /// It takes part.
    pub is_there: bool,
    /// For how long it has been away, seconds, where that was seen.
    pub away_s: Option<f64>,
    /// It was an earlier run of the program that saw it last: it has been away for `away_s` at the most.
    #[serde(default)]
    pub is_remembered: bool,
    /// For so long from now it may be away, seconds; none when it never ends, or nothing is known.
    pub away_max_s: Option<f64>,
    /// The same at the rate of the busiest minute of the last hour.
    pub busiest_away_max_s: Option<f64>,
    /// Why nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a node would return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// What it missed is sent from a gcache.
    #[serde(rename = "ist")]
    Ist,
    /// The whole database is copied by Galera.
    #[serde(rename = "sst")]
    Sst,
    /// What it missed is read from binary logs.
    #[serde(rename = "binlogs")]
    Binlogs,
    /// It has to be cloned anew.
    #[serde(rename = "clone")]
    Clone,
    /// Some of the servers that it could follow have what it missed.
    #[serde(rename = "depends on the source")]
    Source,
}

impl Way {
    fn of(kind: Kind, forecast: Forecast) -> Self {
        match (kind, forecast) {
            // Galera chooses a donor that can.
            (Kind::Galera, Forecast::Missed(_) | Forecast::DependsOnSource(_)) => Self::Ist,
            (Kind::Galera, Forecast::FullCopy(_)) => Self::Sst,
            (Kind::Replication, Forecast::Missed(_)) => Self::Binlogs,
            (Kind::Replication, Forecast::FullCopy(_)) => Self::Clone,
            (Kind::Replication, Forecast::DependsOnSource(_)) => Self::Source,
        }
    }

    /// Whether it is of Galera.
    pub fn is_galera(self) -> bool {
        matches!(self, Self::Ist | Self::Sst)
    }
}

impl Outlook {
    /// The forecast that its figures come from.
    pub fn forecast(&self) -> Option<Forecast> {
        let window = self.away_max_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
        Some(match self.returns_by? {
            Way::Ist | Way::Binlogs => Forecast::Missed(window),
            Way::Source => Forecast::DependsOnSource(window),
            Way::Sst | Way::Clone => Forecast::FullCopy(self.because.unwrap_or(Reason::Gone)),
        })
    }

    /// It takes part, and could return without a full copy, at once and after `away`, also at the rate of writes of the busiest minute.
    pub fn is_well(&self, away: Option<Duration>) -> bool {
        let busiest = self.busiest_away_max_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
        match self.forecast() {
            Some(Forecast::Missed(window)) => {
                let is_long = |window: &Duration| away.is_none_or(|away| *window >= away);
                self.is_there && window.iter().chain(&busiest).all(is_long)
            }
            _ => false,
        }
    }
}

impl Cluster {
    /// A row for each node.
    pub fn outlooks(&self) -> Vec<Outlook> {
        (0..self.nodes.len()).map(|place| self.outlook(place)).collect()
    }

    /// What concerns all.
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

    fn outlook(&self, place: usize) -> Outlook {
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
        Outlook {
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
            why: forecast.err(),
        }
    }

    fn others(&self, place: usize) -> impl Iterator<Item = &Known> {
        self.nodes.iter().enumerate().filter(move |(other, _)| *other != place).map(|(_, node)| node)
    }

    /// The members that have what the node misses; none when all have, or it is of another kind.
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

    /// What the node needs; `Err`: why nobody knows.
    fn forecast(&self, place: usize, writes: WriteRate) -> Result<Forecast, String> {
        let forecast = self.forecast_at(place, writes)?;
        // Without a rate it would be for ever.
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
                    return Err("nobody else is Synced: there is no donor".to_owned());
                }
                let seqno = position.ok_or_else(|| node.why.clone())?;
                // Members of one component have one history. Where there are two, those of the node's own can be its donors.
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
                    // What it said last may be newer than what the others said last.
                    is_gone: !node.is_there && node.lasted.is_none_or(|lasted| lasted >= SETTLED),
                    missed_bytes: *missed_bytes,
                };
                Ok(galera::forecast(returning, group, &donors, writes))
            }
            Kept::Replication { position, missed_bytes, .. } => {
                let sources = sources(self.others(place));
                if sources.is_empty() {
                    return Err(
                        "no other server answers that keeps binary logs which it could follow".to_owned()
                    );
                }
                let position = position.as_ref().ok_or_else(|| node.why.clone())?;
                let with = |(name, binlogs): &(&str, &Binlogs)| {
                    let purged = binlogs
                        .purged
                        .as_deref()
                        .and_then(|text| Position::parse(position.family(), text).ok());
                    let has_missed = match purged {
                        Some(purged) => position.contains(&purged).unwrap_or(false),
                        // Their age is all that is known; a note says so.
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
                        // The file in which it stands goes as a whole.
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
    /// Its name, what it could send, and its history, if the group may choose it as a donor; `None` inside: what it keeps is not known yet.
    fn donor(&self) -> Option<(&str, Option<Donor>, Option<&str>)> {
        match &self.kept {
            Kept::Galera { donor, may_donate: true, history, .. } => {
                Some((&self.name, *donor, history.as_deref()))
            }
            _ => None,
        }
    }
}

/// Whom a server would follow on its return: the primary; when that is not among them, whoever could be it.
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
