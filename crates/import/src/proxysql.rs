//! proxysql.cnf, also as `SELECT CONFIG INTO OUTFILE` writes it from ProxySQL's tables: the servers of the first set of hostgroups.
//!
//! Source: ProxySQL's documentation, versions 2.x: Global Variables, Main (runtime), Galera configuration.

use settings::table as t;
use toml::Value;

use super::Kind;
use super::draft::{Draft, Fate, Item, address};

/// What becomes of each key of one of these sections.
pub const RULES: &str = include_str!("proxysql.rules");

/// The tables that say which hostgroups belong together, in the order in which they are looked for.
const SETS: [(&str, Option<Kind>); 3] = [
    ("mysql_galera_hostgroups", Some(Kind::Galera)),
    ("mysql_replication_hostgroups", Some(Kind::Replication)),
    ("mysql_group_replication_hostgroups", None),
];

/// The hostgroups of a cluster.
struct Set<'a> {
    table: &'static str,
    section: &'a str,
    kind: Option<Kind>,
    all: Vec<&'a str>,
    reader: &'a str,
    has_many_writers: bool,
}

/// The value of the first of these keys that a section has.
fn value<'a>(items: &'a [Item], section: &str, keys: &[&str]) -> Option<&'a str> {
    let is_it = |item: &&Item| item.section == section && keys.contains(&&*item.key);
    items.iter().find(is_it).map(|item| &*item.value)
}

impl<'a> Set<'a> {
    /// The first that there is.
    fn of(items: &'a [Item]) -> Option<Self> {
        SETS.iter().find_map(|(table, kind)| {
            let section =
                &*items.iter().find(|item| is_in(item, table) && item.section.contains('['))?.section;
            let group = |key: &str| value(items, section, &[key]).unwrap_or_default();
            let keys =
                ["writer_hostgroup", "backup_writer_hostgroup", "reader_hostgroup", "offline_hostgroup"];
            let has_many_writers = group("max_writers").parse::<u32>().is_ok_and(|number| number > 1);
            let (all, reader) = (keys.map(group).to_vec(), group("reader_hostgroup"));
            Some(Self { table, section, kind: *kind, all, reader, has_many_writers })
        })
    }
}

/// # Errors
/// There is no server.
pub fn translate(items: &[Item], draft: &mut Draft, kind: Option<Kind>) -> Result<(), String> {
    let set = Set::of(items);
    let is_of_set = |section: &str| {
        let group = value(items, section, &["hostgroup", "hostgroup_id"]).unwrap_or("0");
        set.as_ref().is_none_or(|set| set.all.contains(&group))
    };
    let is_server =
        |item: &&Item| is_in(item, "mysql_servers") && ["address", "hostname"].contains(&&*item.key);
    for item in items.iter().filter(is_server).filter(|item| is_of_set(&item.section)) {
        let port = value(items, &item.section, &["port"]).unwrap_or("3306");
        draft.node(&item.value, &address(&item.value, port), item);
    }
    if draft.nodes.is_empty() {
        return Err("there is no server in mysql_servers: the tables of a running ProxySQL are written by SELECT CONFIG INTO OUTFILE".into());
    }
    cluster(draft, set.as_ref(), kind);
    let splits = |section: &str| {
        let target = value(items, section, &["destination_hostgroup"]);
        let is_active = value(items, section, &["active"]).unwrap_or("1") != "0";
        is_active && set.as_ref().is_some_and(|set| target == Some(set.reader))
    };
    let is_galera = draft.is(&t::CLUSTER_KIND, "galera");
    // Of its intervals, those of the kind count.
    let other = if is_galera { "monitor_read_only_" } else { "monitor_galera_" };
    // Where not all servers are under TLS, one that cannot be is told by `serve --check`, and none is plain in silence.
    let is_plain = |item: &Item| item.key == "use_ssl" && item.value == "0";
    let rank = |item: &Item| usize::from(item.key.starts_with(other) || is_plain(item));
    draft.translate(items, rank, |draft, item| {
        let table = item.section.split('[').next().unwrap_or_default();
        let is_others = match &set {
            Some(set) if set.table == table => set.section != item.section,
            _ => table == "mysql_servers" && !is_of_set(&item.section),
        };
        match (table, &*item.key) {
            _ if is_others => Fate::nothing(
                "it is another cluster's: put its tables into a file of their own, and import that",
            ),
            ("mysql_variables", "interfaces") => listen(draft, item),
            ("mysql_query_rules", "destination_hostgroup") if splits(&item.section) && !is_galera => draft
                .put(&t::LISTEN_SPLIT, Value::Boolean(true), format!("{} destination_hostgroup", item.at)),
            _ => draft.by(RULES, table, item),
        }
    });
    draft.said_for_each_node();
    Ok(())
}

fn is_in(item: &Item, table: &str) -> bool {
    item.section.split('[').next() == Some(table)
}

/// Addresses, and paths of sockets, between `;`.
fn listen(draft: &mut Draft, item: &Item) -> Fate {
    let all = item.value.split(';').map(str::trim);
    let mut fate = Fate::nothing("clients connect over TCP");
    for address in all.filter(|address| !address.starts_with('/')) {
        fate = draft.listens(&t::LISTEN_MYSQL, address, item);
    }
    fate
}

/// What the nodes are, and who moves the primary.
fn cluster(draft: &mut Draft, set: Option<&Set>, given: Option<Kind>) {
    draft.say(&t::CLUSTER_NAME, "proxysql", "ProxySQL has no name for a cluster");
    let known = set.and_then(|set| Some((set.kind?, format!("[{}]", set.section))));
    if given.is_none() && known.is_none() && set.is_some() {
        draft.ask(
            &t::CLUSTER_KIND,
            "MySQL Group Replication is neither \"galera\" nor \"replication\": it is not supported",
        );
    }
    draft.cluster(
        given.map(|kind| (kind, "--kind".to_owned())).or(known),
        Some("ProxySQL follows read_only and moves no primary"),
    );
    if draft.is(&t::CLUSTER_KIND, "galera") && set.is_some_and(|set| set.has_many_writers) {
        let why = "max_writers is more than 1; \"one\" spares the application conflicts between nodes";
        draft.say(&t::CLUSTER_WRITERS, "all", why);
    }
}
