//! What an import comes to: settings, each with the places it came from, and what became of each key of the source.
//!
//! Each key has exactly one [`Fate`]: [`Draft::translate`] asks for it once, and what no rule knows is [`Fate::Unknown`].

use std::collections::BTreeMap;

use serde::Serialize;
use settings::document::{is_address, is_name};
use settings::table::{self as t, Row, ValueKind};
use toml::Value;

use super::Kind;

/// One key of the source with its value, which may be a secret.
#[derive(Clone, Debug)]
pub struct Item {
    /// `haproxy.cfg:12`
    pub at: String,
    pub section: String,
    pub key: String,
    pub value: String,
}

/// What became of a key.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    /// It is part of this setting.
    Becomes {
        setting: &'static str,
    },
    NoCounterpart {
        why: String,
    },
    Unknown,
}

/// A key of the source without its value.
#[derive(Debug, Serialize)]
pub struct Key {
    pub at: String,
    pub section: String,
    pub key: String,
    #[serde(flatten)]
    pub fate: Fate,
}

/// How the source writes a value.
#[derive(Clone, Copy)]
pub enum As<'a> {
    /// As it is.
    Text,
    /// A whole number.
    Count,
    /// A time, with its unit, or else a number of so many milliseconds each.
    Time(u64),
    /// One of these words in small letters, each with what it is here (`true:required false:off`); `true` stands for `1`, `on` and `yes`, too.
    Words(&'a str),
    /// The key alone says that it is this.
    Is(&'a str),
}

/// The priority of a server that the source never promotes.
pub const NEVER_PROMOTED: (u32, &str) =
    (0, "promoted only when nobody else can be; `understudy drain` it, and it never is");

/// A setting, and where it came from.
pub struct Said {
    pub value: Value,
    pub from: Vec<String>,
}

/// A node.
pub struct Node {
    pub name: String,
    pub address: String,
    /// With what is to be said of it.
    pub priority: Option<(u32, &'static str)>,
    pub from: String,
}

/// See the head of this file.
#[derive(Default)]
pub struct Draft {
    /// By their paths.
    pub settings: BTreeMap<&'static str, Said>,
    pub nodes: Vec<Node>,
    pub keys: Vec<Key>,
    /// Settings that somebody has to write, and why, by their paths.
    pub asked: BTreeMap<&'static str, String>,
    /// What else to look at.
    pub remarks: Vec<String>,
    /// Fates that are known beforehand: of nodes and addresses, whose order is that of the file.
    placed: BTreeMap<[String; 3], Fate>,
}

impl Item {
    fn id(&self) -> [String; 3] {
        [self.at.clone(), self.section.clone(), self.key.clone()]
    }
}

impl Fate {
    pub fn nothing(why: impl Into<String>) -> Self {
        Self::NoCounterpart { why: why.into() }
    }

    pub fn becomes(row: &Row) -> Self {
        Self::Becomes { setting: row.path }
    }
}

impl Draft {
    /// Asks for each item's fate once: those of the lowest rank first, and of one rank the last first, since the later value counts in all
    /// these formats, and the first that is set stays.
    pub fn translate(
        &mut self,
        items: &[Item],
        rank: impl Fn(&Item) -> usize,
        mut fate: impl FnMut(&mut Self, &Item) -> Fate,
    ) {
        let mut order: Vec<usize> = (0..items.len()).rev().collect();
        order.sort_by_key(|place| rank(&items[*place]));
        let mut keys: Vec<(usize, Key)> = Vec::with_capacity(items.len());
        for place in order {
            let item = &items[place];
            let fate = self.placed.remove(&item.id()).unwrap_or_else(|| fate(self, item));
            let Item { at, section, key, .. } = item.clone();
            keys.push((place, Key { at, section, key, fate }));
        }
        keys.sort_by_key(|(place, _)| *place);
        self.keys.extend(keys.into_iter().map(|(_, key)| key));
    }

    /// What a rule of this section says of an item. Rules are a text of sections, with a line for each group of keys:
    ///
    /// ```text
    ///   [section | all that begin so*]
    ///   key | other key | all that begin so*: why there is no counterpart
    ///   key = setting ms                      (or: s, min, count, text, is VALUE, word:VALUE word:VALUE)
    ///   key -> setting that it is a part of
    /// ```
    pub fn by(&mut self, rules: &str, section: &str, item: &Item) -> Fate {
        let found = rules_of(rules, section).find(|(keys, ..)| fits(keys, &item.key));
        let Some((_, sign, what)) = found else { return Fate::Unknown };
        let (path, unit) = what.split_once(' ').unwrap_or((what, ""));
        match (sign, t::TABLE.iter().find(|row| row.path == path)) {
            (" -> ", Some(row)) => Fate::becomes(row),
            (" = ", Some(row)) => unit_of(unit).map_or(Fate::Unknown, |unit| self.set(row, unit, item)),
            _ => Fate::nothing(what),
        }
    }

    /// Takes an item's value for a setting.
    pub fn set(&mut self, row: &'static Row, unit: As, item: &Item) -> Fate {
        if item.value.trim().is_empty() && !matches!(unit, As::Is(_)) {
            return Fate::nothing("it is empty");
        }
        match read(row, unit, &item.value) {
            Some((value, remark)) => self.put(row, value, format!("{} {}{remark}", item.at, item.key)),
            None => Fate::nothing(format!("its value is none that {} can have", row.path)),
        }
    }

    /// Sets a setting; the first value stays.
    pub fn put(&mut self, row: &'static Row, value: Value, from: String) -> Fate {
        let said =
            self.settings.entry(row.path).or_insert_with(|| Said { value: value.clone(), from: vec![] });
        if said.value != value {
            let first = said.from.first().map_or("another key", String::as_str);
            return Fate::nothing(format!("{} has one value, which is that of {first}", row.path));
        }
        said.from.push(from);
        Fate::becomes(row)
    }

    /// Sets a setting to a text that the source does not have as such.
    pub fn say(&mut self, row: &'static Row, value: &str, from: impl Into<String>) -> Fate {
        self.put(row, Value::String(value.into()), from.into())
    }

    /// Says what becomes of an item before all are asked.
    pub fn place(&mut self, item: &Item, fate: Fate) {
        self.placed.insert(item.id(), fate);
    }

    /// One more address to listen at, of this item.
    pub fn listen(&mut self, row: &'static Row, address: &str, item: &Item) {
        let fate = self.listens(row, address, item);
        self.place(item, fate);
    }

    /// As [`Draft::listen`], with the fate.
    pub fn listens(&mut self, row: &'static Row, address: &str, item: &Item) -> Fate {
        let address = match address.strip_prefix("*:").or_else(|| address.strip_prefix(':')) {
            Some(port) if !port.contains(':') => format!("0.0.0.0:{port}"),
            Some(port) => format!("[::]:{}", port.trim_start_matches(':')),
            None => address.to_owned(),
        };
        if !is_address(&address) {
            return Fate::nothing("clients connect to host:port, one port for each address");
        }
        let said = self
            .settings
            .entry(row.path)
            .or_insert_with(|| Said { value: Value::Array(vec![]), from: vec![] });
        if let Value::Array(all) = &mut said.value {
            let address = Value::String(address);
            if !all.contains(&address) {
                all.push(address);
            }
        }
        said.from.push(format!("{} {}", item.at, item.key));
        Fate::becomes(row)
    }

    /// One more node, of this item, unless there is one with its address.
    pub fn node(&mut self, name: &str, address: &str, item: &Item) {
        if !is_address(address) {
            return self.place(item, Fate::nothing("a node is reached at host:port"));
        }
        self.place(item, Fate::becomes(&t::NODE_ADDRESS));
        if self.nodes.iter().all(|node| node.address != address) {
            let mut name = fit(name);
            if self.nodes.iter().any(|node| node.name == name) {
                name = fit(address);
            }
            let section = if item.section.is_empty() { &item.key } else { &item.section };
            let from = format!("{} [{section}]", item.at);
            self.nodes.push(Node { name, address: address.to_owned(), priority: None, from });
        }
    }

    /// The order in which nodes are preferred as writers, by their addresses.
    pub fn prefer(&mut self, addresses: &[&str]) {
        for node in &mut self.nodes {
            let place = addresses.iter().position(|address| *address == node.address);
            let place = place.and_then(|place| u32::try_from(place).ok()).unwrap_or(u32::MAX);
            node.priority = Some((100_u32.saturating_sub(place.saturating_mul(10)), ""));
        }
    }

    /// What the nodes are, and where that is known from. `mover`: why another program moves the primary of replicas.
    pub fn cluster(&mut self, kind: Option<(Kind, String)>, mover: Option<&str>) {
        let Some((kind, from)) = kind else {
            let why = "\"galera\" or \"replication\": the source does not say (or import with --kind)";
            return self.ask(&t::CLUSTER_KIND, why);
        };
        self.say(&t::CLUSTER_KIND, if kind == Kind::Galera { "galera" } else { "replication" }, from);
        if let (Kind::Replication, Some(mover)) = (kind, mover) {
            let from = format!(
                "{mover}: whoever does, goes on; \"understudy\", with [cluster.replication], does it itself"
            );
            self.say(&t::CLUSTER_MANAGER, "external", from);
        }
    }

    /// Notes that somebody has to write a setting, unless it is set.
    pub fn ask(&mut self, row: &'static Row, why: impl Into<String>) {
        if !self.settings.contains_key(row.path) {
            self.asked.entry(row.path).or_insert_with(|| why.into());
        }
    }

    /// Whether a setting has this text.
    pub fn is(&self, row: &Row, text: &str) -> bool {
        self.settings.get(row.path).and_then(|said| said.value.as_str()) == Some(text)
    }

    /// For sources that say of each server what is one setting for all nodes here.
    pub fn said_for_each_node(&mut self) {
        let nodes = self.nodes.len();
        for row in [&t::CLUSTER_TLS.row, &t::CLUSTER_PROXY_HEADER.row] {
            let times = self.settings.get(row.path).map_or(nodes, |said| said.from.len());
            if times < nodes {
                let path = row.path;
                self.remarks
                    .push(format!("{path} is for all {nodes} nodes; the source says it {times} times"));
            }
        }
    }

    /// Takes a setting out again.
    fn drop(&mut self, row: &Row, why: &str) {
        self.settings.remove(row.path);
        let fates = self.keys.iter_mut().map(|key| &mut key.fate);
        for fate in fates.filter(|fate| **fate == Fate::becomes(row)) {
            *fate = Fate::nothing(why);
        }
    }

    /// Takes out what means nothing beside the other settings, which would be refused.
    fn fit_together(&mut self) {
        let has = |this: &Self, row: &Row| this.settings.contains_key(row.path);
        let (is_verified, is_required) =
            (self.is(&t::CLUSTER_TLS, "verified"), self.is(&t::CLUSTER_TLS, "required"));
        if is_verified {
            self.ask(&t::CLUSTER_TLS_CA, "the authority of the nodes' certificates");
        } else {
            self.drop(
                &t::CLUSTER_TLS_CA,
                "the nodes' certificates are looked at with cluster.tls = \"verified\" only",
            );
        }
        for (certificate, key, is_used) in [
            (&t::CLUSTER_TLS_CERTIFICATE, &t::CLUSTER_TLS_KEY, is_verified || is_required),
            (&t::LISTEN_TLS_CERTIFICATE, &t::LISTEN_TLS_KEY, true),
        ] {
            if !is_used || has(self, certificate) != has(self, key) {
                self.drop(certificate, "a certificate is used with its key, and with TLS");
                self.drop(key, "a key is used with its certificate, and with TLS");
            }
        }
        let is_replication = self.is(&t::CLUSTER_KIND, "replication");
        if !is_replication || self.is(&t::CLUSTER_MANAGER, "external") {
            for row in t::TABLE.iter().filter(|row| row.section() == "cluster.replication") {
                self.drop(row, "it is for kind = \"replication\" with manager = \"understudy\" only");
            }
        }
        if !is_replication {
            self.drop(&t::LISTEN_SPLIT, "with Galera no reads are split off");
        }
        if !has(self, &t::LISTEN_SPLIT) {
            self.drop(&t::READ_SPLIT_WAIT, "it is for listen.split only");
        }
    }

    /// Asks for what every settings file needs, once every key has its fate.
    pub fn complete(&mut self) {
        self.fit_together();
        let whose = "the account for probes and orders; `understudy serve --check` prints the GRANT it needs";
        self.ask(&t::MONITOR_USER, whose);
        self.ask(&t::MONITOR_PASSWORD, "or password_file, or password_env");
        if self.is(&t::CLUSTER_KIND, "replication") && !self.is(&t::CLUSTER_MANAGER, "external") {
            self.ask(&t::REPLICATION_USER, "the account that replicas log in with at the primary");
            self.ask(&t::REPLICATION_PASSWORD, "or password_file, or password_env");
        }
        if self.nodes.is_empty() {
            self.ask(&t::NODE_ADDRESS, "a [[cluster.node]] with name and address for each server");
        }
        for node in &self.nodes {
            if node.address.contains('$') {
                let why = format!("{} has a variable of the environment in its address", node.name);
                self.asked.insert(t::NODE_ADDRESS.path, why);
            }
        }
    }
}

/// A name that may stand in the settings.
pub fn fit(text: &str) -> String {
    let fits = |c: char| if is_name(c.encode_utf8(&mut [0; 4])) { c } else { '-' };
    let name: String = text.chars().map(fits).take(64).collect();
    if name.is_empty() { "unnamed".into() } else { name }
}

/// `host:port`, an IPv6 host in brackets.
pub fn address(host: &str, port: &str) -> String {
    let is_bare = host.contains(':') && !host.starts_with('[');
    if is_bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Whether a source says yes.
pub fn is_true(text: &str) -> bool {
    ["true", "1", "on", "yes"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a word is one of these, between ` | `; `x*` are all that begin with `x`.
fn fits(patterns: &str, word: &str) -> bool {
    patterns.split(" | ").any(|pattern| match pattern.strip_suffix('*') {
        Some(begin) => word.starts_with(begin),
        None => word == pattern,
    })
}

/// The rules of a section: the keys, the sign behind them, and what stands behind that.
pub fn rules_of<'a>(
    rules: &'a str,
    section: &'a str,
) -> impl Iterator<Item = (&'a str, &'static str, &'a str)> {
    let mut is_in = false;
    rules.lines().filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_in = fits(name, section);
            return None;
        }
        let of = |sign: &'static str| line.find(sign).map(|at| (at, sign));
        let (at, sign) = [of(" = "), of(" -> "), of(": ")].into_iter().flatten().min().filter(|_| is_in)?;
        Some((&line[..at], sign, &line[at + sign.len()..]))
    })
}

/// How a rule says that a value is written.
pub fn unit_of(text: &str) -> Option<As<'_>> {
    match text {
        "text" => Some(As::Text),
        "count" => Some(As::Count),
        "ms" => Some(As::Time(1)),
        "s" => Some(As::Time(1000)),
        "min" => Some(As::Time(60_000)),
        _ => text.strip_prefix("is ").map(As::Is).or_else(|| text.contains(':').then_some(As::Words(text))),
    }
}

/// A value as the setting has it, and what is to be said of it.
fn read(row: &Row, unit: As, text: &str) -> Option<(Value, String)> {
    let number = match unit {
        As::Text => return Some((Value::String(text.into()), String::new())),
        As::Is(value) => return Some((Value::String(value.into()), String::new())),
        As::Words(words) => {
            let small = text.to_ascii_lowercase();
            let plain = match &*small {
                "1" | "on" | "yes" => "true",
                "0" | "off" | "no" => "false",
                other => other,
            };
            let find = |wanted: &str| {
                words.split(' ').filter_map(|pair| pair.split_once(':')).find(|(word, _)| *word == wanted)
            };
            let (_, value) = find(&small).or_else(|| find(plain))?;
            return Some((Value::String(value.into()), format!(" = {text}")));
        }
        As::Count => text.parse::<u64>().ok()?,
        As::Time(each) => milliseconds(text, each)?,
    };
    let (ValueKind::Millis { min, max } | ValueKind::Count { min, max } | ValueKind::Bytes { min, max }) =
        row.kind
    else {
        return None;
    };
    // 0 mostly stands for none, which the nearest number would not be.
    let fitting = Some(number.clamp(min, max)).filter(|_| number > 0 || min == 0)?;
    let remark = if fitting == number { "" } else { ", and this is the nearest that is allowed" };
    Some((Value::Integer(i64::try_from(fitting).ok()?), format!(" = {text}{remark}")))
}

/// A time: `5s`, `200ms`, `1m`, or a plain number of so many milliseconds each.
fn milliseconds(text: &str, each: u64) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    match text[end..].trim() {
        "" => number.checked_mul(each),
        "us" => Some(number / 1000),
        "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "m" | "min" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => None,
    }
}
