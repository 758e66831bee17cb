//! What `vip status` and `vip release` need of a keepalived.conf: the addresses, where they sit, the check, the state file.
//!
//! Enters: any text; what is not understood is passed over, for keepalived is the judge of its own configuration
//! (`keepalived --config-test`). Files that it includes are not read, and its `$DEFINITIONS` are not replaced.

use std::path::PathBuf;

use super::address::Address;

/// The part of it that matters here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ConfFile {
    /// In their order.
    pub instances: Vec<Instance>,
    /// In their order.
    pub scripts: Vec<Script>,
}

/// A `vrrp_instance`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// Each address, and the device that it sits on.
    pub addresses: Vec<(Address, String)>,
    /// Names of its track scripts.
    pub checks: Vec<String>,
    /// Where its notify commands write the state.
    pub state_file: Option<PathBuf>,
}

/// A `vrrp_script`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// The command line.
    pub command: String,
    /// keepalived ends it after so many seconds.
    pub timeout_s: Option<u64>,
}

/// One line of a block, or a block with its head.
#[derive(Debug, Default)]
struct Entry {
    words: Vec<String>,
    inside: Vec<Entry>,
}

impl Entry {
    fn key(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    fn value(&self) -> &str {
        self.words.get(1).map_or("", String::as_str)
    }

    fn find(&self, key: &str) -> Option<&str> {
        self.inside.iter().find(|entry| entry.key() == key).map(Entry::value)
    }

    fn block(&self, key: &str) -> impl Iterator<Item = &Entry> {
        self.inside.iter().filter(move |entry| entry.key() == key).flat_map(|entry| &entry.inside)
    }
}

impl ConfFile {
    /// Reads it.
    pub fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        for entry in entries(text) {
            match entry.key() {
                "vrrp_instance" => conf.instances.push(instance(&entry)),
                "vrrp_script" => conf.scripts.push(Script {
                    name: entry.value().to_owned(),
                    command: entry.find("script").unwrap_or_default().to_owned(),
                    timeout_s: entry.find("timeout").and_then(|text| text.parse().ok()),
                }),
                _ => {}
            }
        }
        conf
    }
}

fn instance(entry: &Entry) -> Instance {
    let own = entry.find("interface").unwrap_or_default();
    let addresses = entry
        .block("virtual_ipaddress")
        .chain(entry.block("virtual_ipaddress_excluded"))
        .filter_map(|line| {
            let device = line.words.iter().skip_while(|word| *word != "dev").nth(1);
            Some((Address::lenient(line.key())?, device.map_or(own, String::as_str).to_owned()))
        });
    Instance {
        name: entry.value().to_owned(),
        addresses: addresses.collect(),
        checks: entry.block("track_script").map(|line| line.key().to_owned()).collect(),
        state_file: entry
            .inside
            .iter()
            .filter(|line| line.key().starts_with("notify"))
            .find_map(|line| state_file(line.value())),
    }
}

/// The file that a notify command writes: our own option, or what a shell's `>` sends its output to.
fn state_file(command: &str) -> Option<PathBuf> {
    let words = shlex::split(command)?;
    // `sh -c '...'`: look inside.
    if let Some(inner) = words.iter().skip_while(|word| *word != "-c").nth(1) {
        return state_file(inner);
    }
    let after = |name: &str| words.iter().skip_while(|word| *word != name).nth(1);
    after("--state-file").or_else(|| after(">")).map(PathBuf::from)
}

/// Everything on the outer level.
fn entries(text: &str) -> Vec<Entry> {
    // The blocks that are open, the outermost first; it is never empty.
    let mut open = vec![Entry::default()];
    for line in text.lines() {
        let mut words = Vec::new();
        for word in words_of(line) {
            match word.as_str() {
                "{" => open.push(Entry { words: std::mem::take(&mut words), inside: Vec::new() }),
                "}" => {
                    put(&mut open, &mut words);
                    if open.len() > 1
                        && let Some(closed) = open.pop()
                        && let Some(outer) = open.last_mut()
                    {
                        outer.inside.push(closed);
                    }
                }
                _ => words.push(word),
            }
        }
        put(&mut open, &mut words);
    }
    open.swap_remove(0).inside
}

fn put(open: &mut [Entry], words: &mut Vec<String>) {
    if let Some(block) = open.last_mut()
        && !words.is_empty()
    {
        block.inside.push(Entry { words: std::mem::take(words), inside: Vec::new() });
    }
}

/// The words of a line: `"..."` is one, a brace is one, and `#` or `!` begins a comment.
fn words_of(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for sign in line.chars() {
        match sign {
            '"' => {
                if quoted {
                    words.push(std::mem::take(&mut word));
                }
                quoted = !quoted;
            }
            _ if quoted => word.push(sign),
            '#' | '!' => break,
            _ if sign.is_whitespace() || matches!(sign, '{' | '}') => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if !sign.is_whitespace() {
                    words.push(sign.to_string());
                }
            }
            _ => word.push(sign),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            (instance.name.as_str(), instance.checks.as_slice()),
            ("PXC", ["chk_pxc".to_owned()].as_slice())
        );
        let addresses: Vec<String> =
            instance.addresses.iter().map(|(address, device)| format!("{address} {device}")).collect();
        assert_eq!(addresses, ["192.168.70.100/32 eth1", "fd00::1/64 eth2"]);
        assert_eq!(instance.state_file.as_deref(), Some(std::path::Path::new("/tmp/keepalived.state")));
    }

    #[test]
    fn braces_may_stand_anywhere_and_nothing_is_a_panic() {
        let one = ConfFile::parse("vrrp_instance A { interface eth0\nvirtual_ipaddress { 10.0.0.1/24 } }");
        assert_eq!(one.instances[0].addresses.len(), 1);
        for odd in
            ["}}}", "{", "vrrp_instance", "vrrp_instance {\n\"", "# only this", "vrrp_script x { script }"]
        {
            ConfFile::parse(odd);
        }
    }
}
