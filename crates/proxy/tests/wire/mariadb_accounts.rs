//! Accounts of a real MariaDB whose clients sign (ed25519, parsec) or show their password (pam), through the proxy: with the client of MariaDB 11.8, whose
//! session moves. `scripts/servers.sh mariadb-11.8` unpacks the server and the client.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use fixture::free_port;
use fixture::tls::Certificate;
use harness::{Bench, SECOND, lane, one, routes_of, run_as_root, settings, shows, unpacked};
use link::{Link, ServerTls};
use protocol::auth::{ed25519, parsec};
use proxy::Settings;
use topology::account::{Account, Accounts, Proof, Requirement};
use topology::fact::ProxyFact;
use topology::routes::{LaneState, Routes, ServerGreeting};

const LONG: std::time::Duration = std::time::Duration::from_secs(60);
/// Where the clients connect to: of 127.0.0.1 they look at no certificate.
const LISTEN: &str = "127.0.0.2:0";
/// Whom PAM lets in. As pam_unix does, it thinks longer about a wrong password than a connection to a node may take.
const PAM_CHECK: &str = "#!/bin/sh
IFS= read -r password || true
[ \"$PAM_USER:$password\" = clear:secret ] || { sleep 2; exit 1; }
";

fn home() -> PathBuf {
    unpacked("mariadb-11.8")
}

/// A server on a free port; ended by its process id when it is dropped.
struct MariaDb {
    dir: tempfile::TempDir,
    child: Child,
    port: u16,
}

impl MariaDb {
    /// With `certificate` for its clients. Its PAM asks a script of its own: it has another /etc/pam.d than the machine.
    fn start(certificate: &Certificate) -> Self {
        // A starting server deletes temporary tables in its tmpdir; in a shared one, also those of other servers.
        let dir = tempfile::Builder::new().prefix("understudy-test-").tempdir().unwrap();
        let done = Command::new(home().join("bin/mariadb-install-db"))
            .args([
                "--no-defaults",
                "--user=root",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ])
            .arg(format!("--basedir={}", home().display()))
            .arg(format!("--datadir={}", dir.path().join("data").display()))
            .arg(format!("--tmpdir={}", dir.path().display()))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let pam = dir.path().join("pam.d");
        std::fs::create_dir(&pam).unwrap();
        let check = dir.path().join("check.sh");
        std::fs::write(&check, PAM_CHECK).unwrap();
        let modules = format!(
            "auth required pam_exec.so quiet expose_authtok /bin/sh {}\naccount required pam_permit.so\n",
            check.display()
        );
        std::fs::write(pam.join("mysql"), modules).unwrap();
        let port = free_port();
        let flags = if is_root() { "-m" } else { "-rm" };
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", flags, "sh", "-c"])
            .arg("mount --make-rprivate / && mount --bind \"$0\" /etc/pam.d && exec \"$@\"")
            .arg(&pam)
            .arg(home().join("sbin/mariadbd"))
            .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--skip-name-resolve"])
            .args(["--innodb-buffer-pool-size=32M", "--plugin-maturity=beta"])
            .args(
                ["auth_ed25519", "auth_parsec", "auth_pam_v1"]
                    .map(|name| format!("--plugin-load-add={name}")),
            )
            .arg(format!("--plugin-dir={}", home().join("lib/mysql/plugin").display()))
            .arg(format!("--basedir={}", home().display()))
            .arg(format!("--datadir={}", dir.path().join("data").display()))
            .arg(format!("--tmpdir={}", dir.path().display()))
            .arg(format!("--log-error={}", dir.path().join("log").display()))
            .arg(format!("--port={port}"))
            .arg(format!("--socket={}", dir.path().join("s").display()))
            .args(certificate.server_options(dir.path()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { dir, child, port }
    }

    async fn run(&self, statements: &[&str]) -> Link {
        run_as_root(self.dir.path(), statements).await
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Two servers with the same accounts, and the proxy before the first; the first is the one that has written them.
struct Scene {
    servers: [MariaDb; 2],
    bench: Bench,
    settings: Settings,
    routes: Routes,
}

impl Scene {
    async fn set() -> Self {
        let of_nodes = Certificate::of("127.0.0.1");
        let servers = [MariaDb::start(&of_nodes), MariaDb::start(&of_nodes)];
        let mut first = servers[0]
            .run(&[
                "CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('secret')",
                "CREATE USER par@'%' IDENTIFIED VIA parsec USING PASSWORD('secret')",
                "CREATE USER clear@'%' IDENTIFIED VIA pam",
            ])
            .await;
        let stored =
            "SELECT JSON_VALUE(Priv, '$.authentication_string') FROM mysql.global_priv WHERE User = ";
        let key = one(&mut first, &format!("{stored}'par'")).await;
        // Another salt would be another account.
        let same = format!("CREATE USER par@'%' IDENTIFIED VIA parsec USING '{key}'");
        let ed = one(&mut first, &format!("{stored}'ed'")).await;
        let same_ed = format!("CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING '{ed}'");
        servers[1].run(&[&same, &same_ed, "CREATE USER clear@'%' IDENTIFIED VIA pam"]).await;
        let account = |user: &str, proof| Account {
            user: user.into(),
            host: "%".into(),
            proofs: vec![proof],
            ..Account::default()
        };
        let lanes = servers.iter().enumerate().map(|(at, server)| {
            lane(
                at,
                ([127, 0, 0, 1], server.port).into(),
                if at == 0 { LaneState::Open } else { LaneState::Shut },
                1,
            )
        });
        let mut routes = Routes::clone(&routes_of(1, lanes.collect()));
        routes.accounts = Arc::new(Accounts::new(vec![
            account("ed", Proof::Ed25519(ed25519::parse_stored(&ed).unwrap())),
            account("par", Proof::Parsec(parsec::Stored::parse(&key).unwrap())),
            account("clear", Proof::Clear),
            Account { requires: Requirement::Certificate, ..account("shows", Proof::Clear) },
        ]));
        let greeting = routes.greeting.as_deref().unwrap();
        let version = first.greeting.version.clone();
        routes.greeting = Some(Arc::new(ServerGreeting { version, ..ServerGreeting::clone(greeting) }));
        let settings = Settings {
            listen: vec![LISTEN.into()],
            tls: shows(&Certificate::of("127.0.0.2"), false),
            node_tls: Some(ServerTls::trusting(of_nodes.pem().as_bytes()).unwrap()),
            connect_timeout: SECOND,
            login_timeout: 30 * SECOND,
            ..settings()
        };
        let bench = Bench::new(settings.clone(), Arc::new(routes.clone()));
        Self { servers, bench, settings, routes }
    }

    /// Other passwords are configured.
    fn reload(&self, passwords: &[(&str, &str)]) {
        let passwords = passwords.iter().map(|(user, password)| ((*user).to_owned(), (*password).to_owned()));
        let passwords = Arc::new(passwords.collect());
        self.bench.proxy.apply(Settings { passwords, ..self.settings.clone() }, SECOND);
    }

    fn client(&self, user: &str, password: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(home().join("bin/mariadb"));
        command
            .args([
                "--no-defaults",
                "-N",
                "-B",
                &format!("-u{user}"),
                &format!("-p{password}"),
                "-h127.0.0.2",
            ])
            .arg(format!("-P{}", self.bench.proxy.local_addresses()[0].port()))
            .arg(format!("--plugin-dir={}", client_plugins(&home()).display()))
            .args(arguments);
        command
    }

    /// What the client says who it is, or why it is nobody.
    fn whoami(&self, user: &str, password: &str, arguments: &[&str]) -> String {
        let done =
            self.client(user, password, arguments).args(["-e", "SELECT CURRENT_USER()"]).output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    }

    /// The node of this number takes the sessions now.
    async fn moved_to(&mut self, open: usize) {
        self.routes.version += 1;
        self.routes.term = topology::Term(self.routes.version);
        for (at, lane) in self.routes.lanes.iter_mut().enumerate() {
            lane.state = if at == open { LaneState::Open } else { LaneState::Shut };
            lane.epoch += 1;
        }
        self.bench.follow(Arc::new(self.routes.clone())).await;
    }
}

/// Where the unpacked client has its plugins.
fn client_plugins(home: &Path) -> PathBuf {
    let all = std::fs::read_dir(home.join("lib")).unwrap();
    let all = all.map(|entry| entry.unwrap().path().join("libmariadb3/plugin"));
    all.into_iter().find(|path| path.exists()).unwrap()
}

/// A client that stays, and answers one statement after the other.
struct Session {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Session {
    fn begin(mut command: Command) -> Self {
        let mut child =
            command.arg("--unbuffered").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn ask(&mut self, statement: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{statement};").unwrap();
        self.lines.next().unwrap_or_else(|| panic!("{statement}: the client has ended")).unwrap()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Its state goes along, and the node that it comes to lets it in.
async fn moves(scene: &mut Scene, user: &str, arguments: &[&str]) {
    let mut session = Session::begin(scene.client(user, "secret", arguments));
    assert_eq!(session.ask("SET @kept = 'it'; SELECT @@port"), scene.servers[0].port.to_string());
    scene.moved_to(1).await;
    assert_eq!(session.ask("SELECT CONCAT(@kept, @@port)"), format!("it{}", scene.servers[1].port));
    scene.moved_to(0).await;
    assert_eq!(session.ask("SELECT CONCAT(@kept, @@port)"), format!("it{}", scene.servers[0].port));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_of_mariadb_work_with_its_own_client_and_their_sessions_move() {
    let mut scene = Scene::set().await;
    for (user, plugin) in [("ed", "client_ed25519"), ("par", "parsec")] {
        scene.reload(&[]);
        let said = scene.whoami(user, "secret", &[]);
        assert!(said.contains("ERROR 9122") && said.contains("[[proxy.account]]"), "{user}: {said}");
        scene.reload(&[(user, "Secret")]);
        let said = scene.whoami(user, "secret", &[]);
        assert!(said.contains("ERROR 9122") && said.contains("is another one"), "{user}: {said}");
        scene.reload(&[(user, "before"), (user, "secret"), ("other", "x")]);
        // With its defaults it uses TLS, and is convinced of the certificate by the stored password.
        for arguments in [&[][..], &["--skip-ssl"], &["--skip-ssl", &format!("--default-auth={plugin}")]] {
            let said = scene.whoami(user, "secret", arguments);
            assert!(said.contains(&format!("{user}@%")), "{user}: {said}");
        }
        assert!(
            scene
                .client(user, "secret", &["-e", "\\s"])
                .output()
                .unwrap()
                .stdout
                .windows(10)
                .any(|part| part == b"cert is OK")
        );
        let said = scene.whoami(user, "Secret", &[]);
        assert!(said.contains("ERROR 1045"), "{user}: {said}");
        moves(&mut scene, user, &[]).await;
    }
    assert!(scene.whoami("nobody", "secret", &["--ssl-verify-server-cert=0"]).contains("ERROR 1045"));

    // Only PAM knows the password: the node says what it thinks of it.
    assert!(scene.whoami("clear", "secret", &["--skip-ssl"]).contains("ERROR 9121"));
    let under_tls = ["--ssl-verify-server-cert=0"];
    for arguments in [&under_tls[..], &[under_tls[0], "--default-auth=mysql_clear_password"]] {
        let said = scene.whoami("clear", "secret", arguments);
        assert!(said.contains("clear@%"), "{said}");
    }
    let said = scene.whoami("clear", "Secret", &under_tls);
    assert!(said.contains("ERROR 1045") && said.contains("'clear'@'127.0.0.1'"), "{said}");
    // An account is not told sooner than a name that is none, whatever it demands.
    let said = scene.whoami("shows", "secret", &under_tls);
    assert!(said.contains("ERROR 1045") && said.contains("'shows'@'127.0.0.1'"), "{said}");
    while let Ok(fact) = scene.bench.facts.try_recv() {
        assert!(!matches!(fact, ProxyFact::TrafficLost { .. }), "the node is doubted: {fact:?}");
    }
    moves(&mut scene, "clear", &under_tls).await;
    // Nobody is let in unseen, and who came while no node could look at a password has sent no wrong one.
    scene.moved_to(usize::MAX).await;
    (scene.settings.login_timeout, scene.settings.password_errors_max) = (SECOND, 3);
    scene.reload(&[]);
    for _ in 0..4 {
        let said = scene.whoami("clear", "secret", &under_tls);
        assert!(said.contains("ERROR 9111") && said.contains("connect again"), "{said}");
    }
    scene.moved_to(0).await;
    scene.settings.login_timeout = LONG;
    scene.reload(&[]);
    // It had sent a wrong one before.
    for said in ["clear@%", "ERROR 1045", "ERROR 1045", "ERROR 9120"] {
        let password = if said == "clear@%" { "secret" } else { "Secret" };
        let heard = scene.whoami("clear", password, &under_tls);
        assert!(heard.contains(said), "{heard}");
    }
}
