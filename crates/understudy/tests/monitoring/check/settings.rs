//! Where settings come from, and what is said of wrong ones.

use std::fs;
use std::process::Command;

use fixture::Server;
use testbed::program::{bin, run, until};

use super::check_dir::CheckDir;
use super::running::Running;
use super::{DISABLED, DOWN, SECRET, UP};

/// Arguments, environment, sysconfig file and defaults, each in front of the next.
pub fn sources_of_settings(check_dir: &CheckDir) {
    let with = |args: &[&str], environment: &[(&str, &str)]| {
        let mut command = check_dir.command("clustercheck");
        run(command.args(args).envs(environment.iter().copied())).code
    };
    let right = [("MYSQL_USERNAME", "clustercheck"), ("MYSQL_PASSWORD", "password")];
    let wrong = [("MYSQL_USERNAME", "clustercheck"), ("MYSQL_PASSWORD", "other")];
    assert_eq!(with(&[], &[]), 1, "there is no account with the default's name");
    assert_eq!(with(&[], &right), 0);
    assert_eq!(with(&["clustercheck", "password"], &wrong), 0, "an argument wins");
    assert_eq!(with(&["clustercheck", "other"], &right), 1, "an argument wins");
    // Without user and password the option file's are taken.
    check_dir.write(
        "both.cnf",
        &(fs::read_to_string(check_dir.path("place.cnf")).unwrap()
            + "user=clustercheck\npassword=password\n"),
    );
    assert_eq!(with(&["", "", "", "", "", &check_dir.text("both.cnf")], &wrong), 0);

    check_dir.write(
        "sysconfig",
        "# shell\nMYSQL_USERNAME=\"clustercheck\"\nexport MYSQL_PASSWORD='password'\nX=$(touch ran)\n",
    );
    assert_eq!(with(&[], &[]), 0);
    assert_eq!(with(&[], &wrong), 0, "the file wins, as where a shell runs it");
    assert_eq!(with(&["", "password"], &[]), 1, "an empty user is none, and not the file's");
    assert!(!check_dir.path("ran").exists(), "nothing is run");
    let log = check_dir.text("sysconfig.log");
    check_dir
        .write("sysconfig", &format!("MYSQL_USERNAME=clustercheck\nMYSQL_PASSWORD=other\nERR_FILE={log}\n"));
    assert_eq!(with(&[], &[]), 1);
    assert!(fs::read_to_string(&log).unwrap().contains("1045"));
    fs::remove_file(check_dir.path("sysconfig")).unwrap();
}

pub fn what_goes_wrong(check_dir: &CheckDir) {
    // A wrong password: the log has the server's reason and no password; with the next good check it is empty.
    let log = check_dir.text("why.log");
    let ended = check_dir.clustercheck(&["quiet", "wrong-secret", "0", &log]);
    assert_eq!((ended.out.as_str(), ended.err.as_str(), ended.code), (DOWN, "", 1));
    let why = fs::read_to_string(&log).unwrap();
    assert!(why.contains("1045") && why.contains("quiet") && !why.contains("wrong-secret"), "{why}");
    assert_eq!(check_dir.clustercheck(&["quiet", SECRET, "0", &log]).code, 0);
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
    // A file that cannot be read is passed over, as by the original, but told.
    assert_eq!(check_dir.clustercheck(&["quiet", SECRET, "0", &log, "1", "/no/such.cnf"]).code, 1);
    assert!(fs::read_to_string(&log).unwrap().contains("/no/such.cnf: cannot be read: No such file"));
    let ended = check_dir.clustercheck(&["quiet", SECRET, "0", "/no/such/dir/log"]);
    assert_eq!((ended.out.as_str(), ended.code), (UP, 0));
    assert!(ended.err.contains("/no/such/dir/log cannot be written"), "{}", ended.err);
    // A pipe without a reader is no reason to wait for one.
    let pipe = check_dir.text("pipe");
    run(Command::new("mkfifo").arg(&pipe)).with(0);
    let ended = check_dir.clustercheck(&["quiet", SECRET, "0", &pipe]);
    assert_eq!((ended.out.as_str(), ended.code), (UP, 0));
    assert!(ended.err.contains("pipe cannot be written: No such device"), "{}", ended.err);
    // Where nobody can tell whether an operator's file exists, the node is not good.
    let unseen = check_dir.path("place.cnf").join("disabled");
    let mut untold = check_dir.command("understudy");
    untold.args(["check", "--once", "--defaults-file", &check_dir.text("quiet.cnf"), "--disabled-file"]);
    let ended = run(untold.arg(&unseen));
    assert_eq!((ended.out.as_str(), ended.code), (DISABLED, 1));
    assert!(ended.err.contains("may be disabled by an operator"), "{}", ended.err);
    let mut untold = check_dir.command("clustercheck");
    let ended = run(untold.args(["quiet", SECRET]).env("UNDERSTUDY_DISABLED_FILE", &unseen));
    assert_eq!((ended.out.as_str(), ended.code), (DISABLED, 1));

    for option in ["-h", "--help"] {
        let help = check_dir.clustercheck(&[option]);
        assert_eq!((help.code, help.out.lines().count()), (0, 1), "{}", help.out);
        assert!(
            help.out.starts_with("Usage: clustercheck <user> <pass> <available_when_donor=0|1>"),
            "{}",
            help.out
        );
    }
    let ended = check_dir.clustercheck(&["--frobnicate"]);
    assert_eq!((ended.out.as_str(), ended.code), (DOWN, 2));
    assert!(ended.err.contains("--frobnicate is not an option; usage:"), "{}", ended.err);

    let missing = check_dir.text("missing");
    let bad = check_dir.write("bad.cnf", "[client]\nport=many\n").display().to_string();
    let password = check_dir.write("password", &format!("{SECRET}\n")).display().to_string();
    for (args, expect) in [
        (&["--frobnicate"][..], "unexpected argument '--frobnicate'"),
        (&["--password", "x"], "unexpected argument '--password'"),
        (&["--defaults-file", &missing], "missing: cannot be read: No such file"),
        (&["--defaults-extra-file", &missing], "missing: cannot be read: No such file"),
        (&["--password-file", &missing], "--password-file"),
        (&["--defaults-file", &bad], "bad.cnf:2: port must be a number up to 65535, it is: many"),
        (
            &["--interval-ms", "1000"],
            "--stale-ms is 1000 and must be at least 100 more than --interval-ms, 1000",
        ),
        (&["--max-lag", "soon", "--role", "replica"], "it must be a time such as 2s or 500ms"),
        (&["--max-lag", "2s"], "--max-lag is for --role replica"),
        (&["--host", "a", "--mysql-socket", "b"], "cannot be used with"),
    ] {
        let said = check_dir.once(args).with(2);
        assert!(said.contains(expect), "{args:?}: {said}");
    }
    let place = check_dir.text("place.cnf");
    let files = ["--defaults-file", &place, "--user", "quiet", "--password-file", &password];
    assert_eq!(check_dir.once(&files).with(0), UP);
    let mut by_environment = check_dir.command("understudy");
    by_environment.args(["check", "--once", "--defaults-file", &place, "--user", "quiet"]);
    assert_eq!(run(by_environment.env("UNDERSTUDY_CHECK_PASSWORD", SECRET)).with(0), UP);
    let ended = run(by_environment.env("UNDERSTUDY_CHECK_PASSWORD", "wrong-secret"));
    assert_eq!((ended.out.as_str(), ended.code), (DOWN, 1));
    assert!(ended.err.contains("1045") && !ended.err.contains("wrong-secret"), "{}", ended.err);
}

/// A file with a password that every user of this machine can read is told of at the start.
pub fn exposed_secrets(check_dir: &CheckDir) {
    let file = check_dir.path("quiet.cnf");
    let set = |path: &std::path::Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    set(check_dir.dir.path(), 0o755);
    for (mode, is_told) in [(0o644, true), (0o640, false)] {
        set(&file, mode);
        let (running, _) = Running::check(check_dir, &[]);
        let told = format!("WARN {} can be read by every user of this machine", file.display());
        assert_eq!(running.log().contains(&told), is_told, "{}", running.log());
        running.stop();
    }
    set(check_dir.dir.path(), 0o700);
}

/// A password that is changed while the check runs: SIGHUP has it read again, and a file that cannot be read changes nothing.
pub fn a_password_read_again(server: &Server, check_dir: &CheckDir) {
    server.sql("CREATE OR REPLACE USER turned@localhost IDENTIFIED BY 'first'");
    server.sql("GRANT PROCESS ON *.* TO turned@localhost");
    let file = check_dir.text("turned.cnf");
    let with = |password: &str| {
        let place = fs::read_to_string(check_dir.path("place.cnf")).unwrap();
        check_dir.write("turned.cnf", &format!("{place}user=turned\npassword={password}\n"));
    };
    let hang_up = |running: &Running, said: &str| {
        let before = running.log().matches(said).count();
        run(Command::new("kill").args(["-HUP", &running.child.id().to_string()])).with(0);
        until(said, || (running.log().matches(said).count() > before).then_some(()));
    };
    // Its connection ends, and the next one needs the password.
    let connect_again = || {
        let id = server.sql("SELECT id FROM information_schema.processlist WHERE user = 'turned'");
        server.sql(&format!("KILL {}", id.trim()));
        until("another connection", || {
            let now = server.sql("SELECT id FROM information_schema.processlist WHERE user = 'turned'");
            (!now.trim().is_empty() && now != id).then_some(())
        });
    };
    with("first");
    let mut command = Command::new("setpriv");
    check_dir.furnish(&mut command).args(["--pdeathsig", "KILL", bin(), "check", "--listen", "127.0.0.1:0"]);
    command.args(["--interval-ms", "50", "--answer-socket", &check_dir.text("turned.sock")]);
    command.args(["--defaults-file", &file]);
    let running = Running::start(check_dir, command);
    connect_again();
    server.sql("SET PASSWORD FOR turned@localhost = PASSWORD('second')");
    fs::remove_file(&file).unwrap();
    hang_up(&running, "user and password stay as they are");
    with("second");
    hang_up(&running, "user and password were read again");
    connect_again();
    server.sql("DROP USER turned@localhost");
}
