//! The commands: one file each, and the list of them here.

pub mod drain;
mod errors;
mod limit;
mod preflight;
mod reload;
pub mod serve;
mod show_settings;
mod switchover;

use clap::{Parser, Subcommand};
use operate::{
    capacity, errant::command as errant, lab, pool, recovery, replay, setup, slowlog, vip, warm, warmth,
};
use watch::{explain, journal, sessions, status, top};

use cli::exit::CommandResult;

/// Proxy and failover manager for MariaDB Galera Cluster, and for a primary with replicas.
#[derive(Parser)]
#[command(name = "understudy", version, propagate_version = true, help_template = help(), after_help = cli::exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can be asked to do.
#[derive(Subcommand)]
pub enum Command {
    /// Set up Understudy in front of a running cluster, from one of its servers
    Setup(Box<setup::Setup>),
    /// Serve: proxy, manager and API, until told to stop
    Serve(serve::Serve),
    /// Tell load balancers and keepalived whether a database node may take traffic
    Check(Box<nodecheck::Check>),
    /// Show the nodes, the writer, the hold and the last decisions
    Status(status::StatusArgs),
    /// Show the sessions that wait, have a transaction open, or cannot move
    Processlist(sessions::ProcessList),
    /// Watch the cluster in the terminal, with keys for drain and switchover
    Top(Box<top::Top>),
    /// Move the writer: transactions end first, statements wait meanwhile
    Switchover(switchover::Switchover),
    /// Take a node out: its sessions move to another one
    Drain(drain::Drain),
    /// Let a drained node take sessions again
    Undrain(drain::Undrain),
    /// Set how many sessions a node takes at most
    SetMaxConnections(limit::SetMaxConnections),
    /// Let the running server read its configuration again
    Reload(reload::Reload),
    /// Show what was decided, and why
    Journal(journal::Journal),
    /// Explain a change of the writer: what was seen, decided and done, and what clients noticed
    Explain(explain::Explain),
    /// Ask the nodes how they are set up, and propose what is better for a failover
    Doctor(doctor::Doctor),
    /// Transactions that a server has and the primary has not: list, export, undo
    #[command(subcommand)]
    Errant(errant::Errant),
    /// Print the settings that do what the configuration of another proxy or failover manager does
    Import(import::Import),
    /// Show every setting, its default and its meaning
    Settings(show_settings::ShowSettings),
    /// Show the errors that the proxy itself gives to clients
    Errors(errors::Errors),
    /// Try the command and the webhook that are told of decisions
    #[command(subcommand)]
    Hooks(hooks::command::Command),
    /// Keep an address on a machine that can serve, with keepalived
    #[command(subcommand)]
    Vip(vip::Vip),
    /// Stream a slow log while it grows
    #[command(subcommand)]
    Slowlog(slowlog::Slowlog),
    /// Replay the reads of a slow log on another server
    Replay(Box<replay::Replay>),
    /// Keep the standbys of a running cluster warm
    Warm(Box<warm::Warm>),
    /// Measure how many transactions a second a node could apply at most
    Capacity(Box<capacity::Capacity>),
    /// The pages that a server has in memory: show them, load them on a standby
    #[command(subcommand)]
    Pool(pool::Pool),
    /// Show how warm a standby is, and what a failover to it would cost
    Warmth(Box<warmth::WarmthCommand>),
    /// How nodes come back: how long it takes, and whether with a full copy
    #[command(subcommand)]
    Recovery(recovery::Recovery),
    /// Start real clusters on this machine, load them, break them, measure
    Lab(lab::Lab),
}

/// The commands as `--help` lists them, by what they are used for.
const BY_USE: [(&str, &[&str]); 4] = [
    (
        "Every day",
        &[
            "status",
            "processlist",
            "top",
            "journal",
            "explain",
            "switchover",
            "drain",
            "undrain",
            "set-max-connections",
            "reload",
        ],
    ),
    ("Set up", &["setup", "import", "serve", "doctor", "settings", "errors", "hooks", "check", "vip"]),
    ("Repair, and know before it hurts", &["errant", "recovery", "capacity"]),
    ("Warm standbys, and measure", &["warm", "warmth", "pool", "slowlog", "replay", "lab"]),
];

/// The template of the program's help, which clap would give one list of all commands.
fn help() -> String {
    let all = Command::augment_subcommands(clap::Command::new("understudy"));
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in BY_USE {
        text += &format!("\n{group}:\n");
        for name in names {
            let about = all.find_subcommand(name).and_then(clap::Command::get_about);
            text += &format!("  {name:<19}  {}\n", about.map(ToString::to_string).unwrap_or_default());
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

impl Command {
    /// Whether it only prints, and may end in the middle when nobody reads on (`understudy status | head -n 1`). What keeps sockets or
    /// clusters must not end that way.
    fn only_prints(&self) -> bool {
        match self {
            Self::Serve(_)
            // In the middle of it nothing must end it.
            | Self::Setup(_)
            // A command that does not read what it is given must not end it.
            | Self::Hooks(_)
            | Self::Check(_)
            | Self::Slowlog(_)
            | Self::Replay(_)
            | Self::Warm(_)
            | Self::Recovery(_)
            // It gives the terminal back first.
            | Self::Top(_)
            | Self::Capacity(_)
            | Self::Warmth(_)
            | Self::Lab(_) => false,
            // In the middle of a change nothing must end it.
            Self::Pool(pool) => pool.only_prints(),
            Self::Errant(errant) => errant.only_prints(),
            _ => true,
        }
    }
}

/// Runs one.
pub fn run(command: Command) -> CommandResult {
    if command.only_prints() {
        sigpipe::reset();
    }
    match command {
        Command::Setup(setup) => setup.run(),
        Command::Serve(serve) => serve.run(),
        Command::Check(check) => check.run(),
        Command::Status(status) => status.run(),
        Command::Top(top) => top.run(),
        Command::Switchover(switchover) => switchover.run(),
        Command::Drain(drain) => drain.run(),
        Command::Undrain(undrain) => undrain.run(),
        Command::Reload(reload) => reload.run(),
        Command::SetMaxConnections(limit) => limit.run(),
        Command::Journal(journal) => journal.run(),
        Command::Explain(explain) => explain.run(),
        Command::Processlist(list) => list.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Errant(errant) => errant.run(),
        Command::Import(import) => import.run(),
        Command::Settings(show) => show.run(),
        Command::Errors(errors) => errors.run(),
        Command::Hooks(hooks) => hooks.run(),
        Command::Vip(vip) => vip.run(),
        Command::Slowlog(slowlog) => slowlog.run(),
        Command::Replay(replay) => replay.run(),
        Command::Warm(warm) => warm.run(),
        Command::Capacity(capacity) => capacity.run(),
        Command::Pool(pool) => pool.run(),
        Command::Warmth(warmth) => warmth.run(),
        Command::Recovery(recovery) => recovery.run(),
        Command::Lab(lab) => lab.run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command that is asked for something, with its whole name.
    fn leaves(command: &clap::Command, name: &str, found: &mut Vec<(String, clap::Command)>) {
        if !command.has_subcommands() {
            found.push((name.trim().to_owned(), command.clone()));
        }
        for sub in command.get_subcommands() {
            leaves(sub, &format!("{name} {}", sub.get_name()), found);
        }
    }

    #[test]
    fn each_help_says_how_the_command_ends_and_each_order_has_a_dry_run() {
        use clap::CommandFactory;
        let mut all = vec![];
        leaves(&cli::line::with_exit_codes(Cli::command()), "", &mut all);
        for (name, command) in &mut all {
            let help = command.render_long_help().to_string();
            // The lab's program has its own help.
            assert!(name == "lab" || help.contains("Exit codes"), "{name}: {help}");
            let is_order = [
                "switchover",
                "drain",
                "undrain",
                "set-max-connections",
                "reload",
                "errant flashback",
                "setup",
            ]
            .contains(&name.as_str());
            assert!(!is_order || help.contains("dry-run"), "{name}: {help}");
        }
        assert!(all.len() > 30, "{}", all.len());
    }

    #[test]
    fn the_help_has_each_command_once() {
        let all = Command::augment_subcommands(clap::Command::new("understudy"));
        let mut all: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = BY_USE.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        all.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, all);
    }
}
