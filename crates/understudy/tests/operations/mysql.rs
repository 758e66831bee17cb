//! Each command once on MySQL 9.7: what it says there, or that it is not for it.

use std::os::unix::process::CommandExt;
use std::process::Command;

use lab::stage::account::{MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::replication::REPLICATION_PASSWORD;
use testbed::program::{Ended, Serving, bin, run, until, with_config};
use testbed::scene::{Scene, is_well, status_when};

/// The option file of the monitor account.
const OPTIONS: &str = "monitor.cnf";

fn says(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, code, "{}", ended.said());
    for part in parts {
        assert!(ended.said().contains(part), "{part}: {}", ended.said());
    }
}

/// The program by another tool's name, with the monitor's option file as the user's own.
fn called(name: &str, serving: &Serving, args: &[&str]) -> Ended {
    let mut command = Command::new(bin());
    command.arg0(name).args(args).current_dir(serving.dir()).env("HOME", serving.dir());
    run(&mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_on_mysql_9_7() {
    let scene = Scene::mysql("commands").await;
    let directory = scene.directory("failover_gap_ms = 0");
    for name in [OPTIONS, ".my.cnf"] {
        let text = format!("[client]\nuser = {MONITOR_USER}\npassword = {MONITOR_PASSWORD}\n");
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let config = directory.path().join("understudy.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let under_tls = text.replacen("[cluster]\n", "[cluster]\ntls = \"required\"\n", 1);
    assert_ne!(under_tls, text);
    std::fs::write(&config, &under_tls).unwrap();
    let (primary, replica) = (scene.stage.node("db1").unwrap(), scene.stage.node("db2").unwrap());
    let checked = with_config(&config, &["serve", "--check"]);
    says(&checked, 0, &["is reached: 9.7.", "follows nobody, writable", "replica of ", ", read only"]);
    scene.stage.run_in("db1", "REVOKE SELECT ON performance_schema.* FROM understudy").await.unwrap();
    let lacks = with_config(&config, &["serve", "--check"]);
    let needed = ["seeing soon that a primary stands still", "moving sessions in which code has run"];
    says(&lacks, 1, &[&["lacks SELECT ON performance_schema.*"], &needed[..]].concat());
    // The advice, followed to the letter.
    let said = lacks.said();
    let advice = said.lines().find(|line| line.trim_start().starts_with("GRANT ")).unwrap();
    scene.stage.run_in("db1", advice.trim()).await.unwrap();
    says(&with_config(&config, &["serve", "--check"]), 0, &["is reached: 9.7."]);
    // A password that replicas cannot be given, found before a switchover is refused with error 3056.
    let long = directory.path().join("long.toml");
    let text = under_tls.replacen(
        &format!("password = \"{REPLICATION_PASSWORD}\""),
        &format!("password = \"{}\"", "x".repeat(33)),
        1,
    );
    assert_ne!(text, under_tls);
    std::fs::write(&long, text).unwrap();
    says(
        &with_config(&long, &["serve", "--check"]),
        1,
        &["has more than 32 characters, which this server refuses"],
    );

    let serving = Serving::start(directory.path());
    status_when(&serving, "all are well", is_well);
    let ask = |args: &[&str], code, parts: &[&str]| says(&serving.ask(args), code, parts);
    ask(
        &["status"],
        0,
        &["writable, follows nobody, 2 replicas acknowledge", "replica of db1, acknowledges"],
    );
    let doctor = serving.ask(&["doctor"]).said();
    assert!(doctor.contains("9.7.") && !doctor.contains("cannot be asked"), "{doctor}");
    // A lag from when the servers were set up goes by itself.
    until("nothing speaks against db2", || {
        let checked = serving.ask(&["switchover", "--to", "db2", "--check"]);
        let is_well =
            checked.code == 0 && checked.said().contains("from db1 to db2: nothing speaks against it");
        if is_well { Ok(()) } else { Err(checked.said()) }
    });
    until("each server's binlogs are known", || {
        let said = serving.ask(&["recovery", "forecast"]).said();
        if said.matches("may be away").count() == 3 { Ok(()) } else { Err(said) }
    });
    ask(&["recovery", "bootstrap"], 2, &["is for Galera"]);
    ask(&["errant", "list", "db2"], 1, &["is MySQL, and `understudy errant` reads MariaDB's binlogs only"]);
    ask(&["capacity", "db3"], 1, &["it is a replica of MySQL"]);
    ask(&["capacity", "db3", "--passive", "--for-s", "1"], 1, &["it is a replica of MySQL"]);
    let at = |node: &lab::stage::StageNode| node.socket.to_str().unwrap().to_owned();
    let account = ["--defaults-file", OPTIONS, "--mysql-socket"];
    for (role, node, code, part) in [
        ("writer", primary, 0, "may take writes"),
        ("writer", replica, 1, "read_only"),
        ("replica", replica, 0, "follows its source"),
        ("replica", primary, 1, "replica"),
        ("member", primary, 1, "Percona XtraDB Cluster Node is not synced"),
    ] {
        let socket = at(node);
        let args = [&["check", "--once", "--role", role][..], &account, &[&socket]].concat();
        says(&called("understudy", &serving, &args), code, &[part]);
    }
    let pool = ["pool", "show", "--from", &at(primary), "--defaults-file", OPTIONS];
    says(&called("understudy", &serving, &pool), 0, &["pages"]);
    says(&called("clustercheck", &serving, &[]), 1, &["Percona XtraDB Cluster Node is not synced"]);
    let host = primary.address.ip().to_string();
    says(&called("myq_status", &serving, &["-h", &host, "wsrep"]), 2, &["is no Galera node"]);
    tls_of_option_files(&scene, &serving).await;
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// An account that must use TLS, by the options of MySQL's client and of MariaDB's.
async fn tls_of_option_files(scene: &Scene, serving: &Serving) {
    let account = "CREATE USER secure@'%' IDENTIFIED BY 'secret' REQUIRE SSL";
    scene.stage.run_in("db1", account).await.unwrap();
    let primary = scene.stage.node("db1").unwrap();
    let host = primary.address.ip().to_string();
    let authority = primary.datadir.join("ca.pem");
    for (lines, code, part) in [
        ("skip-ssl".to_owned(), 1, "Access denied"),
        ("ssl-mode = REQUIRED".to_owned(), 2, "is no Galera node"),
        ("ssl".to_owned(), 2, "is no Galera node"),
        // It is not for the host's address.
        (format!("ssl-ca = {}", authority.display()), 3, "certificate"),
        ("ssl-verify-server-cert".to_owned(), 2, "takes a file with the authority's certificate: ssl-ca"),
        ("ssl-ca = none.pem".to_owned(), 2, "ssl-ca none.pem: cannot be read"),
    ] {
        let text = format!("[client]\nuser = secure\npassword = secret\n{lines}\n");
        std::fs::write(serving.dir().join(".my.cnf"), text).unwrap();
        says(&called("myq_status", serving, &["-h", &host, "wsrep"]), code, &[part]);
    }
}
