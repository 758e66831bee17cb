//! Finds the programs a stage needs, and names the package of a missing one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::kind::ClusterKind;
use super::product::{Product, Version};
use super::unpacked;

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
    pub server: PathBuf,
    /// The server's product and version.
    pub version: Version,
    /// The client that comes with the server.
    pub client: PathBuf,
    /// For a server that is not the machine's own: the directory with what is in `/usr` of an installed one.
    pub usr: Option<PathBuf>,
    /// Additional programs for Galera stages.
    galera: Option<GaleraTools>,
}

impl Tools {
    /// Finds everything a stage of this kind needs. `server`: the name of an unpacked one, otherwise the machine's MariaDB; `namespaces`: also
    /// what creates networks.
    ///
    /// # Errors
    /// One sentence with the package to install, or how to have that server.
    pub fn find(kind: ClusterKind, server: Option<&str>, namespaces: bool) -> anyhow::Result<Self> {
        let usr = server.map(unpacked::usr).transpose()?;
        let (server, client) = match &usr {
            // One of the names only, but for MariaDB's old ones, which are links.
            Some(usr) if usr.join("sbin/mariadbd").is_file() => {
                (usr.join("sbin/mariadbd"), usr.join("bin/mariadb"))
            }
            Some(usr) => (usr.join("sbin/mysqld"), usr.join("bin/mysql")),
            None => (need("mariadbd", "mariadb-server")?, PathBuf::from("mariadb")),
        };
        need("setpriv", "util-linux")?;
        if namespaces {
            need("ip", "iproute2")?;
        }
        let version = version(&server).with_context(|| server.display().to_string())?;
        let galera = match kind {
            ClusterKind::Galera if version.product == Product::MySql => {
                bail!("{} is MySQL, and the nodes of a Galera stage are MariaDB's", server.display())
            }
            ClusterKind::Galera => Some(GaleraTools::find(usr.as_deref())?),
            ClusterKind::Replication { .. } => None,
        };
        Ok(Self { server, version, client, usr, galera })
    }

    /// The programs that Galera nodes need.
    ///
    /// # Errors
    /// For a stage that is not a Galera stage.
    pub fn galera(&self) -> anyhow::Result<&GaleraTools> {
        self.galera.as_ref().context("this is no Galera stage")
    }

    /// Lets a server find the scripts and programs that it starts (state transfers) beside itself.
    pub fn prepare(&self, command: &mut Command) {
        if let Some(path) = self.path() {
            command.env("PATH", path);
        }
    }

    /// The `PATH` of a server that is not the machine's own.
    pub fn path(&self) -> Option<OsString> {
        let usr = self.usr.as_ref()?;
        let own = [usr.join("bin"), usr.join("sbin")];
        let others = std::env::var_os("PATH").unwrap_or_default();
        // A name with a colon in it, which is an error here, is in no PATH.
        std::env::join_paths(own.into_iter().chain(std::env::split_paths(&others))).ok()
    }
}

impl GaleraTools {
    fn find(usr: Option<&Path>) -> anyhow::Result<Self> {
        let provider = provider(usr)?;
        let has_backup = match usr {
            Some(usr) => usr.join("bin/mariadb-backup").is_file(),
            None => program("mariadb-backup").is_some(),
        };
        let sst_method = if has_backup && program("socat").is_some() {
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

fn provider(usr: Option<&Path>) -> anyhow::Result<PathBuf> {
    let known = [
        "lib/galera/libgalera_smm.so",
        "lib64/galera-4/libgalera_smm.so",
        "lib/libgalera_smm.so",
        "lib64/galera/libgalera_smm.so",
    ]
    .map(|path| usr.unwrap_or(Path::new("/usr")).join(path));
    let there = known.iter().find(|candidate| candidate.is_file()).cloned();
    there.with_context(|| {
        let known: Vec<String> = known.iter().map(|path| path.display().to_string()).collect();
        format!("Galera's library is in none of {}: `apt-get install galera-4`", known.join(", "))
    })
}

fn version(server: &Path) -> anyhow::Result<Version> {
    let output =
        Command::new(server).args(["--no-defaults", "--version"]).output().context("cannot be run")?;
    Version::of(&String::from_utf8_lossy(&output.stdout))
}
