//! The option files of MySQL and MariaDB, as far as a client needs them to find its server and to log in.
//!
//! Enters: files as a DBA has them (`/etc/my.cnf`, `~/.my.cnf`, ...). Leaves: user, password, host, port and socket, the last line
//! that names one winning, as with the client itself. Rules: MariaDB's manual, "Configuring MariaDB with Option Files"; how quotes,
//! escapes and comments are read, and that files which everybody may write are passed over, is what the client was seen to do.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The groups that a client reads.
const GROUPS: [&str; 5] = ["client", "client-server", "client-mariadb", "mysql", "mariadb-client"];
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
        }
    }

    fn read(&mut self, file: &Path) -> Result<(), Problem> {
        each_line(file, 0, &|group| GROUPS.contains(&group), &mut |line| self.set(line))
    }

    /// One line `key = value`. What is not for us is passed over; the client would not, but it knows all of its options.
    fn set(&mut self, line: &str) -> Result<(), String> {
        // `password` alone means "ask me".
        let Some((key, value)) = before_comment(line).split_once('=') else { return Ok(()) };
        let (key, value) = (key.trim().replace('_', "-"), plain(value.trim()));
        match key.strip_prefix("loose-").unwrap_or(&key) {
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            "host" => self.host = Some(value).filter(|host| !host.is_empty()),
            "socket" => self.socket = Some(value).filter(|path| !path.is_empty()).map(PathBuf::from),
            "protocol" => self.is_tcp = value.eq_ignore_ascii_case("tcp"),
            "port" => {
                let port = value
                    .parse()
                    .map_err(|_| format!("port must be a number up to 65535, it is: {value}"))?;
                // The client takes 0 for "as usual".
                self.port = Some(port).filter(|&port| port != 0);
            }
            _ => {}
        }
        Ok(())
    }
}

/// What a server of these files is started with: names with underscores and without `loose_`, the last line winning. `skip_x` is `x` with
/// OFF, but for the options that are called so; a name alone is ON.
///
/// # Errors
/// When the file cannot be read or understood.
pub fn server_options(file: &Path) -> Result<BTreeMap<String, String>, Problem> {
    let mut options = BTreeMap::new();
    each_line(file, 0, &is_servers, &mut |line| {
        let line = before_comment(line);
        let (key, value) = line.split_once('=').unwrap_or((line, "ON"));
        let key = key.trim().replace('-', "_").to_ascii_lowercase();
        let key = key.strip_prefix("loose_").unwrap_or(&key);
        let (key, value) = match key.strip_prefix("skip_") {
            Some(rest) if !rest.starts_with("slave_start") && !line.contains('=') => (rest, "OFF".to_owned()),
            _ => (key, plain(value.trim())),
        };
        options.insert(key.to_owned(), value);
        Ok(())
    })?;
    Ok(options)
}

/// The groups that a MariaDB server reads.
fn is_servers(group: &str) -> bool {
    let name = group.split_once('-').filter(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()));
    let name = name.map_or(group, |(name, _)| name);
    ["mysqld", "server", "mariadb", "mariadbd", "client-server", "galera"].contains(&name)
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
    let bytes = std::fs::read(file).map_err(|e| unread(e.to_string()))?;
    // Whether the lines are in one of our groups; nothing before the first group.
    let mut counts = None;
    for (line, number) in String::from_utf8_lossy(&bytes).lines().zip(1_usize..) {
        let line = line.trim();
        let wrong = |what: &str| Problem(format!("{}:{number}: {what}", file.display()));
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(order) = line.strip_prefix('!') {
            for included in included(order).map_err(|what| wrong(&what))? {
                each_line(&included, depth + 1, is_ours, take).map_err(|e| wrong(&e.0))?;
            }
        } else if let Some(group) = line.strip_prefix('[') {
            let (name, _) = group.split_once(']').ok_or_else(|| wrong("a group's name ends with ]"))?;
            counts = Some(is_ours(name.trim()));
        } else if counts.ok_or_else(|| wrong("this line stands before the first [group]"))? {
            take(line).map_err(|what| wrong(&what))?;
        }
    }
    Ok(())
}

/// The files that a line with ! names.
fn included(order: &str) -> Result<Vec<PathBuf>, String> {
    let named =
        |name: &str| order.strip_prefix(name).filter(|rest| rest.starts_with([' ', '\t'])).map(str::trim);
    let files = if let Some(file) = named("include") {
        vec![PathBuf::from(file)]
    } else if let Some(directory) = named("includedir") {
        let listed = std::fs::read_dir(directory);
        let listed = listed.map_err(|e| format!("the directory {directory} cannot be read: {e}"))?;
        let mut files: Vec<PathBuf> = listed
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|file| file.extension().is_some_and(|end| end == "cnf"))
            .collect();
        files.sort();
        files
    } else {
        return Err("of the lines with ! only !include FILE and !includedir DIRECTORY are known".into());
    };
    Ok(files.into_iter().filter(|file| is_usable(file)).collect())
}

/// Files that nobody named are read if they can be, as the client does it.
fn is_usable(file: &Path) -> bool {
    std::fs::File::open(file).is_ok() && !is_everybodys(file)
}

fn is_everybodys(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o002 != 0)
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
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("my.cnf");
        std::fs::write(&file, text).unwrap();
        (dir, file)
    }

    fn read(text: &str) -> Result<Options, String> {
        let (_dir, file) = written(text);
        Options::of_file(&file).map_err(|e| e.to_string())
    }

    #[test]
    fn the_groups_of_a_client_and_no_others() {
        let options = read(
            "# c\n; c\n[mysqld]\nport=1\nuser=mysql\n[client]\nuser = a\nport=3307\n[mysqldump]\npassword=no\n\
             [ client-server ]\nsocket=/s\n[mysql]\nuser=b\nno-beep\npassword\n[mariadb-client]\nhost=h # here\n",
        )
        .unwrap();
        let socket = Some(PathBuf::from("/s"));
        let (user, host) = (Some("b".into()), Some("h".into()));
        assert_eq!(options, Options { user, password: None, host, port: Some(3307), socket, is_tcp: false });
    }

    #[test]
    fn a_servers_options_are_those_of_its_groups() {
        let (_dir, file) = written(
            "[client]\nread-only=1\n[mysqld]\nread-only = ON # here\nskip-slave-start\nskip-name-resolve\nloose_Server-Id=7\n[mariadb-10.11]\n\
             log_bin=binlog\n[mysqldump]\nlog_bin=no\n[mariadb-dump]\nlog_bin=no\n",
        );
        let options = server_options(&file).unwrap();
        let of = |name: &str| options.get(name).map(String::as_str);
        assert_eq!(
            (of("read_only"), of("skip_slave_start"), of("name_resolve")),
            (Some("ON"), Some("ON"), Some("OFF"))
        );
        assert_eq!((of("server_id"), of("log_bin")), (Some("7"), Some("binlog")));
    }

    #[test]
    fn quotes_escapes_and_comments() {
        for (line, password) in [
            ("password=a b ", "a b"),
            ("password = 'a#b' # c", "a#b"),
            ("password=\"a\\\"b\"", "a\"b"),
            ("password=a#b", "a"),
            ("password=", ""),
            ("loose_password=x\\sy\\\\z\\q", "x y\\z\\q"),
            ("password='", "'"),
        ] {
            let options = read(&format!("[client]\n{line}\n")).unwrap();
            assert_eq!(options.password.as_deref(), Some(password), "{line}");
        }
    }

    #[test]
    fn files_include_files() {
        let (dir, _) = written("");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("d")).unwrap();
        std::fs::write(at("d/20.cnf"), "[client]\nuser=second\n").unwrap();
        std::fs::write(at("d/10.cnf"), "[client]\nuser=first\nport=7\n").unwrap();
        std::fs::write(at("d/30.bak"), "[client]\nuser=never\n").unwrap();
        std::fs::write(at("one.cnf"), "[client]\nhost=h\n").unwrap();
        let (d, one) = (at("d"), at("one.cnf"));
        let text =
            format!("!includedir {}\n!include {}\n!include /no/such/file\n", d.display(), one.display());
        std::fs::write(at("my.cnf"), text).unwrap();
        let options = Options::of_file(&at("my.cnf")).unwrap();
        assert_eq!(
            (options.user.as_deref(), options.port, options.host.as_deref()),
            (Some("second"), Some(7), Some("h"))
        );

        std::fs::write(at("loop.cnf"), format!("!include {}\n", at("loop.cnf").display())).unwrap();
        let said = Options::of_file(&at("loop.cnf")).unwrap_err().to_string();
        assert!(said.contains("more than 10 files deep"), "{said}");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_never_the_password() {
        for (text, what) in [
            ("user=x\n", ":1: this line stands before the first [group]"),
            ("\n[client\n", ":2: a group's name ends with ]"),
            ("[client]\npassword=hush\nport=many\n", ":3: port must be a number up to 65535, it is: many"),
            ("!run x\n", ":1: of the lines with !"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(what) && !said.contains("hush"), "{said}");
        }
        let said = Options::of_file(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(said.starts_with("/no/such/file: cannot be read: No such file"), "{said}");
        let (_dir, file) = written("[client]\n");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o646)).unwrap();
        assert!(Options::of_file(&file).unwrap_err().to_string().contains("everybody may write it"));
        let secret = Options { password: Some("hush".into()), ..Options::default() };
        assert!(!format!("{secret:?}").contains("hush"));
    }

    #[test]
    fn what_is_said_puts_the_files_place_aside() {
        let file = || Options {
            host: Some("f".into()),
            socket: Some("/f".into()),
            port: Some(1),
            ..Options::default()
        };
        let of = |said: Options| {
            let all = said.or(file());
            (all.host, all.socket.map(|path| path.display().to_string()), all.port)
        };
        let none = Options::default;
        assert_eq!(of(none()), (Some("f".into()), Some("/f".into()), Some(1)));
        assert_eq!(of(Options { host: Some("h".into()), ..none() }), (Some("h".into()), None, Some(1)));
        assert_eq!(of(Options { socket: Some("/h".into()), ..none() }), (None, Some("/h".into()), Some(1)));
        assert_eq!(of(Options { port: Some(2), ..none() }), (Some("f".into()), None, Some(2)));
        let alone = Options { port: Some(2), ..none() }.or(none());
        assert_eq!(alone.host.as_deref(), Some("127.0.0.1"));
    }
}
