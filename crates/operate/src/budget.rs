//! How long an order waits for running transactions, as switchover and drain take it on the command line.

use std::time::Duration;

use clap::Args;

use cli::duration::{milliseconds, with_unit};

/// Given in one of two ways, or not at all.
#[derive(Args)]
pub struct Budget {
    /// How long running transactions may take to end, such as 5s or 500ms; 0: none is waited for [default: switchover.budget_ms]
    #[arg(long, value_name = "TIME", value_parser = with_unit, conflicts_with = "budget_ms")]
    budget: Option<Duration>,
    /// The same, in milliseconds where there is no unit
    #[arg(long, value_name = "TIME", value_parser = milliseconds(0..=u64::MAX))]
    budget_ms: Option<u64>,
}

impl Budget {
    /// What was given, in milliseconds.
    pub fn ms(&self) -> Option<u64> {
        // More than u64 holds is for ever all the same.
        let whole = |budget: Duration| u64::try_from(budget.as_millis()).unwrap_or(u64::MAX);
        self.budget.map(whole).or(self.budget_ms)
    }

    /// The same.
    pub fn duration(&self) -> Option<Duration> {
        self.ms().map(Duration::from_millis)
    }
}
