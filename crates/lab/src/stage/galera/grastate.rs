//! A stopped node's position (uuid and seqno): from its grastate.dat, or recovered from InnoDB when that has none.

use std::path::Path;

use anyhow::{Context, bail};

/// A position in the history of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The UUID of the history.
    pub uuid: String,
    /// The last writeset in it.
    pub seqno: i64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.uuid, self.seqno)
    }
}

/// The sequence number recorded by a clean stop, or `None`: the node crashed (or still runs) and InnoDB must be queried.
///
/// # Errors
/// When the file is not there or has no such line.
pub fn seqno(data: &Path) -> anyhow::Result<Option<i64>> {
    Ok(position(data)?.map(|position| position.seqno))
}

/// Whether the file is there.
pub fn is_there(data: &Path) -> bool {
    data.join("grastate.dat").exists()
}

/// The complete position recorded by a clean stop.
pub fn position(data: &Path) -> anyhow::Result<Option<Position>> {
    let path = data.join("grastate.dat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        value.with_context(|| format!("{} has no line `{name}`", path.display()))
    };
    let seqno: i64 =
        field("seqno:")?.parse().with_context(|| format!("{}: seqno is no number", path.display()))?;
    Ok((seqno >= 0).then_some(Position { uuid: field("uuid:")?.to_owned(), seqno }))
}

/// Allows the node to bootstrap a cluster, which Galera refuses for a node that was not the last to leave.
pub fn allow_bootstrap(data: &Path) -> anyhow::Result<()> {
    let path = data.join("grastate.dat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    std::fs::write(&path, text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The position in the log of a run with `--wsrep-recover`.
///
/// # Errors
/// When the log has none.
pub fn recovered(log: &str) -> anyhow::Result<Position> {
    let found = log
        .lines()
        .rev()
        .find_map(|line| line.split_once("WSREP: Recovered position:"))
        .map(|(_, text)| text.trim());
    let Some((uuid, seqno)) = found.and_then(|text| text.rsplit_once(':')) else {
        bail!("the server found no Galera position in its data: {}", log.lines().last().unwrap_or("no log"));
    };
    Ok(Position { uuid: uuid.to_owned(), seqno: seqno.parse().context("the recovered seqno is no number")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_recovered_position() {
        let log = "2026-01-01  1:00:00 0 [Note] Plugin 'FEEDBACK' is disabled.\n\
                   2026-01-01  1:00:00 0 [Note] WSREP: Recovered position: 6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1:38233\n";
        assert_eq!(recovered(log).unwrap().to_string(), "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1:38233");
        assert!(recovered("nothing\n").unwrap_err().to_string().contains("no Galera position"));
    }
}
