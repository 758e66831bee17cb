//! How the way to a server is secured: which certificates are trusted.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// TLS to a server. Two are equal that trust, and show, the same certificates.
#[derive(Clone)]
pub struct ServerTls {
    /// `None`: any.
    trusted: Option<Vec<CertificateDer<'static>>>,
    /// Our own certificate, with its chain; empty: none.
    shown: Vec<CertificateDer<'static>>,
    config: Arc<ClientConfig>,
}

impl ServerTls {
    /// Whoever answers is taken for the server, whatever its certificate: nobody can listen, but somebody can stand between.
    ///
    /// # Errors
    /// The library of TLS does not work here.
    pub fn with_any_certificate() -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = builder(&provider)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        Ok(Self { trusted: None, shown: vec![], config: Arc::new(config) })
    }

    /// The server's certificate must be one of these (PEM), or signed by one of them; it must not have expired, and be for the name or address
    /// that is connected to.
    ///
    /// # Errors
    /// What is wrong with `pem`, to be said behind the name of its file.
    pub fn trusting(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        let mut trusted = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("is not PEM: {error}"))?;
            roots
                .add(certificate.clone())
                .map_err(|error| format!("holds a certificate that cannot be used: {error}"))?;
            trusted.push(certificate);
        }
        if roots.is_empty() {
            return Err(
                "holds no certificate; it must hold the server's own, or that of the authority that \
                        signed it (PEM)"
                    .into(),
            );
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = builder(&provider)?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { trusted: Some(trusted), shown: vec![], config: Arc::new(config) })
    }

    /// The same, with a certificate that the server is shown where it asks for one (PEM: its chain after it, and its key).
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn showing(self, chain: &[u8], key: &[u8]) -> Result<Self, String> {
        let shown = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let shown = shown.map_err(|error| format!("the certificate is not PEM: {error}"))?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key is not PEM: {error}"))?;
        let own = CertifiedKey::from_der(shown.clone(), key, &aws_lc_rs::default_provider())
            .map_err(|error| format!("the certificate and the key cannot be used together: {error}"))?;
        let mut config = ClientConfig::clone(&self.config);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
        Ok(Self { shown, config: Arc::new(config), ..self })
    }

    /// Whether the server's certificate is looked at.
    pub fn is_verified(&self) -> bool {
        self.trusted.is_some()
    }

    /// For rustls.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }
}

fn builder(
    provider: &Arc<CryptoProvider>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, String> {
    ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot be used: {error}"))
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        (&self.trusted, &self.shown) == (&other.trusted, &other.shown)
    }
}

impl Eq for ServerTls {}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trusted = self.trusted.as_ref().map(Vec::len);
        f.debug_struct("ServerTls").field("trusted", &trusted).finish_non_exhaustive()
    }
}

/// Looks at no certificate, only at whether the peer has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
