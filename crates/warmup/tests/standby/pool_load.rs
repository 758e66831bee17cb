//! A load on a server that answers by a script: given up, failed, and its link lost in the middle. Whatever comes, the server's own dump file is
//! back, and nothing was ordered but the load and its end.

use std::path::Path;
use std::sync::{Arc, Mutex};

use fixture::answers;
use fixture::scripted::{Act, Heard, ScriptedNode, Setup};
use link::{Endpoint, Login, Secret};
use tokio::sync::Notify;
use warmup::pool::{Allowed, Loaded, Page, PoolError, Server, Snapshot, Space, load};

/// What the server does with the order to load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Loads, until it is told to give up.
    LoadsForEver,
    /// The same, and takes writes meanwhile.
    BecomesWritable,
    /// Says this.
    Says(&'static str),
    /// Its links end.
    Dies,
}

#[derive(Default)]
struct Seen {
    is_loading: bool,
    is_aborted: bool,
    /// All that set something.
    orders: Vec<String>,
    /// What its dump file had when it was told to load.
    file: String,
}

fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot {
        server: "another".to_owned(),
        page_bytes: 16384,
        dump_percent: 100,
        pages: vec![Page { space: 5, number: 3 }, Page { space: 5, number: 7 }],
        ..Snapshot::default()
    };
    snapshot.spaces.insert(5, Space { name: "shop/t".to_owned(), pages: None });
    snapshot
}

fn answer(heard: Heard<'_>, does: Does, version: &str, datadir: &Path, seen: &Mutex<Seen>) -> Vec<Act> {
    let Some(text) = heard.text() else { return vec![Act::Close] };
    let mut seen = seen.lock().unwrap();
    let datadir = datadir.display().to_string();
    let names = ["Variable_name", "Value"];
    let say = |rows: &[&[&str]]| vec![Act::Say(heard.rows(&names, rows))];
    if text.starts_with("SET ") {
        seen.orders.push(text.to_owned());
        if text.contains("load_now") {
            seen.is_loading = true;
            seen.file = std::fs::read_to_string(Path::new(&datadir).join("ib_buffer_pool")).unwrap();
        }
        seen.is_aborted |= text.contains("load_abort");
        return vec![Act::Say(answers::ok())];
    }
    if text.starts_with("SHOW GLOBAL VARIABLES") {
        return say(&[
            &["datadir", &datadir],
            &["hostname", "h"],
            &["innodb_buffer_pool_dump_pct", "25"],
            &["innodb_buffer_pool_filename", "ib_buffer_pool"],
            &["innodb_data_home_dir", ""],
            &["innodb_page_size", "16384"],
            &["port", "3306"],
            &["read_only", "ON"],
            &["socket", "/s"],
            &["version", version],
        ]);
    }
    if text.contains("Innodb_buffer_pool_load_status") {
        let status = match does {
            _ if !seen.is_loading => "Buffer pool(s) load not started",
            _ if seen.is_aborted => "Buffer pool(s) load aborted on request",
            Does::LoadsForEver | Does::BecomesWritable => "Loaded 1/2 pages",
            Does::Says(status) => status,
            Does::Dies => return vec![Act::Die],
        };
        return say(&[&["Innodb_buffer_pool_load_status", status]]);
    }
    for name in ["Innodb_buffer_pool_pages_total", "Innodb_buffer_pool_pages_data"] {
        if text.contains(name) {
            return say(&[&[name, "1000"]]);
        }
    }
    if text.contains("@@GLOBAL.read_only") {
        let value = if does == Does::BecomesWritable { "0" } else { "1" };
        return vec![Act::Say(heard.rows(&["read_only"], &[&[value]]))];
    }
    if text.contains("DATE_FORMAT") {
        return vec![Act::Say(heard.rows(&["now"], &[&["07"]]))];
    }
    let has_table = match version {
        "8.0.36" => text.contains("information_schema.INNODB_TABLESPACES "),
        _ => text.contains("information_schema.INNODB_SYS_TABLE"),
    };
    assert!(has_table, "{text}");
    vec![Act::Say(heard.rows(&["SPACE", "NAME", "PAGES"], &[&["9", "shop/t", "100"]]))]
}

/// Loads on such a server; what came of it, and what the server saw. Its own file is back.
async fn loaded(does: Does, version: &'static str) -> (Result<Loaded, PoolError>, Seen) {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("ib_buffer_pool");
    std::fs::write(&own, "1,2\n").unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (datadir, server_saw) = (dir.path().to_owned(), Arc::clone(&seen));
    let setup = Setup { settings_too: true, ..Setup::default() };
    let node =
        ScriptedNode::with(setup, move |heard| answer(heard, does, version, &datadir, &server_saw)).await;
    let server = Server {
        place: Endpoint::Tcp(node.address().to_string()),
        login: Login::new("root".to_owned(), Secret::None),
    };
    let under_way = Notify::new();
    let stop = async {
        under_way.notified().await;
        if does == Does::BecomesWritable {
            std::future::pending().await
        }
    };
    let result = load(&server, &snapshot(), Allowed::default(), |_| under_way.notify_one(), stop).await;
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "1,2\n");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen.file, "9,3\n9,7\n", "translated, in the order of the dump");
    (result, seen)
}

const LOAD: &str = "SET GLOBAL innodb_buffer_pool_load_now = ON";

#[tokio::test]
async fn a_load_is_given_up_when_it_is_told_to() {
    let (result, seen) = loaded(Does::LoadsForEver, "10.11.19-MariaDB").await;
    let loaded = result.unwrap();
    assert!(loaded.is_aborted && loaded.pages == 2);
    assert_eq!(seen.orders, [LOAD, "SET GLOBAL innodb_buffer_pool_load_abort = ON"]);
}

#[tokio::test]
async fn a_server_that_takes_writes_meanwhile_loads_no_more() {
    let (result, seen) = loaded(Does::BecomesWritable, "10.11.19-MariaDB").await;
    assert!(matches!(result, Err(PoolError::Writable { .. })), "{result:?}");
    assert_eq!(seen.orders, [LOAD, "SET GLOBAL innodb_buffer_pool_load_abort = ON"]);
}

#[tokio::test]
async fn a_load_that_ends_is_done() {
    let ended = "Buffer pool(s) load completed at 261122 21:50:45";
    let (result, seen) = loaded(Does::Says(ended), "8.0.36").await;
    assert!(!result.unwrap().is_aborted);
    assert_eq!(seen.orders, [LOAD]);
}

#[tokio::test]
async fn a_server_that_cannot_load_is_told_in_its_words() {
    let words = "Cannot open '/d/ib_buffer_pool' for reading: Permission denied";
    let (result, _) = loaded(Does::Says(words), "10.11.19-MariaDB").await;
    let said = result.unwrap_err().to_string();
    assert!(said.contains("did not load its buffer pool; it says: Cannot open"), "{said}");
}

#[tokio::test]
async fn a_server_that_goes_away_has_its_file_back() {
    let (result, _) = loaded(Does::Dies, "10.11.19-MariaDB").await;
    assert!(matches!(result, Err(PoolError::Link { .. })), "{result:?}");
}
