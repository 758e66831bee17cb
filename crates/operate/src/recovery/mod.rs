//! `understudy recovery`: how long nodes take to come back, and whether they come back with a full copy.

mod bootstrap;
mod forecast;
mod measure;
mod ndb;
mod position;

use clap::Subcommand;

use cli::exit::CommandResult;

/// How nodes come back.
#[derive(Subcommand)]
pub enum Recovery {
    /// How long each node may be away before it needs a full copy
    Forecast(Box<forecast::Forecast>),
    /// Which node of a Galera cluster without a Primary component is the most advanced, and how to go on from there
    Bootstrap(Box<bootstrap::Bootstrap>),
    /// Where a stopped Galera node stands; run on its host
    Position(Box<position::Where>),
    /// Restart a Galera node, or watch its restart: by which transfer it comes back, and how long each phase takes
    Measure(Box<measure::Measure>),
    /// Read the logs of an NDB Cluster: its nodes' restarts by phases, and where their data came from
    Ndb(Box<ndb::Ndb>),
}

impl Recovery {
    /// Does it.
    pub fn run(self) -> CommandResult {
        match self {
            Self::Forecast(forecast) => forecast.run(),
            Self::Bootstrap(bootstrap) => bootstrap.run(),
            Self::Position(position) => position.run(),
            Self::Measure(measure) => measure.run(),
            Self::Ndb(ndb) => ndb.run(),
        }
    }
}
