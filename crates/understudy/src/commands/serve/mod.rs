//! `understudy serve`: the program itself, until it is told to stop.

mod check;
mod first_start;
mod ports;
pub mod servers;
mod warm;
mod warnings;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::commands::foreground::{Signals, log};
use crate::exit::{CommandResult, Failure};
use crate::settings::{self, Settings};
use crate::wiring::warm::Secrets;
use crate::wiring::{self, Passwords, Services};
use crate::{descriptors, notify};

/// Serves in the foreground, logs to standard error (level: UNDERSTUDY_LOG, default info). SIGTERM or SIGINT ends it in good order: no new clients,
/// running transactions may end within proxy.shutdown_grace_ms. A second signal cuts that short.
#[derive(Args)]
pub struct Serve {
    /// The configuration [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Try everything the configuration names, tell what is wrong with its line, and serve nothing
    #[arg(long)]
    check: bool,
    /// With --check: as JSON
    #[arg(long, requires = "check")]
    json: bool,
}

impl Serve {
    /// Serves, or checks.
    pub fn run(self) -> CommandResult {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        if self.check {
            return check::run(&settings, self.json);
        }
        log();
        for exposed in warnings::exposed_secrets(&settings) {
            tracing::warn!("{exposed}");
        }
        let shares = descriptors::divide(&settings);
        let monitor = settings.password().map_err(Failure::usage)?;
        let replication = settings.replication_account().map_err(Failure::usage)?;
        let warm = warm_secrets(&settings)?;
        let _claim = first_start::claim(&settings).map_err(|e| Failure::failed(&e))?;
        if let Some(problem) = ports::first_problem(&settings) {
            return Err(Failure::Failed(problem.to_string()));
        }
        let credentials = first_start::prepare(&settings)?;
        let services =
            wiring::start(&settings, shares, Passwords { monitor, replication, warm }, credentials)
                .map_err(|e| Failure::failed(&e))?;
        serve(services)
    }
}

fn warm_secrets(settings: &Settings) -> Result<Option<Secrets>, Failure> {
    let (Some(warm), Some(password)) = (&settings.warm, settings.warm_password().map_err(Failure::usage)?)
    else {
        return Ok(None);
    };
    let access = settings.stream_access(warm).map_err(Failure::usage)?;
    Ok(Some(Secrets { password: manager::Password(password), access }))
}

fn serve(services: Services) -> CommandResult {
    let mut signals = services.wait(async { Signals::of_service() })?;
    tracing::info!("{}", services.sentence());
    notify::ready();
    let _watchdog = notify::watchdog(services.pulse());
    let (no_manager, no_door) = (services.without_manager(), services.without_door());
    let signal = services.wait(async {
        tokio::select! {
            name = signals.next() => Ok(name),
            () = no_manager => Err("the manager ended by itself: nobody would notice a dead node any more"),
            () = no_door => Err("the proxy no longer follows the manager: it would go on using a dead node"),
        }
    });
    match signal {
        Ok(name) => tracing::info!("{name}: taking no new clients and letting running transactions end"),
        Err(what) => tracing::error!("{what}; stopping"),
    }
    notify::stopping();
    services.shutdown(async move {
        signals.next().await;
    });
    tracing::info!("stopped");
    match signal {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(what) => Err(Failure::Failed(format!("{what}: its last words are in the log; start again"))),
    }
}
