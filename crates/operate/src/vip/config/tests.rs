use clap::Parser;

use std::path::Path;

use super::*;
use crate::vip::conf_file::ConfFile;
use crate::vip::files::STATE_FILE;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    config: Config,
}

fn config(line: &str) -> Config {
    Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace())).unwrap().config
}

fn text(line: &str) -> Result<String, String> {
    let config = config(line);
    let text = if config.like_the_seed {
        config.seeds("/usr/bin/understudy")
    } else {
        config.advised("/usr/bin/understudy")
    };
    text.map_err(|failure| failure.text().to_owned())
}

#[test]
fn what_is_printed_can_be_read_again() {
    let conf =
        ConfFile::parse(&text("--address 10.0.0.100/24 --address fd00::9/64 --interface eth1").unwrap());
    let instance = &conf.instances[0];
    assert_eq!(instance.addresses.len(), 2);
    assert!(instance.addresses.iter().all(|(_, device)| device == "eth1"));
    assert_eq!(instance.state_file.as_deref(), Some(Path::new(STATE_FILE)));
    assert_eq!(
        conf.scripts[0].command,
        "/usr/bin/understudy check --once --defaults-file /etc/understudy/check.cnf"
    );
}

#[test]
fn nobody_takes_the_address_from_a_good_holder() {
    let advised = text("--address 10.0.0.100/24").unwrap();
    assert!(advised.contains("    state BACKUP\n    nopreempt\n") && advised.contains("    init_fail\n"));
    let seeds = text("--address 10.0.0.100/24 --like-the-seed").unwrap();
    assert!(seeds.contains("    state MASTER\n") && seeds.contains("    priority 100\n"));
    assert!(seeds.contains("script \"/usr/bin/clustercheck clustercheck password 0\""));
    assert!(!seeds.contains("nopreempt"));
}

#[test]
fn adverts_carry_one_family() {
    let both = "--address 10.0.0.100/24 --address fd00::9/64";
    let v4_first = text(both).unwrap();
    let (elected, rest) = v4_first.split_once("virtual_ipaddress_excluded").unwrap();
    assert!(elected.contains("10.0.0.100/24") && rest.contains("fd00::9/64 preferred_lft 0"));
    let v6_first = text(&format!("{both} --peer fd00::2")).unwrap();
    let (elected, rest) = v6_first.split_once("virtual_ipaddress_excluded").unwrap();
    assert!(elected.contains("fd00::9/64") && rest.contains("10.0.0.100/24"));
    assert!(text("--address 10.0.0.100/24 --peer fd00::2").unwrap_err().contains("family"));
    assert!(
        text("--address 10.0.0.100/24 --peer 10.0.0.2 --peer fd00::2").unwrap_err().contains("one family")
    );
    assert!(text("--address 10.0.0.100/24 --peer 10.0.0.100").unwrap_err().contains("of its own"));
    assert!(text("--address 10.0.0.100/24 --address 10.0.0.100/32").unwrap_err().contains("twice"));
}

#[test]
fn the_wait_is_as_keepalived_reckons_it() {
    for (line, priority, skew_ms) in [("", 220, 140), ("", 100, 600), ("--advert-interval-ms 100", 190, 20)] {
        assert_eq!(config(&format!("--address 10.0.0.100/24 {line}")).skew_ms(priority), skew_ms);
    }
}

#[test]
fn a_password_has_its_limits_and_is_never_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pass");
    let with = |password: &str, more: &str| {
        std::fs::write(&file, password).unwrap();
        text(&format!("--address 10.0.0.100/24 --auth-password-file {} {more}", file.display()))
    };
    let good = with("secret12\n", "").unwrap();
    assert!(good.contains("auth_pass secret12\n") && good.contains("vrrp_version 2\n"));
    for bad in ["", "ninechars", "a b", "a\"b"] {
        let error = with(bad, "").unwrap_err();
        assert!(error.contains("1 to 8") && (bad.is_empty() || !error.contains(bad)), "{error}");
    }
    assert!(with("secret12", "--advert-interval-ms 100").unwrap_err().contains("whole seconds"));
}

#[test]
fn what_would_break_the_file_is_refused() {
    for bad in ["eth0\"", "a b", "lo", "", "sixteen-letters-", "@eth1", "~SEQ(a,1)"] {
        assert!(interface(bad).is_err(), "{bad}");
    }
    for bad in ["0.0.0.0", "224.0.0.18", "::1", "255.255.255.255", "db2"] {
        assert!(peer(bad).is_err(), "{bad}");
    }
    assert_eq!(advert_interval_ms("0.25s"), Ok(250));
    for bad in ["0", "15", "40960", "-10", "5ms", "1h"] {
        assert!(advert_interval_ms(bad).is_err(), "{bad}");
    }
    for twice in ["--peer 10.0.0.2 --peer 10.0.0.2", "--interface eth0 --interface eth0"] {
        assert!(text(&format!("--address 10.0.0.100/24 {twice}")).unwrap_err().contains("twice"));
    }
    for bad in ["true", "/bin/a \"b\"", "/bin/a\n}", "/bin/a 'b", "/bin/a \\b", "/bin/a $B"] {
        assert!(command(bad).is_err(), "{bad}");
    }
    assert!(plain_path(Path::new("/a b")).is_err() && plain_path(Path::new("a")).is_err());
    assert_eq!(command("/bin/sh -c 'exit 0'").as_deref(), Ok("/bin/sh -c 'exit 0'"));
}

#[test]
fn systemd_takes_away_what_a_kill_leaves() {
    let drop_in = |line: &str| config(line).drop_in("/usr/bin/understudy").map_err(|_| ()).unwrap();
    let plain = drop_in("--systemd");
    assert!(plain.contains("ExecStopPost=/usr/bin/understudy vip release\n"));
    assert!(
        plain.contains("ExecStartPre=/usr/sbin/keepalived --config-test $DAEMON_ARGS $KEEPALIVED_OPTIONS\n")
    );
    assert!(drop_in("--systemd --keepalived-config /etc/k.conf --pid-file /run/k/k.pid").contains(
        "ExecStopPost=/usr/bin/understudy vip release --config /etc/k.conf --pid-file /run/k/k.pid\n"
    ));
}

#[test]
fn each_name_has_its_own_state() {
    let file = |line: &str| {
        let conf = ConfFile::parse(&text(&format!("--address 10.0.0.100/24 {line}")).unwrap());
        conf.instances[0].state_file.clone().unwrap()
    };
    assert_eq!(file(""), Path::new("/run/understudy-vip/vip.state"));
    assert_eq!(file("--name east"), Path::new("/run/understudy-vip/east.state"));
    assert_eq!(file("--name east --state-file /run/e"), Path::new("/run/e"));
    assert_eq!(file("--name east --like-the-seed"), Path::new("/tmp/keepalived.state"));
}

#[test]
fn the_proxys_check_reads_its_own_configuration() {
    let command = |line: &str| ConfFile::parse(&text(line).unwrap()).scripts[0].command.clone();
    let proxy = "--address 10.0.0.100/24 --for proxy";
    assert_eq!(command(proxy), "/usr/bin/understudy check --once --serve");
    let here = std::env::current_dir().unwrap().join("u.toml");
    if plain_path(&here).is_ok() {
        let expected = format!("/usr/bin/understudy check --once --serve --config {}", here.display());
        assert_eq!(command(&format!("{proxy} --config u.toml")), expected);
    }
}
