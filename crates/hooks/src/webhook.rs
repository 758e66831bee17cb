//! One call of a webhook, and its signature.

use std::time::Duration;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use settings::problem::Problem;
use settings::{Settings, table as t};
use ureq::Agent;
use ureq::tls::TlsConfig;

use crate::message::Message;

/// How long one call may take, its answer included.
const CALL_TIME_MAX: Duration = Duration::from_secs(10);
/// Shorter secrets can be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// Where it is, and what proves that we called.
#[derive(Clone)]
pub struct Webhook {
    agent: Agent,
    url: String,
    secret: Option<Key>,
}

/// What came of a call.
pub enum Called {
    /// It answered with a status of 2xx.
    Taken(String),
    /// It will never take this.
    Refused(String),
    /// It may take it later.
    Failed(String),
}

impl Webhook {
    /// As the configuration says; `None` where there is none.
    pub fn read(settings: &Settings) -> Result<Option<Self>, Problem> {
        let Some(url) = settings.get(&t::HOOKS_URL) else { return Ok(None) };
        let tls = match url.split_once("://") {
            Some(("http", _)) => None,
            Some(("https", _)) => {
                let trusted = settings.get(&t::HOOKS_CA);
                let tls = client::trusting(&trusted).map_err(|why| {
                    let text = format!("hooks.webhook_ca_file {}: {why}", trusted.display());
                    settings.problem(&t::HOOKS_CA, text)
                })?;
                Some(tls)
            }
            _ => {
                let text = "hooks.webhook_url must begin with https:// or http://".to_owned();
                return Err(settings.problem(&t::HOOKS_URL, text));
            }
        };
        Ok(Some(Self::new(url, tls, secret(settings)?)))
    }

    pub(crate) fn new(url: String, tls: Option<TlsConfig>, secret: Option<Key>) -> Self {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // What it is told goes nowhere else.
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(CALL_TIME_MAX))
            .user_agent(concat!("understudy/", env!("CARGO_PKG_VERSION")));
        if let Some(tls) = tls {
            config = config.tls_config(tls);
        }
        Self { agent: config.build().new_agent(), url, secret }
    }

    /// Calls it once.
    pub fn call(&self, message: &Message) -> Called {
        let at = (manager::unix_ms() / 1000).to_string();
        let mut request = self
            .agent
            .post(&self.url)
            .content_type("application/json")
            .header("X-Understudy-Id", &message.id)
            .header("X-Understudy-Timestamp", &at);
        if let Some(secret) = &self.secret {
            request = request.header("X-Understudy-Signature", signature(secret, &at, &message.body));
        }
        // The address may hold a secret, so no error repeats it.
        match request.send(message.body.as_str()) {
            Ok(answer) => {
                let status = answer.status();
                let told = format!("the webhook answered {status}");
                match status.as_u16() {
                    200..300 => Called::Taken(told),
                    408 | 425 | 429 | 500.. => Called::Failed(told),
                    _ => Called::Refused(told),
                }
            }
            Err(ureq::Error::Io(error)) => Called::Failed(format!("the webhook cannot be reached: {error}")),
            Err(ureq::Error::Timeout(_)) => {
                Called::Failed(format!("the webhook did not answer within {} s", CALL_TIME_MAX.as_secs()))
            }
            Err(ureq::Error::HostNotFound) => Called::Failed("the webhook's host has no address".into()),
            Err(ureq::Error::BadUri(_) | ureq::Error::Http(_)) => {
                Called::Refused("hooks.webhook_url is no address".into())
            }
            Err(ureq::Error::Rustls(error)) => Called::Failed(format!("the webhook's TLS: {error}")),
            Err(error) => Called::Failed(format!("the webhook cannot be called: {}", kind(&error))),
        }
    }
}

/// The variant of an error whose text may hold the address.
fn kind(error: &ureq::Error) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// HMAC-SHA256 over the time, a dot and the body: whoever repeats an old call has its old time.
fn signature(secret: &Key, at: &str, body: &str) -> String {
    format!("v1={}", hex::encode(sign(secret, format!("{at}.{body}").as_bytes())))
}

fn secret(settings: &Settings) -> Result<Option<Key>, Problem> {
    let Some(file) = settings.get(&t::HOOKS_SECRET_FILE) else { return Ok(None) };
    let wrong = |why: String| {
        let text = format!("hooks.webhook_secret_file {}: {why}", file.display());
        settings.problem(&t::HOOKS_SECRET_FILE, text)
    };
    let text = infile::read_text(&file).map_err(|error| wrong(error.to_string()))?;
    match text.trim() {
        short if short.len() < SECRET_BYTES_MIN => {
            Err(wrong(format!("it must hold at least {SECRET_BYTES_MIN} characters")))
        }
        secret => Ok(Some(Key::new(HMAC_SHA256, secret.as_bytes()))),
    }
}
