//! What is allowed, and hardly meant: secrets that every user can read, the API in clear on the network, too few nodes to lose one. None
//! of it keeps `serve` from starting; `serve --check` tells all of it, and `serve` tells of the secrets at each start.

use std::io;
use std::path::{Path, PathBuf};

use topology::kind::Kind;

use cli::exposed;
use settings::password::PasswordSource;
use settings::problem::Problem;
use settings::{Settings, table as t};

/// Members that a group needs so that the loss of one leaves a majority.
const MEMBERS_WANTED: usize = 3;

/// Each file with a secret that every user of this machine can read.
pub fn exposed_secrets(settings: &Settings) -> Vec<Problem> {
    let mut files: Vec<(&'static t::Row, PathBuf)> = Vec::new();
    let mut password = |source: &PasswordSource, given: &'static t::Row, file: &'static t::Row| match source {
        PasswordSource::Given(_) => files.push((given, settings.file.clone())),
        PasswordSource::File(path) => files.push((file, path.clone())),
        PasswordSource::Env(_) => {}
    };
    password(&settings.monitor.password, &t::MONITOR_PASSWORD, &t::MONITOR_PASSWORD_FILE);
    if let Some(replication) = &settings.replication {
        password(&replication.password, &t::REPLICATION_PASSWORD, &t::REPLICATION_PASSWORD_FILE);
    }
    if let Some(warm) = &settings.warm {
        password(&warm.password, &t::WARM_PASSWORD, &t::WARM_PASSWORD_FILE);
    }
    for (client, _) in &settings.clients {
        password(&client.password, &t::PROXY_ACCOUNT_PASSWORD, &t::PROXY_ACCOUNT_PASSWORD_FILE);
    }
    if let Some(path) = settings.get(&t::WARM_STREAM_KEY_FILE) {
        files.push((&t::WARM_STREAM_KEY_FILE, path));
    }
    files.push((&t::API_KEY_FILE, settings.api.key_file.clone()));
    if let Some(path) = settings.get(&t::API_READ_KEY_FILE) {
        files.push((&t::API_READ_KEY_FILE, path));
    }
    for row in [&t::HOOKS_COMMAND, &t::HOOKS_URL] {
        if settings.get(row).is_some() {
            files.push((row, settings.file.clone()));
        }
    }
    if let Some(path) = settings.get(&t::HOOKS_SECRET_FILE) {
        files.push((&t::HOOKS_SECRET_FILE, path));
    }
    if let Some(pair) = &settings.api.certificate {
        files.push((&t::API_CERTIFICATE_KEY, pair.key.clone()));
    }
    if let Some(pair) = &settings.client_certificate {
        files.push((&t::LISTEN_TLS_KEY, pair.key.clone()));
    }
    let mut told: Vec<PathBuf> = Vec::new();
    let mut problems = Vec::new();
    for (row, path) in files {
        if let Some(why) = exposed::file(&path).filter(|_| !told.contains(&path)) {
            problems.push(settings.problem(row, format!("{}: {why}", row.path)));
            told.push(path);
        }
    }
    problems
}

/// The API in clear on an address that other machines reach.
pub fn clear_api(settings: &Settings) -> Vec<Problem> {
    let http = settings.get(&t::LISTEN_HTTP);
    let open = http.iter().filter(|address| is_open(address));
    let said = |address: &String| {
        let text = format!(
            "listen.http {address} can be reached from other machines, and the API key crosses the network readable: use listen.https \
             there, and 127.0.0.1 for listen.http"
        );
        settings.problem(&t::LISTEN_HTTP, text)
    };
    open.map(said).collect()
}

/// Too few members to lose one of them. `seen`: the size of the largest group that a node reports, in which an arbitrator (garbd) counts; it is
/// no node of the configuration. Weights (pc.weight) are not looked at.
pub fn few_members(settings: &Settings, seen: Option<usize>) -> Option<String> {
    let count = settings.nodes.len();
    let members = seen.unwrap_or(0).max(count);
    let file = settings.file.display();
    match (settings.kind, members) {
        (_, 1) => Some(format!("{file}: there is one node: no other can take over from it")),
        (Kind::Galera, members) if members < MEMBERS_WANTED => Some(format!(
            "{file}: the cluster has {members} members: when a node is lost without a goodbye, the other has no majority and stops, too; a \
             third node, or an arbitrator (garbd), prevents that"
        )),
        (Kind::Replication, members) if members < MEMBERS_WANTED => Some(format!(
            "{file}: there is one replica: once it has taken over, nobody can take over from it until the other is back"
        )),
        _ => None,
    }
}

/// Whether other machines reach this listening address. A name that cannot be looked up is told elsewhere.
fn is_open(address: &str) -> bool {
    listen::is_local(address) == Some(false)
}

/// Why a directory could not be made.
pub enum NotMade {
    /// This user may not, and another might: systemd makes the state directory of a service before its start (`StateDirectory=`).
    Denied(String),
    /// Nobody could: the place does not hold files.
    Impossible(String),
}

/// Tries whether a directory that is not there could be made, and could hold a file; leaves nothing behind.
pub fn can_be_made(dir: &Path) -> Result<(), NotMade> {
    if dir.symlink_metadata().is_ok() {
        return Err(NotMade::Impossible("it is there and is no directory".to_owned()));
    }
    let whole = std::path::absolute(dir).map_err(|e| NotMade::Impossible(e.to_string()))?;
    let above = whole.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
    let above = above.unwrap_or(Path::new("/"));
    let why = |e| not_made(above, &e);
    let tried = tempfile::Builder::new().prefix(".understudy-check-").tempdir_in(above).map_err(why)?;
    std::fs::write(tried.path().join("file"), b"").map_err(why)?;
    tried.close().map_err(why)
}

fn not_made(above: &Path, error: &io::Error) -> NotMade {
    let above = above.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => NotMade::Denied(format!(
            "this user may not make directories in {above}: make it for this user first, unless systemd does (StateDirectory=)"
        )),
        kind => NotMade::Impossible(format!(
            "{above} holds no new directories ({kind}); name a place on a disk that this user may write"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_could_make_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        assert!(can_be_made(&dir.path().join("a/b")).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
        assert!(matches!(can_be_made(Path::new("/proc/foo")), Err(NotMade::Impossible(_))));
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for place in [file.clone(), file.join("below")] {
            assert!(matches!(can_be_made(&place), Err(NotMade::Impossible(_))), "{}", place.display());
        }
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(matches!(not_made(Path::new("/var/lib"), &denied), NotMade::Denied(_)));
    }
}
