//! The certificate of a TLS listener: a given one, or a self-signed one made at first start.
//!
//! Enters: paths. Leaves: a [`rustls::ServerConfig`]. The self-signed pair lives in the state directory, so that a client
//! that pinned it once can go on trusting it across restarts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::certificate_proof::{Fingerprint, fingerprint};
use rustls::RootCertStore;
pub use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::private_file;

/// What an HTTPS listener speaks.
pub const HTTP: &[&str] = &["http/1.1"];
/// Name of the self-signed certificate inside the state directory.
pub const CERTIFICATE_NAME: &str = "https.crt";
/// Name of its private key there.
pub const KEY_NAME: &str = "https.key";

/// What a TLS listener shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Versions, ciphers, and the certificate.
    pub config: Arc<ServerConfig>,
    /// The certificate's.
    pub fingerprint: Fingerprint,
    /// When the certificate expires; `None` where that cannot be read.
    pub expires_unix_s: Option<u64>,
}

/// The files of a certificate and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// PEM, the chain with the server's own certificate first.
    pub certificate: PathBuf,
    /// PEM, PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// Why there is no HTTPS.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read as PEM.
    #[error("cannot read the {what} in {path}: {why}")]
    Read {
        /// "certificate" or "private key".
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Certificate and key do not belong together, or the key has an unsupported type.
    #[error("the certificate {certificate} and the private key {key} cannot be used together: {source}")]
    Unusable {
        /// Which certificate.
        certificate: PathBuf,
        /// Which key.
        key: PathBuf,
        /// The library's reason.
        source: rustls::Error,
    },
    /// One file of the self-signed pair is missing.
    #[error(
        "{present} is there but {missing} is not; remove the first, and a new pair is made at the next start"
    )]
    Half {
        /// The file that exists.
        present: PathBuf,
        /// The file that does not.
        missing: PathBuf,
    },
    /// The pair cannot be made.
    #[error("cannot make a self-signed certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The pair cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// The self-signed pair of `directory`; made for `names` (host names and addresses) when there is none yet.
pub fn self_signed(directory: &Path, names: &[String]) -> Result<Pair, CertificateError> {
    let pair = Pair { certificate: directory.join(CERTIFICATE_NAME), key: directory.join(KEY_NAME) };
    match (pair.certificate.exists(), pair.key.exists()) {
        (true, true) => return Ok(pair),
        (true, false) => return Err(CertificateError::Half { present: pair.certificate, missing: pair.key }),
        (false, true) => return Err(CertificateError::Half { present: pair.key, missing: pair.certificate }),
        (false, false) => {}
    }
    let signing = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(names)?;
    params.distinguished_name.push(rcgen::DnType::CommonName, "Understudy (self-signed)");
    let certificate = params.self_signed(&signing)?;
    let write = |path: &Path, pem: String| {
        private_file::create(path, pem.as_bytes())
            .map_err(|source| CertificateError::Write { path: path.to_owned(), source })
    };
    write(&pair.key, signing.serialize_pem())?;
    write(&pair.certificate, certificate.pem())?;
    Ok(pair)
}

/// When a certificate (DER) expires, in seconds since 1970.
fn expires(certificate: &[u8]) -> Option<u64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    certificate.validity().not_after.timestamp().try_into().ok()
}

/// Looks at the certificates of clients, of those that show one.
fn trusting(
    file: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let unreadable =
        |why: String| CertificateError::Read { what: "clients' authorities", path: file.to_owned(), why };
    let pem = infile::read(file).map_err(|error| unreadable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| unreadable(error.to_string()))
}

/// The TLS configuration of a listener, read from the pair's files. `spoken`: what is spoken under TLS (ALPN, RFC 7301); empty: nothing is said of it.
/// `clients`: the file of the authorities from which a client's certificate must come, if it shows one; `None`: no client is asked for one.
pub fn shown(pair: &Pair, spoken: &[&str], clients: Option<&Path>) -> Result<Shown, CertificateError> {
    let unreadable = |what, path: &Path, why: &dyn ToString| CertificateError::Read {
        what,
        path: path.to_owned(),
        why: why.to_string(),
    };
    let read = |what, path| infile::read(path).map_err(|e| unreadable(what, path, &e));
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read("certificate", &pair.certificate)?)
        .collect::<Result<_, _>>()
        .map_err(|e| unreadable("certificate", &pair.certificate, &e))?;
    let Some(own) = chain.first() else {
        return Err(unreadable("certificate", &pair.certificate, &"it holds no certificate"));
    };
    let (fingerprint, expires_unix_s) = (fingerprint(own), expires(own));
    let key = PrivateKeyDer::from_pem_slice(&read("private key", &pair.key)?)
        .map_err(|e| unreadable("private key", &pair.key, &e))?;
    let unusable = |source| CertificateError::Unusable {
        certificate: pair.certificate.clone(),
        key: pair.key.clone(),
        source,
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(file) => builder.with_client_cert_verifier(trusting(file, provider)?),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = spoken.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Shown { config: Arc::new(config), fingerprint, expires_unix_s })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_first_start_makes_a_pair_and_the_second_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let pair = self_signed(dir.path(), &names).unwrap();
        let pem = std::fs::read(&pair.certificate).unwrap();
        for path in [&pair.certificate, &pair.key] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(
            shown(&pair, HTTP, None).is_ok_and(|shown| shown.expires_unix_s > Some(4_000_000_000)),
            "far away"
        );
        assert_eq!(self_signed(dir.path(), &names).unwrap(), pair);
        assert_eq!(std::fs::read(&pair.certificate).unwrap(), pem);
    }

    #[test]
    fn it_is_known_when_a_certificate_expires_and_whose_clients_may_show_one() {
        let dir = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["db.test".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 2, 3);
        let pair = Pair { certificate: dir.path().join("c"), key: dir.path().join("k") };
        std::fs::write(&pair.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        // date -u -d 2031-02-03 +%s
        assert_eq!(shown(&pair, &[], Some(&pair.certificate)).unwrap().expires_unix_s, Some(1_927_843_200));
        let said = shown(&pair, &[], Some(&pair.key)).unwrap_err().to_string();
        assert!(said.contains("clients' authorities in"), "{said}");
    }

    #[test]
    fn a_half_pair_and_a_wrong_file_are_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(KEY_NAME), "x").unwrap();
        let said = self_signed(dir.path(), &["localhost".to_owned()]).unwrap_err().to_string();
        assert!(said.contains("https.key is there but") && said.contains("https.crt is not"), "{said}");
        let pair = Pair { certificate: dir.path().join(KEY_NAME), key: dir.path().join(KEY_NAME) };
        let said = shown(&pair, HTTP, None).unwrap_err().to_string();
        assert!(said.contains("https.key") && said.contains("no certificate"), "{said}");
    }
}
