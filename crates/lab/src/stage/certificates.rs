//! Certificates of the nodes, each for its address, signed by an authority that is made for the stage and whose key is not kept.

use std::fs;
use std::path::Path;

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::Stage;

/// The authority's certificate, in the stage's directory.
pub const AUTHORITY: &str = "ca.crt";

/// Writes the authority's certificate, and each node's with its key into the node's directory. (The stage's directory is its owner's alone.)
pub fn write(stage: &Stage) -> anyhow::Result<()> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, format!("stage {}", stage.name()));
    let authority = params.self_signed(&key)?;
    put(&stage.directory().join(AUTHORITY), &authority.pem())?;
    let issuer = Issuer::new(params, key);
    for node in stage.nodes() {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([node.address.ip().to_string()])?;
        params.distinguished_name.push(DnType::CommonName, node.name.clone());
        let certificate = params.signed_by(&key, &issuer)?;
        put(&node.directory.join("server.crt"), &certificate.pem())?;
        put(&node.directory.join("server.key"), &key.serialize_pem())?;
    }
    Ok(())
}

/// The lines of a node's my.cnf.
pub fn lines(directory: &Path) -> Vec<String> {
    let directory = directory.display();
    vec![format!("ssl-cert = {directory}/server.crt"), format!("ssl-key = {directory}/server.key")]
}

fn put(path: &Path, pem: &str) -> anyhow::Result<()> {
    fs::write(path, pem).with_context(|| format!("cannot write {}", path.display()))
}
