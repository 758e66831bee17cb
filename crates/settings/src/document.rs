//! A configuration file, read against the table: every value checked, every key known, every finding with its line.
//!
//! Enters: the text. Leaves: [`Document`], the values by path with their lines, or the list of problems. What spans more
//! than one key (two nodes of one name, a key without its certificate) is not looked at here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;
use super::quotes;
use super::table::{Default, NODE_NAME, Row, Setting, TABLE, ValueKind};
use super::value::{Read, Value, network};

/// The tables that may stand many times.
pub const LISTS: [&str; 2] = [NODES, "proxy.account"];
const NODES: &str = "cluster.node";

/// What was read.
pub struct Document {
    file: PathBuf,
    /// By full path; a node's keys as `cluster.node[2].name`.
    values: BTreeMap<String, (Value, usize)>,
    /// The full paths of settings that are there with a value that is not allowed: they are wrong, and not missing.
    wrong: BTreeSet<String>,
    /// The line of each table that may stand many times.
    entries: BTreeMap<&'static str, Vec<usize>>,
    /// What is wrong, in no order.
    pub problems: Vec<Problem>,
}

impl Document {
    /// Reads `text`. Problems are collected, not thrown: the caller adds its own and shows all.
    pub fn parse(file: &Path, text: &str) -> Self {
        let mut this = Self {
            file: file.to_owned(),
            values: BTreeMap::new(),
            wrong: BTreeSet::new(),
            entries: BTreeMap::new(),
            problems: Vec::new(),
        };
        let (root, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            this.walk("", root.get_ref(), text);
        }
        // One unclosed bracket makes nonsense of every line below it: only the first finding helps.
        if let Some(error) = errors.iter().min_by_key(|error| error.span().map_or(0, |span| span.start)) {
            let line = error.span().map_or(1, |span| line_of(text, &span));
            let why = quotes::missing(text, line).unwrap_or_else(|| error.message().to_owned());
            this.problem(Some(line), format!("not valid TOML: {why}"));
        }
        this
    }

    /// The lines on which nodes begin.
    pub fn nodes(&self) -> &[usize] {
        self.entries(&NODE_NAME)
    }

    /// The lines on which the tables begin that `row` is meant for each of.
    pub fn entries(&self, row: &Row) -> &[usize] {
        self.entries.get(row.section()).map_or(&[], Vec::as_slice)
    }

    /// As [`Document::has`], of one of several tables.
    pub fn has_at(&self, place: Option<usize>, row: &Row) -> bool {
        self.is_there(&path_at(place, row))
    }

    /// As [`Document::read_as`], likewise.
    pub fn read_at<T: Read>(&self, place: Option<usize>, row: &Row) -> T {
        T::read(self.at(&path_at(place, row), row).as_ref(), base(&self.file))
    }

    /// Whether the file sets it, be it to something that is not allowed.
    pub fn has(&self, row: &Row) -> bool {
        self.is_there(row.path)
    }

    /// Whether the file sets it to something that is not allowed: nothing can be concluded from its value.
    pub fn is_wrong(&self, row: &Row) -> bool {
        self.wrong.contains(row.path)
    }

    /// The line of a key, by full path.
    pub fn line(&self, path: &str) -> Option<usize> {
        self.values.get(path).map(|(_, line)| *line)
    }

    /// Notes something that is wrong.
    pub fn problem(&mut self, line: Option<usize>, text: impl Into<String>) {
        self.problems.push(Problem { file: self.file.clone(), line, text: text.into() });
    }

    /// The value of `row`, or its default; `None` when there is neither.
    pub fn value(&self, row: &Row) -> Option<Value> {
        self.at(row.path, row)
    }

    /// The same as those who use it read it.
    pub fn get<T: Read>(&self, setting: &Setting<T>) -> T {
        self.read_as(&setting.row)
    }

    /// The same for one node.
    pub fn node_get<T: Read>(&self, node: usize, setting: &Setting<T>) -> T {
        self.read_at(Some(node), setting)
    }

    /// The value of `row`, or its default, as a `T`.
    pub fn read_as<T: Read>(&self, row: &Row) -> T {
        self.read_at(None, row)
    }

    /// Notes every required key that is missing.
    pub fn require(&mut self) {
        for row in TABLE.iter().filter(|row| row.default == Default::Required) {
            if LISTS.contains(&row.section()) {
                for (place, line) in self.entries(row).to_vec().into_iter().enumerate() {
                    if !self.has_at(Some(place), row) {
                        let line = Some(line);
                        self.problem(line, missing(row));
                    }
                }
            } else if !self.has(row) {
                self.problem(None, missing(row));
            }
        }
    }

    fn is_there(&self, path: &str) -> bool {
        self.values.contains_key(path) || self.wrong.contains(path)
    }

    fn at(&self, path: &str, row: &Row) -> Option<Value> {
        if let Some((value, _)) = self.values.get(path) {
            return Some(value.clone());
        }
        match row.default {
            Default::Toml(text) => {
                let parsed = DeValue::parse(text).ok()?;
                check(row.kind, parsed.get_ref())
            }
            Default::Required | Default::Unset(_) => None,
        }
    }

    fn walk(&mut self, section: &str, table: &DeTable<'_>, text: &str) {
        for (name, value) in table {
            let path = join(section, name.get_ref());
            let line = line_of(text, &name.span());
            let list = LISTS.into_iter().find(|list| *list == path);
            match (value.get_ref(), is_section(&path)) {
                (DeValue::Array(entries), true) if let Some(list) = list => {
                    for entry in entries {
                        self.walk_entry(list, entry, text);
                    }
                }
                (DeValue::Table(inner), true) if list.is_none() => self.walk(&path, inner, text),
                (_, true) if let Some(list) = list => self.problem(Some(line), not_a_list(list)),
                (_, true) => {
                    self.problem(Some(line), format!("{path} is a table: write [{path}] above its keys"));
                }
                (found, false) => self.take(&path, path.clone(), found, line),
            }
        }
    }

    fn walk_entry(&mut self, list: &'static str, entry: &Spanned<DeValue<'_>>, text: &str) {
        let first = line_of(text, &entry.span());
        let entries = self.entries.entry(list).or_default();
        let place = entries.len();
        entries.push(first);
        let DeValue::Table(table) = entry.get_ref() else {
            self.problem(Some(first), not_a_list(list));
            return;
        };
        for (name, value) in table {
            let key = name.get_ref();
            let line = line_of(text, &name.span());
            self.take(&join(list, key), format!("{list}[{place}].{key}"), value.get_ref(), line);
        }
    }

    fn take(&mut self, path: &str, full: String, found: &DeValue<'_>, line: usize) {
        let Some(row) = TABLE.iter().find(|row| row.path == path) else {
            self.problem(Some(line), unknown(path));
            return;
        };
        match check(row.kind, found) {
            Some(value) => {
                self.values.insert(full, (value, line));
            }
            None => {
                let (allowed, shown) = (row.kind.allowed(), shown(row.kind, found));
                self.problem(Some(line), format!("{path} must be {allowed}; it is {shown}"));
                self.wrong.insert(full);
            }
        }
    }
}

/// The directory of a configuration file.
pub fn base(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// The full path of a key of one of several tables; of any other with `None`.
pub fn path_at(place: Option<usize>, row: &Row) -> String {
    match place {
        Some(place) => format!("{}[{place}].{}", row.section(), row.key()),
        None => row.path.to_owned(),
    }
}

fn not_a_list(list: &str) -> String {
    format!("{list} is a list of tables: write [[{list}]] above each")
}

fn check(kind: ValueKind, found: &DeValue<'_>) -> Option<Value> {
    let number = |min: u64, max: u64| {
        let found = found.as_integer()?;
        let value = u64::from_str_radix(found.as_str(), found.radix()).ok()?;
        (min..=max).contains(&value).then_some(Value::Number(value))
    };
    let text = |fits: &dyn Fn(&str) -> bool| {
        let found = found.as_str()?;
        fits(found).then(|| Value::Text(found.to_owned()))
    };
    let list = |fits: &dyn Fn(&str) -> bool| {
        let one = |item: &Spanned<DeValue<'_>>| {
            item.get_ref().as_str().filter(|text| fits(text)).map(str::to_owned)
        };
        found.as_array()?.iter().map(one).collect::<Option<Vec<_>>>().map(Value::List)
    };
    match kind {
        ValueKind::Name => text(&is_name),
        ValueKind::Text | ValueKind::Path => text(&|found| !found.trim().is_empty()),
        // An account without a password is the file's business: it must say so with an empty one.
        ValueKind::Secret => text(&|_| true),
        ValueKind::Switch => found.as_bool().map(Value::Switch),
        ValueKind::Choice(words) => text(&|found| words.contains(&found)),
        ValueKind::Count { min, max } | ValueKind::Millis { min, max } | ValueKind::Bytes { min, max } => {
            number(min, max)
        }
        ValueKind::Texts => list(&|text| !text.trim().is_empty()),
        ValueKind::Networks => list(&|text| network(text).is_some()),
        ValueKind::Address => text(&is_address),
        ValueKind::Addresses => match found {
            DeValue::String(one) => is_address(one).then(|| Value::List(vec![one.to_string()])),
            _ => list(&is_address),
        },
    }
}

pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// `host:port` with a port; an IPv6 address in brackets. Whether the host exists is found out when it is used.
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host_fits = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([':', '/', ' ', '@']),
    };
    // A plain + would be taken by parse.
    host_fits && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

fn is_section(path: &str) -> bool {
    TABLE.iter().any(|row| row.section() == path || row.section().starts_with(&format!("{path}.")))
}

/// A value as it may be shown to whoever reads the error.
fn shown(kind: ValueKind, found: &DeValue<'_>) -> String {
    if kind == ValueKind::Secret {
        return format!("of type {} (not shown)", found.type_str());
    }
    match found {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        other => format!("of type {}", other.type_str()),
    }
}

fn missing(row: &Row) -> String {
    format!("{} is missing; it must be {}", row.path, row.kind.allowed())
}

/// Settings that earlier versions had, and what to do instead.
const GONE: &[(&str, &str)] = &[(
    "warm.mirror_percent",
    "mirrored reads warmed a standby no better than a replay: take it out, and what warm.source names (the slow log, or the proxy's reads) is replayed",
)];

/// "unknown key", with the nearest name there is.
fn unknown(path: &str) -> String {
    if let Some((_, instead)) = GONE.iter().find(|(gone, _)| *gone == path) {
        return format!("{path} is gone; {instead}");
    }
    let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
    if let Some(elsewhere) = TABLE.iter().find(|row| row.key() == key) {
        return format!("{path} is not a setting; {key} belongs in [{}]", elsewhere.section());
    }
    let siblings: Vec<_> = TABLE.iter().filter(|row| row.section() == section).map(|row| row.key()).collect();
    if siblings.is_empty() {
        let hint = match nearest(path, sections()) {
            Some(section) => format!("did you mean [{section}]?"),
            None => format!("the tables are {}", sections().join(", ")),
        };
        return format!("{path} is not a setting; {hint}");
    }
    // First among its siblings, then everywhere: a key may be misspelled and in the wrong table.
    if let Some(key) = nearest(key, siblings.iter().copied()) {
        return format!("{path} is not a setting; did you mean {section}.{key}?");
    }
    let elsewhere = nearest(key, TABLE.iter().map(|row| row.key()));
    if let Some(row) = TABLE.iter().find(|row| Some(row.key()) == elsewhere) {
        return format!("{path} is not a setting; did you mean {}?", row.path);
    }
    format!("{path} is not a setting; [{section}] has {}", siblings.join(", "))
}

/// The one of `names` that `name` was probably meant to be: a third of its letters may be wrong.
fn nearest(name: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let distance = |other: &&str| strsim::damerau_levenshtein(name, other);
    names.into_iter().min_by_key(distance).filter(|best| distance(best) * 3 <= name.len().max(3))
}

fn sections() -> Vec<&'static str> {
    let mut all: Vec<_> = TABLE.iter().map(|row| row.section()).collect();
    all.dedup();
    all
}

fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.get(..span.start.min(text.len())).unwrap_or(text);
    before.bytes().filter(|&b| b == b'\n').count() + 1
}
