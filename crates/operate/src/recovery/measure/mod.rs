//! `understudy recovery measure`: follows the restart of one Galera node, and says by which transfer it came back, how long each phase took, and
//! whether the forecast was right.
//!
//! ```text
//!   before (may it be done, what is forecast) ─> stop ─> away ─> start ─> follow ──> report, page
//!                                                 '─ hands ──────'         '─ tail (its log), watch (everybody's status)
//! ```
//!
//! What the lines and readings mean is decided in [`measure::recovery::restart`]. Invariant: whoever ends this command while the node is down by its
//! `--stop-command` has it started again by its `--start-command`.

mod before;
mod drive;
mod hands;
mod order;
mod page;
mod report;
mod tail;
mod watch;

use std::process::ExitCode;

use ::report::file::{write_json, write_text};

use self::drive::End;
pub use self::order::Measure;
use cli::exit::{CommandResult, Failure};
use cli::foreground::Signals;
use link::Login;
use settings::{self, Settings};

/// A signal ended it.
const INTERRUPTED: u8 = 130;

impl Measure {
    /// Does it.
    pub fn run(self) -> CommandResult {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        let login = settings.monitor_login().map_err(Failure::usage)?;
        cli::runtime::run(self.measure(settings, login))
    }

    async fn measure(self, settings: Settings, login: Login) -> CommandResult {
        let mut found = before::look(&self, &settings, &login).await?;
        if self.dry_run {
            for step in report::steps(&self, &found) {
                println!("{step}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut signals = Signals::with_terminal()?;
        let name = self.node.clone();
        let measured = match drive::drive(&self, &settings, &login, &mut found, &mut signals).await? {
            End::Back(measured) => measured,
            End::Signal(signal) => {
                eprintln!("{signal}: the measurement is given up");
                return Ok(ExitCode::from(INTERRUPTED));
            }
        };
        let (json, told) = (report::json(&name, &found, &measured), report::told(&name, &found, &measured));
        let text = told.text();
        if let Some(dir) = &self.out_dir {
            let written = write_json(&dir.join("result.json"), &json)
                .and_then(|()| write_text(&dir.join("table.txt"), &text))
                .and_then(|()| write_text(&dir.join("report.html"), &page::page(told, &measured)));
            written.map_err(|e| Failure::failed(&e))?;
        }
        if self.json {
            println!("{json:#}");
        } else {
            print!("{text}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
