//! What the first start makes: the state directory, the API key, the self-signed certificate. Later starts find them.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use web::certificate::{self, Pair, Shown};
use web::key::{ApiKey, Keys};

use cli::exit::Failure;
use settings::problem::Problem;
use settings::{
    Settings,
    table::{self as t, Setting},
};
use wiring::Credentials;

/// Holds the state directory for this process. The lock ends with the process, however it ends.
pub struct Claim(#[expect(dead_code, reason = "an open file holds its lock; nobody reads it")] File);

/// Makes the state directory when there is none, and claims it: two managers over one state would contradict each other.
pub fn claim(settings: &Settings) -> anyhow::Result<Claim> {
    state_dir(settings)?;
    let path = settings.state_dir.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| {
        let text =
            format!("state.dir {} cannot hold files; set another state.dir", settings.state_dir.display());
        settings.problem(&t::STATE_DIR, text).to_string()
    })?;
    match file.try_lock() {
        Ok(()) => Ok(Claim(file)),
        Err(TryLockError::WouldBlock) => {
            let dir = settings.state_dir.display();
            let text = format!(
                "state.dir {dir} is in use: another `understudy serve` runs with it; stop that one first"
            );
            anyhow::bail!("{}", settings.problem(&t::STATE_DIR, text))
        }
        Err(TryLockError::Error(e)) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// Finds or makes key and certificate. A given file that is not as it should be is wrong configuration.
pub fn prepare(settings: &Settings) -> Result<Credentials, Failure> {
    let operator =
        if settings.api.key_is_ours { our_key(settings)? } else { key(settings).map_err(Failure::usage)? };
    let reader = reader_key(settings, &operator).map_err(Failure::usage)?;
    let https = match settings.get(&t::LISTEN_HTTPS).is_empty() {
        true => None,
        false => Some(told(listener(settings, &API)?, &API)),
    };
    let (mysql, reads) = (settings.get(&t::LISTEN_TLS), settings.tls_for_reads());
    let is_bare = settings.client_certificate.is_none() && (CLIENTS.clients)(settings).is_none();
    let clients = match [&*mysql, &*reads] {
        ["off", "off"] => None,
        // Who has set nothing is served all the same.
        modes if is_bare && !modes.contains(&"required") => own(settings, &CLIENTS)
            .inspect_err(|error| tracing::warn!("clients cannot use TLS (listen.tls): {error:#}"))
            .ok(),
        _ => Some(listener(settings, &CLIENTS)?),
    };
    let clients = clients.map(|shown| told(shown, &CLIENTS));
    Ok(Credentials { keys: Keys { operator, reader }, https: https.map(|shown| shown.config), clients })
}

/// The certificate of a listener, which may expire soon.
fn told(shown: Shown, listener: &Listener) -> Shown {
    let expiry = shown.expires_unix_s.and_then(|at| api::proxy::expiry(at, SystemTime::now()));
    if let Some(expiry) = expiry {
        tracing::warn!("the certificate of {} {expiry}", listener.row.path);
    }
    shown
}

/// The same for a reload, which makes no new key: that would shut out everybody who has the old one.
pub fn prepare_again(settings: &Settings) -> Result<Credentials, Failure> {
    if settings.api.key_is_ours {
        key(settings).map_err(Failure::usage)?;
    }
    prepare(settings)
}

/// The given key; an error carries the line of its setting.
pub fn key(settings: &Settings) -> Result<ApiKey, Problem> {
    ApiKey::read(&settings.api.key_file)
        .map_err(|e| settings.problem(&t::API_KEY_FILE, format!("api.key_file: {e}")))
}

/// The key that only reads, where one is given.
pub fn reader_key(settings: &Settings, operator: &ApiKey) -> Result<Option<ApiKey>, Problem> {
    let Some(file) = settings.get(&t::API_READ_KEY_FILE) else { return Ok(None) };
    let problem = |why| settings.problem(&t::API_READ_KEY_FILE, format!("api.read_key_file: {why}"));
    let key = ApiKey::read(&file).map_err(|e| problem(e.to_string()))?;
    match key.is_same(operator) {
        true => Err(problem("it holds the key of api.key_file, with which everything can be done".into())),
        false => Ok(Some(key)),
    }
}

/// A kind of TLS listener.
pub struct Listener {
    /// Its given certificate.
    pub given: fn(&Settings) -> Option<&Pair>,
    /// The setting that gives it.
    row: &'static Setting<Option<PathBuf>>,
    /// What is spoken there (ALPN).
    spoken: &'static [&'static str],
    /// The authorities of its clients' certificates.
    clients: fn(&Settings) -> Option<PathBuf>,
}

/// listen.https.
pub const API: Listener = Listener {
    given: |settings| settings.api.certificate.as_ref(),
    row: &t::API_CERTIFICATE,
    spoken: certificate::HTTP,
    clients: |_| None,
};
/// listen.mysql and listen.read.
pub const CLIENTS: Listener = Listener {
    given: |settings| settings.client_certificate.as_ref(),
    row: &t::LISTEN_TLS_CERTIFICATE,
    spoken: &[],
    clients: |settings| settings.get(&t::LISTEN_TLS_CA),
};

impl Listener {
    /// Its configuration with the given certificate; an error carries the line of its setting.
    pub fn with(&self, settings: &Settings, pair: &Pair) -> Result<Shown, Problem> {
        certificate::shown(pair, self.spoken, (self.clients)(settings).as_deref())
            .map_err(|e| settings.problem(self.row, format!("{}: {e}", self.row.path)))
    }
}

/// With the given certificate, or with the one that is made at first start.
fn listener(settings: &Settings, listener: &Listener) -> Result<Shown, Failure> {
    if let Some(pair) = (listener.given)(settings) {
        return listener.with(settings, pair).map_err(Failure::usage);
    }
    own(settings, listener).map_err(|e| Failure::failed(&e))
}

/// With the certificate that is made at first start.
fn own(settings: &Settings, listener: &Listener) -> anyhow::Result<Shown> {
    let clients = (listener.clients)(settings);
    Ok(certificate::shown(&our_pair(settings)?, listener.spoken, clients.as_deref())?)
}

fn our_key(settings: &Settings) -> Result<ApiKey, Failure> {
    let file = &settings.api.key_file;
    let is_new = !file.exists();
    let key = ApiKey::read_or_create(file).map_err(|e| Failure::failed(&e.into()))?;
    if is_new {
        tracing::info!("made an API key: {}", file.display());
    }
    Ok(key)
}

fn our_pair(settings: &Settings) -> anyhow::Result<Pair> {
    Ok(certificate::self_signed(&settings.state_dir, &names(settings))?)
}

fn state_dir(settings: &Settings) -> anyhow::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(&settings.state_dir).with_context(|| {
        let text = format!(
            "state.dir {} cannot be made; make it writable for this user, or set another state.dir",
            settings.state_dir.display()
        );
        settings.problem(&t::STATE_DIR, text).to_string()
    })
}

/// The names that a self-signed certificate is good for: this machine's, and the addresses it listens on.
fn names(settings: &Settings) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let mut add = |name: String| {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    };
    add(host_name());
    let listening = [&t::LISTEN_HTTPS, &t::LISTEN_MYSQL, &t::LISTEN_READ];
    for listen in listening.into_iter().flat_map(|addresses| settings.get(addresses)) {
        match listen.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_unspecified() => {}
            Ok(address) => add(address.ip().to_string()),
            Err(_) => add(listen.rsplit_once(':').map_or(listen.as_str(), |(host, _)| host).to_owned()),
        }
    }
    names
}

/// The kernel's word for this machine; empty when it is no name that a certificate can carry.
fn host_name() -> String {
    let name = std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default();
    let name = name.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if name.chars().all(fits) { name.to_owned() } else { String::new() }
}
