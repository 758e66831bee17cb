//! The data directory from which every node is copied.
//!
//! It comes from a server that was installed, ran alone, got the accounts and was stopped cleanly. Galera's ran as a cluster of one,
//! so it has a Galera position, and a copy of it joins by an incremental transfer of almost nothing: two seconds, where a full one
//! takes ten. Replication's has never written a binlog. Templates are kept in the user's cache directory, one for each server version and
//! kind, and created when missing.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::Signal;

use super::kind::ClusterKind;
use super::process::{Identity, Owned, ProcessParent};
use super::product::Product;
use super::tools::{Tools, need};
use super::wait::error_log_tail;
use super::{config, sql, stage_dir};
use crate::wait;

/// Must be incremented when the content of a template changes.
const EDITION: u32 = 5;

/// The template for this server and kind; created now if it is missing.
///
/// # Errors
/// When the server cannot be installed or started: the end of its log is in the text.
pub async fn ready(tools: &Tools, kind: ClusterKind, tell: &impl Fn(&str)) -> anyhow::Result<PathBuf> {
    let shelf = shelf()?;
    fs::create_dir_all(&shelf).with_context(|| format!("cannot make {}", shelf.display()))?;
    let template =
        shelf.join(format!("{}{}-edition-{EDITION}", plain(&tools.version.text), kind.template_name()));
    if template.is_dir() {
        return Ok(template);
    }
    tell("making the template data directory (once for each server version)");
    let waiting = shelf.clone();
    let _held = tokio::task::spawn_blocking(move || stage_dir::lock(&waiting)).await??;
    if !template.is_dir() {
        let workshop = Workshop { directory: shelf.join(format!(".making-{}", std::process::id())) };
        workshop.make(tools, kind).await.context("cannot make the template data directory")?;
        fs::rename(workshop.directory.join("data"), &template)
            .with_context(|| format!("cannot put the template to {}", template.display()))?;
    }
    Ok(template)
}

fn shelf() -> anyhow::Result<PathBuf> {
    // For a user without a home it is in the stages' own directory, where names that begin with a dot are ignored.
    Ok(match stage_dir::cache() {
        Some(cache) => cache.join("lab"),
        None => stage_dir::root()?.join(".templates"),
    })
}

fn plain(version: &str) -> String {
    version.chars().map(|sign| if sign.is_ascii_alphanumeric() || sign == '.' { sign } else { '-' }).collect()
}

/// The directory in which a template is created; removed however that ends.
struct Workshop {
    directory: PathBuf,
}

impl Workshop {
    async fn make(&self, tools: &Tools, kind: ClusterKind) -> anyhow::Result<()> {
        let _ = fs::remove_dir_all(&self.directory);
        fs::create_dir_all(self.directory.join("tmp"))?;
        let data = self.directory.join("data");
        let process_parent = ProcessParent::new()?;

        let install = install(tools, &data)?;
        let log = self.directory.join("install.log");
        let mut installing = process_parent.spawn(&install, Some(&log))?;
        if !ended(&mut installing, Duration::from_secs(60)).await? {
            bail!("{} failed:\n{}", install.get_program().display(), error_log_tail(&log));
        }

        let mut server = self.server(tools, kind, &process_parent)?;
        let socket = self.directory.join("mysqld.sock");
        let log = self.directory.join("error.log");
        let answers = async || {
            let is_up = sql::run(&socket, "SELECT 1", Duration::from_secs(1)).await.is_ok();
            Ok((is_up || server.try_wait()?.is_some()).then_some(is_up))
        };
        if wait::found(Duration::from_secs(60), Duration::from_millis(20), answers).await? != Some(true) {
            bail!("the server did not start:\n{}", error_log_tail(&log));
        }
        for statement in kind.accounts(tools.version.product) {
            sql::run(&socket, &statement, Duration::from_secs(10)).await?;
        }
        if let Some(identity) = Identity::of(server.id()) {
            identity.signal(Signal::TERM)?;
        }
        if !ended(&mut server, Duration::from_secs(60)).await? {
            bail!("the server did not end well:\n{}", error_log_tail(&log));
        }
        forget_identity(&data)?;
        kind.finish_template(&data)
    }

    fn server(
        &self,
        tools: &Tools,
        kind: ClusterKind,
        process_parent: &ProcessParent,
    ) -> anyhow::Result<Owned> {
        let file = self.directory.join("my.cnf");
        let mut lines = config::server(tools, &self.directory.display().to_string());
        lines.push("skip-networking".to_owned());
        lines.extend(kind.template_lines(tools)?);
        fs::write(&file, lines.join("\n") + "\n")?;
        let mut command = Command::new(&tools.server);
        tools.prepare(&mut command);
        command.arg(format!("--defaults-file={}", file.display())).args(kind.template_arguments());
        process_parent.spawn(&command, Some(&self.directory.join(super::wait::OUTPUT_LOG)))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // On success the template has been moved; otherwise the rest is useless.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The command that makes a new data directory, with root without a password.
///
/// # Errors
/// When MariaDB's program for it is not installed.
fn install(tools: &Tools, data: &Path) -> anyhow::Result<Command> {
    let product = tools.version.product;
    let mut command = match (product, &tools.usr) {
        (Product::MySql, _) => Command::new(&tools.server),
        (Product::MariaDb, Some(usr)) => Command::new(usr.join("bin/mariadb-install-db")),
        (Product::MariaDb, None) => Command::new(need("mariadb-install-db", "mariadb-server")?),
    };
    command.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    command.args(tools.usr.as_ref().map(|usr| format!("--basedir={}", usr.display())));
    match product {
        Product::MariaDb => {
            command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-log-bin"])
        }
        Product::MySql => {
            command.arg("--initialize-insecure").arg(format!("--{}", argument(config::NO_FILES)))
        }
    };
    command.arg(format!("--{}", argument(&config::log_size(product))));
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    Ok(command)
}

/// A line of my.cnf as an argument.
fn argument(line: &str) -> String {
    line.replace(" = ", "=")
}

/// Removes the UUID that a MySQL server gives itself: each copy makes its own.
fn forget_identity(data: &Path) -> anyhow::Result<()> {
    match fs::remove_file(data.join("auto.cnf")) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("cannot remove auto.cnf"),
        _ => Ok(()),
    }
}

/// Waits for the child's end; returns whether it was successful.
async fn ended(child: &mut Owned, within: Duration) -> anyhow::Result<bool> {
    let status = wait::found(within, Duration::from_millis(10), async || Ok(child.try_wait()?)).await?;
    let status = status.with_context(|| {
        format!("process {} did not end within {:.0} s", child.id(), within.as_secs_f64())
    })?;
    Ok(status.success())
}

/// Copies the template to `data`, which must be empty if it exists.
pub fn copy(template: &Path, data: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
    fs::set_permissions(data, fs::metadata(template)?.permissions())?;
    for entry in fs::read_dir(template)? {
        let entry = entry?;
        let (from, to) = (entry.path(), data.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            copy_file(&from, &to)
                .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        }
    }
    Ok(())
}

/// With `io::copy` between files the kernel copies, and shares the blocks where the file system supports it.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::options().write(true).create_new(true).open(to)?;
    std::io::copy(&mut source, &mut target)?;
    target.set_permissions(source.metadata()?.permissions())
}
