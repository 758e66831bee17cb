//! The check that stays: a refresher that asks the database, and listeners that answer from what it heard.
//!
//! ```text
//!   thread "refresher": health::refresh --State--> thread "health": listeners
//!                                         \------> this thread: the log, systemd's watchdog, signals
//! ```

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use health::answer::Answer;
use health::refresh::{self, State};
use health::server::{self, Counts, Server};
use health::style::Style;
use health::{Source, node::Node};
use link::Login;
use tokio::sync::watch::{self, Receiver};
use tokio::time::timeout;
use topology::health::{Question, Rules};

use super::database::Database;
use super::sockets::Sockets;
use cli::foreground::{Heard, Signals, log};
use cli::notify;
use settings::descriptors;

use crate::local;
use cli::exit::{CommandResult, Failure};

/// What is watched, and how it is told.
pub struct Watch {
    /// The database.
    pub database: Database,
    /// Reads the account again from wherever it came from.
    pub read_login: Box<dyn Fn() -> Result<Login, Failure>>,
    /// From one question to the next.
    pub interval: Duration,
    /// What is older is not believed.
    pub age_max: Duration,
    /// While this file exists, the node is not to be used.
    pub disabled_file: Option<PathBuf>,
    /// For questions that do not say.
    pub rules: Rules,
    /// Whose bytes.
    pub style: Style,
    /// The socket for the programs of this machine.
    pub socket: PathBuf,
    /// Files with secrets that every user of this machine can read, a sentence each.
    pub exposed: Vec<String>,
}

impl Watch {
    /// Answers until told to stop.
    pub fn run(self, sockets: Sockets) -> CommandResult {
        log();
        for why in &self.exposed {
            tracing::warn!("{why}");
        }
        let connections_max = descriptors::raise_for_check(server::CONNECTIONS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|e| Failure::Failed(format!("cannot start the runtime's threads: {e}")))?;
        runtime.block_on(self.watch(sockets, connections_max))
    }

    async fn watch(self, sockets: Sockets, connections_max: u64) -> CommandResult {
        let mut signals = Signals::of_service()?;
        let (logins, login) = watch::channel(self.database.login.clone());
        let mut state = self.refresher(login)?;
        // The first answer is one, and not "not asked yet". It comes within the deadline, good or bad.
        let first = async {
            // When the refresher has ended, this is noticed below.
            let _ = timeout(self.age_max, state.changed()).await;
        };
        tokio::select! {
            () = first => {}
            name = signals.next() => return Ok(stopped(name)),
        }
        let (server, socket) = self.serve(sockets, connections_max, state.clone())?;
        tracing::info!("{}", self.sentence(&server, socket.as_ref()));
        notify::ready();
        let _watchdog = self.watchdog(state.clone());
        let name = tokio::select! {
            name = self.until_ended(&mut signals, &logins) => name,
            () = self.tell(state) => {
                return Err(Failure::Failed(
                    "the refresher ended by itself: its last words are in the log; start again".into(),
                ));
            }
        };
        notify::stopping();
        Ok(stopped(name))
    }

    /// Reads the account again at each SIGHUP, until a signal means the end; its name.
    async fn until_ended(&self, signals: &mut Signals, logins: &watch::Sender<Login>) -> &'static str {
        loop {
            match signals.next_or_reload().await {
                Heard::End(name) => return name,
                Heard::Reload => match (self.read_login)() {
                    Ok(login) => {
                        logins.send_replace(login);
                        tracing::info!(
                            "SIGHUP: user and password were read again, for the next connection to the database; everything else is changed \
                             by a restart"
                        );
                    }
                    Err(failure) => {
                        tracing::error!("SIGHUP: user and password stay as they are: {}", failure.text());
                    }
                },
            }
        }
    }

    /// Begins to ask, on a thread that nothing else can hold up.
    fn refresher(&self, login: Receiver<Login>) -> Result<Receiver<Arc<State>>, Failure> {
        let settings = refresh::Settings {
            whereabouts: self.database.whereabouts.clone(),
            login: self.database.login.clone(),
            interval: self.interval,
            // An answer that took longer would be too old when it came; and silence is to be told before the last one is too old.
            deadline: self.age_max.saturating_sub(self.interval) * 9 / 10,
            disabled_file: self.disabled_file.clone(),
        };
        let failed = |e: std::io::Error| Failure::Failed(format!("cannot start the refresher's thread: {e}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (sender, receiver) = refresh::channel();
        let asks = move || {
            runtime.block_on(refresh::run(settings, login, sender));
            runtime.shutdown_background();
        };
        // Not waited for at the end: it may be in the middle of a question.
        std::thread::Builder::new().name("refresher".into()).spawn(asks).map_err(failed)?;
        Ok(receiver)
    }

    fn serve(
        &self,
        sockets: Sockets,
        connections_max: u64,
        state: Receiver<Arc<State>>,
    ) -> Result<(Server, Option<local::Bound>), Failure> {
        let counts = Arc::new(Counts::default());
        let node = Node {
            state,
            age_max: self.age_max,
            rules: self.rules,
            place: self.database.shown(),
            counts: counts.clone(),
        };
        let Sockets { http, mut unix, agent } = sockets;
        let bound = match local::bind(&self.socket) {
            Ok((listener, bound)) => {
                unix.push(listener);
                Some(bound)
            }
            Err(why) => {
                tracing::warn!("{why}");
                None
            }
        };
        let settings = server::Settings {
            http,
            unix,
            agent,
            style: self.style,
            rules: self.rules,
            several_nodes: false,
            connections_max,
        };
        let source: Arc<dyn Source> = Arc::new(node);
        let server = server::start(settings, source, counts)
            .map_err(|e| Failure::Failed(format!("cannot start the listeners: {e}")))?;
        Ok((server, bound))
    }

    /// systemd is told that we are well as long as the refresher says something, be it that the database does not answer.
    fn watchdog(&self, state: Receiver<Arc<State>>) -> Option<notify::Watchdog> {
        let limit = 2 * self.age_max;
        notify::watchdog(move || state.borrow().at.elapsed() <= limit)
    }

    /// Logs each change of the answer; returns when the refresher has ended.
    async fn tell(&self, mut state: Receiver<Arc<State>>) {
        let question = Question::Member(self.rules);
        let mut last: Option<Answer> = None;
        loop {
            let answer = state.borrow_and_update().answer(question, Duration::MAX);
            if last.as_ref().is_none_or(|last| (last.kind, &last.reason) != (answer.kind, &answer.reason)) {
                let place = self.database.shown();
                if answer.is_good() {
                    tracing::info!("{place} {}", answer.reason);
                } else {
                    tracing::warn!("{place} is not to be used: {}", answer.reason);
                }
            }
            last = Some(answer);
            if state.changed().await.is_err() {
                return;
            }
        }
    }

    /// What is listened on, as one line for the log and for whoever waits for the start.
    fn sentence(&self, server: &Server, socket: Option<&local::Bound>) -> String {
        let mut places: Vec<String> =
            server.http().iter().map(|address| format!("http://{address}")).collect();
        places.extend(server.agent().iter().map(|address| format!("{address} (agent check)")));
        places.extend(socket.map(|socket| socket.path().display().to_string()));
        format!(
            "checking {} as {} every {} ms, answering on {}",
            self.database.shown(),
            self.database.login.user,
            self.interval.as_millis(),
            places.join(" ")
        )
    }
}

fn stopped(signal: &str) -> ExitCode {
    tracing::info!("{signal}: stopped");
    ExitCode::SUCCESS
}
