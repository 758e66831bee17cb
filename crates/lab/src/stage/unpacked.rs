//! Where servers of other versions than the machine's are: `scripts/servers.sh` unpacks each into a directory of its own.

use std::path::PathBuf;

use anyhow::{Context, bail};

use super::stage_dir;

/// The directory of the server with this name that holds what is in `/usr` of an installed one.
///
/// # Errors
/// When it is not there: the text says how to have it.
pub fn usr(name: &str) -> anyhow::Result<PathBuf> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(fits) {
        bail!("{name:?} is no server's name: it is one such as mariadb-11.8");
    }
    let shelf = match std::env::var_os("UNDERSTUDY_SERVERS").filter(|value| !value.is_empty()) {
        Some(given) => PathBuf::from(given),
        None => stage_dir::cache().context("neither HOME nor XDG_CACHE_HOME is set")?.join("servers"),
    };
    let usr = shelf.join(name).join("usr");
    if !usr.is_dir() {
        bail!(
            "there is no server {name} in {}: `scripts/servers.sh {name}` unpacks it there",
            shelf.display()
        );
    }
    Ok(usr)
}
