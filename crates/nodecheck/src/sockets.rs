//! The listening sockets: those that systemd passed, and those that the command line names.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use listen::ListenError;
use listenfd::ListenFd;
use socket2::SockRef;

use cli::exit::Failure;

/// What a passed socket is called (`FileDescriptorName=`) when it is for HAProxy's agent check.
const AGENT: &str = "agent";

/// Open and listening; none of them blocks.
#[derive(Debug, Default)]
pub struct Sockets {
    /// HTTP.
    pub http: Vec<TcpListener>,
    /// HTTP as well.
    pub unix: Vec<UnixListener>,
    /// HAProxy's agent check.
    pub agent: Vec<TcpListener>,
}

impl Sockets {
    /// Takes what systemd passed, and opens what is asked for; `otherwise` when that is nothing at all.
    pub fn open(http: &[String], agent: &[String], otherwise: &str) -> Result<Self, Failure> {
        let mut sockets = Self::passed()?;
        let is_none = sockets.http.is_empty() && sockets.unix.is_empty() && sockets.agent.is_empty();
        let default = [otherwise.to_owned()];
        let http = if is_none && http.is_empty() && agent.is_empty() { &default } else { http };
        sockets.http.append(&mut open(http)?);
        sockets.agent.append(&mut open(agent)?);
        Ok(sockets)
    }

    /// systemd's socket activation: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES, as sd_listen_fds(3) describes them.
    fn passed() -> Result<Self, Failure> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let names: Vec<&str> = names.split(':').collect();
        let mut passed = ListenFd::from_env();
        let mut sockets = Self::default();
        for nth in 0..passed.len() {
            let wrong =
                |what: String| Failure::Failed(format!("socket {} that systemd passed: {what}", nth + 1));
            let client = || {
                wrong(
                    "a client's connection; with Accept=yes use `understudy check --once` or `clustercheck`"
                        .into(),
                )
            };
            if let Ok(Some(listener)) = passed.take_tcp_listener(nth) {
                if !SockRef::from(&listener).is_listener().unwrap_or(false) {
                    return Err(client());
                }
                listener.set_nonblocking(true).map_err(|e| wrong(e.to_string()))?;
                let is_agent = names.get(nth).is_some_and(|name| *name == AGENT);
                if is_agent { &mut sockets.agent } else { &mut sockets.http }.push(listener);
            } else if let Ok(Some(listener)) = passed.take_unix_listener(nth) {
                if !SockRef::from(&listener).is_listener().unwrap_or(false) {
                    return Err(client());
                }
                sockets.unix.push(listener);
            } else {
                return Err(wrong(
                    "neither a TCP nor a unix stream socket that listens; use ListenStream= and Accept=no"
                        .into(),
                ));
            }
        }
        Ok(sockets)
    }
}

/// Opens the addresses. One that is written wrong is wrong usage, one that cannot be had is not.
fn open(list: &[String]) -> Result<Vec<TcpListener>, Failure> {
    listen::open(list).map_err(|error| match error {
        ListenError::Name { .. } => Failure::usage(error),
        _ => Failure::Failed(error.to_string()),
    })
}
