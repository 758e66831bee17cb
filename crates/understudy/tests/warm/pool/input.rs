//! Input that is no slow log: one sentence each, with what to do.

use std::process::Stdio;

use fixture::Server;

use super::{called, refused, understudy};

/// As the programs write them: the first bytes tell.
const COMPRESSED: [(&str, &str); 3] =
    [("gzip", "gzip -dc FILE"), ("xz", "xz -dc FILE"), ("zstd", "zstd -dc FILE")];

#[test]
fn what_is_no_slow_log_is_told() {
    let server = Server::start(&[]);
    server.sql("CREATE USER warm@'%' IDENTIFIED BY 'secret'; GRANT SELECT ON shop.* TO warm@'%'");
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let port = server.address().port().to_string();
    let replay = |file: &str| {
        let mut command =
            understudy(&["replay", file, "--host", "127.0.0.1", "--port", &port, "--user", "warm"]);
        command.env("UNDERSTUDY_PASSWORD", "secret");
        command
    };
    let serve = |file: &str| understudy(&["slowlog", "serve", "--listen", "127.0.0.1:0", "--file", file]);
    for (program, unpack) in COMPRESSED {
        let file = at(program);
        let packed = std::process::Command::new("bash")
            .args(["-c", &format!("echo '# Time: 261122 12:00:00' | {program} -c >'{file}'")])
            .status()
            .unwrap();
        assert!(packed.success(), "{program}");
        refused(&mut replay(&file), 2, unpack);
        refused(&mut serve(&file), 2, unpack);
        // The same on standard input.
        let output = replay("-").stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
        let (text, code) = super::said(&output);
        assert!(code == Some(2) && text.contains("standard input is compressed"), "{text}");
    }
    std::fs::write(at("binlog"), b"\xfebin\0\0\0\0").unwrap();
    refused(&mut replay(&at("binlog")), 2, "is a binlog; the slow log is another file");
    refused(&mut serve(&at("binlog")), 2, "is a binlog; the slow log is another file");
    refused(&mut replay(&at("none")), 2, "there is no such file; where it is says SELECT @@datadir");
    refused(&mut replay(&at("")), 2, "is a directory; the slow log itself is a file in it");
    refused(&mut serve(&at("")), 2, "is a directory; the slow log itself is a file in it");
    refused(&mut serve("/dev/null"), 2, "is no regular file, so it cannot be followed");
    refused(&mut serve(&at("none/slow.log")), 1, "cannot be watched (inotify)");
    std::fs::write(at("text"), "2026-11-22 12:00:00 [Note] something else\n".repeat(50)).unwrap();
    refused(&mut replay(&at("text")), 1, "not one entry of a slow log was found in");
    refused(
        called("percona-playback").args(["--query-log-file", &at("gzip"), "--mysql-port", &port]),
        1,
        "gzip -dc FILE",
    );
}

#[test]
fn unknown_options_of_the_drop_ins_are_told() {
    for (name, code) in [("mysql_slowlogd", 1), ("percona-playback", 255)] {
        let output = called(name).arg("--no-such-option").stdin(Stdio::null()).output().unwrap();
        let (text, exit) = super::said(&output);
        assert!(
            text.contains("--no-such-option") && exit.is_some_and(|exit| exit == code || exit != 0),
            "{name}: {exit:?} {text}"
        );
    }
}
