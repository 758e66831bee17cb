//! The command line of `understudy recovery measure`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cli::duration::seconds;

/// For `--help`.
const MORE: &str = "\
Without --stop-command and --start-command you are told when to stop and to start the server; nothing but status is read then.
--start-command is something that returns, such as 'systemctl start mariadb' or 'ssh db3 systemctl start mariadb'.
Without --error-log the phases are those that the nodes' status shows, and the kind of transfer is not known.

Exit codes: 0 the node is back; 1 refused, and nothing was changed; or a command failed, or the node did not come back in time; 2 wrong usage or configuration; \
130 ended by a signal.";

/// Restarts a node, or watches you do it: which transfer brings it back, how long each phase takes, and whether the forecast was right
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Measure {
    /// Which node, by its name in the configuration
    pub(super) node: String,
    /// The configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// For how long the node stays away, such as 30s, 10m or 2h
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = span)]
    pub(super) away: Duration,
    /// Make the node forget its position (grastate.dat), so that it needs a full copy
    #[arg(long, requires = "datadir", requires = "stop_command", requires = "start_command")]
    pub(super) full: bool,
    /// Stop the node although it would need a full copy after that time, by the forecast
    #[arg(long, conflicts_with = "full")]
    pub(super) allow_full_copy: bool,
    /// Go on although the only other member that is Synced takes no writes during the full copy (wsrep_sst_method rsync or mysqldump)
    #[arg(long)]
    pub(super) block_only_donor: bool,
    /// A shell line that stops the server, and returns when it has ended
    #[arg(long, value_name = "COMMAND", requires = "start_command")]
    pub(super) stop_command: Option<String>,
    /// A shell line that starts it
    #[arg(long, value_name = "COMMAND", requires = "stop_command")]
    pub(super) start_command: Option<String>,
    /// The node's error log, as a file on this machine
    #[arg(long, value_name = "FILE")]
    pub(super) error_log: Option<PathBuf>,
    /// The node's data directory, as a directory on this machine: its position is read from grastate.dat
    #[arg(long, value_name = "DIR")]
    pub(super) datadir: Option<PathBuf>,
    /// Stop the node, or have it stopped, although clients have sessions there
    #[arg(long)]
    pub(super) with_clients: bool,
    /// For how long the rate of writes is measured before, for the forecast
    #[arg(long, value_name = "TIME", default_value_t = 5, value_parser = seconds(1..=3600))]
    pub(super) window_s: u64,
    /// So long the stop may take, and so long the return
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = span)]
    pub(super) within: Duration,
    /// Look whether it may be done, and say what would be done and which transfer is expected; nothing is changed
    #[arg(long, conflicts_with_all = ["json", "out_dir"])]
    pub(super) dry_run: bool,
    /// As JSON, on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Write table.txt, result.json and a page with a picture, report.html
    #[arg(long, value_name = "DIR")]
    pub(super) out_dir: Option<PathBuf>,
}

/// "30s", "10m", "2h", at most 30 days.
fn span(text: &str) -> Result<Duration, String> {
    let span = health::duration(text).ok_or_else(|| format!("{text:?} is no time such as 30s, 10m or 2h"))?;
    if span > Duration::from_secs(30 * 86_400) {
        return Err(format!("{text}: 30 days are the longest"));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let seconds = ["0s", "30s", "10m", "2h"].map(|text| span(text).unwrap().as_secs());
        assert_eq!(seconds, [0, 30, 600, 7200]);
        for wrong in ["", "s", "-1s", "31d", "99999h", "é"] {
            assert!(span(wrong).is_err(), "{wrong:?}");
        }
    }
}
