//! Converts an MHA site to a configuration of Understudy: the output of `understudy settings --from-mha app1.cnf`.

use std::fmt::Write;

use super::conf::{Conf, Server};
use super::keys::{Becomes, becomes};

/// The priorities of a server with `candidate_master`, of one without either key, and of one with `no_master`.
const PRIORITIES: [u32; 3] = [100, 10, 0];

/// The file's text.
pub fn configuration(conf: &Conf) -> String {
    let app = name(&conf.app());
    let mut text = format!(
        "# Made by `understudy settings --from-mha {}`. It holds passwords: let only its owner read it.\n\
         # Try it with `understudy serve --check`, and stop masterha_manager before `understudy serve` begins: two managers would disagree.\n\n\
         [cluster]\nname = {}\nkind = \"replication\"\n\
         # manager = \"external\"   # MHA goes on deciding, and Understudy follows; then take [cluster.replication] out\n\n",
        conf.file.display(),
        quoted(&app)
    );
    for server in &conf.servers {
        node(&mut text, conf, server);
    }
    monitor(&mut text, conf);
    replication(&mut text, conf);
    text += "[listen]\nmysql = \"0.0.0.0:6033\"     # applications connect here instead of to the primary's address\nhttp  = \"127.0.0.1:6080\"\n";
    if let Some(workdir) = written(conf, "manager_workdir") {
        let _ = write!(
            text,
            "\n[state]\ndir = {}\n",
            quoted(&format!("{}/understudy", workdir.trim_end_matches('/')))
        );
    }
    nothing(&mut text, conf);
    text
}

/// What the operator should check: keys and blocks of MHA's file that were left out or are misleading, and values that are missing. One
/// sentence each.
pub fn doubts(conf: &Conf) -> Vec<String> {
    let mut all: Vec<String> = conf.unknown.iter().map(|why| format!("{why}; it is left out")).collect();
    all.extend(conf.odd.iter().cloned());
    let first = &conf.servers[0];
    for key in ["repl_user", "repl_password"].into_iter().filter(|key| first.get(key).is_none()) {
        let file = conf.file.display();
        let own = if key == "repl_user" { "user" } else { "password" };
        all.push(format!(
            "{file} has no {key}: cluster.replication.{own} is left out, and has to be written"
        ));
    }
    all
}

/// A server's node name in the new configuration.
pub fn node_name(conf: &Conf, server: &Server) -> String {
    let is_twin = conf.servers.iter().filter(|other| other.host() == server.host()).count() > 1;
    name(if is_twin { &server.block } else { server.host() })
}

/// A value that stands in the file, and is not only MHA's default.
fn written<'a>(conf: &'a Conf, key: &str) -> Option<&'a str> {
    conf.places.get(key).and_then(|_| conf.get(key))
}

fn node(text: &mut String, conf: &Conf, server: &Server) {
    let [candidate, any, no_master] = PRIORITIES;
    let (priority, why) = match (server.is_on("no_master"), server.is_on("candidate_master")) {
        (true, _) => (
            no_master,
            "     # no_master: promoted only when nobody else can be; `understudy drain` it, and it never is",
        ),
        (_, true) => (candidate, "   # candidate_master"),
        _ => (any, ""),
    };
    let _ = write!(
        text,
        "[[cluster.node]]      # [{}]\nname     = {}\naddress  = {}\npriority = {priority}{why}\n\n",
        server.block,
        quoted(&node_name(conf, server)),
        quoted(&server.address())
    );
}

fn monitor(text: &mut String, conf: &Conf) {
    let first = &conf.servers[0];
    let _ = write!(
        text,
        "[cluster.monitor]\nuser     = {}      # `understudy serve --check` says which rights it lacks, if any\npassword = {}\n",
        quoted(first.user()),
        quoted(first.password())
    );
    let differs = |server: &&Server| (server.user(), server.password()) != (first.user(), first.password());
    for other in conf.servers.iter().filter(differs) {
        let _ = writeln!(
            text,
            "# [{}] has an account of its own: the same one is needed on all servers",
            other.block
        );
    }
    match written(conf, "ping_interval").and_then(|seconds| seconds.parse::<u64>().ok()) {
        Some(seconds) => {
            let _ = write!(
                text,
                "interval_ms = {}      # ping_interval = {seconds} s. 200 is the default: a primary that is silent is lost after three of them\n\n",
                seconds.saturating_mul(1000).min(60_000)
            );
        }
        _ => *text += "\n",
    }
}

fn replication(text: &mut String, conf: &Conf) {
    let first = &conf.servers[0];
    text.push_str("[cluster.replication]\n");
    let _ = match first.get("repl_user") {
        Some(user) => writeln!(text, "user     = {}", quoted(user)),
        None => writeln!(
            text,
            "# user   =      # repl_user is not set: MHA takes it from SHOW SLAVE STATUS; write it here"
        ),
    };
    let _ = match first.get("repl_password") {
        Some(password) => writeln!(text, "password = {}\n", quoted(password)),
        None => writeln!(
            text,
            "# password =    # repl_password is not set; write it here, or password_file, or password_env\n"
        ),
    };
}

/// The keys that have no counterpart.
fn nothing(text: &mut String, conf: &Conf) {
    let mut lines = String::new();
    for (key, place) in &conf.places {
        if let Some(Becomes::Nothing(why)) = becomes(key) {
            let _ = writeln!(lines, "#   {key} ({place}): {why}");
        }
    }
    for block in &conf.binlog_servers {
        let _ = writeln!(lines, "#   [{block}]: binlog servers are not used; replicas follow by GTID");
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n# What has no counterpart here:\n{lines}");
    }
    let doubts = doubts(conf);
    if !doubts.is_empty() {
        let _ = write!(text, "\n# Look at this:\n#   {}\n", doubts.join("\n#   "));
    }
}

/// Replaces characters that a name may not have.
fn name(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    text.chars().map(fits).take(64).collect()
}

/// Quoted for TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::conf::tests::{APP, read};
    use super::*;
    use settings::Settings;

    #[test]
    fn a_site_of_mha_is_a_configuration_that_says_the_same() {
        let text = configuration(&read(APP).unwrap());
        let settings = Settings::parse(Path::new("/etc/understudy.toml"), &text).unwrap();
        assert_eq!(settings.name, "app1");
        let nodes: Vec<_> =
            settings.nodes.iter().map(|node| (&*node.name, &*node.address, node.priority)).collect();
        let expect = [
            ("10.11.0.106", "10.11.0.106:3306", 10),
            ("db2", "10.11.0.107:3306", 100),
            ("db3", "db3:3307", 0),
        ];
        assert_eq!(nodes, expect);
        assert_eq!(
            (settings.monitor.user.as_str(), &*settings.monitor_account().unwrap().password),
            ("mha", "s3cret")
        );
        assert_eq!(settings.get(&settings::table::MONITOR_INTERVAL).as_millis(), 1000);
        let account = settings.replication_account().unwrap().unwrap();
        assert_eq!((account.user.as_str(), &*account.password), ("repl", "r3pl"));
        assert_eq!(settings.state_dir, Path::new("/var/log/masterha/app1/understudy"));
        for line in [
            "#   ssh_user (/etc/app1.cnf:9): no SSH is used",
            "#   master_ip_failover_script (/etc/app1.cnf:10): ",
            "#   [binlog1]: ",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn two_on_one_host_and_odd_passwords_are_told_apart() {
        let text = "[server default]\nrepl_user=r\nrepl_password=p\npassword=a\"b\\c\n[server1]\nhostname=h\n[server2]\nhostname=h\nport=3307\n";
        let text = configuration(&read(text).unwrap());
        let settings = Settings::parse(Path::new("/etc/understudy.toml"), &text).unwrap();
        assert_eq!(settings.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["server1", "server2"]);
        assert_eq!(*settings.monitor_account().unwrap().password, *"a\"b\\c");
    }

    #[test]
    fn what_is_missing_is_not_made_up_and_is_asked_for() {
        let conf = read("[server default]\npasword=x\nrepl_user=r\n[server1]\nhostname=h\n").unwrap();
        let text = configuration(&conf);
        assert!(text.contains("# Look at this:\n#   /etc/app1.cnf:2: MHA has no key pasword; did you mean password?; it is left out\n"), "{text}");
        assert!(
            text.contains("#   /etc/app1.cnf has no repl_password: cluster.replication.password is left out"),
            "{text}"
        );
        let wrong = Settings::parse(Path::new("/etc/understudy.toml"), &text).err().unwrap().to_string();
        assert!(
            wrong
                .contains("cluster.replication has no password: set password, password_file or password_env"),
            "{wrong}"
        );
    }
}
