//! The program that the lab measures.

use std::path::PathBuf;

use anyhow::{Context, bail};

/// Names another file in its place.
const VARIABLE: &str = "UNDERSTUDY_BIN";

/// `understudy`: the file that `UNDERSTUDY_BIN` names, or the one that lies beside this program.
pub fn understudy() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return Ok(path.into());
    }
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let path = own.with_file_name("understudy");
    if !path.is_file() {
        bail!(
            "{} is missing: the lab measures the program that lies beside it, or the one that {VARIABLE} names",
            path.display()
        );
    }
    Ok(path)
}
