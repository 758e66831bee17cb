//! `understudy vip release`: takes away the address that a killed keepalived left behind.
//!
//! An address is the kernel's, not keepalived's: SIGKILL ends keepalived and leaves the address where it is, while the other
//! machines hear no adverts and take it, too. systemd runs this after keepalived has ended, however that was (`ExecStopPost`).
//! Invariant: exit code 0 says that no address of the configuration is here any more.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use super::files::{CONF_FILE, PID_FILE, read_conf};
use super::held;
use super::keepalived::Keepalived;
use cli::exit::{CommandResult, Failure};

/// How long a keepalived that is in no pid file may take to be gone: one that lost its main process is just ending, and gives the
/// address up itself.
const END_TIME_MAX: Duration = Duration::from_secs(2);
/// Between two looks.
const PACE: Duration = Duration::from_millis(10);

/// Takes away the address that a killed keepalived left behind; systemd runs this
#[derive(Args)]
#[command(
    after_help = "Takes the addresses of the configuration from whatever device of this machine they sit on. Refuses while a \
                        keepalived runs: that one has charge of them.\n\n\
                        Exit codes: 0 no address of the configuration is here (any more); 1 refused, or not all could be taken away, or \
                        the configuration has lines that only keepalived understands; 2 wrong usage, or no address can be read."
)]
pub struct Release {
    /// keepalived's configuration, for the addresses
    #[arg(long, value_name = "FILE", default_value = CONF_FILE)]
    config: PathBuf,
    /// Where a running keepalived says its process number; one that says it elsewhere is found, too
    #[arg(long, value_name = "FILE", default_value = PID_FILE)]
    pid_file: PathBuf,
    /// Print the addresses that would be taken away, and leave them
    #[arg(long)]
    dry_run: bool,
}

impl Release {
    /// Removes each address that is here.
    pub fn run(&self) -> CommandResult {
        let conf = read_conf(&self.config)?;
        if let Some(why) = conf.elsewhere() {
            return Err(Failure::Failed(format!("{why}: run `vip release` there")));
        }
        self.refuse_a_running_one()?;
        let ours = |found: &held::Held| {
            conf.instances
                .iter()
                .flat_map(|instance| &instance.addresses)
                .any(|(address, device)| found.is(address.ip, device))
        };
        let left: Vec<held::Held> = held::all()?.into_iter().filter(ours).collect();
        if left.is_empty() && conf.unread.is_empty() {
            println!("nothing was left");
        } else if left.is_empty() {
            println!("nothing was left of the addresses that could be read");
        }
        let mut failed = Vec::new();
        for found in left {
            if self.dry_run {
                println!("{} was left on {} and would be taken away", found.address, found.device);
                continue;
            }
            // Each is tried, whatever became of the one before. With the first address of a network the kernel may take the others
            // of it away, and a keepalived that is just ending does so, too: what is gone is as it should be.
            match held::remove(&found) {
                Err(why) if held::all()?.contains(&found) => failed.push(why),
                _ => println!("{} was left on {} and is gone now", found.address, found.device),
            }
        }
        if !conf.unread.is_empty() {
            failed.push(format!(
                "{}: more addresses may be here, look with `ip address`: {}",
                self.config.display(),
                conf.unread.join("; ")
            ));
        }
        if failed.is_empty() { Ok(ExitCode::SUCCESS) } else { Err(Failure::Failed(failed.join("\n"))) }
    }

    fn refuse_a_running_one(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + END_TIME_MAX;
        loop {
            match Keepalived::look(&self.pid_file) {
                Keepalived::No => return Ok(()),
                Keepalived::Unknown(why) => {
                    return Err(Failure::Failed(format!(
                        "whether keepalived runs cannot be seen: {why}. Run this as root"
                    )));
                }
                Keepalived::Runs { in_pid_file: false, .. } if Instant::now() < deadline => {
                    std::thread::sleep(PACE);
                }
                Keepalived::Runs { pid, in_pid_file } => {
                    let unsaid = if in_pid_file {
                        String::new()
                    } else {
                        format!(" (which {} does not say)", self.pid_file.display())
                    };
                    return Err(Failure::Failed(format!(
                        "keepalived runs as process {pid}{unsaid} and has charge of the address: stop it, and it gives the address up \
                         itself"
                    )));
                }
            }
        }
    }
}
