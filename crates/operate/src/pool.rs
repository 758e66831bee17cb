//! `understudy pool`: which pages of which tables a server has in memory, and the same pages loaded on a standby.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use link::{Endpoint, Login};
use serde_json::{Value, json};
use warmup::access::Access;
use warmup::pool::{self, Allowed, Loaded, Progress, Server, Snapshot};
use warmup::source;

use cli::exit::{CommandResult, Failure};
use cli::foreground::Signals;
use mycnf::Options;
use nodecheck::account::Account;
use report::table::{Lean, Table};

/// A signal ended it.
const INTERRUPTED: u8 = 130;

/// For `--help`.
const MORE: &str = "\
The server dumps its pages itself, into its own file (innodb_buffer_pool_dump_now), as many as its innodb_buffer_pool_dump_pct allows: a quarter of \
its pool by default. The standby loads them itself, at innodb_io_capacity pages a second while it has other work. Nothing else is changed.";

/// The pages that a server has in memory.
#[derive(Subcommand)]
pub enum Pool {
    /// Show how many pages of which tables a server has in memory
    Show(Box<Show>),
    /// Load on a standby the pages that the active node has in memory
    Load(Box<Load>),
}

/// Without --from: of the server that the options name, which runs on this machine.
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Show {
    /// The streamer beside the server (HOST:PORT, `understudy slowlog serve --pool`), or the server's own unix socket on this machine
    #[arg(long, value_name = "PLACE")]
    from: Option<String>,
    #[command(flatten)]
    stream: Stream,
    /// So many tables, those with the most pages first
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// As JSON, all tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    account: Account,
}

/// To be run on the standby's machine, as root or as its server's user. The account needs PROCESS and SUPER (on MySQL SYSTEM_VARIABLES_ADMIN).
#[derive(Args)]
#[command(after_help = MORE)]
pub struct Load {
    /// The streamer beside the active node (HOST:PORT, `understudy slowlog serve --pool`), or the active node's unix socket on this machine
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// For a socket: an option file with the account there [default: the same account as on the standby]
    #[arg(long, value_name = "FILE")]
    from_defaults_file: Option<PathBuf>,
    #[command(flatten)]
    stream: Stream,
    /// Also when the server takes writes, as each of Galera's nodes does
    #[arg(long)]
    writable: bool,
    /// Say what would be loaded and what left out; the standby is not changed, and the other server only dumps its pages, as for `pool show`
    #[arg(long)]
    dry_run: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    account: Account,
}

/// How a streamer is asked.
#[derive(Args)]
struct Stream {
    /// The key that the streamer wants, in a file
    #[arg(long, value_name = "FILE")]
    stream_key_file: Option<PathBuf>,
    /// Ask the streamer over TLS, and trust this certificate (PEM): its own, or that of the authority that signed it
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

impl Pool {
    /// Whether it may end in the middle when nobody reads on.
    pub fn only_prints(&self) -> bool {
        matches!(self, Self::Show(_))
    }

    /// Does it.
    pub fn run(self) -> CommandResult {
        let runtime = cli::runtime::start()?;
        runtime.block_on(async {
            match self {
                Self::Show(show) => show.run().await,
                Self::Load(load) => load.run().await,
            }
        })
    }
}

impl Show {
    async fn run(self) -> CommandResult {
        let snapshot = match &self.from {
            Some(from) => self.stream.snapshot(from, || Ok(self.account.login()?.1)).await?,
            None => {
                let (place, login) = self.account.login()?;
                Server { place, login }.snapshot().await.map_err(|e| Failure::Failed(e.to_string()))?
            }
        };
        let tables = tables(&snapshot);
        if self.json {
            let tables: Vec<Value> =
                tables.iter().map(|(name, pages)| json!({ "name": name, "pages": pages })).collect();
            println!(
                "{:#}",
                json!({ "pages": snapshot.pages.len(), "page_bytes": snapshot.page_bytes,
                        "dump_percent": snapshot.dump_percent, "tables": tables })
            );
        } else {
            print!("{}", page(&snapshot, &tables, self.limit));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Load {
    async fn run(self) -> CommandResult {
        let (place, login) = self.account.login()?;
        let mut signals = Signals::new()?;
        let from_login = || match &self.from_defaults_file {
            None => Ok(login.clone()),
            Some(file) => {
                let options = Options::of_file(file).map_err(Failure::usage)?;
                Ok(nodecheck::database::Database::of(options, nodecheck::database::system_user)?.login)
            }
        };
        let snapshot = tokio::select! {
            snapshot = self.stream.snapshot(&self.from, from_login) => snapshot?,
            _ = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
        };
        let server = Server { place, login };
        let is_told = std::io::stderr().is_terminal();
        let last = Cell::new(Progress::default());
        let tell = |progress: Progress| {
            if is_told && last.replace(progress) != progress {
                eprint!("\r{} of {} pages \x1b[K", progress.loaded, progress.pages);
            }
        };
        let stop = async {
            signals.next().await;
        };
        let allowed = Allowed { writable: self.writable };
        let loaded = if self.dry_run {
            pool::preview(&server, &snapshot, allowed).await
        } else {
            let loaded = pool::load(&server, &snapshot, allowed, tell, stop).await;
            if is_told {
                eprintln!();
            }
            loaded
        };
        let loaded = loaded.map_err(|e| Failure::Failed(e.to_string()))?;
        if self.json {
            println!("{:#}", as_json(&loaded, self.dry_run));
        } else {
            print!("{}", sentences(&loaded, &snapshot, self.dry_run));
        }
        Ok(if loaded.is_aborted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
    }
}

impl Stream {
    /// The pages of the server at `from`; `login` is asked for when that is a socket.
    async fn snapshot(
        &self,
        from: &str,
        login: impl FnOnce() -> Result<Login, Failure>,
    ) -> Result<Snapshot, Failure> {
        if from.contains('/') {
            let server = Server { place: Endpoint::Unix(PathBuf::from(from)), login: login()? };
            return server.snapshot().await.map_err(|e| Failure::Failed(e.to_string()));
        }
        if !from.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        {
            return Err(Failure::usage(format!(
                "--from {from} is neither HOST:PORT of a streamer nor the path of a server's socket"
            )));
        }
        let access = Access::of_files(self.stream_key_file.as_deref(), self.tls_ca.as_deref());
        let access = access.map_err(Failure::usage)?;
        source::pool(&access, from).await.map_err(|e| Failure::Failed(e.to_string()))
    }
}

/// Pages by tablespace, the most first.
fn tables(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for page in &snapshot.pages {
        *counts.entry(page.space).or_default() += 1;
    }
    let name = |number: u32| match snapshot.spaces.get(number) {
        Some(space) => space.name.clone(),
        None if number == 0 => "innodb_system".to_owned(),
        None => format!("(tablespace {number}, gone)"),
    };
    let mut tables: Vec<(String, u64)> =
        counts.into_iter().map(|(number, pages)| (name(number), pages)).collect();
    tables.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    tables
}

fn page(snapshot: &Snapshot, tables: &[(String, u64)], limit: usize) -> String {
    let mib = |pages: u64| format!("{:.1}", pages as f64 * f64::from(snapshot.page_bytes) / 1_048_576.0);
    let all = snapshot.pages.len() as u64;
    let mut table = Table::new(&[
        ("TABLE", Lean::Left),
        ("PAGES", Lean::Right),
        ("MIB", Lean::Right),
        ("%", Lean::Right),
    ]);
    for (name, pages) in tables.iter().take(limit) {
        let share = *pages as f64 * 100.0 / all.max(1) as f64;
        table.row([name.clone(), pages.to_string(), mib(*pages), format!("{share:.1}")]);
    }
    let mut text = table.text();
    if tables.len() > limit {
        text += &format!("and {} more\n", tables.len() - limit);
    }
    text + &format!("{all} pages, {} MiB{}\n", mib(all), at_most(snapshot))
}

/// What a dump that is not of the whole pool says of itself.
fn at_most(snapshot: &Snapshot) -> String {
    match snapshot.dump_percent {
        100 => String::new(),
        percent => {
            format!("; of its pool the server names {percent} % at most (innodb_buffer_pool_dump_pct)")
        }
    }
}

fn reasons(loaded: &Loaded) -> [(&'static str, u64, &'static str); 6] {
    let left = &loaded.left_out;
    [
        ("own", left.own, "of the server's own tablespaces (system, undo, temporary, dictionary)"),
        ("full_text", left.full_text, "of full-text indexes, whose names are each server's own"),
        ("nameless", left.nameless, "of tables that were dropped meanwhile"),
        ("missing", left.missing, "of tables that the standby does not have"),
        ("beyond_end", left.beyond_end, "behind the end of the standby's shorter file"),
        ("too_many", left.too_many, "more than the standby's pool holds, those used longest ago"),
    ]
}

fn sentences(loaded: &Loaded, snapshot: &Snapshot, is_dry_run: bool) -> String {
    let Loaded { pages, dumped, before_pages, after_pages, pool_pages, .. } = loaded;
    let spent_s = loaded.spent.as_secs_f64();
    let how = if loaded.is_aborted { "were being loaded when it was ended, after" } else { "loaded in" };
    let mut text = if is_dry_run {
        format!(
            "{pages} of {dumped} pages would be loaded, and nothing was changed; in memory: {before_pages} pages, of {pool_pages}\n"
        )
    } else {
        format!(
            "{pages} of {dumped} pages {how} {spent_s:.1} s; in memory: {before_pages} pages before, {after_pages} after, of {pool_pages}\n"
        )
    };
    for (_, count, words) in reasons(loaded) {
        if count > 0 {
            text += &format!("{count} left out: {words}\n");
        }
    }
    match at_most(snapshot) {
        said if said.is_empty() => text,
        said => text + &format!("{} pages were dumped{said}\n", loaded.dumped),
    }
}

fn as_json(loaded: &Loaded, is_dry_run: bool) -> Value {
    let left_out: serde_json::Map<String, Value> =
        reasons(loaded).iter().map(|(name, count, _)| ((*name).to_owned(), json!(count))).collect();
    json!({
        "dry_run": is_dry_run,
        "dumped_pages": loaded.dumped,
        "loaded_pages": loaded.pages,
        "left_out_pages": left_out,
        "before_pages": loaded.before_pages,
        "after_pages": loaded.after_pages,
        "pool_pages": loaded.pool_pages,
        "took_s": loaded.spent.as_secs_f64(),
        "is_aborted": loaded.is_aborted,
    })
}
