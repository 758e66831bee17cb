//! Compares what we read with what MHA::Config itself reads: some hundred configurations, made of the forms that public ones have.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::conf::Conf;
use crate::masterha::keys;

const CASES: u64 = 600;

/// Reads N.cnf and N.global in the directory of its argument; writes `N died WHY`, or `N read`, and a line for each value: N, block, key and the
/// value's bytes in hexadecimal.
const PERL: &str = r#"
use strict;
use MHA::Config;
my ( $dir, $cases ) = @ARGV;
chdir $dir or die;
for my $case ( 0 .. $cases - 1 ) {
  my ($servers) = eval { MHA::Config->new( file => "$case.cnf", globalfile => "$case.global" )->read_config() };
  if ( my $why = $@ ) { $why =~ s/\s+/ /g; print "$case died $why\n"; next }
  print "$case read\n";
  for my $server (@$servers) {
    for my $key ( sort keys %$server ) {
      my $value = $server->{$key};
      print join( ' ', $case, $server->{id} =~ s/\s/_/gr, $key, 'x' . unpack 'H*', $value ), "\n" if defined $value;
    }
  }
}
"#;

/// The servers in their order, with their values.
type Read = Vec<(String, BTreeMap<String, Vec<u8>>)>;

#[test]
fn every_value_is_the_one_that_mha_reads() {
    let installed = Command::new("perl").args(["-MMHA::Config", "-e", "1"]).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        // Where continuous integration has installed everything, this must not go unnoticed.
        assert!(std::env::var_os("CI").is_none(), "MHA is not installed: scripts/setup.sh");
        println!("skipped: MHA is not installed (mha4mysql-manager; scripts/setup.sh installs it)");
        return;
    }
    let dir = tempfile::Builder::new().prefix("understudy-mha-net-").tempdir().unwrap();
    for case in 0..CASES {
        let mut maker = Maker { state: case * 7919 + 1, dir: dir.path().display().to_string(), case };
        if maker.one_in(2) {
            std::fs::write(dir.path().join(format!("{case}.global")), maker.global()).unwrap();
        }
        let printed = maker.printed();
        std::fs::write(dir.path().join(format!("{case}.out")), printed).unwrap();
        std::fs::write(dir.path().join(format!("{case}.cnf")), maker.application()).unwrap();
    }
    let theirs = mhas(dir.path());
    let (mut read, mut refused) = (0, 0);
    for case in 0..CASES {
        let text = || {
            ["global", "out", "cnf"]
                .map(|kind| std::fs::read(dir.path().join(format!("{case}.{kind}"))).unwrap_or_default())
                .map(|bytes| bytes.escape_ascii().to_string().replace("\\n", "\n"))
                .join("\n---\n")
        };
        match (ours(dir.path(), case), &theirs[&case]) {
            (Ok(ours), Ok(theirs)) => {
                let (ours, theirs) = (shown(&ours), shown(theirs));
                let only = |of: &[String], other: &[String]| -> Vec<String> {
                    of.iter().filter(|line| !other.contains(line)).cloned().collect()
                };
                let (ours_only, theirs_only) = (only(&ours, &theirs), only(&theirs, &ours));
                assert!(ours == theirs, "case {case}: {ours_only:?}, and MHA: {theirs_only:?}:\n{}", text());
                read += 1;
            }
            (Err(_), Err(_)) => refused += 1,
            // MHA fails at such a port only when it connects.
            (Err(why), Ok(_)) if why.contains("which is no port") => refused += 1,
            (Ok(_), Err(why)) => panic!("case {case}: MHA refuses it ({why}), and we do not:\n{}", text()),
            (Err(why), Ok(_)) => panic!("case {case}: MHA reads it, and we do not ({why}):\n{}", text()),
        }
    }
    println!("{read} read, {refused} refused");
    assert!(read > CASES / 3 && refused > CASES / 6, "{read} read, {refused} refused");
}

fn shown(read: &Read) -> Vec<String> {
    let of = |(block, values): &(String, BTreeMap<String, Vec<u8>>)| {
        values
            .iter()
            .map(|(key, value)| format!("[{block}] {key}={}", value.escape_ascii()))
            .collect::<Vec<_>>()
    };
    read.iter().flat_map(of).collect()
}

fn ours(dir: &Path, case: u64) -> Result<Read, String> {
    let (file, global) = (dir.join(format!("{case}.cnf")), dir.join(format!("{case}.global")));
    let conf = Conf::read(&file, Some(&global))?;
    if !conf.unknown.is_empty() {
        return Err(conf.unknown.join("; "));
    }
    let of = |server: &super::conf::Server| {
        let mut values: BTreeMap<String, Vec<u8>> =
            keys().filter_map(|key| Some((key.to_owned(), server.value(key)?.as_bytes().to_vec()))).collect();
        values.insert("ip".into(), server.ip().as_bytes().to_vec());
        (server.block.replace(' ', "_"), values)
    };
    Ok(conf.servers.iter().map(of).collect())
}

fn mhas(dir: &Path) -> BTreeMap<u64, Result<Read, String>> {
    let run = Command::new("perl")
        .args(["-e", PERL, &dir.display().to_string(), &CASES.to_string()])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", run.status);
    let mut all: BTreeMap<u64, Result<Read, String>> = BTreeMap::new();
    for line in String::from_utf8(run.stdout).unwrap().lines() {
        let (case, rest) = line.split_once(' ').unwrap();
        let case = case.parse().unwrap();
        if let Some(why) = rest.strip_prefix("died ") {
            all.insert(case, Err(why.into()));
        } else if rest == "read" {
            all.insert(case, Ok(Read::new()));
        } else if let [block, key, hex] = rest.split(' ').collect::<Vec<_>>()[..] {
            // What MHA makes of other values.
            if !keys().any(|known| known == key) || key == "ssh_ip" {
                continue;
            }
            let hex = &hex[1..];
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
            let Some(Ok(servers)) = all.get_mut(&case) else { panic!("{line}") };
            if servers.last().is_none_or(|(last, _)| last != block) {
                servers.push((block.into(), BTreeMap::new()));
            }
            servers.last_mut().unwrap().1.insert(key.into(), bytes.collect());
        }
    }
    all
}

/// Makes files; the same number always makes the same ones.
struct Maker {
    state: u64,
    dir: String,
    case: u64,
}

impl Maker {
    fn below(&mut self, end: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap() % end
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn global(&mut self) -> Vec<u8> {
        let mut text = String::new();
        if self.one_in(8) {
            text += "user=before_the_first_block\n";
        }
        text += "[server default]\n";
        self.values(&mut text, 4);
        if self.one_in(2) {
            text += "[server1]\nhostname=10.9.9.9\nno_such_key=1\n[anything]\nx=y\n";
        }
        self.ended(&text)
    }

    fn application(&mut self) -> Vec<u8> {
        let mut text = String::new();
        for _ in 0..self.below(3) {
            self.comment(&mut text);
        }
        if !self.one_in(10) {
            text += self.of(&[
                "[server default]\n",
                "[ server default ]\n",
                "\t[server default] ; all of them\n",
            ]);
            self.values(&mut text, 6);
        }
        if self.one_in(4) {
            let program = self.of(&["cat", "/bin/cat", "\"cat\"", "cat <"]);
            let _ = writeln!(text, "init_conf_load_script={program} {}/{}.out", self.dir, self.case);
        }
        let is_named = self.one_in(6);
        for number in 1..=1 + self.below(4) {
            let block = match self.below(if is_named { 6 } else { 3 }) {
                0 | 1 => format!("server{number}"),
                2 => format!("server{}", 12 - number),
                3 => format!("server_db{number}"),
                4 => format!("server{number} old"),
                _ => self.of(&["serverx", "server_b", "binlog1"]).to_owned(),
            };
            let _ =
                writeln!(text, "{}{block}{}", self.of(&["[", "[ ", "  ["]), self.of(&["]", " ]", "] ; db"]));
            self.server(&mut text, number);
        }
        if self.one_in(8) {
            text += "[server1]\nno_master=1\n[server default]\nrepl_user=later\n";
        }
        if self.one_in(12) {
            text += self.of(&[
                "no_such_key=1\n",
                "Hostname=10.0.0.1\n",
                "[db1]\nhostname=10.0.0.9\n",
                "[server]\n",
                "[server 5]\nhostname=10.0.0.5\n",
                "[server9] # old\n",
                "[server9] # port=1\n",
                "only a word\n",
                "=1\n",
                " =1\n",
                "[]\n",
                "ping_interval=0\n",
                "ping_interval=1.5\n",
                "ping_interval=\n",
                "ping_type=ping\n",
                "ssh_connection_timeout='5'\n",
                "port=3306 # mysql\n",
                "hostname=10.0.0.1 # first\n",
                "hostname=\n",
                "[server8]\n",
            ]);
        }
        self.ended(&text)
    }

    fn server(&mut self, text: &mut String, number: usize) {
        let host = match self.below(40) {
            0 => "10.0.0.1".to_owned(),
            1 => format!("'10.0.0.{number}'"),
            _ => format!("10.0.0.{number}"),
        };
        self.value(text, "hostname", &host, false);
        if self.one_in(4) {
            self.value(text, "ip", &format!("10.1.0.{number}"), true);
        }
        if self.one_in(4) {
            let port = self.of(&["3306", "3307", "0", "03306"]);
            self.value(text, "port", port, true);
        }
        for key in ["candidate_master", "no_master", "ignore_fail", "skip_init_ssh_check"] {
            if self.one_in(5) {
                let value = self.of(&["1", "0", ""]);
                self.value(text, key, value, true);
            }
        }
        if self.one_in(6) {
            text.push_str("ssh_host=10.2.0.1\n");
        }
        if self.one_in(3) {
            self.values(text, 3);
        }
    }

    /// Some values of those that may stand in every block.
    fn values(&mut self, text: &mut String, count: usize) {
        const WORDS: &[&str] = &[
            "",
            "0",
            "1",
            "root",
            "s3cret",
            "a=b",
            "a;b",
            "a; b",
            "#a",
            "it's",
            "\"",
            "''",
            "p\"w",
            "\u{e9}t\u{e9}",
        ];
        const PATHS: &[&str] =
            &["", "/usr/local/bin/x", "/x --conf=/y -v", "/usr/bin/x -s h1 -s h2", "/x 'a b'"];
        for _ in 0..self.below(count + 1) {
            if self.one_in(6) {
                self.comment(text);
            }
            let (key, value, is_quoted) = match self.below(8) {
                0 | 1 => (
                    self.of(&["user", "password", "repl_user", "repl_password", "ssh_user"]),
                    self.of(WORDS),
                    true,
                ),
                2 | 3 => (
                    self.of(&[
                        "master_ip_failover_script",
                        "master_ip_online_change_script",
                        "shutdown_script",
                        "report_script",
                        "secondary_check_script",
                    ]),
                    self.of(PATHS),
                    true,
                ),
                4 => (
                    self.of(&["manager_workdir", "manager_log", "remote_workdir", "master_pid_file"]),
                    self.of(PATHS),
                    true,
                ),
                5 => (
                    self.of(&["master_binlog_dir", "ssh_options", "node_label"]),
                    self.of(&["/a, /b", "-i \"k\" -v", "", "0"]),
                    true,
                ),
                6 => (
                    self.of(&["ping_interval", "ssh_connection_timeout", "ssh_port"]),
                    self.of(&["1", "3", "10", "007"]),
                    false,
                ),
                _ => (
                    self.of(&[
                        "check_repl_filter",
                        "check_repl_delay",
                        "latest_priority",
                        "multi_tier_slave",
                        "skip_reset_slave",
                        "use_gtid_auto_pos",
                        "disable_log_bin",
                        "log_level",
                        "candidate_master",
                        "no_master",
                        "port",
                    ]),
                    self.of(&["0", "1", "", "3306"]),
                    true,
                ),
            };
            self.value(text, key, value, is_quoted);
        }
        if self.one_in(6) {
            let kind = self.of(&["select", "INSERT", "Connect"]);
            self.value(text, "ping_type", kind, false);
        }
    }

    /// One value with what stands around it in people's files.
    fn value(&mut self, text: &mut String, key: &str, value: &str, is_quoted: bool) {
        let equals = self.of(&["=", "=", "=", " = ", "= ", "\t=\t"]);
        let quoted = match self.below(if is_quoted { 10 } else { 6 }) {
            6 => format!("\"{value}\""),
            7 => format!("'{value}'"),
            8 => format!("'\"{value}\"'"),
            9 => format!("{value}\""),
            _ => value.to_owned(),
        };
        let behind = match self.below(16) {
            0 => " ; first",
            1 => " ;",
            2 => "  ",
            3 => "\t;\tone ; two",
            4 if is_quoted => " # first",
            5 if is_quoted => "; first",
            _ => "",
        };
        let before = self.of(&["", "", "", "  ", "\t"]);
        let _ = writeln!(text, "{before}{key}{equals}{quoted}{behind}");
    }

    fn comment(&mut self, text: &mut String) {
        // What the placeholder stands for is no UTF-8.
        text.push_str(self.of(&[
            "# our \u{1}\n",
            "; \u{1}\n",
            "  # port=1\n",
            "\n",
            "  \n",
            ";[server9]\n",
            "#\n",
        ]));
    }

    /// What init_conf_load_script prints.
    fn printed(&mut self) -> Vec<u8> {
        let lines = [
            "password=from_script\n",
            "repl_password=a=b\n",
            "repl_user=\n",
            "user\n",
            "user==x\n",
            "password='q'\n",
        ];
        let mut text: String = (0..self.below(4)).map(|_| self.of(&lines)).collect();
        if self.one_in(6) {
            text += self.of(&["\n", "password = x\n", "what=1\n", "=x\n"]);
        }
        text.into_bytes()
    }

    /// With one of the ends of lines, and bytes of other encodings in its comments.
    fn ended(&mut self, text: &str) -> Vec<u8> {
        let end = self.of(&["\n", "\n", "\r\n", "\r", "\r\r\n"]);
        let text = text.replace('\n', end);
        let other: &[u8] = if self.one_in(2) { b"\xe9t\xe9" } else { b"\xd6\xf7\xbf\xe2" };
        text.into_bytes().split(|byte| *byte == 1).collect::<Vec<_>>().join(other)
    }
}
