//! The programs a stage needs, and which package brings a missing one.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::kind::ClusterKind;

/// What only Galera nodes need.
#[derive(Clone, Debug)]
pub struct GaleraTools {
    /// Galera itself, which the server loads.
    pub provider: PathBuf,
    /// State transfer: `mariabackup` leaves the donor writable; `rsync` is the fallback when it is not installed.
    pub sst_method: &'static str,
}

/// Where everything was found.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The server.
    pub mariadbd: PathBuf,
    /// Makes an empty data directory.
    pub install_db: PathBuf,
    /// What Galera stages need besides.
    galera: Option<GaleraTools>,
    /// `mariadbd --version`, the part that tells one from another, e.g. `10.11.19-MariaDB-0+deb12u1`.
    pub version: String,
}

impl Tools {
    /// Looks for all that a stage of this kind needs; `namespaces`: what makes networks too.
    ///
    /// # Errors
    /// One sentence with the package to install.
    pub fn find(kind: ClusterKind, namespaces: bool) -> anyhow::Result<Self> {
        let mariadbd = need("mariadbd", "mariadb-server")?;
        let install_db = need("mariadb-install-db", "mariadb-server")?;
        need("setpriv", "util-linux")?;
        if namespaces {
            need("ip", "iproute2")?;
        }
        let galera = match kind {
            ClusterKind::Galera => Some(GaleraTools::find()?),
            ClusterKind::Replication { .. } => None,
        };
        let version = version(&mariadbd)?;
        Ok(Self { mariadbd, install_db, galera, version })
    }

    /// What Galera nodes need.
    ///
    /// # Errors
    /// In a stage that is not of that kind.
    pub fn galera(&self) -> anyhow::Result<&GaleraTools> {
        self.galera.as_ref().context("this is no Galera stage")
    }
}

impl GaleraTools {
    fn find() -> anyhow::Result<Self> {
        let provider = provider()?;
        let sst_method = if program("mariadb-backup").is_some() && program("socat").is_some() {
            "mariabackup"
        } else if program("rsync").is_some() {
            "rsync"
        } else {
            bail!(
                "a node cannot be re-built from another: install it with `apt-get install mariadb-backup socat`"
            )
        };
        Ok(Self { provider, sst_method })
    }
}

/// A program, or a sentence with the package that brings it.
pub fn need(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    program(name).with_context(|| format!("`{name}` is not installed: `apt-get install {package}`"))
}

/// Looks in PATH, then where Debian keeps what only root runs: an ordinary user's PATH does not name it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

fn provider() -> anyhow::Result<PathBuf> {
    let known = [
        "/usr/lib/galera/libgalera_smm.so",
        "/usr/lib64/galera-4/libgalera_smm.so",
        "/usr/lib/libgalera_smm.so",
        "/usr/lib64/galera/libgalera_smm.so",
    ];
    known.iter().map(Path::new).find(|candidate| candidate.is_file()).map(Path::to_path_buf).with_context(
        || format!("Galera's library is in none of {}: `apt-get install galera-4`", known.join(", ")),
    )
}

fn version(mariadbd: &Path) -> anyhow::Result<String> {
    let output = std::process::Command::new(mariadbd)
        .args(["--no-defaults", "--version"])
        .output()
        .with_context(|| format!("cannot run {}", mariadbd.display()))?;
    // "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)"
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace().skip_while(|word| *word != "Ver").skip(1);
    let version =
        words.next().with_context(|| format!("{} says no version: {text:?}", mariadbd.display()))?;
    if !version.contains("MariaDB") {
        bail!("{} is not MariaDB ({version}): a stage needs MariaDB 10.4 or newer", mariadbd.display());
    }
    Ok(version.to_owned())
}
