//! What `vip status` and `vip release` need of a keepalived.conf: the addresses, where they sit, the checks, the state files.
//!
//! Enters: any text. What is not understood and cannot matter is passed over, for keepalived is the judge of its own configuration
//! (`keepalived --config-test`). What may hide an address (an `include`, a line for another machine, a parameter without a value) is
//! kept as a sentence: nobody may conclude from here that an address is not there.

use std::path::PathBuf;

use super::address::Address;
use super::conf_text::{Entry, entries};

/// The part of it that matters here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ConfFile {
    /// In their order.
    pub instances: Vec<Instance>,
    /// In their order.
    pub scripts: Vec<Script>,
    /// Where keepalived works, if not where it is started.
    pub net_namespace: Option<String>,
    /// What may hold an address and could not be read: a sentence each.
    pub unread: Vec<String>,
    /// What else could not be read: a sentence each.
    pub notes: Vec<String>,
}

/// A `vrrp_instance`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// Each address, and the device that it is to sit on. (With `use_vmac` it sits on another.)
    pub addresses: Vec<(Address, String)>,
    /// Its track scripts.
    pub checks: Vec<Tracked>,
    /// Where its notify commands write the state.
    pub state_file: Option<PathBuf>,
}

/// A script that an instance tracks.
#[derive(Debug, PartialEq, Eq)]
pub struct Tracked {
    /// The script's name.
    pub name: String,
    /// It only changes the priority; `None`: as the script says.
    pub weighs: Option<bool>,
}

/// A `vrrp_script`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// The command line.
    pub command: String,
    /// keepalived ends it after so many seconds: its `timeout`, or else its `interval`.
    pub limit_s: u64,
    /// It only changes the priority, or is good when it fails.
    pub weighs: bool,
}

impl ConfFile {
    /// Reads it.
    pub fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        for entry in entries(text, &mut conf.unread) {
            match entry.key() {
                "vrrp_instance" => {
                    let instance = conf.instance(&entry);
                    conf.instances.push(instance);
                }
                "vrrp_script" => {
                    let script = conf.script(&entry);
                    conf.scripts.push(script);
                }
                "vrrp_sync_group" => conf.notes.push(format!(
                    "line {}: vrrp_sync_group {} is not read: nor its checks, nor what its notify commands record",
                    entry.line,
                    entry.value()
                )),
                "net_namespace" => conf.net_namespace = Some(entry.value().to_owned()),
                "global_defs" => {
                    if let Some(line) = entry.line_of("net_namespace") {
                        conf.net_namespace = Some(line.value().to_owned());
                    }
                }
                key if is_variable(key) => conf.unread.push(sentence(&entry, "")),
                _ => {}
            }
        }
        conf
    }

    fn instance(&mut self, entry: &Entry) -> Instance {
        let place = format!("vrrp_instance {}, ", entry.value());
        let own = entry.line_of("interface").map_or("", Entry::value);
        let mut addresses = Vec::new();
        for line in entry.block("virtual_ipaddress").chain(entry.block("virtual_ipaddress_excluded")) {
            match Address::lenient(line.key()) {
                Some(address) => {
                    let device = line.words.iter().skip_while(|word| *word != "dev").nth(1);
                    addresses.push((address, device.map_or(own, String::as_str).to_owned()));
                }
                None => self.unread.push(sentence(line, &place)),
            }
        }
        for line in entry.inside.iter().filter(|line| is_variable(line.key())) {
            match (line.key().starts_with('@'), line.value()) {
                (false, _) | (true, "virtual_ipaddress" | "virtual_ipaddress_excluded") => {
                    self.unread.push(sentence(line, &place));
                }
                (true, key) if key.starts_with("notify") || key == "track_script" => {
                    self.notes.push(sentence(line, &place));
                }
                _ => {}
            }
        }
        let mut checks = Vec::new();
        for line in entry.block("track_script") {
            if is_variable(line.key()) {
                self.notes.push(sentence(line, &place));
            } else {
                checks.push(Tracked { name: line.key().to_owned(), weighs: weighs(line) });
            }
        }
        Instance {
            name: entry.value().to_owned(),
            addresses,
            checks,
            state_file: entry
                .inside
                .iter()
                .filter(|line| line.key().starts_with("notify"))
                .find_map(|line| state_file(line.value())),
        }
    }

    fn script(&mut self, entry: &Entry) -> Script {
        for line in entry.inside.iter().filter(|line| is_variable(line.key())) {
            self.notes.push(sentence(line, &format!("vrrp_script {}, ", entry.value())));
        }
        let seconds = |key: &str| {
            entry.line_of(key).and_then(|line| line.value().parse().ok()).filter(|seconds| *seconds > 0)
        };
        Script {
            name: entry.value().to_owned(),
            command: entry.line_of("script").map_or("", Entry::value).to_owned(),
            limit_s: seconds("timeout").or_else(|| seconds("interval")).unwrap_or(1),
            weighs: entry.line_of("weight").and_then(weighs).unwrap_or(false),
        }
    }
}

/// For one machine only, a parameter without a value that is known here, or a line that stands for several.
fn is_variable(key: &str) -> bool {
    key.starts_with(['@', '$', '~'])
}

fn sentence(entry: &Entry, place: &str) -> String {
    let words = entry.words.join(" ");
    format!("line {}: {place}`{words}` cannot be understood without keepalived", entry.line)
}

/// `weight 3`, `weight 0 reverse`: whether the script does something else than to decide.
fn weighs(line: &Entry) -> Option<bool> {
    let mut words = line.words.iter().skip_while(|word| *word != "weight").skip(1);
    let weight = words.next()?;
    Some(weight.parse() != Ok(0) || words.any(|word| word == "reverse"))
}

/// The file that a notify command writes: our own option, or what a shell's `>` sends its output to.
fn state_file(command: &str) -> Option<PathBuf> {
    let words = shlex::split(command)?;
    // `sh -c '...'`: look inside.
    if let Some(inner) = words.iter().skip_while(|word| *word != "-c").nth(1) {
        return state_file(inner);
    }
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--state-file" {
            return words.next().map(PathBuf::from);
        }
        let Some((before, file)) = word.split_once('>') else { continue };
        // Errors go elsewhere, and `>&2` is no file.
        if before == "2" || file.starts_with('&') {
            continue;
        }
        let file = file.trim_start_matches('>');
        return if file.is_empty() { words.next() } else { Some(file) }.map(PathBuf::from);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(instance: &Instance) -> Vec<String> {
        instance.addresses.iter().map(|(address, device)| format!("{address} {device}")).collect()
    }

    #[test]
    fn the_seeds_configuration_is_understood() {
        let conf = ConfFile::parse(
            "vrrp_script chk_pxc {\n  script \"/usr/bin/clustercheck clustercheck password 0\" # each second\n  interval 1\n}\n\
             vrrp_instance PXC {\n  state MASTER\n  interface eth1\n  virtual_ipaddress {\n    192.168.70.100\n    fd00::1/64 dev eth2\n  }\n\
             ! a comment\n  track_script {\n    chk_pxc\n  }\n\
             notify_master \"/bin/sh -c 'echo now master > /tmp/keepalived.state'\"\n}\n",
        );
        assert_eq!(conf.scripts[0].command, "/usr/bin/clustercheck clustercheck password 0");
        let instance = &conf.instances[0];
        assert_eq!((instance.name.as_str(), instance.checks[0].name.as_str()), ("PXC", "chk_pxc"));
        assert_eq!(addresses(instance), ["192.168.70.100/32 eth1", "fd00::1/64 eth2"]);
        assert_eq!(instance.state_file.as_deref(), Some(std::path::Path::new("/tmp/keepalived.state")));
        assert!(conf.unread.is_empty() && conf.notes.is_empty(), "{conf:?}");
    }

    #[test]
    fn braces_may_stand_anywhere_and_nothing_is_a_panic() {
        let one = ConfFile::parse("vrrp_instance A { interface eth0\nvirtual_ipaddress { 10.0.0.1/24 } }");
        assert_eq!(one.instances[0].addresses.len(), 1);
        for odd in [
            "}}}",
            "{",
            "vrrp_instance",
            "vrrp_instance {\n\"",
            "# only this",
            "vrrp_script x { script }",
            "$=\n$",
            "${",
            "@",
            "\\",
            "a \\x",
            "a \\c\u{e9}",
            "$\u{e9} ${\u{e9}}",
            "a \\xfff",
        ] {
            ConfFile::parse(odd);
        }
    }

    #[test]
    fn what_may_hide_an_address_is_told() {
        let unread = |inside: &str| {
            let conf = ConfFile::parse(&format!("vrrp_instance A {{\ninterface eth0\n{inside}\n}}"));
            assert!(conf.notes.is_empty(), "{conf:?}");
            conf.unread.concat()
        };
        for (inside, told) in [
            ("virtual_ipaddress {\n10.0.0.1/24\n$VIP\n}", "line 5: vrrp_instance A, `$VIP` cannot"),
            ("virtual_ipaddress {\n@db1 10.0.0.1/24\n}", "`@db1 10.0.0.1/24`"),
            ("virtual_ipaddress_excluded {\ninclude vips.conf\n}", "line 4: `include vips.conf`"),
            ("@db1 virtual_ipaddress {\n10.0.0.1/24\n}", "`@db1 virtual_ipaddress`"),
            ("$ADDRESSES", "`$ADDRESSES`"),
            ("virtual_ipaddress {\n~SEQ(x, 1, 3) 10.0.0.$x\n}", "~SEQ"),
        ] {
            let said = unread(inside);
            assert!(said.contains(told), "{inside}: {said}");
        }
        for known in ["virtual_ipaddress {\n10.0.0.0/24\n}", "@db1 priority 100", "@db1 $PRIORITY=100"] {
            assert_eq!(unread(known), "");
        }
        assert_eq!(ConfFile::parse("@db1 vrrp_instance A {\n}\n$INSTANCE\n").unread.len(), 2);
        let group = ConfFile::parse("vrrp_sync_group G {\nnotify_master /bin/true\n}");
        assert!(group.notes[0].contains("vrrp_sync_group G is not read") && group.unread.is_empty());
    }

    #[test]
    fn parameters_and_the_namespace_are_read() {
        let conf = ConfFile::parse(
            "$VIP=10.0.0.1/24\nnet_namespace red\nvrrp_instance A {\ninterface eth0\nvirtual_ipaddress {\n$VIP dev eth1\n}\n}\n",
        );
        assert_eq!(addresses(&conf.instances[0]), ["10.0.0.1/24 eth1"]);
        assert_eq!(conf.net_namespace.as_deref(), Some("red"));
        assert!(conf.unread.is_empty());
    }

    #[test]
    fn a_check_has_keepaliveds_own_time_and_weight() {
        let script = |inside: &str| {
            let conf = ConfFile::parse(&format!("vrrp_script a {{\nscript '/bin/a \"b c\"'\n{inside}\n}}"));
            assert_eq!(conf.scripts[0].command, "/bin/a \"b c\"");
            (conf.scripts[0].limit_s, conf.scripts[0].weighs)
        };
        assert_eq!(script(""), (1, false));
        assert_eq!(script("interval 5\nweight 0"), (5, false));
        assert_eq!(script("interval 5\ntimeout 3\nweight -20"), (3, true));
        assert_eq!(script("weight 0 reverse"), (1, true));
        let conf = ConfFile::parse("vrrp_instance A {\ntrack_script {\na\nb weight 2\nc weight 0\n}\n}");
        let weighs: Vec<Option<bool>> =
            conf.instances[0].checks.iter().map(|tracked| tracked.weighs).collect();
        assert_eq!(weighs, [None, Some(true), Some(false)]);
    }

    #[test]
    fn the_state_file_is_found_in_a_notify_command() {
        for (command, file) in [
            ("/usr/bin/understudy vip notify master --state-file /run/a", Some("/run/a")),
            ("/bin/sh -c 'echo now master >/run/a'", Some("/run/a")),
            ("/bin/sh -c 'echo now master 2>/dev/null > /run/a'", Some("/run/a")),
            ("/bin/sh -c 'echo now master 1>/run/a 2>&1'", Some("/run/a")),
            ("/bin/sh -c 'echo now master>/run/a'", Some("/run/a")),
            ("/bin/sh -c 'logger now master >&2'", None),
            ("/bin/notify", None),
            ("/bin/sh -c 'echo >'", None),
        ] {
            assert_eq!(state_file(command), file.map(PathBuf::from), "{command}");
        }
    }
}
