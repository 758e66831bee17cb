//! The programs of others that are measured beside Understudy, or load it: found in PATH, and known by what they say of themselves. A name does
//! not suffice: where Understudy's drop-ins are linked, `masterha_manager` is Understudy.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};

/// A program.
struct Peer {
    program: &'static str,
    /// Debian's packages with it.
    packages: &'static str,
    /// The argument with which it tells its version.
    asked: &'static str,
    /// What that begins with.
    says: &'static str,
}

const MHA: &str = "mha4mysql-manager mha4mysql-node";
const PEERS: &[Peer] = &[
    Peer { program: "haproxy", packages: "haproxy", asked: "-v", says: "HAProxy version " },
    // Before 2.4.
    Peer { program: "haproxy", packages: "haproxy", asked: "-v", says: "HA-Proxy version " },
    Peer { program: "nginx", packages: "nginx-light", asked: "-v", says: "nginx version: " },
    Peer { program: "keepalived", packages: "keepalived", asked: "--version", says: "Keepalived v" },
    Peer { program: "sysbench", packages: "sysbench", asked: "--version", says: "sysbench " },
    mha("masterha_manager", "masterha_manager version "),
    mha("masterha_check_status", "masterha_check_status version "),
    mha("masterha_master_switch", "masterha_master_switch version "),
];

const fn mha(program: &'static str, says: &'static str) -> Peer {
    Peer { program, packages: MHA, asked: "--version", says }
}

/// Whether this is the name of a peer.
pub fn is_peer(program: &str) -> bool {
    PEERS.iter().any(|peer| peer.program == program)
}

/// The path of the program: the first of this name in PATH, or in root's directories, that is what its name says.
///
/// # Errors
/// There is none; with the packages to install, and what was found instead.
pub fn find(program: &str) -> anyhow::Result<PathBuf> {
    static FOUND: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = found.get(program) {
        return Ok(path.clone());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from));
    let path = find_in(program, dirs)?;
    found.insert(program.to_owned(), path.clone());
    Ok(path)
}

fn find_in(program: &str, dirs: impl Iterator<Item = PathBuf>) -> anyhow::Result<PathBuf> {
    let forms: Vec<&Peer> = PEERS.iter().filter(|peer| peer.program == program).collect();
    let first = forms.first().with_context(|| format!("{program} is not known to the lab"))?;
    let mut others = Vec::new();
    for path in dirs.map(|dir| dir.join(program)).filter(|path| path.is_file()) {
        let said =
            if is_understudy(&path) { "Understudy itself".to_owned() } else { version(&path, first.asked) };
        if forms.iter().any(|peer| said.starts_with(peer.says))
            && !said.to_ascii_lowercase().contains("understudy")
        {
            return Ok(path);
        }
        others.push(format!(
            "{} is not it ({})",
            path.display(),
            said.lines().next().unwrap_or("it says nothing")
        ));
    }
    others.dedup();
    let others = if others.is_empty() { String::new() } else { format!(": {}", others.join("; ")) };
    bail!("{program} is not installed{others}: `apt-get install {}`", first.packages);
}

/// By a link of either kind, to Understudy or to its lab.
fn is_understudy(path: &Path) -> bool {
    let file = |path: &Path| std::fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let own = [Some(PathBuf::from("/proc/self/exe")), crate::program::understudy().ok()];
    file(path).is_some_and(|found| own.iter().flatten().any(|own| file(own) == Some(found)))
}

/// What a program says of its version; nginx says it on standard error.
fn version(path: &Path, asked: &str) -> String {
    let said = Command::new(path).arg(asked).stdin(Stdio::null()).output();
    let said = said.map(|said| if said.stdout.is_empty() { said.stderr } else { said.stdout });
    String::from_utf8_lossy(&said.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_peer_is_known_by_what_it_says_and_not_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str, says: Option<&str>| {
            let dir = dir.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            let path = dir.join("haproxy");
            match says {
                Some(says) => {
                    std::fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
                    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
                }
                None => symlink(std::env::current_exe().unwrap(), &path).unwrap(),
            }
            dir
        };
        let linked = place("linked", None);
        let copied = place("copied", Some("HAProxy version 2.6, as Understudy 1.0 does it."));
        let other = place("other", Some("a wrapper"));
        let real = place("real", Some("HA-Proxy version 2.2.9 2021/01/15"));
        let pretenders = [linked, copied, other];
        let found = find_in("haproxy", pretenders.iter().cloned().chain([real.clone()]));
        assert_eq!(found.unwrap(), real.join("haproxy"));
        let why = find_in("haproxy", pretenders.into_iter()).unwrap_err().to_string();
        assert!(why.contains("linked/haproxy is not it (Understudy itself)"), "{why}");
        assert!(why.contains("(a wrapper): `apt-get install haproxy`"), "{why}");
    }
}
