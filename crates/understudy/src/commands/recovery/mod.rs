//! `understudy recovery`: how long nodes take to come back, and whether they come back with a full copy.

mod forecast;
mod measure;
mod ndb;

use clap::Subcommand;

use crate::exit::Outcome;

/// How nodes come back.
#[derive(Subcommand)]
pub enum Recovery {
    /// How long each Galera node may be away before it needs a full copy
    Forecast(Box<forecast::Forecast>),
    /// Restart a Galera node, or watch its restart: by which transfer it comes back, and how long each phase takes
    Measure(Box<measure::Measure>),
    /// Read the logs of an NDB Cluster: its nodes' restarts by phases, and where their data came from
    Ndb(Box<ndb::Ndb>),
}

impl Recovery {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self {
            Self::Forecast(forecast) => forecast.run(),
            Self::Measure(measure) => measure.run(),
            Self::Ndb(ndb) => ndb.run(),
        }
    }
}
