//! One real MariaDB server for a test: started on a free port of 127.0.0.1 from a fresh data directory, and gone, with
//! everything it wrote, when the value is dropped, also by a panic. Should the whole test process be killed, the kernel
//! kills the server with it (`setpriv --pdeathsig`).

#![allow(dead_code)] // each test file uses its part

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use link::{Link, Login, Secret};
use tempfile::TempDir;

/// Long enough for anything on a busy machine; what takes longer has failed.
pub const LONG: Duration = Duration::from_secs(60);
/// Beside root: one with a password, one without, one that this machine's socket plugin vouches for.
const ACCOUNTS: &str = "
CREATE USER app@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('secret');
GRANT ALL ON *.* TO app@'%';
CREATE USER open@'%';
CREATE USER rooted@'%' IDENTIFIED VIA unix_socket;
CREATE DATABASE shop;
";

pub struct Server {
    child: Child,
    pub port: u16,
    dir: TempDir,
}

impl Server {
    /// Starts a server with these options beside the usual ones. It has the account `app` (password `secret`, all rights),
    /// some lesser ones, and the database `shop`.
    pub fn start(options: &[&str]) -> Server {
        let dir = tempfile::Builder::new().prefix("us-link-").tempdir().expect("a temporary directory");
        run(Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg("--innodb-log-file-size=8M")
            // Servers that start clear temporary tables away in a directory they share, their neighbours' too.
            .arg(format!("--tmpdir={}", dir.path().display()))
            .arg(as_root())
            .arg(format!("--datadir={}", dir.path().join("data").display())));
        std::fs::write(dir.path().join("accounts.sql"), ACCOUNTS.trim())
            .expect("room in the temporary directory");
        let port = free_port();
        let mut server = Server { child: spawn(dir.path(), port, options), port, dir };
        server.wait_until_it_speaks();
        server
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub async fn link(&self) -> Link {
        Link::connect(&self.address(), &app(), LONG).await.expect("a login as app")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the server a signal by name, e.g. `TERM`.
    pub fn signal(&self, name: &str) {
        run(Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()));
    }

    /// How the process ended, once it has.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("the child's state")
    }

    fn wait_until_it_speaks(&mut self) {
        let until = Instant::now() + LONG;
        loop {
            if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) {
                stream.set_read_timeout(Some(LONG)).expect("a socket option");
                if stream.read(&mut [0]).is_ok_and(|n| n == 1) {
                    return;
                }
            }
            let ended = self.child.try_wait().expect("the child's state");
            assert!(
                ended.is_none() && Instant::now() < until,
                "mariadbd does not serve ({ended:?}); its log:\n{}",
                std::fs::read_to_string(self.log()).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Either fails only when the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn app() -> Login {
    Login::new("app", Secret::Password("secret".into()))
}

/// A port that nobody listens on. (Somebody might, a moment later: the range is wide and the moment short.)
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its number").port()
}

/// mariadbd runs as root only when told so.
fn as_root() -> String {
    let uid = std::fs::metadata("/proc/self").expect("/proc").uid();
    if uid == 0 { "--user=root".into() } else { "--skip-name-resolve".into() }
}

fn spawn(dir: &Path, port: u16, options: &[&str]) -> Child {
    let log = std::fs::File::create(dir.join("log")).expect("room in the temporary directory");
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "mariadbd", "--no-defaults", "--skip-log-bin", "--skip-name-resolve"])
        .args(["--bind-address=127.0.0.1", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"])
        .arg(as_root())
        .arg(format!("--port={port}"))
        .arg(format!("--datadir={}", dir.join("data").display()))
        .arg(format!("--socket={}", dir.join("socket").display()))
        .arg(format!("--pid-file={}", dir.join("pid").display()))
        .arg(format!("--init-file={}", dir.join("accounts.sql").display()))
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("setpriv and mariadbd (Debian: util-linux, mariadb-server)")
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{}: {error} (Debian: mariadb-server)", command.get_program().display());
    });
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
