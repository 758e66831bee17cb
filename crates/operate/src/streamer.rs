//! How a command reads the slow log that `understudy slowlog serve` streams elsewhere: its address, the key, and the certificate to trust.

use std::path::PathBuf;

use clap::Args;
use tokio::io::AsyncRead;
use warmup::access::Access;
use warmup::source::{self, Sample};

use cli::exit::Failure;

/// What is shown to a streamer, and what it has to show.
#[derive(Args)]
pub struct StreamAccess {
    /// The key that the streamer wants, in a file
    #[arg(long, value_name = "FILE")]
    stream_key_file: Option<PathBuf>,
    /// Ask the streamer over TLS, and trust this certificate (PEM): its own, or that of the authority that signed it
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

impl StreamAccess {
    /// Reads the files.
    pub fn access(&self) -> Result<Access, Failure> {
        Access::of_files(self.stream_key_file.as_deref(), self.tls_ca.as_deref()).map_err(Failure::usage)
    }

    /// The `host:port` of a streamer, when `source` is its URL; an error when the URL and the options contradict each other.
    pub fn address<'a>(&self, source: &'a str) -> Result<Option<&'a str>, Failure> {
        let (rest, is_tls) = match (source.strip_prefix("http://"), source.strip_prefix("https://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ if self.stream_key_file.is_some() || self.tls_ca.is_some() => {
                return Err(Failure::usage(format!(
                    "--stream-key-file and --tls-ca are for a streamer, http://HOST:PORT or https://HOST:PORT, and the source is {source}"
                )));
            }
            _ => return Ok(None),
        };
        let (address, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if !["", "/", "/slow"].contains(&path) {
            return Err(Failure::usage(format!(
                "{source}: nothing may stand behind the port: the whole log is read from now on; `curl` gives a part of it to a source of -"
            )));
        }
        match (is_tls, &self.tls_ca) {
            (true, None) => Err(Failure::usage(format!(
                "{source}: which certificate is to be trusted? Name it with --tls-ca FILE"
            ))),
            (false, Some(_)) => Err(Failure::usage(format!(
                "{source}: --tls-ca asks over TLS; write https:// before the address"
            ))),
            _ => Ok(Some(address)),
        }
    }

    /// The stream at `address`, from its end on.
    pub async fn open(&self, address: &str) -> Result<impl AsyncRead + Unpin + Send + use<>, Failure> {
        let opened = source::open(&self.access()?, address, None, Sample::default()).await;
        opened.map_err(|error| Failure::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_and_the_options_agree() {
        let plain = StreamAccess { stream_key_file: None, tls_ca: None };
        let tls = StreamAccess { stream_key_file: None, tls_ca: Some("ca.pem".into()) };
        let address = |access: &StreamAccess, source: &str| {
            access.address(source).ok().map(|found| found.map(str::to_owned))
        };
        assert_eq!(address(&plain, "http://db1:3307/slow"), Some(Some("db1:3307".into())));
        assert_eq!(address(&tls, "https://db1:3307"), Some(Some("db1:3307".into())));
        assert_eq!(address(&plain, "/var/log/slow.log"), Some(None));
        for (access, source) in
            [(&plain, "https://db1:3307"), (&tls, "http://db1:3307"), (&tls, "slow.log"), (&tls, "-")]
        {
            assert_eq!(address(access, source), None, "{source}");
        }
    }
}
