//! Where the database is, and as whom it is asked: what the command line and the option files say, put together.

use std::path::Path;

use cli::exit::Failure;
use health::refresh::Whereabouts;
use link::{Endpoint, Login, ServerTls};

use crate::local::{DEFAULT_SOCKETS, Target};
use mycnf::{Options, Wish};

/// A MySQL server's port, when nobody says.
const PORT: u16 = 3306;

/// A database that can be asked.
#[derive(Clone, Debug)]
pub struct Database {
    /// Where.
    pub whereabouts: Whereabouts,
    /// As whom.
    pub login: Login,
    /// Its name on this machine.
    pub target: Target,
}

impl Database {
    /// What `options` mean. `user` is for when they name none.
    ///
    /// # Errors
    /// They ask for TLS in a way that cannot be had.
    pub fn of(options: Options, user: impl FnOnce() -> String) -> Result<Self, Failure> {
        let tls = tls(&options.tls).map_err(Failure::usage)?;
        let port = options.port.unwrap_or(PORT);
        let host = options.host.or_else(|| options.is_tcp.then(|| "127.0.0.1".into()));
        let (whereabouts, target) = match (&host, options.socket) {
            (Some(host), _) if host != "localhost" || options.is_tcp => {
                let place = Endpoint::Tcp(address(host, port));
                let target = Target::of(&place, port);
                (place.into(), target)
            }
            (_, Some(socket)) => {
                let place = Endpoint::Unix(socket);
                let target = Target::of(&place, port);
                (place.into(), target)
            }
            // Nobody said where.
            _ => match default_sockets(DEFAULT_SOCKETS.map(Path::new)) {
                Some(whereabouts) => {
                    let target = Target::of(whereabouts.now(), port);
                    (whereabouts, target)
                }
                None => (Endpoint::Tcp(address("127.0.0.1", port)).into(), Target::Here(port)),
            },
        };
        let password = options.password.unwrap_or_default();
        let login = Login { tls, ..Login::with_password(options.user.unwrap_or_else(user), password) };
        Ok(Self { whereabouts, login, target })
    }

    /// For people.
    pub fn shown(&self) -> String {
        self.whereabouts.now().to_string()
    }
}

/// A unix socket is plain, whatever this says.
fn tls(options: &mycnf::Tls) -> Result<Option<ServerTls>, String> {
    match options.wish()? {
        (Wish::Plain, _) => Ok(None),
        (Wish::Verified, Some(file)) => {
            let wrong = |why: String| format!("ssl-ca {}: {why}", file.display());
            let pem = infile::read(file).map_err(|e| wrong(format!("cannot be read: {e}")))?;
            ServerTls::trusting(&pem).map(Some).map_err(wrong)
        }
        (Wish::Required | Wish::Verified, _) => ServerTls::with_any_certificate().map(Some),
    }
}

/// Both of `usual`, if one of their directories is there. Which of them it is tells only the server, when it runs: the directories are
/// there for other reasons as well.
fn default_sockets(usual: [&Path; 2]) -> Option<Whereabouts> {
    let may_come = |path: &Path| path.parent().is_some_and(Path::is_dir);
    let [place, other] = usual.map(|path| Endpoint::Unix(path.to_owned()));
    usual.into_iter().any(may_come).then_some(Whereabouts { place, other: Some(other) })
}

fn address(host: &str, port: u16) -> String {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Whom the client logs in as when nobody says: the user who runs it.
pub fn system_user() -> String {
    if rustix::process::geteuid().is_root() {
        return "root".into();
    }
    ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use link::Secret;

    use super::*;

    fn of(options: Options) -> Database {
        Database::of(options, || "nobody".into()).unwrap()
    }

    #[test]
    fn a_host_is_tcp_unless_it_is_localhost() {
        let with = |host: &str, socket: Option<&str>| {
            let (host, socket) = (Some(host.to_owned()), socket.map(PathBuf::from));
            of(Options { host, socket, ..Options::default() })
        };
        let db1 = with("db1", Some("/s"));
        assert_eq!(db1.whereabouts, Endpoint::Tcp("db1:3306".into()).into());
        assert_eq!(db1.target, Target::Tcp("db1:3306".into()));
        assert_eq!(with("::1", None).shown(), "[::1]:3306");
        assert_eq!(with("[::1]", None).shown(), "[::1]:3306");
        let local = with("localhost", Some("/s"));
        assert_eq!(local.whereabouts, Endpoint::Unix("/s".into()).into());
        assert_eq!(local.target, Target::Unix("/s".into()));
        assert_eq!(with("localhost", None).target, Target::Here(3306));
    }

    #[test]
    fn protocol_tcp_is_no_socket_wherever_it_leads() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("my.cnf");
        for (lines, place) in [
            ("protocol=TCP\nport=3307\nsocket=/s", "127.0.0.1:3307"),
            ("host=localhost\nprotocol=tcp", "localhost:3306"),
            ("host=localhost\nprotocol=socket\nsocket=/s", "/s"),
        ] {
            std::fs::write(&file, format!("[client]\n{lines}\n")).unwrap();
            let said = Options { user: Some("x".into()), ..Options::default() };
            assert_eq!(of(said.or(Options::of_file(&file).unwrap())).shown(), place, "{lines}");
        }
    }

    #[test]
    fn a_port_alone_is_tcp_whatever_the_file_calls_this_machine() {
        let file =
            Options { host: Some("localhost".into()), socket: Some("/s".into()), ..Options::default() };
        let said = Options { port: Some(3307), ..Options::default() };
        assert_eq!(of(said.or(file)).shown(), "127.0.0.1:3307");
    }

    #[test]
    fn a_server_that_comes_later_is_found_where_it_comes() {
        let dir = tempfile::tempdir().unwrap();
        let usual = ["a", "b"].map(|name| dir.path().join(name).join("s"));
        let look = || default_sockets([&usual[0], &usual[1]]);
        assert_eq!(look(), None);
        // Debian has the data directory of the second place, and the first one only while the server runs.
        std::fs::create_dir(dir.path().join("b")).unwrap();
        let whereabouts = look().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(&usual[0], "").unwrap();
        assert_eq!(whereabouts.now(), &Endpoint::Unix(usual[0].clone()));
        std::fs::rename(&usual[0], &usual[1]).unwrap();
        assert_eq!(whereabouts.now(), &Endpoint::Unix(usual[1].clone()));
    }

    #[test]
    fn without_a_place_it_is_this_machines() {
        let nothing = of(Options { port: Some(3307), ..Options::default() });
        assert_eq!(nothing.target, Target::Here(3307));
        assert_eq!((nothing.login.user.as_str(), nothing.login.secret), ("nobody", Secret::None));
        let given = of(Options { socket: Some(DEFAULT_SOCKETS[0].into()), ..Options::default() });
        assert_eq!(given.target, Target::Here(3306));
    }
}
