//! Reads an MHA configuration, a global file and one of an application, with the values that MHA::Config 0.58 gives each server.
//!
//! ```text
//!   /etc/masterha_default.cnf  [server default]   its other blocks are ignored
//!   app1.cnf                   [server default]   a value here is taken instead of the one above
//!   init_conf_load_script      key=value          its output, instead of both
//!   app1.cnf                   [server1] ...      hostname, and this server's other values, instead of all
//!                              [binlog1] ...      binlog servers: recognised, and not used
//! ```
//!
//! At each of these steps MHA removes one pair of quotes from every value. Invariants: every key that is stored is known to MHA; a value is
//! printed only by code that knows it is not a password.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use super::{shell, tiny};
use crate::draft::Item;
use crate::masterha::keys;

/// The path of MHA's global file.
pub const GLOBAL: &str = "/etc/masterha_default.cnf";
const DEFAULTS: &str = "server default";
/// How much init_conf_load_script may print, in bytes.
const PRINTED_BYTES_MAX: u64 = 1 << 20;
/// The time limit of init_conf_load_script.
const LOADS_WITHIN: Duration = Duration::from_secs(30);

/// Keys that MHA reads in a server's own block only.
const OWN: &[&str] = &[
    "hostname",
    "ip",
    "ssh_host",
    "ssh_options",
    "node_label",
    "candidate_master",
    "no_master",
    "ignore_fail",
    "skip_init_ssh_check",
];
/// What MHA takes for a key that is set nowhere.
const UNSET: &[(&str, &str)] = &[
    ("password", ""),
    ("candidate_master", "0"),
    ("no_master", "0"),
    ("ignore_fail", "0"),
    ("skip_init_ssh_check", "0"),
    ("disable_log_bin", "0"),
    ("handle_raw_binlog", "1"),
    ("check_repl_delay", "1"),
    ("check_repl_filter", "1"),
    ("latest_priority", "1"),
    ("multi_tier_slave", "0"),
    ("skip_reset_slave", "0"),
    ("use_gtid_auto_pos", "1"),
    ("ping_type", "SELECT"),
    ("ping_interval", "3"),
];
/// What it takes for one that is set nowhere, or is empty or 0 in `[server default]`.
const UNSET_OR_EMPTY: &[(&str, &str)] = &[
    ("port", "3306"),
    ("user", "root"),
    ("log_level", "info"),
    ("ssh_port", "22"),
    ("ssh_connection_timeout", "5"),
    ("master_binlog_dir", "/var/lib/mysql,/var/log/mysql"),
    ("manager_workdir", "/var/tmp"),
    ("remote_workdir", "/var/tmp"),
];

/// A value as it is written, with its file and line.
#[derive(Clone)]
struct Given {
    value: String,
    place: String,
}

type Block = BTreeMap<String, Given>;
type Values = BTreeMap<&'static str, String>;

/// The parsed configuration.
pub struct Conf {
    /// The application's file.
    pub file: PathBuf,
    /// In the order of their numbers; at least one.
    pub servers: Vec<Server>,
    /// Names of the blocks of binlog servers.
    pub binlog_servers: Vec<String>,
    /// Keys that MHA does not know: one sentence with the line for each. They are left out; MHA itself stops at the first.
    pub unknown: Vec<String>,
    /// What MHA reads otherwise than a reader may think: one sentence for each.
    pub odd: Vec<String>,
    /// Every key that is set anywhere, also one that MHA does not know, with its place.
    pub given: Vec<Item>,
}

/// One `[serverN]`.
pub struct Server {
    /// `server1`.
    pub block: String,
    values: Values,
    ip: OnceCell<String>,
    ssh_options: Option<String>,
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
    /// Reads the global file and the application's, and runs init_conf_load_script. `global`: `None` means MHA's own path. Like MHA, goes on
    /// without a global file that does not exist.
    ///
    /// # Errors
    /// A sentence with file and line.
    pub fn read(file: &Path, global: Option<&Path>) -> Result<Self, String> {
        Self::of(file, &bytes_of(file)?, global)
    }

    /// The same, of an application's file that was read already.
    ///
    /// # Errors
    /// A sentence with file and line.
    pub fn of(file: &Path, text: &[u8], global: Option<&Path>) -> Result<Self, String> {
        let path = global.unwrap_or(Path::new(GLOBAL));
        let before = if path.is_file() { Some((path, bytes_of(path)?)) } else { None };
        let bytes = before.as_ref().map(|(path, bytes)| (*path, bytes.as_slice()));
        let mut conf = Self::parse(file, text, bytes)?;
        if let (Some(path), None) = (global, before) {
            conf.odd.push(format!("{} is no file: MHA goes on without a global file, too", path.display()));
        }
        Ok(conf)
    }

    fn parse(file: &Path, text: &[u8], global: Option<(&Path, &[u8])>) -> Result<Self, String> {
        let (mut unknown, mut odd, mut all_given) = (Vec::new(), Vec::new(), Vec::new());
        let mut defaults = Values::new();
        if let Some((path, text)) = global {
            let block =
                default_block(&blocks(path, text, |name| name == DEFAULTS, &mut unknown, &mut all_given)?);
            defaults = values(DEFAULTS, &block, &defaults)?;
        }
        // The last one that the file gives counts for all servers: MHA keeps it for the whole process.
        let mut ssh_options = defaults.get("ssh_options").cloned();
        let all = blocks(file, text, |_| true, &mut unknown, &mut all_given)?;
        let block = default_block(&all);
        for key in ["candidate_master", "no_master", "ignore_fail"] {
            if let Some(given) = block.get(key) {
                let at = &given.place;
                odd.push(format!(
                    "{at}: {key} in [{DEFAULTS}] does nothing: MHA reads it in a [serverN] only"
                ));
            }
        }
        defaults = values(DEFAULTS, &block, &defaults)?;
        ssh_options = defaults.get("ssh_options").cloned().or(ssh_options);
        if let Some(script) = defaults.get("init_conf_load_script").filter(|script| is_true(script)) {
            let block = loaded(script, &mut unknown, &mut all_given)?;
            defaults = values(script, &block, &defaults)?;
            ssh_options = defaults.get("ssh_options").cloned().or(ssh_options);
        }
        let mut servers: BTreeMap<String, (usize, Block)> = BTreeMap::new();
        let mut binlog_servers = Vec::new();
        for (name, line, block) in all.into_iter().filter(|(name, ..)| name != DEFAULTS) {
            let at = format!("{}:{line}", file.display());
            if begins(&name, "binlog") {
                if block.contains_key("hostname") {
                    check_host(&block, &at, &name)?;
                }
                values(&name, &block, &defaults)?;
                binlog_servers.push(name);
                continue;
            }
            if !begins(&name, "server") {
                return Err(format!(
                    "{at}: [{name}] is no block of MHA's: they are [{DEFAULTS}], [serverN] and [binlogN]"
                ));
            }
            match servers.entry(name) {
                Entry::Vacant(vacant) => drop(vacant.insert((line, block))),
                Entry::Occupied(mut first) => {
                    odd.push(twice(&at, first.key(), first.get(), &block));
                    first.get_mut().1.extend(block);
                }
            }
        }
        let mut ordered: Vec<(String, (usize, Block))> = servers.into_iter().collect();
        // By number where all have one, else by name.
        if ordered.iter().all(|(name, _)| number(name).is_some()) {
            ordered.sort_by(|(one, _), (other, _)| {
                number(one).partial_cmp(&number(other)).unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        let mut servers: Vec<Server> = Vec::new();
        for (name, (line, block)) in ordered {
            let at = format!("{}:{line}", file.display());
            check_host(&block, &at, &name)?;
            let server = Server {
                values: values(&name, &block, &defaults)?,
                block: name,
                ip: OnceCell::new(),
                ssh_options: None,
            };
            server.port().map_err(|why| format!("{at}: {why}"))?;
            let is_same = |other: &&Server| other.port() == server.port() && other.ip() == server.ip();
            if let Some(other) = servers.iter().find(is_same) {
                return Err(format!(
                    "{at}: [{}] and [{}] are both {}",
                    other.block,
                    server.block,
                    server.shown()
                ));
            }
            servers.push(server);
        }
        let mut by_name: Vec<&Server> = servers.iter().collect();
        by_name.sort_by(|one, other| one.block.cmp(&other.block));
        let last = by_name.iter().rev().find_map(|server| server.get("ssh_options"));
        let ssh_options = last.map(str::to_owned).or(ssh_options).filter(|options| is_true(options));
        for server in &mut servers {
            server.ssh_options.clone_from(&ssh_options);
        }
        if servers.is_empty() {
            return Err(format!("{}: there is no server: write [server1] with its hostname", file.display()));
        }
        Ok(Self { file: file.to_owned(), servers, binlog_servers, unknown, odd, given: all_given })
    }

    /// MHA's name of the application: the file's name without `.cnf`.
    pub fn app(&self) -> String {
        self.file.file_stem().map_or_else(|| "app".into(), |stem| stem.to_string_lossy().into_owned())
    }

    /// A value that is the application's and no server's: MHA takes it from the first server.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.servers[0].get(key)
    }

    /// The server with this name or address; `port` when several are on one host.
    pub fn find(&self, host: &str, port: Option<u16>) -> Option<&Server> {
        self.servers.iter().find(|server| {
            let named = server.host() == host || server.get("ip") == Some(host);
            named && port.is_none_or(|port| server.port() == Ok(port))
        })
    }
}

impl Server {
    /// MHA's value of this key, if it has one.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The same; an empty one, and 0, count as missing, as where MHA looks whether something is set.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.value(key).filter(|value| is_true(value))
    }

    /// The options of `ssh` that the file adds for all servers.
    pub fn ssh_options(&self) -> Option<&str> {
        self.ssh_options.as_deref()
    }

    /// Its host name in the file.
    pub fn host(&self) -> &str {
        self.value("hostname").unwrap_or_default()
    }

    /// Its port.
    ///
    /// # Errors
    /// The value is not a port.
    pub fn port(&self) -> Result<u16, String> {
        let text = self.value("port").unwrap_or_default();
        text.parse()
            .map_err(|_| format!("[{}]: port is {text:?}, which is no port{}", self.block, behind(text)))
    }

    /// A switch: any value but 0 is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Its address, determined like MHA: `ip`, else what the host name resolves to; the name itself where that fails, in which case MHA ends.
    pub fn ip(&self) -> &str {
        self.ip.get_or_init(|| self.get("ip").map_or_else(|| resolved(self.host()), str::to_owned))
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
        self.value("user").filter(|user| !user.is_empty()).unwrap_or("root")
    }

    /// The account for `ssh`, which scripts are told.
    pub fn ssh_user(&self) -> &str {
        self.value("ssh_user").unwrap_or_default()
    }

    /// Its password.
    pub fn password(&self) -> &str {
        self.value("password").unwrap_or_default()
    }
}

/// Refuses a host that MHA cannot find; it looks for the name as it is written, with quotes.
fn check_host(block: &Block, at: &str, name: &str) -> Result<(), String> {
    let written = |key: &str| block.get(key).map(|given| given.value.as_str()).filter(|value| is_true(value));
    let Some(host) = written("hostname").filter(|host| !unquoted(host).is_empty()) else {
        return Err(format!("{at}: [{name}] has no hostname"));
    };
    let is_odd = |c: char| c.is_whitespace() || "\"'#;,/".contains(c);
    if written("ip").is_none() && host.contains(is_odd) {
        return Err(format!("{at}: the hostname of [{name}] is {host:?}, which is no host{}", behind(host)));
    }
    Ok(())
}

/// A hint about a comment that has become part of a value.
fn behind(value: &str) -> &'static str {
    if value.contains(['#', ';']) {
        ": a comment behind a value begins with a blank, a ; and a blank"
    } else {
        ""
    }
}

/// What a name resolves to, else the name.
pub fn resolved(host: &str) -> String {
    let found = (host, 0).to_socket_addrs().ok().and_then(|mut all| all.next());
    found.map_or_else(|| host.to_owned(), |address| address.ip().to_string())
}

/// The name of the account that runs this; nothing where the system does not know it.
fn login() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    let asked = || Command::new("id").arg("-un").stdin(Stdio::null()).output().map(|said| said.stdout);
    let name = NAME.get_or_init(|| String::from_utf8(asked().unwrap_or_default()).unwrap_or_default());
    name.trim().to_owned()
}

fn is_known(key: &str) -> bool {
    keys().any(|known| known == key)
}

/// Whether Perl takes this text for true.
fn is_true(text: &str) -> bool {
    !text.is_empty() && text != "0"
}

/// Whether a block's name is `server` or `binlog` with something directly behind it.
fn begins(name: &str, kind: &str) -> bool {
    name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| !c.is_whitespace()))
}

/// The number in `server12` or `server_db12`.
fn number(name: &str) -> Option<f64> {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// The content of a file, or of what stands for one.
fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    infile::read(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))
}

/// All `[server default]` of a file, the later value of each key.
fn default_block(all: &[(String, usize, Block)]) -> Block {
    all.iter().filter(|(name, ..)| name == DEFAULTS).flat_map(|(_, _, block)| block.clone()).collect()
}

/// One of MHA's steps: the values of a block, and for keys that it does not have, those of the step before.
fn values(name: &str, block: &Block, before: &Values) -> Result<Values, String> {
    let mut all = Values::new();
    let of = |table: &[(&str, &str)], key: &str| {
        table.iter().find(|(known, _)| *known == key).map(|(_, value)| (*value).to_owned())
    };
    for key in keys() {
        let inherited = || {
            let before = before.get(key).filter(|_| !OWN.contains(&key)).cloned();
            let unset = if key == "ssh_user" { Some(login()) } else { of(UNSET_OR_EMPTY, key) };
            match unset {
                Some(value) => Some(before.filter(|before| is_true(before)).unwrap_or(value)),
                None => before.or_else(|| of(UNSET, key)),
            }
        };
        let Some(mut value) = block.get(key).map(|given| given.value.clone()).or_else(inherited) else {
            continue;
        };
        match key {
            "ping_type" => value = value.to_ascii_uppercase(),
            "ssh_options" => value.retain(|c| !"\"'".contains(c)),
            "master_binlog_dir" => value.retain(|c| !c.is_ascii_whitespace() && c != '\x0b'),
            _ => {}
        }
        let is_valid = match key {
            "ping_type" => ["CONNECT", "SELECT", "INSERT"].contains(&value.as_str()),
            "ping_interval" | "ssh_connection_timeout" => {
                value.bytes().all(|b| b.is_ascii_digit()) && value.bytes().any(|b| b != b'0')
            }
            _ => true,
        };
        if !is_valid {
            let at = block.get(key).map_or_else(|| format!("[{name}]"), |given| given.place.clone());
            let allowed =
                if key == "ping_type" { "CONNECT, SELECT or INSERT" } else { "a number of seconds above 0" };
            return Err(format!("{at}: {key} is {value:?}, and must be {allowed}{}", behind(&value)));
        }
        all.insert(key, unquoted(&value).to_owned());
    }
    if let Some(host) = all.get("hostname").filter(|_| !all.contains_key("ssh_host")).cloned() {
        all.insert("ssh_host", host);
    }
    Ok(all)
}

/// Without the quote at its end and the one at its beginning; what does not end with a quote stays as it is.
fn unquoted(value: &str) -> &str {
    let quotes = ['"', '\''];
    value.strip_suffix(quotes).map_or(value, |body| body.strip_prefix(quotes).unwrap_or(body))
}

/// What init_conf_load_script prints. Of a line `key=a=b` MHA takes `a`, and blanks belong to the value; its exit code does not count.
fn loaded(script: &str, unknown: &mut Vec<String>, all_given: &mut Vec<Item>) -> Result<Block, String> {
    let printed = shell::printed(script, LOADS_WITHIN, PRINTED_BYTES_MAX)
        .map_err(|why| format!("init_conf_load_script: {why}"))?;
    let mut block = Block::new();
    for (number, line) in printed.strip_suffix(b"\n").unwrap_or(&printed).split(|b| *b == b'\n').enumerate() {
        if printed.is_empty() {
            break;
        }
        let place = format!("init_conf_load_script, line {}", number + 1);
        let mut fields = line.split(|b| *b == b'=');
        let key = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
        all_given.push(item(
            &place,
            "init_conf_load_script",
            &key,
            fields.clone().next().unwrap_or_default(),
        ));
        if !is_known(&key) {
            unknown.push(format!("{place}: MHA has no key {key}{}", near(&key)));
            continue;
        }
        // Without a `=` the key counts as unset.
        let Some(value) = fields.next() else {
            block.remove(&key);
            continue;
        };
        block.insert(key.clone(), Given { value: text_of(&key, value, &place)?, place });
    }
    Ok(block)
}

/// Without the quotes that MHA removes, as far as one step does.
fn item(at: &str, section: &str, key: &str, value: &[u8]) -> Item {
    let value = unquoted(&String::from_utf8_lossy(value)).to_owned();
    Item { at: at.to_owned(), section: section.to_owned(), key: key.to_owned(), value }
}

/// A value as text.
fn text_of(key: &str, value: &[u8], place: &str) -> Result<String, String> {
    match std::str::from_utf8(value) {
        Ok(text) => Ok(text.to_owned()),
        // It is only shown.
        Err(_) if key == "node_label" => Ok(String::from_utf8_lossy(value).into_owned()),
        Err(_) => {
            Err(format!("{place}: the value of {key} is not in UTF-8: write the file in UTF-8 (`iconv`)"))
        }
    }
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

/// The blocks of a file that are wanted, each with its line. Keys that MHA does not know are left out and added to `unknown`.
fn blocks(
    path: &Path,
    text: &[u8],
    is_wanted: impl Fn(&str) -> bool,
    unknown: &mut Vec<String>,
    all_given: &mut Vec<Item>,
) -> Result<Vec<(String, usize, Block)>, String> {
    let mut all: Vec<(String, usize, Block)> = Vec::new();
    for (number, line) in tiny::lines(text) {
        let at = format!("{}:{number}", path.display());
        let (key, value) = match line {
            Some(tiny::Line::Block(name)) => {
                all.push((String::from_utf8_lossy(name).into_owned(), number, Block::new()));
                continue;
            }
            Some(tiny::Line::Value { key, value }) => (String::from_utf8_lossy(key), value),
            None => return Err(format!("{at}: this is neither [a block] nor key=value")),
        };
        let Some((name, _, block)) = all.last_mut() else {
            if is_wanted("") {
                return Err(format!("{at}: {key} stands before the first [block]"));
            }
            continue;
        };
        if !is_wanted(name) {
            continue;
        }
        all_given.push(item(&at, name, &key, value));
        if !is_known(&key) {
            unknown.push(format!("{at}: MHA has no key {key}{}", near(&key)));
            continue;
        }
        block.insert(key.to_string(), Given { value: text_of(&key, value, &at)?, place: at });
    }
    all.retain(|(name, ..)| is_wanted(name));
    Ok(all)
}

fn near(key: &str) -> String {
    let distance = |known: &&str| strsim::damerau_levenshtein(key, known);
    let nearest = keys().min_by_key(distance);
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
        let global: &[u8] =
            b"[server default]\nuser=g\nport=3306\n[server7]\nhostname=ignored\nneither=known\n";
        Conf::parse(Path::new("/etc/app1.cnf"), text.as_bytes(), Some((Path::new("/etc/g.cnf"), global)))
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
            conf.odd,
            [
                "/etc/app1.cnf:6: [server1] stands in line 1 already. Both are one server, with the later value of each key, so that a \
                 is no server here: give one of them another number"
            ]
        );
    }

    #[test]
    fn what_is_odd_is_told() {
        let text =
            "[server default]\ncandidate_master=1\nno_master=1\n[server1]\nhostname=10.0.0.1 # first\n";
        assert_eq!(
            read(text).err().unwrap(),
            "/etc/app1.cnf:4: the hostname of [server1] is \"10.0.0.1 # first\", which is no host: a comment behind a value begins with a \
             blank, a ; and a blank"
        );
        let conf = read(&text.replace('#', ";")).unwrap();
        assert!(!conf.servers[0].is_on("candidate_master") && !conf.servers[0].is_on("no_master"));
        let odd = "/etc/app1.cnf:2: candidate_master in [server default] does nothing: MHA reads it in a [serverN] only";
        assert_eq!((conf.odd.len(), conf.odd[0].as_str()), (2, odd));
        let endless = Conf::read(Path::new("/dev/zero"), None).err().unwrap();
        assert!(endless.starts_with("/dev/zero cannot be read: it has more than 4 MiB"), "{endless}");
    }

    #[test]
    fn blocks_are_named_as_with_mha() {
        let hosts = |text: &str| -> Vec<String> {
            read(text).unwrap().servers.iter().map(|server| server.host().to_owned()).collect()
        };
        let numbered = "[server_b10]\nhostname=a\n[server_b9]\nhostname=b\n";
        assert_eq!(hosts(numbered), ["b", "a"]);
        // One without a number, and all are in the order of their names.
        assert_eq!(hosts(&format!("[serverx]\nhostname=c\n{numbered}")), ["a", "b", "c"]);
    }
}
