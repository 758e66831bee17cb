//! The option files of MySQL and MariaDB, as far as a client needs them to find its server and to log in.
//!
//! Enters: files as a DBA has them (`/etc/my.cnf`, `~/.my.cnf`, ...). Leaves: user, password, host, port, socket and TLS, the last line
//! that names one winning, as with the client itself. Rules: MariaDB's manual, "Configuring MariaDB with Option Files"; how groups, names,
//! prefixes, quotes, escapes and comments are read, and that files which everybody may write are passed over, is what my_print_defaults, the
//! client and the server were seen to do (10.11; compared in `mycnf/tests.rs`).

mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use tls::{Tls, Wish};

/// The groups that a client reads.
const GROUPS: [&str; 5] = ["client", "client-server", "client-mariadb", "mysql", "mariadb-client"];
/// Those options of the client that are wanted, and how many of their letters suffice: no other of its options begins with these (MariaDB
/// 10.11).
const CLIENT: [(&str, usize); 14] = [
    ("user", 2),
    ("password", 3),
    ("host", 2),
    ("port", 2),
    ("socket", 2),
    ("protocol", 4),
    ("ssl", 3),
    ("ssl-ca", 6),
    ("ssl-capath", 7),
    ("ssl-cert", 6),
    ("ssl-cipher", 6),
    ("ssl-key", 5),
    ("ssl-mode", 5),
    ("ssl-verify-server-cert", 5),
];
/// What may stand before the name of any option, with a `-`.
const PREFIXES: [&str; 5] = ["skip", "disable", "enable", "maximum", "loose"];
/// Options of servers that are called so, and are no other option with a prefix.
const SKIPS: [&str; 10] = [
    "skip-bdb",
    "skip-external-locking",
    "skip-grant-tables",
    "skip-host-cache",
    "skip-name-resolve",
    "skip-networking",
    "skip-replica-start",
    "skip-show-database",
    "skip-slave-start",
    "skip-stack-trace",
];
/// The files that every client reads first.
const GLOBAL: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];
/// Files that include files that include files; the client's own limit.
const DEPTH_MAX: u8 = 10;

/// What a client was told. Debug never shows the password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// As whom.
    pub user: Option<String>,
    /// With what.
    pub password: Option<String>,
    /// On which host; `localhost` means the unix socket.
    pub host: Option<String>,
    /// At which port.
    pub port: Option<u16>,
    /// The server's unix socket.
    pub socket: Option<PathBuf>,
    /// Never the unix socket, also for `localhost` (`protocol = tcp`).
    pub is_tcp: bool,
    /// Of TLS.
    pub tls: Tls,
}

/// Why a file cannot be used: one sentence with the file, and the line where there is one.
#[derive(Debug)]
pub struct Problem(String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(not shown)"))
            .field("host", &self.host)
            .field("port", &self.port)
            .field("socket", &self.socket)
            .field("is_tcp", &self.is_tcp)
            .field("tls", &self.tls)
            .finish()
    }
}

impl Options {
    /// What `file` alone says.
    ///
    /// # Errors
    /// When it cannot be read or understood.
    pub fn of_file(file: &Path) -> Result<Self, Problem> {
        let mut options = Self::default();
        options.read(file)?;
        Ok(options)
    }

    /// What a client finds without being told: the machine's files, then `extra`, then the user's own. Of those only `extra` has to be
    /// there.
    ///
    /// # Errors
    /// When one of them cannot be understood, or `extra` cannot be read.
    pub fn standard(extra: Option<&Path>) -> Result<Self, Problem> {
        let mut options = Self::default();
        for file in GLOBAL.iter().map(Path::new).filter(|file| is_usable(file)) {
            options.read(file)?;
        }
        if let Some(extra) = extra {
            options.read(extra)?;
        }
        let own = std::env::var_os("HOME").map(|home| Path::new(&home).join(".my.cnf"));
        if let Some(own) = own.filter(|own| is_usable(own)) {
            options.read(&own)?;
        }
        Ok(options)
    }

    /// What was said here, and where nothing was, what `file` says. A host or a socket that is named here puts the file's aside, both
    /// of them; a port alone means TCP.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        let (host, socket, is_tcp) = match (self.host, self.socket) {
            (None, None) if self.port.is_some() => {
                // A socket has no port: `localhost` is the host then, and not a word for the socket.
                let host = file.host.filter(|host| host != "localhost").unwrap_or_else(|| "127.0.0.1".into());
                (Some(host), None, file.is_tcp)
            }
            (None, None) => (file.host, file.socket, file.is_tcp),
            (host, socket) => (host, socket, self.is_tcp),
        };
        Self {
            user: self.user.or(file.user),
            password: self.password.or(file.password),
            host,
            port: self.port.or(file.port),
            socket,
            is_tcp,
            tls: if self.tls == Tls::default() { file.tls } else { self.tls },
        }
    }

    fn read(&mut self, file: &Path) -> Result<(), Problem> {
        let is_ours = |group: &str| GROUPS.iter().any(|ours| ours.eq_ignore_ascii_case(group));
        each_line(file, 0, &is_ours, &mut |line| self.set(line))
    }

    /// One line `key = value`. What is not for us is passed over; the client would not, but it knows all of its options.
    fn set(&mut self, line: &str) -> Result<(), String> {
        let known = |name: &str| {
            let is_meant = |(option, letters): &&(&str, usize)| {
                option.starts_with(name) && (*letters..=option.len()).contains(&name.len())
            };
            CLIENT.iter().find(is_meant).map(|(option, _)| *option)
        };
        let line = Line::of(line);
        let Some((option, prefix)) = line.option(known) else { return Ok(()) };
        if option.starts_with("ssl") {
            return self.tls.set(option, line.switched(prefix), line.value.as_deref());
        }
        let value = match (line.switched(prefix), line.value) {
            // `password` alone, or enabled, means "ask me".
            (Some(true), _) | (None, None) if option == "password" => return Ok(()),
            (Some(true), _) if option == "port" => "1".to_owned(),
            (Some(false), _) if option != "password" => "0".to_owned(),
            (Some(_), _) => String::new(),
            (None, Some(value)) => value,
            (None, None) => return Ok(()),
        };
        if value.contains(char::REPLACEMENT_CHARACTER) {
            return Err(format!("the value of {option} is not in UTF-8: write it in UTF-8, or take another"));
        }
        let value = Some(value).filter(|value| !value.is_empty() || option == "password");
        match option {
            "user" => self.user = value,
            "password" => self.password = value,
            "host" => self.host = value,
            "socket" => self.socket = value.map(PathBuf::from),
            "protocol" => {
                self.is_tcp = value.is_some_and(|name| "tcp".starts_with(&name.to_ascii_lowercase()))
            }
            _ => {
                let port = value.map(|value| {
                    value.parse().map_err(|_| format!("port must be a number up to 65535, it is: {value}"))
                });
                // The client takes 0 for "as usual".
                self.port = port.transpose()?.filter(|&port| port != 0);
            }
        }
        Ok(())
    }
}

/// A line of a group, as the programs that are called with it understand it.
struct Line {
    /// In lower case, with `-`.
    name: String,
    value: Option<String>,
}

impl Line {
    fn of(text: &str) -> Self {
        let text = before_comment(text);
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        Self {
            name: trimmed(name).replace('_', "-").to_ascii_lowercase(),
            value: value.map(|value| plain(trimmed(value))),
        }
    }

    /// The option, and the prefix right before it, if any. A program looks for the whole name first, and takes one prefix away after the other
    /// while it knows no such option; only the last one counts.
    fn option<'a, T>(&'a self, known: impl Fn(&'a str) -> Option<T>) -> Option<(T, Option<&'static str>)> {
        let (mut name, mut prefix) = (self.name.as_str(), None);
        loop {
            if let Some(option) = known(name) {
                return Some((option, prefix));
            }
            (name, prefix) = PREFIXES
                .iter()
                .find_map(|prefix| Some((name.strip_prefix(prefix)?.strip_prefix('-')?, Some(*prefix))))?;
        }
    }

    /// Whether a prefix switches the option on or off. A value of 0 turns it round, any other counts for nothing.
    fn switched(&self, prefix: Option<&str>) -> Option<bool> {
        let is_turned = self.value.as_deref() == Some("0");
        match prefix? {
            "skip" | "disable" => Some(is_turned),
            "enable" => Some(!is_turned),
            _ => None,
        }
    }
}

/// What a server of this version (`SELECT VERSION()`; `None`: not known) is started with, by these files: names with underscores and without
/// prefixes, the last line winning. An option that is switched on by its name alone or by a prefix is ON, one that is switched off is OFF.
///
/// # Errors
/// When the file cannot be read or understood.
pub fn server_options(file: &Path, version: Option<&str>) -> Result<BTreeMap<String, String>, Problem> {
    let groups = server_groups(version.unwrap_or_default());
    let is_ours = |group: &str| groups.iter().any(|ours| ours.eq_ignore_ascii_case(group));
    let mut options = BTreeMap::new();
    each_line(file, 0, &is_ours, &mut |line| {
        let line = Line::of(line);
        let known = |name: &'_ str| {
            let has_prefix = PREFIXES
                .iter()
                .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-')));
            (SKIPS.contains(&name) || !has_prefix).then(|| name.replace('-', "_"))
        };
        let Some((name, prefix)) = line.option(known) else { return Ok(()) };
        let value = match line.switched(prefix) {
            _ if prefix == Some("maximum") => return Ok(()),
            Some(is_on) => if is_on { "ON" } else { "OFF" }.to_owned(),
            None => line.value.unwrap_or_else(|| "ON".to_owned()),
        };
        options.insert(name, value);
        Ok(())
    })?;
    Ok(options)
}

/// The groups that a server reads, in which also its own version may stand.
fn server_groups(version: &str) -> Vec<String> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let release = numbers.next().zip(numbers.next()).map(|(major, minor)| format!("{major}.{minor}"));
    let of_mysql: &[&str] = &["mysqld"];
    let (named, plain): (_, &[&str]) = if version.contains("MariaDB") || version.is_empty() {
        (&["mysqld", "mariadb", "mariadbd"][..], &["server", "client-server", "galera"])
    } else {
        (of_mysql, &["server"])
    };
    let of_release =
        release.iter().flat_map(|release| named.iter().map(move |name| format!("{name}-{release}")));
    named.iter().chain(plain).map(|&name| name.to_owned()).chain(of_release).collect()
}

/// Gives each line of the groups that are ours, and in their places the lines of the files that it includes.
fn each_line(
    file: &Path,
    depth: u8,
    is_ours: &dyn Fn(&str) -> bool,
    take: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<(), Problem> {
    let unread = |why: String| Problem(format!("{}: cannot be read: {why}", file.display()));
    if is_everybodys(file) {
        return Err(unread("everybody may write it; the client would not read it either (chmod o-w)".into()));
    }
    if depth > DEPTH_MAX {
        return Err(unread(format!("it is included more than {DEPTH_MAX} files deep")));
    }
    let bytes = infile::read(file).map_err(|e| unread(e.to_string()))?;
    // Whether the lines are in one of our groups; nothing before the first group.
    let mut counts = None;
    for (line, number) in String::from_utf8_lossy(&bytes).lines().zip(1_usize..) {
        let line = trimmed(line);
        let wrong = |what: &str| Problem(format!("{}:{number}: {what}", file.display()));
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(order) = line.strip_prefix('!') {
            for included in included(trimmed(order)).map_err(|what| wrong(&what))? {
                each_line(&included, depth + 1, is_ours, take).map_err(|e| wrong(&e.0))?;
            }
        } else if let Some(group) = line.strip_prefix('[') {
            let (name, _) = group.split_once(']').ok_or_else(|| wrong("a group's name ends with ]"))?;
            // White space counts before a name, and not behind it.
            counts = Some(is_ours(name.trim_end_matches(is_space)));
        } else if counts.ok_or_else(|| wrong("this line stands before the first [group]"))? {
            take(line).map_err(|what| wrong(&what))?;
        }
    }
    Ok(())
}

/// The files that a line with ! names.
fn included(order: &str) -> Result<Vec<PathBuf>, String> {
    let named = |name: &str| order.strip_prefix(name).filter(|rest| rest.starts_with(is_space)).map(trimmed);
    let files = if let Some(file) = named("include") {
        vec![PathBuf::from(file)]
    } else if let Some(directory) = named("includedir") {
        let listed = std::fs::read_dir(directory);
        let listed = listed.map_err(|e| format!("the directory {directory} cannot be read: {e}"))?;
        let mut files: Vec<PathBuf> = listed
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|file| file.as_os_str().as_encoded_bytes().ends_with(b".cnf"))
            .collect();
        files.sort();
        files
    } else {
        // The client passes over what it does not know.
        vec![]
    };
    Ok(files.into_iter().filter(|file| is_usable(file)).collect())
}

/// Files that nobody named are read if they can be, as the client does it.
fn is_usable(file: &Path) -> bool {
    file.is_file() && std::fs::File::open(file).is_ok() && !is_everybodys(file)
}

fn is_everybodys(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o002 != 0)
}

/// What the programs take for white space.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// A `#` outside of quotes begins a comment, wherever it stands.
fn before_comment(line: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (None, '#') => return &line[..at],
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    line
}

/// Without the quotes around it, and with what a backslash stands for.
fn plain(value: &str) -> String {
    let quoted = |mark: char| value.strip_prefix(mark)?.strip_suffix(mark);
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('s') => out.push(' '),
            Some(c @ ('"' | '\'' | '\\')) => out.push(c),
            Some(c) => out.extend(['\\', c]),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests;
