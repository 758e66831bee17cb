//! `understudy vip release`: takes away the address that a killed keepalived left behind.
//!
//! An address is the kernel's, not keepalived's: SIGKILL ends keepalived and leaves the address where it is, while the other
//! machines hear no adverts and take it, too. systemd runs this after keepalived has ended, however that was (`ExecStopPost`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{CONF_FILE, PID_FILE, held, read_conf, status};
use crate::exit::{Failure, Outcome};

/// Takes away the address that a killed keepalived left behind; systemd runs this
#[derive(Args)]
pub struct Release {
    /// keepalived's configuration, for the addresses
    #[arg(long, value_name = "FILE", default_value = CONF_FILE)]
    config: PathBuf,
    /// Where a running keepalived says its process number
    #[arg(long, value_name = "FILE", default_value = PID_FILE)]
    pid_file: PathBuf,
}

impl Release {
    /// Removes each address that is here.
    pub fn run(&self) -> Outcome {
        let conf = read_conf(&self.config)?;
        if let Some(pid) = status::keepalived(&self.pid_file) {
            return Err(Failure::Failed(format!(
                "keepalived runs as process {pid} and has charge of the address: stop it, and it gives the address up itself"
            )));
        }
        let mut failed = Ok(());
        let ours = |found: &held::Held| {
            conf.instances
                .iter()
                .flat_map(|instance| &instance.addresses)
                .any(|(address, device)| address.ip == found.address.ip && *device == found.device)
        };
        let left: Vec<held::Held> = held::all()?.into_iter().filter(ours).collect();
        if left.is_empty() {
            println!("nothing was left");
        }
        for found in left {
            // Each is tried, whatever became of the one before. With the first address of a network the kernel may take the others
            // of it away, and a keepalived that is just ending does so, too: what is gone is as it should be.
            match held::remove(&found) {
                Err(why) if held::all()?.contains(&found) => failed = Err(why),
                _ => println!("{} was left on {} and is gone now", found.address, found.device),
            }
        }
        failed.map(|()| ExitCode::SUCCESS)
    }
}
