//! `understudy serve`: the program itself, until it is told to stop.

mod check;
mod first_start;
mod ports;
mod reload;
mod signers;
mod warm;
mod warnings;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::sync::mpsc::Receiver;
use topology::action::Level;

use cli::exit::{CommandResult, Failure};
use cli::foreground::{Heard, Signals, log_at};
use cli::notify;
use hooks::Hooks;
use settings::descriptors;
use settings::{self, Settings, table as t};
use wiring::warm::Secrets;
use wiring::{self, Accounts, ReloadRequest, Services};

/// Serves in the foreground, logs to standard error (level: UNDERSTUDY_LOG, else log.level). SIGTERM or SIGINT ends it in good order: no new clients,
/// running transactions may end within proxy.shutdown_grace_ms. A second signal cuts that short. SIGHUP reads the configuration again.
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
        log_at(&settings.get(&t::LOG_LEVEL));
        for exposed in warnings::exposed_secrets(&settings) {
            tracing::warn!("{exposed}");
        }
        let (shares, too_few) = descriptors::divide(&settings);
        if let Some(warning) = too_few {
            tracing::warn!("{warning}");
        }
        let accounts = accounts(&settings)?;
        let _claim = first_start::claim(&settings).map_err(|e| Failure::failed(&e))?;
        if let Some(problem) = ports::first_problem(&settings) {
            return Err(Failure::Failed(problem.to_string()));
        }
        let credentials = first_start::prepare(&settings)?;
        let (services, reloads) =
            wiring::start(settings, shares, accounts, credentials).map_err(|e| Failure::failed(&e))?;
        serve(services, reloads)
    }
}

fn accounts(settings: &Settings) -> Result<Accounts, Failure> {
    Ok(Accounts {
        monitor: settings.monitor_account().map_err(Failure::usage)?,
        replication: settings.replication_account().map_err(Failure::usage)?,
        clients: settings.client_accounts().map_err(Failure::usage)?,
        warm: warm_secrets(settings)?,
        hooks: Hooks::read(settings).map_err(Failure::usage)?,
    })
}

fn warm_secrets(settings: &Settings) -> Result<Option<Secrets>, Failure> {
    let Some(account) = settings.warm_account().map_err(Failure::usage)? else { return Ok(None) };
    let access = settings.stream_access().map_err(Failure::usage)?;
    Ok(Some(Secrets { account, access }))
}

/// What ends the wait of `serve`.
enum Event {
    End(&'static str),
    /// A part that must not end has ended.
    Broken(&'static str),
    /// With where the answer goes, if it was not a signal.
    Reload(Option<ReloadRequest>),
}

fn serve(mut services: Services, mut reloads: Receiver<ReloadRequest>) -> CommandResult {
    let mut signals = services.wait(async { Signals::of_service() })?;
    tracing::info!("{}", services.sentence());
    notify::ready();
    let _watchdog = notify::watchdog(services.pulse());
    // SIGHUP came during a reload, which may have read the files before that.
    let mut is_reloaded_again = false;
    let ended = loop {
        let (no_manager, no_door) = (services.without_manager(), services.without_door());
        let event = services.wait(async {
            if std::mem::take(&mut is_reloaded_again) {
                return Event::Reload(None);
            }
            tokio::select! {
                heard = signals.next_or_reload() => match heard {
                    Heard::End(name) => Event::End(name),
                    Heard::Reload => Event::Reload(None),
                },
                Some(request) = reloads.recv() => Event::Reload(Some(request)),
                () = no_manager => Event::Broken("the manager ended by itself: nobody would notice a dead node any more"),
                () = no_door => Event::Broken("the proxy no longer follows the manager: it would go on using a dead node"),
            }
        });
        match event {
            Event::End(name) => break Ok(name),
            Event::Broken(what) => break Err(what.to_owned()),
            Event::Reload(request) => {
                if let Some(ReloadRequest { dry_run: true, reply }) = request {
                    // Who asked may have gone.
                    let _ = reply.send(reload::dry_run(&services));
                    continue;
                }
                notify::reloading();
                let mut end = None;
                let ended = async {
                    loop {
                        match signals.next_or_reload().await {
                            Heard::End(name) => break end = Some(name),
                            Heard::Reload => is_reloaded_again = true,
                        }
                    }
                };
                let reply = reload::reload(&mut services, ended);
                notify::ready();
                match &reply {
                    Ok((sentence, _)) => services.note(Level::Info, sentence.clone()),
                    Err(refused) => services.note(Level::Error, refused.sentence.clone()),
                }
                if let Some(request) = request {
                    // Who asked may have gone; the log has it.
                    let _ = request.reply.send(reply);
                }
                if let Some(name) = end {
                    break Ok(name);
                }
            }
        }
    };
    match &ended {
        Ok(name) => tracing::info!("{name}: taking no new clients and letting running transactions end"),
        Err(what) => tracing::error!("{what}; stopping"),
    }
    notify::stopping();
    services.shutdown(async move {
        signals.next().await;
    });
    tracing::info!("stopped");
    match ended {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(what) => Err(Failure::Failed(format!("{what}: its last words are in the log; start again"))),
    }
}
