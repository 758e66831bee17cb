//! haproxy.cfg. The `listen`, `frontend` and `backend` sections that lead to databases count; HAProxy keeps the others.
//!
//! Source: HAProxy's configuration manual (2.6), sections 2 (words), 4 (keywords), 5 (parameters of `bind` and `server`).

use settings::table as t;

use super::draft::{As, Draft, Fate, Item, address, fit};
use super::{Kind, Source};

/// What becomes of each key of one of these sections.
pub const RULES: &str = include_str!("haproxy.rules");

const SECTIONS: &str = "global defaults listen frontend backend peers resolvers userlist mailers program cache ring log-forward http-errors fcgi-app crt-store traces acme";
/// Keywords that are told apart by their second word.
const WITH_SECOND: &str = "option timeout stats no tcp-check http-check tcp-request tcp-response http-request http-response stick tune";
/// Parameters of `server` and `bind` that have a value behind them.
const WITH_VALUE: &str = "addr agent-addr agent-inter agent-port agent-send alpn backlog ca-file ca-ignore-err check-alpn check-proto check-sni ciphers ciphersuites cookie crl-file crt crt-ignore-err crt-list curves downinter ecdhe error-limit expose-fd fall fastinter gid group id init-addr inter interface label level log-bufsize log-proto max-reuse maxconn maxqueue minconn mode mss name namespace nice npn observe on-error on-marked-down on-marked-up pool-low-conn pool-max-conn pool-purge-delay port process proto proxy-v2-options redir resolve-net resolve-opts resolve-prefer resolvers rise severity-output shard shards sigalgs slowstart sni socks4 source ssl-max-ver ssl-min-ver tcp-md5sig tcp-ut thread tls-ticket-keys track uid user usesrc verify verifyhost weight ws";

const READS: &str =
    "read reader reads readers readonly ro replica replicas slave slaves secondary secondaries";

/// A `listen`, `frontend` or `backend`.
#[derive(Default)]
struct Proxy<'a> {
    section: &'a str,
    name: &'a str,
    /// The `defaults` section above it.
    defaults: &'a str,
    is_http: bool,
    has_mysql_check: bool,
    has_http_check: bool,
    binds: Vec<&'a Item>,
    /// With the place of its line.
    servers: Vec<Server<'a>>,
    /// Backends that it leads to.
    leads_to: Vec<&'a str>,
}

struct Server<'a> {
    item: &'a Item,
    name: &'a str,
    address: String,
    is_backup: bool,
}

/// The lines of the file: a keyword each, and for `server` and `bind` one item for each parameter.
///
/// # Errors
/// A sentence with file and line.
pub fn read(source: &Source) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut section = String::new();
    for (number, line) in source.text.lines().enumerate() {
        let at = source.at(number + 1);
        let words = words(line).ok_or_else(|| format!("{at}: a quote is not closed"))?;
        let mut words = words.iter().map(String::as_str);
        let Some(first) = words.next() else { continue };
        let mut add = |section: &str, key: &str, value: &str| {
            let (section, key, value) = (section.to_owned(), key.to_owned(), value.to_owned());
            items.push(Item { at: at.clone(), section, key, value });
        };
        if has(SECTIONS, first) {
            section = format!("{first} {}", words.next().unwrap_or_default()).trim_end().to_owned();
            match words.next() {
                Some("from") => add(&section, "from", words.next().unwrap_or_default()),
                Some(address) => add(&section, "bind", address),
                None => {}
            }
        } else if section.is_empty() {
            return Err(format!(
                "{at}: this stands before the first section (global, defaults, listen, ...)"
            ));
        } else if has("server bind default-server", first) && !section.starts_with("peers") {
            let count =
                ["default-server", "bind", "server"].iter().position(|word| *word == first).unwrap_or(0);
            let own: Vec<&str> = words.by_ref().take(count).collect();
            if own.len() < count {
                return Err(format!("{at}: bind has an address, and a server a name and an address"));
            }
            let mut line = format!("{section}, {first}");
            if count > 0 {
                add(&section, first, &own.join(" "));
            }
            if count == 2 {
                line = format!("{line} {}", own[0]);
            }
            while let Some(word) = words.next() {
                let value = if has(WITH_VALUE, word) { words.next().unwrap_or_default() } else { "" };
                add(&line, word, value);
            }
        } else {
            let more = if first == "no" { 2 } else { usize::from(has(WITH_SECOND, first)) };
            let key: Vec<&str> = std::iter::once(first).chain(words.by_ref().take(more)).collect();
            add(&section, &key.join(" "), &words.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(items)
}

/// The words of a line: quoted and escaped as in section 2.2. `None`: a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut is_open) = (None, false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '#') => break,
            (None, c) if c.is_whitespace() => {
                is_open = false;
                continue;
            }
            _ => {}
        }
        if !is_open {
            words.push(String::new());
            is_open = true;
        }
        let word = words.last_mut()?;
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '\\') => word.extend(chars.next()),
            _ => word.push(c),
        }
    }
    quote.is_none().then_some(words)
}

/// The sections that lead to one cluster, which is that of the first section of databases.
struct Site<'a> {
    /// With its servers.
    ours: Vec<&'a Proxy<'a>>,
    /// Those of them that take writes; at least one.
    writes: Vec<&'a Proxy<'a>>,
    /// Frontends before them.
    fronts: Vec<&'a Proxy<'a>>,
    /// With the servers of other clusters.
    others: Vec<&'a Proxy<'a>>,
}

/// # Errors
/// No section leads to a database.
pub fn translate(items: &[Item], draft: &mut Draft, kind: Option<Kind>) -> Result<(), String> {
    let proxies = proxies(items);
    let site = Site::of(&proxies).ok_or(
        "no listen or backend section is one of databases: with option mysql-check, or servers at port 3306, or a bind to it",
    )?;
    for proxy in site.ours.iter().chain(&site.fronts) {
        let row = if site.takes_writes(proxy) { &t::LISTEN_MYSQL.row } else { &t::LISTEN_READ.row };
        for bind in &proxy.binds {
            for address in bind.value.split(',') {
                draft.listen(row, address, bind);
            }
        }
    }
    nodes(draft, &site);
    cluster(draft, &site, kind);
    let rank = |item: &Item| 2 * site.rank(section_of(item)) + usize::from(item.key != "timeout tunnel");
    draft.translate(items, rank, |draft, item| site.fate(draft, item));
    draft.said_for_each_node();
    Ok(())
}

/// Without the line of `server` or `bind` in it.
fn section_of(item: &Item) -> &str {
    item.section.split(", ").next().unwrap_or_default()
}

impl<'a> Site<'a> {
    fn of(proxies: &'a [Proxy<'a>]) -> Option<Self> {
        let first = proxies.iter().find(|proxy| proxy.is_database())?;
        let is_of = |proxy: &&Proxy| {
            let is_first = |one: &Server| first.servers.iter().any(|other| one.address == other.address);
            proxy.servers.iter().any(is_first)
        };
        let (ours, others): (Vec<_>, Vec<_>) =
            proxies.iter().filter(|proxy| proxy.is_database()).partition(is_of);
        let mut writes: Vec<&Proxy> =
            ours.iter().copied().filter(|proxy| ours.len() == 1 || !proxy.is_read()).collect();
        if writes.is_empty() {
            writes.push(first);
        }
        let leads = |proxy: &&Proxy| ours.iter().any(|backend| proxy.leads_to.contains(&backend.name));
        let fronts = proxies.iter().filter(leads).collect();
        Some(Self { ours, writes, fronts, others })
    }

    fn takes_writes(&self, proxy: &Proxy) -> bool {
        let is_it = |write: &&Proxy| write.section == proxy.section || proxy.leads_to.contains(&write.name);
        self.writes.iter().any(is_it)
    }

    fn has(&self, section: &str) -> bool {
        self.ours.iter().chain(&self.fronts).any(|proxy| proxy.section == section)
    }

    /// What a section says counts before what those of a higher rank say.
    fn rank(&self, section: &str) -> usize {
        match section.split(' ').next() {
            _ if self.writes.iter().any(|write| write.section == section) => 0,
            _ if self.has(section) => 1,
            Some("defaults") => 2,
            _ => 3,
        }
    }

    fn fate(&self, draft: &mut Draft, item: &Item) -> Fate {
        let (section, line) = item.section.split_once(", ").unwrap_or((&item.section, ""));
        let rules = match line.split(' ').next() {
            Some("server" | "default-server") => "server",
            Some("bind") => "bind",
            _ => "proxy",
        };
        let mut all = self.ours.iter().chain(&self.fronts);
        match section.split(' ').next() {
            Some("global") if item.key == "maxconn" => draft.set(&t::PROXY_CLIENTS, As::Count, item),
            Some("defaults") if all.any(|proxy| proxy.defaults == section) => draft.by(RULES, rules, item),
            Some("listen" | "frontend" | "backend") if self.has(section) => draft.by(RULES, rules, item),
            Some("listen" | "backend") if self.others.iter().any(|other| other.section == section) => {
                Fate::nothing(
                    "it is another cluster's: put its section into a file of its own, and import that",
                )
            }
            Some("listen" | "frontend" | "backend" | "defaults") => {
                Fate::nothing("it is no database's: HAProxy goes on with it")
            }
            _ => Fate::nothing("it is of HAProxy's process, not of the databases' traffic"),
        }
    }
}

impl Proxy<'_> {
    fn is_database(&self) -> bool {
        let at_mysql = |address: &str| {
            address.rsplit(':').next().is_some_and(|port| port.starts_with("330") && port.len() == 4)
        };
        let is_one = self.has_mysql_check || self.servers.iter().any(|server| at_mysql(&server.address));
        !self.is_http
            && !self.servers.is_empty()
            && (is_one || self.binds.iter().any(|bind| at_mysql(&bind.value)))
    }

    /// Whether its name says that it is for reads.
    fn is_read(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        let any = |list: &str| name.split(|c: char| !c.is_ascii_alphabetic()).any(|word| has(list, word));
        let has_backups = self.servers.iter().any(|server| server.is_backup);
        !has_backups && any(READS) && !any("write writer writes rw primary master leader")
    }
}

fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

/// The sections that take or pass on connections.
fn proxies(items: &[Item]) -> Vec<Proxy<'_>> {
    let mut proxies: Vec<Proxy> = Vec::new();
    let (mut defaults, mut is_http_by_default) = ("", false);
    for item in items {
        let (section, line) = item.section.split_once(", ").unwrap_or((&item.section, ""));
        let (kind, name) = section.split_once(' ').unwrap_or((section, ""));
        if kind == "defaults" {
            if item.key == "mode" || defaults != section {
                is_http_by_default = item.key == "mode" && item.value == "http";
            }
            defaults = section;
        }
        if !has("listen frontend backend", kind) {
            continue;
        }
        if proxies.last().is_none_or(|last| last.section != section) {
            proxies.push(Proxy { section, name, defaults, is_http: is_http_by_default, ..Proxy::default() });
        }
        let Some(proxy) = proxies.last_mut() else { continue };
        match (line, &*item.key) {
            ("", "mode") => proxy.is_http = item.value == "http",
            ("", "option mysql-check") => proxy.has_mysql_check = true,
            ("", "option httpchk") => proxy.has_http_check = true,
            ("", "bind") => proxy.binds.push(item),
            ("", "default_backend" | "use_backend") => proxy.leads_to.extend(item.value.split(' ').next()),
            ("", "server") => {
                let (name, place) = item.value.split_once(' ').unwrap_or((&item.value, ""));
                let place = place.split_once('@').map_or(place, |(_, place)| place);
                let has_port = place
                    .rsplit_once(':')
                    .is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
                let address = if has_port { place.to_owned() } else { address(place, "3306") };
                proxy.servers.push(Server { item, name, address, is_backup: false });
            }
            (_, "backup") => {
                if let Some(server) = proxy.servers.last_mut() {
                    server.is_backup = true;
                }
            }
            _ => {}
        }
    }
    proxies
}

/// The nodes, with the order in which HAProxy uses them where some are backups.
fn nodes(draft: &mut Draft, Site { ours, writes, .. }: &Site) {
    for server in writes.iter().chain(ours).flat_map(|proxy| &proxy.servers) {
        draft.node(server.name, &server.address, server.item);
    }
    let mut order: Vec<&Server> = writes.iter().flat_map(|proxy| &proxy.servers).collect();
    if order.iter().any(|server| server.is_backup) {
        order.sort_by_key(|server| server.is_backup);
        draft.prefer(&order.iter().map(|server| &*server.address).collect::<Vec<_>>());
    }
}

/// What HAProxy does not say outright: what the nodes are, and who moves the primary.
fn cluster(draft: &mut Draft, Site { ours, writes, .. }: &Site, given: Option<Kind>) {
    draft.say(&t::CLUSTER_NAME, &fit(writes[0].name), format!("[{}]", writes[0].section));
    let is_named = |proxy: &&&Proxy| {
        let name = proxy.name.to_ascii_lowercase();
        ["galera", "pxc", "wsrep"].iter().any(|word| name.contains(word))
    };
    let has_many = |proxy: &&&Proxy| proxy.servers.iter().filter(|server| !server.is_backup).count() > 1;
    let many = writes.iter().find(has_many);
    let guess = if let Some(proxy) = ours.iter().find(is_named).or(many) {
        Some((
            Kind::Galera,
            format!("[{}] names Galera, or gives sessions to several servers", proxy.section),
        ))
    } else if ours.len() > writes.len() {
        Some((Kind::Replication, "its sections for writes and for reads".to_owned()))
    } else {
        let checked = ours.iter().find(|proxy| proxy.has_http_check);
        checked.map(|proxy| {
            (Kind::Galera, format!("guessed: [{}] has HTTP checks, as clustercheck answers", proxy.section))
        })
    };
    let kind = given.map(|kind| (kind, "--kind".to_owned())).or(guess);
    if let (Some((Kind::Galera, _)), Some(proxy)) = (&kind, many) {
        let what =
            "gives sessions to several servers; \"one\" spares the application conflicts between nodes";
        draft.say(&t::CLUSTER_WRITERS, "all", format!("[{}] {what}", proxy.section));
    }
    draft.cluster(kind, Some("HAProxy moves no primary"));
}
