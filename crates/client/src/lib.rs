//! Speaking to a running Understudy through its API.
//!
//! Enters: where it is (from the configuration, or from the command line) and the key. Leaves: the `data` of its answers, or
//! a [`Failure`] with the server's own sentence. Over HTTPS the server's certificate is trusted because we have its file, not
//! because somebody signed it.

pub mod node;
pub mod order;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::Status;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use cli::exit::Failure;
use settings::{self, Settings, table as t};

/// How long the server may take to accept a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// How long an answer may take beyond an order's own budget: the server promises to answer before this.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(40);

/// Which running server.
#[derive(Args, Clone, Debug)]
pub struct Server {
    /// The configuration of the running server [default: ./understudy.toml, then /etc/understudy/understudy.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The server's address, for example http://127.0.0.1:6080; then no configuration is read
    #[arg(long, value_name = "URL", requires = "key_file", conflicts_with = "config")]
    api: Option<String>,
    /// The file with the API key [default: as the configuration says]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// With --api https://...: the file with the server's certificate, or with the authority that signed it
    #[arg(long, value_name = "FILE", requires = "api")]
    certificate_file: Option<PathBuf>,
    /// With --api: the number or name of the cluster
    #[arg(long, value_name = "ID", requires = "api", default_value = "1")]
    cluster: String,
}

/// A line to a running server.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    key: String,
}

/// A success.
pub struct Answer {
    /// The server's sentence.
    pub message: String,
    /// What it had to tell.
    pub data: Value,
}

impl Server {
    /// The one that a configuration names.
    pub fn of_config(config: Option<PathBuf>) -> Self {
        Self { config, api: None, key_file: None, certificate_file: None, cluster: "1".to_owned() }
    }

    /// The addresses of the nodes in the configuration.
    pub fn nodes(&self) -> Result<Vec<String>, Failure> {
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        Ok(settings.nodes.into_iter().map(|node| node.address).collect())
    }

    /// The configuration of the running server; nothing when only its address was given.
    pub fn settings(&self) -> Result<Option<Settings>, Failure> {
        if self.api.is_some() {
            return Ok(None);
        }
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        Settings::load(&file).map(Some).map_err(Failure::usage)
    }

    /// Makes ready to speak; nothing is sent yet.
    pub fn client(&self) -> Result<Client, Failure> {
        if let Some(url) = &self.api {
            if !url.starts_with("http://") && !url.starts_with("https://") {
                let message =
                    format!("--api {url}: it must begin with http:// or https://, such as http://{url}");
                return Err(Failure::usage(message));
            }
            let key_file =
                self.key_file.as_deref().ok_or_else(|| Failure::usage("--api needs --key-file"))?;
            let base = format!("{}/api/cluster/{}", url.trim_end_matches('/'), self.cluster);
            return Client::new(base, key_file, self.certificate_file.as_deref());
        }
        let file = settings::find(self.config.as_deref()).map_err(Failure::Usage)?;
        let settings = Settings::load(&file).map_err(Failure::usage)?;
        let (url, certificate) = place_of(&settings)?;
        let key_file = self.key_file.as_deref().unwrap_or(&settings.api.key_file);
        let is_made_by_serve = self.key_file.is_none() && settings.api.key_is_ours;
        if is_made_by_serve && matches!(key_file.try_exists(), Ok(false)) {
            return Err(Failure::NotRunning(format!(
                "no `understudy serve` has run yet with {}: its API key {} is made at its first start",
                settings.file.display(),
                key_file.display()
            )));
        }
        Client::new(format!("{url}/api/cluster/{}", settings.id), key_file, certificate.as_deref())
    }
}

impl Client {
    fn new(base: String, key_file: &Path, certificate: Option<&Path>) -> Result<Self, Failure> {
        let key = infile::read_text(key_file).map_err(|e| {
            Failure::Usage(format!(
                "cannot read the API key {}: {e}; only the owner of the running `understudy serve` may read it",
                key_file.display()
            ))
        })?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .user_agent(concat!("understudy/", env!("CARGO_PKG_VERSION")));
        if base.starts_with("https://") {
            let certificate = certificate.ok_or_else(|| {
                Failure::usage(
                    "an https:// address needs --certificate-file with the server's certificate to trust",
                )
            })?;
            let unreadable = |why| {
                let path = certificate.display();
                Failure::Usage(format!("cannot read the server's certificate {path}: {why}"))
            };
            config = config.tls_config(trusting(certificate).map_err(unreadable)?);
        }
        Ok(Self { agent: config.build().new_agent(), base, key: key.trim().to_owned() })
    }

    /// Reads; `path` is relative to the cluster's.
    pub fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.get_within(path, ANSWER_TIME_MAX)
    }

    /// The same, for whoever cannot wait: connecting, asking and the answer together take so long at most.
    pub fn get_within(&self, path: &str, within: Duration) -> Result<Answer, Failure> {
        let request = self.agent.get(format!("{}/{path}", self.base)).header("X-Api-Key", &self.key);
        let sent = request.config().timeout_global(Some(within)).build().call();
        self.read(sent)
    }

    /// The cluster, now.
    pub fn status(&self) -> Result<Status, Failure> {
        self.get("status")?.read()
    }

    /// Orders; `budget` is how long the order itself may take.
    pub fn put(&self, path: &str, body: &Value, budget: Option<Duration>) -> Result<Answer, Failure> {
        // An order without a budget gets the server's own, which is at most this.
        let budget = budget.unwrap_or(Duration::from_secs(600));
        let request = self.agent.put(format!("{}/{path}", self.base)).header("X-Api-Key", &self.key);
        let sent = request
            .content_type("application/json")
            .config()
            .timeout_global(Some(budget + ANSWER_TIME_MAX))
            .build()
            .send(body.to_string());
        self.read(sent)
    }

    fn read(&self, sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, Failure> {
        let base = &self.base;
        let unreachable = |e: ureq::Error| {
            let text = format!("no answer from {base}: {e}; is `understudy serve` running?");
            match e {
                ureq::Error::Io(e) if e.kind() == ErrorKind::ConnectionRefused => Failure::NotRunning(text),
                _ => Failure::Unreachable(text),
            }
        };
        let mut response = sent.map_err(unreachable)?;
        let text = response.body_mut().read_to_string().map_err(unreachable)?;
        let foreign = || {
            Failure::Unreachable(format!(
                "what answers at {base} is not Understudy (HTTP status {})",
                response.status()
            ))
        };
        let mut body: Value = serde_json::from_str(&text).map_err(|_| foreign())?;
        let message = body.get("message").and_then(Value::as_str).ok_or_else(foreign)?.to_owned();
        match body.get("success") {
            Some(Value::Bool(true)) => Ok(Answer { message, data: body["data"].take() }),
            Some(Value::Bool(false)) => {
                let code = body.pointer("/data/code").and_then(Value::as_str).unwrap_or("no code");
                Err(Failure::Refused { code: code.to_owned(), text: format!("refused ({code}): {message}") })
            }
            _ => Err(foreign()),
        }
    }
}

impl Answer {
    /// What it had to tell.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Failure> {
        let foreign =
            |e| Failure::Unreachable(format!("what `understudy serve` answers cannot be understood: {e}"));
        T::deserialize(&self.data).map_err(foreign)
    }

    /// Prints what came of an order: the server's sentence, or for programs that and what it had to tell.
    pub fn print(&self, is_json: bool) {
        if is_json {
            println!("{:#}", json!({ "message": self.message, "data": self.data }));
        } else {
            println!("{}", self.message);
        }
    }
}

/// A body with only what is set.
pub fn body(fields: &[(&str, Option<Value>)]) -> Value {
    let mut body = json!({});
    for (name, value) in fields {
        if let Some(value) = value {
            body[*name] = value.clone();
        }
    }
    body
}

/// The server's URL, and the certificate to trust there.
fn place_of(settings: &Settings) -> Result<(String, Option<PathBuf>), Failure> {
    if let Some(http) = settings.get(&t::LISTEN_HTTP).first() {
        return Ok((format!("http://{}", reachable(http)), None));
    }
    let Some(https) = settings.get(&t::LISTEN_HTTPS).into_iter().next() else {
        let problem = "listen.http and listen.https are both empty: the running server takes no orders";
        return Err(Failure::Usage(format!("{}: {problem}", settings.file.display())));
    };
    let given = settings.api.certificate.as_ref().map(|pair| pair.certificate.clone());
    let certificate = given.unwrap_or_else(|| settings.state_dir.join(web::certificate::CERTIFICATE_NAME));
    Ok((format!("https://{}", reachable(&https)), Some(certificate)))
}

/// Where to connect to reach what listens on `listen`.
fn reachable(listen: &str) -> String {
    match listen.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => {
            let port = address.port();
            if address.is_ipv4() {
                SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string()
            } else {
                SocketAddr::from((Ipv6Addr::LOCALHOST, port)).to_string()
            }
        }
        _ => listen.to_owned(),
    }
}

/// TLS to servers whose certificate is in this file, or was signed by one that is.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub fn trusting(file: &Path) -> Result<TlsConfig, String> {
    let pem = infile::read(file).map_err(|error| error.to_string())?;
    let mut trusted: Vec<Certificate<'static>> = Vec::new();
    for item in ureq::tls::parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            trusted.push(certificate);
        }
    }
    if trusted.is_empty() {
        return Err("it holds no certificate".into());
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_reached_over_loopback() {
        for (listen, reach) in [
            ("0.0.0.0:6080", "127.0.0.1:6080"),
            ("[::]:6080", "[::1]:6080"),
            ("10.1.2.3:6080", "10.1.2.3:6080"),
            ("proxy.example:6080", "proxy.example:6080"),
        ] {
            assert_eq!(reachable(listen), reach);
        }
    }
}
