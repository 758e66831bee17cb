//! Reads an MHA configuration, a global file and one of an application, like Config::Tiny and MHA.
//!
//! ```text
//!   /etc/masterha_default.cnf  [server default]  ─┐
//!   app1.cnf                   [server default]  ─┴─> applies to every server; the application's values take precedence
//!                              [server1] ...          hostname, port, and this server's other values
//!                              [binlog1] ...          binlog servers: recognised, and not used
//! ```
//!
//! Invariants: every key that is stored is known to MHA; a value is printed only by code that knows it is not a password.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};

use super::keys::becomes;

/// The path of MHA's global file.
pub const GLOBAL: &str = "/etc/masterha_default.cnf";
const DEFAULTS: &str = "server default";

/// A value, with its file and line.
#[derive(Clone)]
struct Given {
    value: String,
    place: String,
}

type Block = BTreeMap<String, Given>;

/// The parsed configuration.
pub struct Conf {
    /// The application's file.
    pub file: PathBuf,
    /// In the order of their numbers.
    pub servers: Vec<Server>,
    defaults: Block,
    /// Names of the blocks of binlog servers.
    pub binlog_servers: Vec<String>,
    /// Keys that MHA does not know: one sentence with the line for each. They are left out; MHA itself stops at the first.
    pub unknown: Vec<String>,
    /// Blocks that occur twice: one sentence with the line for each.
    pub doubled: Vec<String>,
}

/// One `[serverN]`.
pub struct Server {
    /// `server1`.
    pub block: String,
    own: Block,
    defaults: Block,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("block", &self.block)
            .field("host", &self.host())
            .finish_non_exhaustive()
    }
}

impl Conf {
    /// Reads the global file and the application's, whose values take precedence. `global`: `None` means MHA's own path, where the file
    /// need not exist.
    ///
    /// # Errors
    /// A sentence with file and line.
    pub fn read(file: &Path, global: Option<&Path>) -> Result<Self, String> {
        let text = |path: &Path| {
            infile::read_text(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))
        };
        let before = match global {
            Some(path) => Some((path, text(path)?)),
            None if Path::new(GLOBAL).exists() => Some((Path::new(GLOBAL), text(Path::new(GLOBAL))?)),
            None => None,
        };
        Self::parse(file, &text(file)?, before.as_ref().map(|(path, text)| (*path, text.as_str())))
    }

    fn parse(file: &Path, text: &str, global: Option<(&Path, &str)>) -> Result<Self, String> {
        let mut defaults = Block::new();
        let (mut unknown, mut doubled) = (Vec::new(), Vec::new());
        if let Some((path, text)) = global {
            for (name, line, block) in blocks(path, text, &mut unknown)? {
                if name != DEFAULTS {
                    let at = format!("{}:{line}", path.display());
                    return Err(format!("{at}: a global file has [{DEFAULTS}] only, and this is [{name}]"));
                }
                defaults.extend(block);
            }
        }
        let all = blocks(file, text, &mut unknown)?;
        for (_, _, block) in all.iter().filter(|(name, ..)| name == DEFAULTS) {
            defaults.extend(block.clone());
        }
        let mut numbered: BTreeMap<(u32, String), (usize, Block)> = BTreeMap::new();
        let mut binlog_servers = Vec::new();
        for (name, line, block) in all.into_iter().filter(|(name, ..)| name != DEFAULTS) {
            if number_of(&name, "binlog").is_some() {
                binlog_servers.push(name);
                continue;
            }
            let at = format!("{}:{line}", file.display());
            let Some(number) = number_of(&name, "server") else {
                return Err(format!(
                    "{at}: [{name}] is no block of MHA's: they are [{DEFAULTS}], [serverN] and [binlogN]"
                ));
            };
            match numbered.entry((number, name)) {
                Entry::Vacant(vacant) => drop(vacant.insert((line, block))),
                Entry::Occupied(mut first) => {
                    doubled.push(twice(&at, first.key().1.as_str(), first.get(), &block));
                    first.get_mut().1.extend(block);
                }
            }
        }
        let mut servers = Vec::new();
        for ((_, name), (line, block)) in numbered {
            let server = Server { block: name, own: block, defaults: defaults.clone() };
            if server.get("hostname").is_none() {
                return Err(format!("{}:{line}: [{}] has no hostname", file.display(), server.block));
            }
            server.port()?;
            servers.push(server);
        }
        if servers.is_empty() {
            return Err(format!("{}: there is no server: write [server1] with its hostname", file.display()));
        }
        Ok(Self { file: file.to_owned(), servers, defaults, binlog_servers, unknown, doubled })
    }

    /// MHA's name of the application: the file's name without `.cnf`.
    pub fn app(&self) -> String {
        self.file.file_stem().map_or_else(|| "app".into(), |stem| stem.to_string_lossy().into_owned())
    }

    /// A value of `[server default]`; an empty one counts as missing.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.defaults.get(key).map(|entry| entry.value.as_str()).filter(|value| !value.is_empty())
    }

    /// The server with this name or address; `port` when several are on one host.
    pub fn find(&self, host: &str, port: Option<u16>) -> Option<&Server> {
        self.servers.iter().find(|server| {
            let named = server.host() == host || server.get("ip") == Some(host);
            named && port.is_none_or(|port| server.port() == Ok(port))
        })
    }

    /// Every key that is set anywhere, with the first place where it is set.
    pub fn keys(&self) -> BTreeMap<&str, &str> {
        let mut keys = BTreeMap::new();
        let blocks = std::iter::once(&self.defaults).chain(self.servers.iter().map(|server| &server.own));
        for (key, entry) in blocks.flatten() {
            keys.entry(key.as_str()).or_insert(entry.place.as_str());
        }
        keys
    }
}

impl Server {
    /// Its own value, or the one of `[server default]`; an empty one counts as missing.
    pub fn get(&self, key: &str) -> Option<&str> {
        let entry = self.own.get(key).or_else(|| self.defaults.get(key))?;
        Some(entry.value.as_str()).filter(|value| !value.is_empty())
    }

    /// Its host name in the file.
    pub fn host(&self) -> &str {
        self.get("hostname").unwrap_or_default()
    }

    /// Its port; 3306 by default.
    ///
    /// # Errors
    /// The value is not a port.
    pub fn port(&self) -> Result<u16, String> {
        let Some(text) = self.get("port") else { return Ok(3306) };
        text.parse().map_err(|_| format!("[{}]: port is {text:?}, which is no port", self.block))
    }

    /// A switch: any value but 0 is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value != "0")
    }

    /// Its address, determined like MHA: `ip`, else what the host name resolves to, else the name itself.
    pub fn ip(&self) -> String {
        if let Some(ip) = self.get("ip") {
            return ip.to_owned();
        }
        let found = (self.host(), 0).to_socket_addrs().ok().and_then(|mut all| all.next());
        found.map_or_else(|| self.host().to_owned(), |address| address.ip().to_string())
    }

    /// `host:port` for Understudy, with `ip` instead of the name where the file has one.
    pub fn address(&self) -> String {
        let host = self.get("ip").unwrap_or(self.host());
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("{host}:{}", self.port().unwrap_or(3306))
    }

    /// In the form of MHA's log.
    pub fn shown(&self) -> String {
        format!("{}({}:{})", self.host(), self.ip(), self.port().unwrap_or(3306))
    }

    /// MHA's account for administration.
    pub fn user(&self) -> &str {
        self.get("user").unwrap_or("root")
    }

    /// Its password.
    pub fn password(&self) -> &str {
        self.get("password").unwrap_or_default()
    }
}

/// The number in `server12` or `server_db12`, by which the blocks are sorted; blocks without a number come last. `None` for other names.
fn number_of(name: &str, kind: &str) -> Option<u32> {
    let rest =
        name.strip_prefix(kind).filter(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))?;
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    Some(digits[..end].parse().unwrap_or(u32::MAX))
}

/// The sentence about a block that occurs twice. MHA silently takes both for one server, with the later value of each key.
fn twice(at: &str, name: &str, (line, first): &(usize, Block), second: &Block) -> String {
    let host = |block: &Block| block.get("hostname").map(|given| given.value.clone());
    let lost = match (host(first), host(second)) {
        (Some(before), Some(now)) if before != now => {
            format!(", so that {before} is no server here: give one of them another number")
        }
        _ => String::new(),
    };
    format!(
        "{at}: [{name}] stands in line {line} already. Both are one server, with the later value of each key{lost}"
    )
}

/// The blocks of a file, each with its line. Keys that MHA does not know are left out and added to `unknown`.
fn blocks(path: &Path, text: &str, unknown: &mut Vec<String>) -> Result<Vec<(String, usize, Block)>, String> {
    let mut all: Vec<(String, usize, Block)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let (at, line) = (format!("{}:{}", path.display(), number + 1), line.trim());
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            all.push((name.trim().to_owned(), number + 1, Block::new()));
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(format!("{at}: this is neither [a block] nor key=value"));
        };
        let key = key.trim();
        if becomes(key).is_none() {
            unknown.push(format!("{at}: MHA has no key {key}{}", near(key)));
            continue;
        }
        let Some((_, _, block)) = all.last_mut() else {
            return Err(format!("{at}: {key} stands before the first [block]"));
        };
        block.insert(key.to_owned(), Given { value: value.trim().to_owned(), place: at });
    }
    Ok(all)
}

fn near(key: &str) -> String {
    let distance = |known: &&str| strsim::damerau_levenshtein(key, known);
    let nearest = super::keys::KEYS.iter().map(|(known, _)| *known).min_by_key(distance);
    let nearest = nearest.filter(|known| distance(known) * 3 <= key.len().max(3));
    nearest.map(|known| format!("; did you mean {known}?")).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const APP: &str = "# our shop\n[server default]\nuser=mha\npassword=s3cret\nrepl_user=repl\nrepl_password=r3pl\n\
        manager_workdir=/var/log/masterha/app1\nping_interval=1\nssh_user=root\nmaster_ip_failover_script=/usr/local/bin/failover\n\n\
        [server2]\nhostname=db2\nip=10.11.0.107\ncandidate_master=1\n[server10]\nhostname=db3\nno_master=1\nport=3307\n\
        [server1]\nhostname=10.11.0.106\n[binlog1]\nhostname=binlogs\n";

    pub fn read(text: &str) -> Result<Conf, String> {
        Conf::parse(
            Path::new("/etc/app1.cnf"),
            text,
            Some((Path::new("/etc/g.cnf"), "[server default]\nuser=g\nport=3306\n")),
        )
    }

    #[test]
    fn an_application_is_read_as_mha_reads_it() {
        let conf = read(APP).unwrap();
        assert_eq!(conf.app(), "app1");
        let hosts: Vec<_> = conf.servers.iter().map(|server| (server.host(), server.address())).collect();
        let expect = [("10.11.0.106", "10.11.0.106:3306"), ("db2", "10.11.0.107:3306"), ("db3", "db3:3307")];
        assert_eq!(hosts, expect.map(|(host, address)| (host, address.to_owned())));
        assert_eq!((conf.servers[0].user(), conf.servers[0].password()), ("mha", "s3cret"));
        assert_eq!(conf.servers[1].shown(), "db2(10.11.0.107:3306)");
        assert!(conf.servers[1].is_on("candidate_master") && !conf.servers[0].is_on("candidate_master"));
        assert_eq!(conf.find("10.11.0.107", None).unwrap().block, "server2");
        assert!(conf.find("db3", Some(3306)).is_none());
        assert!(!format!("{:?}", conf.servers).contains("s3cret"));
    }

    #[test]
    fn what_mha_does_not_know_is_an_error_with_its_line() {
        let wrong = |text: &str| read(text).err().unwrap();
        assert_eq!(wrong("user=x\n"), "/etc/app1.cnf:1: user stands before the first [block]");
        assert!(wrong("[server1]\nhostname=a\n[srv]\n").contains("app1.cnf:3: [srv] is no block of MHA's"));
        assert!(wrong("[server1]\nport=1\n").contains("app1.cnf:1: [server1] has no hostname"));
        assert!(wrong("[server1]\nhostname=a\nport=x\n").contains("no port"));
        assert!(wrong("[server default]\n").contains("there is no server"));
        assert!(wrong("[server1]\nhostname\n").contains("app1.cnf:2: this is neither"));
    }

    #[test]
    fn every_unknown_key_is_told_with_its_line_and_left_out() {
        let conf =
            read("[server default]\npasword=x\nuser=u\n[server1]\nhostname=a\nwhatsoever=1\n").unwrap();
        assert_eq!(
            conf.unknown,
            [
                "/etc/app1.cnf:2: MHA has no key pasword; did you mean password?",
                "/etc/app1.cnf:6: MHA has no key whatsoever"
            ]
        );
        assert_eq!((conf.servers[0].user(), conf.servers[0].password()), ("u", ""));
    }

    #[test]
    fn a_block_that_stands_there_twice_is_one_server_as_with_mha_and_that_is_told() {
        let conf = read("[server1]\nhostname=a\nno_master=1\n[server2]\nhostname=c\n[server1]\nhostname=b\n")
            .unwrap();
        let hosts: Vec<_> = conf.servers.iter().map(Server::host).collect();
        assert_eq!((hosts, conf.servers[0].is_on("no_master")), (vec!["b", "c"], true));
        assert_eq!(
            conf.doubled,
            [
                "/etc/app1.cnf:6: [server1] stands in line 1 already. Both are one server, with the later value of each key, so that a \
                 is no server here: give one of them another number"
            ]
        );
    }

    #[test]
    fn blocks_are_named_as_with_mha() {
        let conf =
            read("[server_b10]\nhostname=a\n[server_b9]\nhostname=b\n[serverx]\nhostname=c\n").unwrap();
        assert_eq!(conf.servers.iter().map(Server::host).collect::<Vec<_>>(), ["b", "a", "c"]);
    }
}
