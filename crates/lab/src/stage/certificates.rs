//! Certificates of the nodes, each for its address, and one for clients, signed by an authority that is made for the stage and whose key is not
//! kept.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::Stage;

/// The authority's certificate, in the stage's directory.
pub const AUTHORITY: &str = "ca.crt";

/// A client's certificate and its key, beside it.
pub const CLIENT: [&str; 2] = ["client.crt", "client.key"];

/// Writes the authority's certificate and the clients', and each node's with its key into the node's directory. (The stage's directory is its
/// owner's alone.)
pub fn write(stage: &Stage) -> anyhow::Result<()> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, format!("stage {}", stage.name()));
    let authority = params.self_signed(&key)?;
    put(&stage.directory().join(AUTHORITY), &authority.pem())?;
    let issuer = Issuer::new(params, key);
    let issue = |names: Vec<String>, name: &str, [certificate, key]: [PathBuf; 2]| {
        let own = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, name);
        put(&certificate, &params.signed_by(&own, &issuer)?.pem())?;
        put(&key, &own.serialize_pem())
    };
    for node in stage.nodes() {
        let files = ["server.crt", "server.key"].map(|file| node.directory.join(file));
        issue(vec![node.address.ip().to_string()], &node.name, files)?;
    }
    issue(vec![], "client", CLIENT.map(|file| stage.directory().join(file)))
}

/// The lines of a node's my.cnf.
pub fn lines(directory: &Path) -> Vec<String> {
    let authority = directory.parent().unwrap_or(directory).join(AUTHORITY);
    let directory = directory.display();
    vec![
        format!("ssl-ca = {}", authority.display()),
        format!("ssl-cert = {directory}/server.crt"),
        format!("ssl-key = {directory}/server.key"),
    ]
}

fn put(path: &Path, pem: &str) -> anyhow::Result<()> {
    fs::write(path, pem).with_context(|| format!("cannot write {}", path.display()))
}
