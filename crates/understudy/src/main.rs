//! Understudy is a proxy and failover manager for MariaDB and MySQL: applications connect to it, and do not notice when a node is lost or moved.
//!
//! `serve` is the program itself, put together in the crate wiring; the order commands talk to a running one through its API; `lab` starts the
//! program that measures. This file only tells the story: read the command line, run one command, say how it ended.

mod commands;

use std::process::ExitCode;

use commands::Cli;

/// glibc's allocator keeps what a crowd of clients has used, since a few allocations that stay hold whole regions; this one gives it back to
/// the system within some seconds (docs/in-front-of-an-application.md has the figures).
#[cfg(target_env = "gnu")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    dropin::run()
        .or_else(operate::lab::help)
        .unwrap_or_else(|| cli::line::run(|cli: Cli| commands::run(cli.command)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use cli::line::asks_for_json;

    use super::Cli;

    #[test]
    fn json_is_asked_for_wherever_it_stands() {
        let asks = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            asks_for_json(Cli::command(), &words)
        };
        for line in [
            "status --json --bogus",
            "drain --json db1 --bogus",
            "drain db1 --bogus --json",
            "--json nothing",
        ] {
            assert!(asks(line), "{line}");
        }
        assert!(asks("switchover --check --json - --bogus") && asks("switchover --check --json=- --bogus"));
        for line in ["status --bogus", "switchover --check --json file --bogus", "drain json"] {
            assert!(!asks(line), "{line}");
        }
    }
}
