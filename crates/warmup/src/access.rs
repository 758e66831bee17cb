//! Connects to a streamer (`slowlog serve`): with its API key, over TLS, or without either.
//!
//! One request per connection. The server must have the certificate that `--tls-ca` names, or one signed by that authority. The system's
//! own authorities are not trusted.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use link::ServerTls;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// TCP keepalive: a streamer whose host does not answer for this long is gone. A slow log may be quiet for hours, so only the kernel's
/// probes can detect that.
const SILENT_MAX: Duration = Duration::from_secs(40);

/// The key to send, and the certificate authorities to trust. The default is neither.
/// Two are equal that have the same key and trust the same certificates, whichever files they came from.
#[derive(Clone, Default, PartialEq)]
pub struct Access {
    /// `Bearer ...`; marked as sensitive, so that it is never printed.
    authorization: Option<HeaderValue>,
    tls: Option<ServerTls>,
}

/// Why the files cannot be used: one sentence with the file.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("the {what} {path} cannot be read: {source}")]
    Unreadable {
        /// "stream's key" or "certificate".
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It has other contents than required.
    #[error("{path} {what}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("has_key", &self.authorization.is_some())
            .field("has_tls", &self.tls.is_some())
            .finish()
    }
}

impl Access {
    /// With the key from one file, and over TLS when the other file (PEM) has a certificate to trust.
    pub fn of_files(key: Option<&Path>, trusted: Option<&Path>) -> Result<Access, AccessError> {
        let authorization = key.map(authorization).transpose()?;
        let tls = trusted.map(tls).transpose()?;
        Ok(Access { authorization, tls })
    }

    /// Requests `path` (with its query) from `address` (`host:port`); an error says why there is no response.
    pub(crate) async fn get(&self, address: &str, path: &str) -> Result<hyper::Response<Incoming>, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let alive =
            TcpKeepalive::new().with_time(SILENT_MAX / 2).with_interval(SILENT_MAX / 8).with_retries(4);
        SockRef::from(&stream).set_tcp_keepalive(&alive).map_err(|error| error.to_string())?;
        let mut sender = match &self.tls {
            None => speak(stream).await?,
            Some(tls) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
                    .map_err(|_| format!("{host} is no name that a certificate can have"))?;
                let connected = TlsConnector::from(Arc::clone(tls.config())).connect(name, stream).await;
                speak(connected.map_err(|error| format!("TLS: {error}"))?).await?
            }
        };
        let mut request = hyper::Request::get(path).header(HOST, address);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
        sender.send_request(request).await.map_err(|error| error.to_string())
    }
}

async fn speak<S>(stream: S) -> Result<SendRequest<Empty<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // Ends when the body is dropped or the streamer closes; the reader of the body gets any error.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

fn authorization(path: &Path) -> Result<HeaderValue, AccessError> {
    let text = infile::read_text(path).map_err(|source| AccessError::Unreadable {
        what: "stream's key",
        path: path.to_owned(),
        source,
    })?;
    let wrong = |what: &str| AccessError::Content { path: path.to_owned(), what: what.to_owned() };
    let key = text.trim();
    if key.is_empty() {
        return Err(wrong("is empty; it must hold the streamer's key in one line"));
    }
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
        wrong("holds more than one line, or control characters; it must hold the streamer's key in one line")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn tls(path: &Path) -> Result<ServerTls, AccessError> {
    let pem = infile::read(path).map_err(|source| AccessError::Unreadable {
        what: "certificate",
        path: path.to_owned(),
        source,
    })?;
    ServerTls::trusting(&pem).map_err(|what| AccessError::Content { path: path.to_owned(), what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_and_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, "hush-hush\n").unwrap();
        let access = Access::of_files(Some(&file), None).unwrap();
        assert_eq!(access.authorization.as_ref().unwrap(), "Bearer hush-hush");
        assert!(!format!("{access:?} {:?}", access.authorization).contains("hush"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        for (text, said) in [("", "is empty"), ("a\nb", "more than one line")] {
            std::fs::write(&file, text).unwrap();
            let error = Access::of_files(Some(&file), None).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("/x "), "{error}");
        }
        let error = Access::of_files(None, Some(&file)).unwrap_err().to_string();
        assert!(error.contains("holds no certificate"), "{error}");
        let error = Access::of_files(Some(&dir.path().join("none")), None).unwrap_err().to_string();
        assert!(error.contains("stream's key") && error.contains("No such file"), "{error}");
    }
}
