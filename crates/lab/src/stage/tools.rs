//! Finds the programs a stage needs, and names the package of a missing one.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::kind::ClusterKind;

/// Programs that only Galera nodes need.
#[derive(Clone, Debug)]
pub struct GaleraTools {
    /// Galera's library, which the server loads.
    pub provider: PathBuf,
    /// State transfer method: `mariabackup` does not block writes on the donor; `rsync` is the fallback when it is not installed.
    pub sst_method: &'static str,
}

/// The paths of all programs.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The server.
    pub mariadbd: PathBuf,
    /// Creates an empty data directory.
    pub install_db: PathBuf,
    /// Additional programs for Galera stages.
    galera: Option<GaleraTools>,
    /// The version in the output of `mariadbd --version`, e.g. `10.11.19-MariaDB-0+deb12u1`.
    pub version: String,
}

impl Tools {
    /// Finds everything a stage of this kind needs; `namespaces`: also what creates networks.
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

    /// The programs that Galera nodes need.
    ///
    /// # Errors
    /// For a stage that is not a Galera stage.
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

/// The path of a program, or an error with the package that contains it.
pub fn need(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    program(name).with_context(|| format!("`{name}` is not installed: `apt-get install {package}`"))
}

/// Searches PATH, then Debian's directories for root's programs: they are not in an ordinary user's PATH.
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
