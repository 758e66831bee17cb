//! Where a server is and as whom to log in: the options that commands share, with a MySQL client's option files behind them.

use std::path::{Path, PathBuf};

use clap::Args;
use link::{Endpoint, Login};

use crate::database::{Database, system_user};
use cli::exit::Failure;
use mycnf::Options;

/// The password, before that of an option file.
const PASSWORD_ENV: &str = "UNDERSTUDY_PASSWORD";

/// Which server, and as whom.
#[derive(Args)]
pub struct Account {
    /// The server's host; localhost means its unix socket [default: as for the mysql client]
    #[arg(long, value_name = "NAME", conflicts_with = "mysql_socket")]
    host: Option<String>,
    /// The server's port [default: 3306]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "mysql_socket")]
    port: Option<u16>,
    /// The server's unix socket
    #[arg(long, value_name = "PATH", visible_alias = "socket")]
    mysql_socket: Option<PathBuf>,
    /// The account [default: the option file's, else this system's user]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[arg(
        long,
        help = "Read only this option file ([client], [mysql], ...) instead of /etc/my.cnf, /etc/mysql/my.cnf and ~/.my.cnf",
        value_name = "FILE"
    )]
    defaults_file: Option<PathBuf>,
    /// A file whose first line is the password [else UNDERSTUDY_PASSWORD, else an option file's]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl Account {
    /// Whether the command line says as whom, or where that stands.
    pub fn names_an_account(&self) -> bool {
        self.user.is_some() || self.defaults_file.is_some()
    }

    /// What the command line, the environment and the option files say.
    pub fn login(&self) -> Result<(Endpoint, Login), Failure> {
        let files = match &self.defaults_file {
            Some(file) => Options::of_file(file),
            None => Options::standard(None),
        };
        let password = password(self.password_file.as_deref(), PASSWORD_ENV)?;
        let said = Options {
            user: self.user.clone(),
            password,
            host: self.host.clone(),
            port: self.port,
            socket: self.mysql_socket.clone(),
            ..Options::default()
        };
        let database = Database::of(said.or(files.map_err(Failure::usage)?), system_user)?;
        Ok((database.whereabouts.now().clone(), database.login))
    }
}

/// The first line of --password-file, else what the environment has by this name.
pub fn password(file: Option<&Path>, env: &str) -> Result<Option<String>, Failure> {
    let Some(file) = file else {
        return Ok(std::env::var(env).ok().filter(|password| !password.is_empty()));
    };
    let text = infile::read_text(file)
        .map_err(|e| Failure::usage(format!("--password-file {} cannot be read: {e}", file.display())))?;
    Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
}
