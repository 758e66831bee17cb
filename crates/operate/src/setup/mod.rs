//! `understudy setup`: from one server and an administrator's account to a cluster that is watched. Finds the other servers, makes the accounts
//! that Understudy needs, writes the settings, checks them, and starts the service.
//!
//! Nothing is changed before all of it was shown and agreed to; from then on each step says what it does, and a failure says how to take back
//! what was done.

mod find;
mod plan;

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use cli::exit::{CommandResult, Failure};
use cli::runtime;
use link::{Endpoint, Link, Login, Secret};
use nodecheck::account::Account;
use rand::TryRngCore;
use settings::Settings;
use tokio::time::{Instant, sleep};
use topology::kind::Kind;
use web::private_file;

use self::find::Found;
use self::plan::{NewAccount, PASSWORD_BYTES, Plan, Wishes};

/// One statement may take this long: a CREATE USER waits for the whole Galera group.
const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// The new accounts reach all servers within this time.
const REPLICATED_MAX: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Where systemd says that it runs this machine (`sd_booted(3)`).
const SYSTEMD: &str = "/run/systemd/system";
const SERVICE: &str = "understudy";

/// Set up Understudy in front of a running cluster, from one of its servers
#[derive(Args)]
pub struct Setup {
    #[command(flatten)]
    admin: Account,
    /// A server of the cluster; once for each, in place of looking for them [HOST:PORT]
    #[arg(long = "node", value_name = "ADDRESS")]
    nodes: Vec<String>,
    /// The cluster's name
    #[arg(long, value_name = "NAME", default_value = "main")]
    cluster: String,
    /// The account that Understudy makes for itself
    #[arg(long, value_name = "NAME", default_value = "understudy", value_parser = user_name)]
    monitor: String,
    /// The account that it makes for replicas
    #[arg(long, value_name = "NAME", default_value = "understudy_replica", value_parser = user_name)]
    replica: String,
    /// Where applications connect; 127.0.0.1:6033 lets in this machine only
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:6033")]
    listen: String,
    /// Where its API and its page are
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6080")]
    http: String,
    /// The settings file that is written
    #[arg(long, value_name = "FILE", default_value = settings::PLACES[1])]
    config: PathBuf,
    /// Where the running program keeps what it must remember [default: /var/lib/understudy]
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<String>,
    /// Of a primary with replicas: failovers are only reported, until the setting is taken out
    #[arg(long)]
    report_only: bool,
    /// Show what was found, and every statement and the settings; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Setup {
    /// Runs it.
    ///
    /// # Errors
    /// 2 as long as nothing was changed, 1 afterwards.
    pub fn run(self) -> CommandResult {
        runtime::run(async move {
            let (endpoint, admin) = self.login()?;
            let found = self.find(&endpoint, &admin).await?;
            let plan = self.plan(&found)?;
            self.show(&found, &plan);
            if let Err(problems) = Settings::parse(&self.config, &plan.settings.whole) {
                return Err(Failure::usage(plan.without_passwords(&problems.to_string())));
            }
            if self.dry_run {
                println!("\nNothing was changed (--dry-run).");
                return Ok(ExitCode::SUCCESS);
            }
            self.agree(&found)?;
            self.carry_out(&found, &plan, &admin).await
        })
    }

    async fn find(&self, endpoint: &Endpoint, admin: &Login) -> Result<Found, Failure> {
        if self.config.exists() && !self.dry_run {
            let config = self.config.display();
            return Err(Failure::usage(format!(
                "{config} exists: this machine is set up. Name another file with --config, or move that one away"
            )));
        }
        let Endpoint::Tcp(address) = endpoint else {
            return Err(Failure::usage(
                "name the server with --host, by an address at which Understudy reaches it: all servers are asked by TCP",
            ));
        };
        let found = find::find(address, &self.nodes, admin).await?;
        self.is_new(&found, admin).await?;
        Ok(found)
    }

    /// The administrator's password is asked for at a terminal when it stands nowhere.
    fn login(&self) -> Result<(Endpoint, Login), Failure> {
        let (endpoint, login) = self.admin.login()?;
        if !matches!(login.secret, Secret::None) || self.yes || !std::io::stdin().is_terminal() {
            return Ok((endpoint, login));
        }
        let prompt = format!("Password of {} at {endpoint}: ", login.user);
        let password = rpassword::prompt_password(prompt).map_err(Failure::usage)?;
        Ok((endpoint, Login { tls: login.tls.clone(), ..Login::with_password(login.user, password) }))
    }

    /// The accounts that are to be made are not there yet.
    async fn is_new(&self, found: &Found, admin: &Login) -> Result<(), Failure> {
        let address = &found.servers[0].address;
        let mut link = connect(address, admin).await.map_err(Failure::usage)?;
        for user in [&self.monitor, &self.replica].into_iter().take(accounts_of(found.kind)) {
            let sql = format!("SELECT COUNT(*) FROM mysql.user WHERE user = '{}'", user.replace('\'', "''"));
            let rows = link
                .query(&sql, STATEMENT_MAX)
                .await
                .map_err(|e| Failure::usage(format!("{address}: {e}")))?;
            if rows.text(0, 0) != Some("0") {
                return Err(Failure::usage(format!(
                    "there is an account {user} already, whose password is not known here: name another with --monitor or --replica, or drop it"
                )));
            }
        }
        link.quit();
        Ok(())
    }

    fn plan(&self, found: &Found) -> Result<Plan, Failure> {
        let new = |user: &str| -> Result<NewAccount, Failure> {
            let mut random = [0; PASSWORD_BYTES];
            rand::rngs::OsRng
                .try_fill_bytes(&mut random)
                .map_err(|e| Failure::Failed(format!("no random bytes: {e}")))?;
            Ok(NewAccount { user: user.to_owned(), password: plan::password(random) })
        };
        let monitor = new(&self.monitor)?;
        let replicas = match found.kind {
            Kind::Galera => None,
            Kind::Replication => Some(new(&self.replica)?),
        };
        let wishes = Wishes {
            cluster: &self.cluster,
            listen: &self.listen,
            http: &self.http,
            state: self.state.as_deref(),
            is_report_only: self.report_only,
        };
        Ok(plan::plan(found, &monitor, replicas.as_ref(), &wishes))
    }

    fn show(&self, found: &Found, plan: &Plan) {
        let what = match found.kind {
            Kind::Galera => "A Galera cluster:",
            Kind::Replication => "A primary and its replicas:",
        };
        println!("{what}");
        for server in &found.servers {
            let writes = if server.read_only { "read only" } else { "writable" };
            println!("  {}  {}  {}, {writes}", server.address, server.version, server.role());
        }
        for unreached in &found.unreached {
            println!("  not reached: {unreached}");
        }
        println!("\nTo be run on {}, from which all get it:", found.servers[0].address);
        for statement in &plan.statements {
            println!("  {};", statement.shown);
        }
        println!("\nTo be written to {} (mode 0600):", self.config.display());
        for line in plan.settings.shown.lines() {
            println!("{}", format!("  {line}").trim_end());
        }
    }

    /// What was shown is to be done.
    fn agree(&self, found: &Found) -> Result<(), Failure> {
        if !found.unreached.is_empty() {
            return Err(Failure::usage(
                "a server was not reached, and one that is not in the settings is no candidate and follows no new primary: name all that belong to \
                 the cluster with --node. Nothing was changed",
            ));
        }
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage(
                "nobody can be asked here: add --yes, or --dry-run. Nothing was changed",
            ));
        }
        eprint!("\nGo on? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer).map_err(Failure::usage)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Failure::usage("nothing was changed")),
        }
    }

    async fn carry_out(&self, found: &Found, plan: &Plan, admin: &Login) -> CommandResult {
        let server = &found.servers[0].address;
        self.write(&plan.settings.whole).map_err(Failure::usage)?;
        println!(
            "\nWrote {}. Should this be ended in the middle: {}\n",
            self.config.display(),
            self.undo(found, plan)
        );
        if let Err(Unmade { why, is_first }) = make_accounts(found, plan, admin).await {
            let _ = std::fs::remove_file(&self.config);
            let made = match is_first {
                true => "No account was made, and the file was taken away again.".to_owned(),
                false => format!("To take back what was done, run on {server}: {}", plan.undo.join("; ")),
            };
            return Err(Failure::Failed(format!("{why}\n{made}")));
        }
        let take_back = |failure: Failure| {
            Failure::Failed(format!(
                "{}\nTo take back what was done: {}",
                failure.text(),
                self.undo(found, plan)
            ))
        };
        self.begin(found, plan).await.map_err(take_back)?;
        self.say_what_next(found, plan);
        Ok(ExitCode::SUCCESS)
    }

    /// With the accounts and the settings there: checks them, and starts the service.
    async fn begin(&self, found: &Found, plan: &Plan) -> Result<(), Failure> {
        self.reach_all(found, plan).await.map_err(Failure::Failed)?;
        let is_well = self.checked(&["serve", "--check"])?;
        println!("\nWhat decides how long a failover takes here, and what would shorten it:\n");
        self.checked(&["doctor"])?;
        if !is_well {
            return Err(Failure::Failed(format!(
                "the check found something WRONG, and the service was not started: put it right, run `understudy serve --check --config {}` until \
                 it finds nothing, and start it",
                self.config.display()
            )));
        }
        self.start()
    }

    /// What takes back all that was done.
    fn undo(&self, found: &Found, plan: &Plan) -> String {
        let (config, server) = (self.config.display(), &found.servers[0].address);
        format!("rm {config}; and on {server}: {}", plan.undo.join("; "))
    }

    /// Each server lets the new account in.
    async fn reach_all(&self, found: &Found, plan: &Plan) -> Result<(), String> {
        let began = Instant::now();
        for server in &found.servers {
            while let Err(why) = connect(&server.address, &plan.monitor).await.map(|link| link.quit()) {
                if began.elapsed() > REPLICATED_MAX {
                    return Err(format!("the new account has not reached all servers: {why}"));
                }
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }

    fn write(&self, settings: &str) -> Result<(), String> {
        let cannot = |e: std::io::Error| format!("{} cannot be written: {e}", self.config.display());
        if let Some(directory) = self.config.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(cannot)?;
        }
        private_file::create(&self.config, settings.as_bytes()).map_err(cannot)
    }

    /// Runs this program on the new settings; whether all is well.
    fn checked(&self, arguments: &[&str]) -> Result<bool, Failure> {
        let cannot =
            |e: std::io::Error| Failure::Failed(format!("this program cannot be started again: {e}"));
        let program = std::env::current_exe().map_err(cannot)?;
        let ended = Command::new(program).args(arguments).arg("--config").arg(&self.config).status();
        Ok(ended.map_err(cannot)?.success())
    }

    fn start(&self) -> Result<(), Failure> {
        if !is_service(&self.config) {
            println!("\nStart it: understudy serve --config {}", self.config.display());
            return Ok(());
        }
        let run = |program: &str, arguments: &[&str]| {
            let cannot =
                |why: String| Failure::Failed(format!("the service cannot be started: {program} {why}"));
            let ended = Command::new(program).args(arguments).stderr(Stdio::inherit()).output();
            let ended = ended.map_err(|e| cannot(e.to_string()))?;
            match ended.status.success() {
                true => Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned()),
                false => Err(cannot(format!("ended with {}; see journalctl -u {SERVICE}", ended.status))),
            }
        };
        // Nobody else may read the file, and the service runs as a user of its own.
        let user = run("systemctl", &["show", "--property", "User", "--value", SERVICE])?;
        if !user.is_empty() {
            run("chown", &[&format!("{user}:"), &self.config.to_string_lossy()])?;
        }
        run("systemctl", &["enable", "--now", SERVICE]).map(drop)
    }

    fn say_what_next(&self, found: &Found, plan: &Plan) {
        let port = self.listen.rsplit_once(':').map_or("6033", |(_, port)| port);
        println!(
            "\nThe application: give it this machine's address and port {port} in place of its server's; accounts and passwords stay. Each account must let \
             this machine in by its host part."
        );
        println!("See it work: understudy status, understudy top");
        println!(
            "The way back: the application to {} again, then systemctl disable --now {SERVICE}; {}",
            found.servers[0].address,
            self.undo(found, plan)
        );
        if found.kind == Kind::Replication {
            println!(
                "A primary with replicas has more to be taken back, once Understudy has moved it: docs/remove.md"
            );
        }
    }
}

/// How many accounts are made.
fn accounts_of(kind: Kind) -> usize {
    match kind {
        Kind::Galera => 1,
        Kind::Replication => 2,
    }
}

/// The name of an account, which needs no escapes anywhere.
fn user_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match (1..=32).contains(&text.len()) && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("it must be 1 to 32 letters, digits, dots, underscores and dashes".to_owned()),
    }
}

/// Whether systemd is to start it with these settings.
fn is_service(config: &Path) -> bool {
    let knows =
        || Command::new("systemctl").args(["cat", SERVICE]).output().is_ok_and(|said| said.status.success());
    Path::new(SYSTEMD).is_dir() && config == Path::new(settings::PLACES[1]) && knows()
}

/// Why the accounts are not there.
struct Unmade {
    why: String,
    /// Nothing was run before it.
    is_first: bool,
}

async fn make_accounts(found: &Found, plan: &Plan, admin: &Login) -> Result<(), Unmade> {
    let first = |why| Unmade { why, is_first: true };
    let mut link = connect(&found.servers[0].address, admin).await.map_err(first)?;
    if found.kind == Kind::Replication {
        // The primary may have been moved while the question waited, and what is written on a replica is on no other server.
        find::is_primary(&mut link).await.map_err(first)?;
    }
    for (place, statement) in plan.statements.iter().enumerate() {
        // The server's words may repeat the statement.
        link.query(&statement.whole, STATEMENT_MAX).await.map_err(|e| Unmade {
            why: format!("{}: {}", statement.shown, plan.without_passwords(&e.to_string())),
            is_first: place == 0,
        })?;
    }
    link.quit();
    Ok(())
}

async fn connect(address: &str, login: &Login) -> Result<Link, String> {
    Link::connect(address, login, STATEMENT_MAX)
        .await
        .map_err(|e| format!("{address}, as {}: {e}", login.user))
}
