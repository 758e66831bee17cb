//! MHA's commands on real servers: through a running `understudy serve`, and without one.
//!
//! ```text
//!   its file as ours, checked ─> the seed's line, under writes ─> (no server from here on) scripts ─> switch ─> manager stopped ─> manager and kill -9 ─> dead by order
//! ```

mod named;
mod signals;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use lab::fault::Fault;
use lab::stage::account::MONITOR_USER;
use tempfile::TempDir;
use testbed::informed;
use testbed::program::{Ended, Serving, bin, run, until, with_config};
use testbed::scene::{Scene, is_well, status_when};
use testbed::writers::Writers;

/// The monitor's password, changed to one that is found wherever it gets.
const PASSWORD: &str = "hIdden-word";
/// The seed's.
const KEY: &str = "0c8aa9384ddf2a5756299a9e7650742a87bbb550";
const SEED: [&str; 3] = ["--master_state=alive", "--orig_master_is_new_slave", "--interactive=0"];

struct Site {
    scene: Scene,
    dir: TempDir,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_of_mha_is_run_by_its_own_commands() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let site = Site::of("repl").await;
    told("a primary and two replicas are up, with MHA's file");
    let serving = moved(&site);
    told("its file is ours, and served");
    through_serve(&site, &serving).await;
    told("db2 is the master, by the seed's line");
    pair(&site, &serving);
    told("the seed's pair moved it once");
    drop(serving);
    not_beside_another(&site);
    told("nothing was done while another manager might run");
    by_itself(&site).await;
    told("db3 is the master, without a running Understudy");
    stopped(&site).await;
    told("a manager was stopped");
    let after = managed(&site).await;
    told("the manager failed over from db3");
    dead(&site, &after).await;
    told("and so did the order, from the one after it");
    site.scene.stage.down().await.unwrap();
}

impl Site {
    async fn of(name: &str) -> Self {
        let scene = Scene::of(name, true).await;
        let change = format!("ALTER USER '{MONITOR_USER}'@'%' IDENTIFIED BY '{PASSWORD}'");
        scene.stage.run_in("db1", &change).await.unwrap();
        for replica in ["db2", "db3"] {
            scene.has_applied(replica, "db1").await;
        }
        let dir = tempfile::Builder::new().prefix("understudy-masterha-").tempdir().unwrap();
        let site = Self { scene, dir };
        for name in ["failover", "online_change", "report"] {
            site.script(name);
        }
        let at = site.dir.path().display();
        let mut conf = format!(
            "# Unsere Datenb\u{e4}nke\n[server default]\nuser='{MONITOR_USER}'\npassword=\"{PASSWORD}\"\nrepl_user=replication\nrepl_password=replication\n\
             manager_workdir={at}/work\nping_interval=1\nssh_user=root\nmaster_ip_failover_script={at}/failover\n\
             master_ip_online_change_script=\"{at}/online_change\" ; ours\nreport_script={at}/report\nshutdown_script=\"\"\n"
        );
        for (number, node) in site.scene.stage.nodes().iter().enumerate() {
            conf += &format!(
                "\n[server{}]\nhostname={} ; db\nport={}\n",
                number + 1,
                node.address.ip(),
                node.address.port()
            );
        }
        // As an editor of that time wrote it.
        let latin1: Vec<u8> = conf.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        std::fs::write(site.conf(), latin1).unwrap();
        site
    }

    /// One that writes down how it was called.
    fn script(&self, name: &str) {
        self.script_that_ends(name, 0);
    }

    fn script_that_ends(&self, name: &str, code: u8) {
        let path = self.dir.path().join(name);
        let called = self.dir.path().join("called");
        std::fs::write(
            &path,
            format!("#!/bin/sh\necho {name} \"$@\" >> {}\nexit {code}\n", called.display()),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn conf(&self) -> PathBuf {
        self.dir.path().join("app1.cnf")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("api.key")
    }

    /// The seed's port, 443, is root's alone.
    fn https(&self) -> String {
        let port = if self.scene.stage.is_namespaced() { 443 } else { 6443 };
        format!("{}:{port}", self.scene.stage.host_address())
    }

    /// How the scripts were called since this was asked last.
    fn called(&self) -> String {
        let file = self.dir.path().join("called");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(file);
        assert!(!text.contains(PASSWORD), "{text}");
        text
    }

    fn command(&self, name: &str, more: &[&str]) -> Command {
        let link = self.dir.path().join(name);
        if !link.exists() {
            symlink(bin(), &link).unwrap();
        }
        let mut command = Command::new(link);
        command.arg("--conf").arg(self.conf()).args(more).current_dir(self.dir.path());
        command
    }

    /// One of MHA's commands, in a directory where a running Understudy's configuration is looked for.
    fn mha(&self, name: &str, more: &[&str]) -> Ended {
        let ended = run(&mut self.command(name, more));
        println!("          {name}: exit code {}, {:.1} s", ended.code, ended.took.as_secs_f64());
        assert!(!ended.said().contains(PASSWORD), "{}", ended.said());
        ended
    }

    /// A manager in the background that watches that master; and the master's address.
    fn manager(&self, master: &str) -> (Child, String) {
        let mut manager = self.command("masterha_manager", &[]);
        let manager = manager.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let master = self.ip(master);
        let running = format!("app1 (pid:{}) is running(0:PING_OK), master:{master}", manager.id());
        until("the manager pings", || {
            run(&mut self.command("masterha_check_status", &[])).said().contains(&running).then_some(())
        });
        (manager, master)
    }

    fn ip(&self, node: &str) -> String {
        self.scene.stage.node(node).unwrap().address.ip().to_string()
    }

    async fn is_primary(&self, primary: &str, replicas: &[&str]) {
        assert_eq!(self.scene.value(primary, "read_only").await, "0", "{primary}");
        for replica in replicas {
            assert_eq!(self.scene.value(replica, "read_only").await, "1", "{replica}");
            let rows = self.scene.stage.run_in(replica, "SHOW SLAVE STATUS").await.unwrap();
            assert!(rows[0].contains(&self.ip(primary)), "{replica} follows {primary}: {rows:?}");
        }
    }
}

/// `understudy import` prints what can be served.
fn moved(site: &Site) -> Serving {
    let printed = run(Command::new(bin()).arg("import").arg(site.conf())).with(0);
    let host = site.scene.stage.host_address();
    let config = printed.replace("[cluster]\n", "[cluster]\nid = 5\n")
        + &format!(
            "\n[listen]\nmysql = \"{host}:6033\"\nhttp = \"{host}:6080\"\nhttps = \"{}\"\n[api]\nkey_file = \"{}\"\n",
            site.https(),
            site.key().display()
        );
    std::fs::write(site.key(), KEY).unwrap();
    assert_ne!(printed, config);
    assert!(config.contains("ssh_user: no SSH is used"), "{config}");
    std::fs::create_dir_all(site.dir.path().join("work")).unwrap();
    let file = site.dir.path().join("understudy.toml");
    std::fs::write(&file, config).unwrap();
    with_config(&file, &["serve", "--check"]).with(0);
    let serving = Serving::start(site.dir.path());
    status_when(&serving, "all are well", is_well);
    serving
}

async fn through_serve(site: &Site, serving: &Serving) {
    let new = format!("--new_master_host={}", site.ip("db2"));
    let writers = Writers::at(site.scene.through());
    writers.more(50).await;
    let conf = site.conf();
    let said = site.mha("masterha_master_switch", &[SEED[0], &new, SEED[1], SEED[2]]).with(0);
    writers.more(50).await;
    let told = writers.stop().await;
    assert_eq!(told.errors, Vec::<String>::new());
    site.scene.has_exactly(&told, &["db1", "db2", "db3"]).await;
    site.is_primary("db2", &["db1", "db3"]).await;
    let (db1, db2) = (site.ip("db1"), site.ip("db2"));
    for line in [
        "through the running Understudy",
        " - [info] * Phase 1: Configuration Check Phase..\n",
        " - [info] * Phase 2: Rejecting updates Phase..\n",
        &format!(" - [info] {db1}({db1}:3306) (current master)\n"),
        &format!(
            "All other slaves should start replication from here. Statement should be: CHANGE MASTER TO MASTER_HOST='{db2}', MASTER_PORT=3306, "
        ),
        &format!("Switching master to {db2}({db2}:3306) completed successfully.\n"),
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let called = site.called();
    let (stop, start) = called.split_once('\n').unwrap();
    let both = format!(
        "--orig_master_host={db1} --orig_master_ip={db1} --orig_master_port=3306 --orig_master_user={MONITOR_USER} --new_master_host={db2}"
    );
    assert!(stop.starts_with(&format!("online_change --command=stop {both}")), "{called}");
    assert!(start.starts_with(&format!("online_change --command=start {both}")), "{called}");

    // The running server is the manager of these servers.
    let said = site.mha("masterha_check_status", &[]).with(0);
    assert_eq!(said.trim(), format!("app1 (pid:{}) is running(0:PING_OK), master:{db2}", serving.pid()));
    let said = site.mha("masterha_stop", &[]).with(1);
    assert!(
        said.contains("is managed by understudy serve") && said.contains("Failed to stop app1."),
        "{said}"
    );

    let again = site.mha("masterha_master_switch", &[SEED[0], &new, SEED[2]]).with(0);
    assert!(again.contains("is the current master already"), "{again}");
    let said = site.mha("masterha_check_repl", &[]).with(0);
    assert!(said.contains("\nMySQL Replication Health is OK.\n"), "{said}");
    let status =
        format!("failover --command=status --ssh_user=root --orig_master_host={db2} --orig_master_ip={db2}");
    assert!(site.called().starts_with(&status));
    let wrong = site.mha("masterha_master_switch", &[SEED[0], "--new_master_host=10.9.9.9", SEED[2]]).with(1);
    assert!(wrong.contains("does not exist in"), "{wrong}");
    let wrong = site.mha("masterha_master_switch", &["--what"]).with(1);
    assert!(wrong.contains("Unknown options: --what"), "{wrong}");
    // As a word after the program's own name it is the same.
    let word = run(Command::new(bin()).args(["masterha_check_status", "--conf"]).arg(&conf)).with(2);
    assert!(word.contains("app1 is stopped(2:NOT_RUNNING)."), "{word}");
    assert!(!serving.log().contains(PASSWORD));
}

/// The seed's pair as it stands there, but for hosts and the place of the file: the master is moved, and ScaleArc's API is told. It is moved
/// once. Told again it stays, until a while later the request is one to move the writer; and then the pair moves it back.
fn pair(site: &Site, serving: &Serving) {
    let place = format!("https://{}", site.https());
    let inform = informed::line(place.trim_end_matches(":443"), KEY);
    site.command("masterha_master_switch", &[]);
    let shell = || {
        let mut shell = Command::new("sh");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", site.dir.path().display())).current_dir(site.dir.path());
        shell
    };
    // The request that moves it, after the first, moves it to db2, the first of the others.
    for node in ["db1", "db3", "db2"] {
        let before = status_when(serving, "all are well", is_well)["term"].as_u64().unwrap();
        let (conf, new) = (site.conf(), site.ip(node));
        let line = format!(
            "masterha_master_switch --conf={} --master_state=alive --new_master_host={new} --orig_master_is_new_slave --interactive=0 && {inform}",
            conf.display()
        );
        let said = informed::answer(&mut shell(), &line);
        let (changed, term) = (Instant::now(), serde_json::Value::from(before + 1));
        let writer = serving.status()["writer"].as_str().unwrap().to_owned();
        let moved_to =
            site.scene.stage.nodes().iter().find(|it| it.address.to_string() == address_of(serving, &writer));
        assert_eq!(moved_to.unwrap().name, node);
        informed::nothing_was_moved(&said, serving, &writer, &term);
        let again = informed::answer(&mut shell(), &inform);
        informed::nothing_was_moved(&again, serving, &writer, &term);
        if node == "db1" {
            informed::moves_after_the_window(&inform, serving, changed);
        }
    }
    site.called();
}

/// The address of a node that the running server knows by that name.
fn address_of(serving: &Serving, name: &str) -> String {
    let status = serving.status();
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).unwrap()["address"].as_str().unwrap().to_owned()
}

/// The configuration names these servers, and what listens at its address says nothing: that may be a manager in trouble.
fn not_beside_another(site: &Site) {
    let new = format!("--new_master_host={}", site.ip("db3"));
    let checked = |more: &[&str], code| {
        let options = [&[SEED[0], &new, SEED[2], "--check_only"], more].concat();
        site.mha("masterha_master_switch", &options).with(code)
    };
    let silent = std::net::TcpListener::bind(format!("{}:6080", site.scene.stage.host_address())).unwrap();
    let said = checked(&[], 1);
    assert!(said.contains("Whether it moves the primary of these servers is not known"), "{said}");
    let alone = "the orders are given from here";
    assert!(!said.contains(alone), "{said}");
    let said = checked(&["--understudy=none"], 0);
    assert!(said.contains(alone), "{said}");
    drop(silent);
    let said = checked(&[], 0);
    assert!(said.contains("is `understudy serve` running?") && said.contains(alone), "{said}");
    // What cannot be read may be about these servers.
    let config = site.dir.path().join("understudy.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[unheard_of]\n")).unwrap();
    let said = checked(&[], 1);
    assert!(said.contains("unheard_of") && said.contains("is not known"), "{said}");
    std::fs::write(&config, text).unwrap();
}

/// Nobody serves; the configuration is gone, too.
async fn by_itself(site: &Site) {
    std::fs::remove_file(site.dir.path().join("understudy.toml")).unwrap();
    site.called();
    let new = format!("--new_master_host={}", site.ip("db3"));
    let said = site.mha("masterha_master_switch", &[SEED[0], &new, SEED[2], "--check_only"]).with(0);
    assert!(said.contains("No running Understudy serves these servers"), "{said}");
    assert_eq!(site.called(), "");
    promised(site, &new).await;
    // A script that fails stops it before anything is changed; one that ends with 10 only warns.
    site.script_that_ends("online_change", 3);
    let said = site.mha("masterha_master_switch", &[SEED[0], &new, SEED[1], SEED[2]]).with(1);
    assert!(said.contains("online_change ended with return code 3:0"), "{said}");
    site.is_primary("db2", &["db1", "db3"]).await;
    assert_eq!(site.called().lines().count(), 1);
    site.script_that_ends("online_change", 10);
    let said = site.mha("masterha_master_switch", &[SEED[0], &new, SEED[1], SEED[2]]).with(0);
    assert!(said.contains("completed successfully."), "{said}");
    assert_eq!(said.matches("ended with return code 10:0. Proceeding.").count(), 2, "{said}");
    site.is_primary("db3", &["db1", "db2"]).await;
    assert_eq!(site.called().lines().count(), 2);
    site.mha("masterha_check_repl", &[]).with(0);
}

/// What a check does not promise, since it would not come true: nothing is called, and nothing changed. The primary is db2.
async fn promised(site: &Site, new: &str) {
    let conf = std::fs::read(site.conf()).unwrap();
    let with = |from: &str, to: &str| {
        let text = String::from_utf8_lossy(&conf).replace(from, to);
        std::fs::write(site.conf(), text).unwrap();
        let said = site.mha("masterha_check_repl", &[]).with(1);
        assert!(said.contains("\nMySQL Replication Health is NOT OK!\n"), "{said}");
        said
    };
    let began = Instant::now();
    let said = with(PASSWORD, "another");
    let took = began.elapsed();
    assert!(said.contains(":1045:Access denied") && said.contains("the account is refused"), "{said}");
    assert!(took.as_secs_f64() < 1.0, "{took:?}");
    let said = with("/failover", "/no-such-script");
    assert!(said.contains("/no-such-script ended with return code 127:0: there is no such script"), "{said}");
    std::fs::write(site.conf(), conf).unwrap();
    assert_eq!(site.called(), "");
    site.script_that_ends("failover", 10);
    let said = site.mha("masterha_check_repl", &[]).with(1);
    assert!(said.contains("/failover ended with return code 10:0"), "{said}");
    site.script("failover");
    site.called();

    for statement in ["STOP SLAVE", "RESET SLAVE ALL"] {
        site.scene.stage.run_in("db1", statement).await.unwrap();
    }
    for more in [&[SEED[0], new, SEED[2], "--check_only"][..], &[SEED[0], new, SEED[1], SEED[2]]] {
        let said = site.mha("masterha_master_switch", more).with(1);
        assert!(said.contains("is alive, but does not work as a slave!"), "{said}");
    }
    assert_eq!(site.called(), "");
    follow(site, "db1", "db2").await;
}

/// Makes a server a replica, as an operator does.
async fn follow(site: &Site, replica: &str, primary: &str) {
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_USER = 'replication', MASTER_PASSWORD = 'replication', \
         MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
        site.ip(primary)
    );
    for statement in [&change, "START SLAVE"] {
        site.scene.stage.run_in(replica, statement).await.unwrap();
    }
    until("all follow again", || {
        (run(&mut site.command("masterha_check_repl", &[])).code == 0).then_some(())
    });
    site.called();
}

/// A manager in the background that is told to end.
async fn stopped(site: &Site) {
    let (mut manager, _) = site.manager("db3");
    let pid = manager.id();
    let other = site.mha("masterha_manager", &[]).with(1);
    assert!(other.contains(&format!("app1 is running already, pid {pid}")), "{other}");
    let switch = site.mha("masterha_master_switch", &[SEED[0], SEED[2]]).with(1);
    assert!(switch.contains("nothing was changed. Stop it (masterha_stop)"), "{switch}");
    let said = site.mha("masterha_stop", &[]).with(0);
    assert_eq!(said, "Stopped app1 successfully.\n");
    let ended = until("the manager ends", || manager.try_wait().unwrap());
    assert_eq!(ended.code(), Some(1), "as MHA's, when it got a signal");
    let mut log = String::new();
    std::io::Read::read_to_string(&mut manager.stderr.take().unwrap(), &mut log).unwrap();
    assert!(log.contains("- [info] Got terminate signal. Exit.\n"), "{log}");
    assert!(!site.dir.path().join("work/app1.master_status.health").exists());
    assert!(
        !std::env::temp_dir().join(format!("understudy-masterha-{pid}")).exists(),
        "what it made is gone"
    );
    assert_eq!(site.mha("masterha_check_status", &[]).with(2), "app1 is stopped(2:NOT_RUNNING).\n");
    // That is no error with MHA.
    assert_eq!(
        site.mha("masterha_stop", &[]).with(0),
        "MHA Manager is not running on app1(2:NOT_RUNNING).\n"
    );
    site.is_primary("db3", &["db1", "db2"]).await;
}

/// A manager in the background, and kill -9 of the master. Gives the new one.
async fn managed(site: &Site) -> String {
    let (mut manager, db3) = site.manager("db3");
    site.script_that_ends("failover", 10);
    let began = site.scene.stage.fault("db3", Fault::Kill).await.unwrap();
    let output = tokio::task::spawn_blocking(move || {
        let ended = until("the manager ends", || manager.try_wait().unwrap());
        let mut said = String::new();
        std::io::Read::read_to_string(&mut manager.stderr.take().unwrap(), &mut said).unwrap();
        (ended, said)
    });
    let (ended, said) = output.await.unwrap();
    println!("          the manager has ended {:?} after the kill", began.elapsed());
    assert!(ended.success() && !said.contains(PASSWORD), "{said}");
    for line in [
        "* Phase 2: Dead Master Shutdown Phase..",
        "failover ended with return code 10:0. Proceeding.",
        "Master failover to ",
        " completed successfully.",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let mut after = String::new();
    for node in ["db1", "db2"] {
        if site.scene.value(node, "read_only").await == "0" {
            after = node.to_owned();
        }
    }
    let other = if after == "db1" { "db2" } else { "db1" };
    site.is_primary(&after, &[other]).await;
    let called = site.called();
    for call in [
        format!(
            "failover --command=stop --orig_master_host={db3} --orig_master_ip={db3} --orig_master_port=3306\n"
        ),
        format!("failover --command=start --ssh_user=root --orig_master_host={db3}"),
        format!("report --orig_master_host={db3} --new_master_host={}", site.ip(&after)),
    ] {
        assert!(called.contains(&call), "{call}: {called}");
    }
    assert!(site.dir.path().join("work/app1.failover.complete").exists());
    site.mha("masterha_check_status", &[]).with(2);
    after
}

/// The next one dies, too: by order, and not so soon.
async fn dead(site: &Site, before: &str) {
    site.scene.stage.fault("db3", Fault::Heal).await.unwrap();
    // A check changes nothing.
    let said = site.mha("masterha_check_repl", &[]).with(1);
    assert!(said.contains("MySQL Replication Health is NOT OK!"), "{said}");
    assert!(!said.contains("dry_run"), "a word of ours, which nobody here has set: {said}");
    assert_eq!(site.scene.stage.run_in("db3", "SHOW SLAVE STATUS").await.unwrap(), Vec::<Vec<String>>::new());
    site.script("failover");
    follow(site, "db3", before).await;
    let host = format!("--dead_master_host={}", site.ip(before));
    let order = ["--master_state=dead", &host, "--interactive=0", "--ignore_last_failover"];
    let alive = site.mha("masterha_master_switch", &order).with(1);
    assert!(alive.contains("is not dead"), "{alive}");
    site.scene.stage.fault(before, Fault::Kill).await.unwrap();
    let early = site.mha("masterha_master_switch", &order[..3]).with(1);
    assert!(early.contains("too early to do failover again"), "{early}");
    // A script that fails ends a failover, as with MHA, and nobody is promoted.
    site.script_that_ends("failover", 1);
    let said = site.mha("masterha_master_switch", &order).with(1);
    assert!(
        said.contains("failover ended with return code 1:0. As with MHA the failover ends here"),
        "{said}"
    );
    assert!(site.dir.path().join("work/app1.failover.error").exists());
    for node in ["db1", "db2", "db3"].into_iter().filter(|node| *node != before) {
        assert_eq!(site.scene.value(node, "read_only").await, "1", "{node}");
    }
    site.script("failover");
    let said = site.mha("masterha_master_switch", &order).with(0);
    assert!(said.contains("Master failover to ") && said.contains("completed successfully."), "{said}");
    let writable: Vec<String> = {
        let mut all = Vec::new();
        for node in ["db1", "db2", "db3"].into_iter().filter(|node| *node != before) {
            all.push(site.scene.value(node, "read_only").await);
        }
        all
    };
    assert_eq!(writable.iter().filter(|value| *value == "0").count(), 1, "{writable:?}");
}
