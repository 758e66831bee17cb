//! Which file a real server writes is shown before it is renamed: a path may be the same on many machines.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fixture::Server;
use link::{Endpoint, Login, Secret};
use warmup::rotate::{self, RotateError};

/// The log and what is beside it, with what is in the files of another server.
fn beside(log: &Path) -> Vec<String> {
    let entries = fs::read_dir(log.parent().unwrap()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("slow"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn only_the_file_that_the_server_writes_is_renamed() {
    let server =
        Server::start(&["--slow-query-log=1", "--long-query-time=5", "--slow-query-log-file=slow.log"]);
    let log = server.socket().with_file_name("data").join("slow.log");
    let asked = warmup::pool::Server {
        place: Endpoint::Unix(server.socket().clone()),
        login: Login::new("root", Secret::None),
    };
    let settings = rotate::Settings {
        log: log.clone(),
        keep_files: 3,
        step_bytes: 1 << 20,
        pause: Duration::ZERO,
        wait_max: Duration::from_secs(2),
    };
    // Its path, but the file is another one: what it writes is elsewhere, as on another host or in a container.
    let its = log.with_file_name("elsewhere-slow");
    fs::rename(&log, &its).unwrap();
    fs::write(&log, "another server's\n").unwrap();
    fs::write(log.with_extension("log.1"), "older\n").unwrap();
    let before = beside(&log);
    let error = rotate::rotate(&asked, &settings).await.unwrap_err();
    assert!(matches!(error, RotateError::Unproven { .. }), "{error}");
    assert!(
        error.to_string().contains("did not appear in that file within 2 s, so nothing was rotated"),
        "{error}"
    );
    assert_eq!((beside(&log), fs::read_to_string(&log).unwrap().as_str()), (before, "another server's\n"));

    // Its own again. A server that logs nothing shows nothing.
    fs::rename(&its, &log).unwrap();
    server.sql("SET GLOBAL slow_query_log = OFF");
    let error = rotate::rotate(&asked, &settings).await.unwrap_err();
    assert!(matches!(error, RotateError::NotLogging { .. }), "{error}");
    assert_eq!(beside(&log), ["slow.log", "slow.log.1"]);

    // It logs only what takes 5 s, and all the same it is shown.
    server.sql("SET GLOBAL slow_query_log = ON");
    let rotated = rotate::rotate(&asked, &settings).await.unwrap();
    assert_eq!(rotated.renamed.unwrap().0, log.with_extension("log.1"));
    assert_eq!(beside(&log), ["slow.log", "slow.log.1", "slow.log.2"]);
    // A run that was ended between renaming and FLUSH: the first rotated file is the one.
    fs::rename(&log, log.with_extension("log.9")).unwrap();
    fs::remove_file(log.with_extension("log.1")).unwrap();
    fs::rename(log.with_extension("log.9"), log.with_extension("log.1")).unwrap();
    rotate::rotate(&asked, &settings).await.unwrap();
    assert!(fs::read_to_string(&log).unwrap().contains("started with"));
}
