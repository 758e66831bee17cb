//! What the first start makes: the state directory, the API key, the self-signed certificate. Later starts find them.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use web::certificate::{self, Pair, ServerConfig};
use web::key::ApiKey;

use cli::exit::Failure;
use settings::problem::Problem;
use settings::{Settings, table as t};
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
    let key =
        if settings.api.key_is_ours { our_key(settings)? } else { key(settings).map_err(Failure::usage)? };
    if settings.get(&t::LISTEN_HTTPS).is_empty() {
        return Ok(Credentials { key, tls: None });
    }
    let tls = match &settings.api.certificate {
        Some(pair) => certificate(settings, pair).map_err(Failure::usage)?,
        None => our_certificate(settings).map_err(|e| Failure::failed(&e))?,
    };
    Ok(Credentials { key, tls: Some(tls) })
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

/// The given certificate; an error carries the line of its setting.
pub fn certificate(settings: &Settings, pair: &Pair) -> Result<Arc<ServerConfig>, Problem> {
    certificate::server_config(pair)
        .map_err(|e| settings.problem(&t::API_CERTIFICATE, format!("api.certificate_file: {e}")))
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

fn our_certificate(settings: &Settings) -> anyhow::Result<Arc<ServerConfig>> {
    let pair = certificate::self_signed(&settings.state_dir, &names(settings))?;
    Ok(certificate::server_config(&pair)?)
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
    for listen in settings.get(&t::LISTEN_HTTPS) {
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
