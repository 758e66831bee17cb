//! The answers of clustercheck and of the command, to the byte.

use std::fs;
use std::process::Command;
use std::time::Instant;

use fixture::Server;
use testbed::program::{LONG, run};

use super::check_dir::{CheckDir, down, up};
use super::{DISABLED, READ_ONLY, UP};

/// Sets something, and waits until `answer` gives what is wanted: a running check asks each 50 ms.
fn becomes(what: &str, wanted: &(String, i32), answer: impl Fn() -> (String, i32)) {
    let mut last = answer();
    let began = Instant::now();
    while last != *wanted {
        assert!(began.elapsed() < LONG, "{what}: {last:?} instead of {wanted:?}");
        last = answer();
    }
}

pub fn the_answers(server: &Server, check_dir: &CheckDir) {
    // The seed's own words.
    let mut shell = Command::new("bash");
    let path = format!("{}:{}", check_dir.dir.path().display(), std::env::var("PATH").unwrap());
    let seed = check_dir
        .furnish(&mut shell)
        .env("PATH", path)
        .args(["-c", "clustercheck clustercheck password 0; echo $?"]);
    assert_eq!(run(seed).out, format!("{UP}0\n"));

    server.sql("SET GLOBAL wsrep_desync = ON");
    becomes("a donor is not up", &down(), || check_dir.seed(&["0"]));
    assert_eq!(check_dir.seed(&[]), down());
    assert_eq!(check_dir.seed(&["1"]), up());
    assert_eq!(check_dir.once_quietly(&["--available-when-donor"]).with(0), UP);
    // The script looks at read_only last.
    server.sql("SET GLOBAL read_only = ON");
    becomes("read only", &(READ_ONLY.to_owned(), 1), || check_dir.seed(&["1", "/dev/null", "0"]));
    assert_eq!(check_dir.seed(&["0", "/dev/null", "0"]), down());
    server.sql("SET GLOBAL read_only = OFF");
    server.sql("SET GLOBAL wsrep_desync = OFF");
    becomes("synced again", &up(), || check_dir.seed(&["0"]));

    server.sql("SET GLOBAL read_only = ON");
    let read_only = (READ_ONLY.to_owned(), 1);
    becomes("read only", &read_only, || check_dir.seed(&["0", "/dev/null", "0"]));
    assert_eq!(check_dir.seed(&["0", "/dev/null", "1"]), up());
    assert_eq!(check_dir.seed(&[]), up());
    let strict = check_dir.once_quietly(&["--no-available-when-readonly"]);
    assert_eq!((strict.out.as_str(), strict.code), (READ_ONLY, 1));
    assert!(strict.err.contains("is read only: read_only is set"), "{}", strict.err);
    server.sql("SET GLOBAL read_only = OFF");
    becomes("writable again", &up(), || check_dir.seed(&["0", "/dev/null", "0"]));

    check_dir.write("disabled", "");
    assert_eq!(check_dir.seed(&["1"]), (DISABLED.to_owned(), 1));
    let disabled = check_dir.once_quietly(&[]);
    assert_eq!((disabled.out.as_str(), disabled.code), (DISABLED, 1));
    assert!(disabled.err.contains("is disabled by an operator"), "{}", disabled.err);
    fs::remove_file(check_dir.path("disabled")).unwrap();
    becomes("no longer disabled", &up(), || check_dir.seed(&[]));

    let pxc = check_dir.once_quietly(&["--style", "pxc"]);
    assert_eq!((pxc.out.as_str(), pxc.code), (UP, 0));
}
