//! Option files: single cases, and a net of generated files that are compared with the programs of the package.

use super::*;

fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.cnf");
    std::fs::write(&file, text).unwrap();
    (dir, file)
}

fn read(text: &str) -> Result<Options, String> {
    let (_dir, file) = written(text);
    Options::of_file(&file).map_err(|e| e.to_string())
}

#[test]
fn the_groups_of_a_client_and_no_others() {
    let options = read(
        "# c\n; c\n[mysqld]\nport=1\nuser=mysql\n[client]\nuser = a\nport=3307\n[mysqldump]\npassword=no\n\
         [Client-Server ] x\nsocket=/s\n[ client ]\nuser=c\n[client-10.11]\nuser=d\n[mysql]\nuser=b\nno-beep\npassword\n[mariadb-client]\n!run x\nhost=h # here\n",
    )
    .unwrap();
    let socket = Some(PathBuf::from("/s"));
    let (user, host) = (Some("b".into()), Some("h".into()));
    assert_eq!(
        options,
        Options { user, password: None, host, port: Some(3307), socket, is_tcp: false, tls: Tls::default() }
    );
}

#[test]
fn a_servers_options_are_those_of_its_groups_and_its_version() {
    let (_dir, file) = written(
        "[client]\nread-only=1\n[mysqld]\nread-only = ON # here\nskip-slave-start\nskip-name-resolve\nloose_Server-Id=7\nskip-log_bin\n\
         disable-read-only=0\nmaximum-server-id=3\n[mariadb-10.11]\nlog_bin=binlog\n[mysqld-8.0]\nlog_bin=eight\n[MariaDB-10.5]\nlog_bin=five\n\
         [mysqldump]\nlog_bin=no\n[mariadb-dump]\nlog_bin=no\n",
    );
    for (version, log_bin) in [
        (Some("10.11.19-MariaDB-log"), "binlog"),
        (Some("10.5.2-MariaDB"), "five"),
        (Some("8.0.36"), "eight"),
        (Some("11.4.2-MariaDB"), "OFF"),
        (None, "OFF"),
    ] {
        let options = server_options(&file, version).unwrap();
        let of = |name: &str| options.get(name).map(String::as_str);
        assert_eq!(of("log_bin"), Some(log_bin), "{version:?}");
        assert_eq!(
            (of("read_only"), of("skip_slave_start"), of("skip_name_resolve"), of("server_id")),
            (Some("ON"), Some("ON"), Some("ON"), Some("7"))
        );
    }
}

#[test]
fn quotes_escapes_and_comments() {
    for (line, password) in [
        ("password=a b ", "a b"),
        ("password = 'a#b' # c", "a#b"),
        ("password=\"a\\\"b\"", "a\"b"),
        ("password=a#b", "a"),
        ("password=", ""),
        ("loose_password=x\\sy\\\\z\\q", "x y\\z\\q"),
        ("password='", "'"),
    ] {
        let options = read(&format!("[client]\n{line}\n")).unwrap();
        assert_eq!(options.password.as_deref(), Some(password), "{line}");
    }
}

#[test]
fn files_include_files() {
    let (dir, _) = written("");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("d")).unwrap();
    std::fs::write(at("d/20.cnf"), "[client]\nuser=second\n").unwrap();
    std::fs::write(at("d/10.cnf"), "[client]\nuser=first\nport=7\n").unwrap();
    std::fs::write(at("d/30.bak"), "[client]\nuser=never\n").unwrap();
    std::fs::write(at("one.cnf"), "[client]\nhost=h\n").unwrap();
    let (d, one) = (at("d"), at("one.cnf"));
    let text = format!("!includedir {}\n!include {}\n!include /no/such/file\n", d.display(), one.display());
    std::fs::write(at("my.cnf"), text).unwrap();
    let options = Options::of_file(&at("my.cnf")).unwrap();
    assert_eq!(
        (options.user.as_deref(), options.port, options.host.as_deref()),
        (Some("second"), Some(7), Some("h"))
    );

    std::fs::write(at("loop.cnf"), format!("!include {}\n", at("loop.cnf").display())).unwrap();
    let said = Options::of_file(&at("loop.cnf")).unwrap_err().to_string();
    assert!(said.contains("more than 10 files deep"), "{said}");
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_never_the_password() {
    for (text, what) in [
        ("user=x\n", ":1: this line stands before the first [group]"),
        ("\n[client\n", ":2: a group's name ends with ]"),
        ("[client]\npassword=hush\nport=many\n", ":3: port must be a number up to 65535, it is: many"),
    ] {
        let said = read(text).unwrap_err();
        assert!(said.contains(what) && !said.contains("hush"), "{said}");
    }
    let said = Options::of_file(Path::new("/no/such/file")).unwrap_err().to_string();
    assert!(said.starts_with("/no/such/file: cannot be read: No such file"), "{said}");
    let (_dir, file) = written("[client]\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o646)).unwrap();
    assert!(Options::of_file(&file).unwrap_err().to_string().contains("everybody may write it"));
    let secret = Options { password: Some("hush".into()), ..Options::default() };
    assert!(!format!("{secret:?}").contains("hush"));
}

#[test]
fn what_is_said_puts_the_files_place_aside() {
    let file =
        || Options { host: Some("f".into()), socket: Some("/f".into()), port: Some(1), ..Options::default() };
    let of = |said: Options| {
        let all = said.or(file());
        (all.host, all.socket.map(|path| path.display().to_string()), all.port)
    };
    let none = Options::default;
    assert_eq!(of(none()), (Some("f".into()), Some("/f".into()), Some(1)));
    assert_eq!(of(Options { host: Some("h".into()), ..none() }), (Some("h".into()), None, Some(1)));
    assert_eq!(of(Options { socket: Some("/h".into()), ..none() }), (None, Some("/h".into()), Some(1)));
    assert_eq!(of(Options { port: Some(2), ..none() }), (Some("f".into()), None, Some(2)));
    let alone = Options { port: Some(2), ..none() }.or(none());
    assert_eq!(alone.host.as_deref(), Some("127.0.0.1"));
}

/// Numbers that are the same in each run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }

    fn of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }
}

const GROUP_LINES: [&str; 18] = [
    "[client]",
    "[CLIENT]",
    "[ client ]",
    "[client ]",
    " \t[client]\t",
    "[client] # x",
    "[client]x",
    "[Client-Server]",
    "[client-mariadb]",
    "[mysql]",
    "[MySQL ]",
    "[mariadb-client]",
    "[client-10.11]",
    "[mysql-8.0]",
    "[mysqld]",
    "[mysqldump]",
    "[clientele]",
    "[]",
];
const PREFIXED: [&str; 16] = [
    "",
    "",
    "",
    "",
    "",
    "",
    "skip-",
    "disable-",
    "enable-",
    "maximum-",
    "loose-",
    "loose_",
    "loose-skip-",
    "skip-loose-",
    "SKIP_",
    "maximum-loose-enable-",
];
const NAMES: [&str; 18] = [
    "user", "use", "us", "u", "host", "ho", "port", "po", "socket", "sock", "so", "protocol", "prot", "User",
    "HOST", "hosts", "nosuch", "database",
];
const VALUES: [&str; 26] = [
    "",
    "=",
    "=0",
    "=1",
    "=3307",
    " = 42 ",
    "=a",
    "= a b",
    "='a#b' # c",
    "=\"a\\\"b\"",
    "=a#b",
    "=a;b",
    "='",
    "=''",
    "=\"x'y\"",
    "='a\\'",
    "=\\s\\t\\\\\\q\\",
    "=\\",
    " =\ttcp",
    "=TC",
    "=sock",
    "=x=y",
    "=\u{e4}\u{4e2d}",
    "\u{b}=\u{c}v\r",
    "='a' b'",
    "=\"a\nb\"",
];

/// A file for the client, and those that it includes.
fn file_at_random(random: &mut Random, dir: &Path) -> String {
    let mut text = String::new();
    if random.below(30) > 0 {
        text += random.of(&GROUP_LINES);
        text += random.of(&["\n", "\r\n"]);
    }
    for _ in 0..random.below(7) {
        text += &match random.below(12) {
            0..=1 => random.of(&GROUP_LINES).to_owned(),
            2 => random.of(&["# c", " ; c", "", "\t", "!run x", "! ", "[open"]).to_owned(),
            3 => format!(
                "{} {}/{}",
                random.of(&["!include", "! include", "!includedir", "!includes"]),
                dir.display(),
                random.of(&["d", "one.cnf", "no"])
            ),
            _ => format!("{}{}{}", random.of(&PREFIXED), random.of(&NAMES), random.of(&VALUES)),
        };
        text += random.of(&["\n", "\n", "\r\n"]);
    }
    text
}

fn include_files(dir: &Path) {
    std::fs::create_dir(dir.join("d")).unwrap();
    std::fs::create_dir(dir.join("d/directory.cnf")).unwrap();
    for (name, text) in [
        ("one.cnf", "[client]\nhost=one\n[mysqld]\nhost=never\n"),
        ("d/2.cnf", "[mysql]\nuser=second\n"),
        ("d/1.cnf", "[client]\nuser=first\nport=7\n"),
        ("d/.cnf", "[client]\nsocket=/hidden\n"),
        ("d/3.bak", "[client]\nuser=never\n"),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

fn ran(program: &str, arguments: &[&str], file: &Path) -> (bool, String, String) {
    let ran = std::process::Command::new(program)
        .arg(format!("--defaults-file={}", file.display()))
        .args(arguments)
        .env_remove("MYSQL_HOST")
        .env_remove("MYSQL_TCP_PORT")
        .env_remove("MYSQL_UNIX_PORT")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.success(), text(&ran.stdout), text(&ran.stderr))
}

/// Groups, lines, quotes, escapes and included files are those of my_print_defaults; names and prefixes those of the client.
#[test]
fn files_at_random_are_read_as_the_packages_programs_read_them() {
    let dir = tempfile::tempdir().unwrap();
    include_files(dir.path());
    let file = dir.path().join("my.cnf");
    let mut random = Random(33);
    let (mut refused, mut compared) = (0, 0);
    for number in 0..600 {
        let text = file_at_random(&mut random, dir.path());
        std::fs::write(&file, &text).unwrap();
        let mut lines = String::new();
        let is_ours = |group: &str| GROUPS.iter().any(|ours| ours.eq_ignore_ascii_case(group));
        let read = each_line(&file, 0, &is_ours, &mut |line| {
            let line = trimmed(before_comment(line));
            lines += &match line.split_once('=') {
                Some((name, value)) => format!("--{}={}\n", trimmed(name), plain(trimmed(value))),
                None => format!("--{line}\n"),
            };
            Ok(())
        });
        let (is_read, printed, _) = ran("my_print_defaults", &GROUPS, &file);
        assert_eq!(read.is_ok(), is_read, "{number} {text:?}: {read:?}");
        if !is_read {
            refused += 1;
            continue;
        }
        assert_eq!(lines, printed, "{number} {text:?}");

        let (is_read, help, errors) = ran("mariadb", &["--help"], &file);
        let is_understood =
            errors.lines().all(|line| line.starts_with("Info: ") || line.starts_with("Warning: "));
        if !is_read || !is_understood {
            continue;
        }
        compared += 1;
        let of_client = |name: &str| {
            let values = help.rsplit_once("--------------------------------- ").unwrap().1;
            let value = values
                .split('\n')
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .unwrap()
                .trim();
            Some(value.to_owned()).filter(|value| !["", "0", "(No default value)"].contains(&value.as_str()))
        };
        let ours = match Options::of_file(&file) {
            Ok(ours) => ours,
            // The client reads 1k as 1024, and k as 0.
            Err(problem) => {
                assert!(problem.0.contains("port must be a number"), "{number} {text:?}: {problem:?}");
                continue;
            }
        };
        // A list of values on the screen, where "0" may be text or number.
        let none_is_0 = |value: Option<String>| {
            value.map(|value| value.trim().to_owned()).filter(|value| !["", "0"].contains(&value.as_str()))
        };
        let told = [
            none_is_0(ours.user),
            none_is_0(ours.host),
            ours.port.map(|port| port.to_string()),
            none_is_0(ours.socket.map(|path| path.display().to_string())),
        ];
        assert_eq!(told, ["user", "host", "port", "socket"].map(of_client), "{number} {text:?}");
        let is_tcp = of_client("protocol").is_some_and(|name| "tcp".starts_with(&name.to_ascii_lowercase()));
        assert_eq!(ours.is_tcp, is_tcp, "{number} {text:?}");
    }
    assert!(refused > 20 && compared > 150, "{refused} refused, {compared} compared with the client");
}

#[test]
fn as_many_letters_suffice_as_for_the_client() {
    for (option, letters) in CLIENT {
        // `ssl` is an option of its own, and the beginning of others.
        let is_another = |name: &str| name != option && CLIENT.iter().any(|(other, _)| *other == name);
        for count in (1..=option.len()).filter(|count| !is_another(&option[..*count])) {
            let (_dir, file) = written(&format!("[client]\n{}=7\n", &option[..count]));
            let (_, _, errors) = ran("mariadb", &["--help"], &file);
            assert_eq!(errors.contains("ambiguous option"), count < letters, "{option} {count}: {errors}");
        }
    }
}

/// The client logs in with the password that is read here.
#[test]
fn the_password_is_the_clients() {
    let server = fixture::Server::start(&[]);
    server.sql("CREATE USER p@'%' IDENTIFIED BY ''");
    let port = server.address().port().to_string();
    let place = ["--protocol=tcp", "--host=127.0.0.1", "--user=p", "--port", &port, "-e", "SELECT 1"];
    for lines in [
        "[client]\npass=secret",
        "[CLIENT]\npassword=secret",
        "[ client ]\npassword=secret",
        "[client-10.11]\npassword=secret",
        "[mysql]\npas = 'a#b\"' # c\n",
        "[client]\nloose_passw=\"a\\\"b\\s\"",
        "[client]\npassword=first\n[mysql]\nPassWord=\u{e4}\u{4e2d}",
        "[client]\npassword=x\nskip-password",
        "[client]\nmaximum-password=most",
        "[client]\npassword=",
        "[client]\npassword=\\\\a\\q\\",
    ] {
        let (_dir, file) = written(&format!("{lines}\n"));
        let password = Options::of_file(&file).unwrap().password.unwrap_or_default();
        let quoted = password.replace('\\', "\\\\").replace('\'', "''");
        server.sql(&format!("ALTER USER p@'%' IDENTIFIED BY '{quoted}'"));
        let (logged_in, _, errors) = ran("mariadb", &place, &file);
        assert!(logged_in, "{lines}: {password:?}: {errors}");
    }
}

/// What the server would start with, as far as `doctor` looks at it.
#[test]
fn a_servers_files_at_random_are_read_as_it_reads_them() {
    let version = std::process::Command::new("mariadbd").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let version = version.split_whitespace().find(|word| word.contains("MariaDB")).unwrap();
    let release = version.rsplit_once('.').unwrap().0;
    let own_group = format!("[MariaDB-{release}]");
    let groups = [
        "[mysqld]",
        "[server]",
        "[MARIADB]",
        "[ mysqld ]",
        "[galera]",
        "[client]",
        "[mysqld-5.5]",
        "[mariadb-10]",
        &own_group,
    ];
    let names = [
        "read-only",
        "read_only",
        "Read-Only",
        "skip-slave-start",
        "gtid_strict_mode",
        "log-bin",
        "server-id",
        "skip_name_resolve",
        "nosuch",
    ];
    let values = ["", "", "=", "=0", "=1", " = 7", "=ON", "=off", "=true", "=x", "='1' # c"];
    let prefixes = ["", "", "", "skip-", "disable_", "enable-", "loose-", "LOOSE-skip-", "skip-loose-"];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.cnf");
    let mut random = Random(34);
    let mut compared = 0;
    for number in 0..120 {
        let mut text = format!("{}\n", random.of(&groups));
        for _ in 0..random.below(5) {
            text += &match random.below(5) {
                0 => random.of(&groups).to_owned(),
                _ => format!("{}{}{}", random.of(&prefixes), random.of(&names), random.of(&values)),
            };
            text.push('\n');
        }
        std::fs::write(&file, &text).unwrap();
        let (_, help, errors) = ran("mariadbd", &["--user=root", "--verbose", "--help"], &file);
        let Some((_, values)) = help.split_once("Variables (--variable-name=value)") else { continue };
        if errors.contains("[ERROR]")
            || errors.contains("Unknown suffix")
            || errors.contains("unknown option")
        {
            continue;
        }
        compared += 1;
        let of_server = |name: &str| {
            let name = name.replace('_', "-");
            values
                .split('\n')
                .find_map(|line| line.strip_prefix(&*name)?.strip_prefix(' '))
                .unwrap()
                .trim()
                .to_owned()
        };
        let ours = server_options(&file, Some(version)).unwrap();
        for name in ["read_only", "skip_slave_start", "gtid_strict_mode", "skip_name_resolve"] {
            let is_on = ours
                .get(name)
                .is_some_and(|value| ["ON", "1", "TRUE"].iter().any(|on| value.eq_ignore_ascii_case(on)));
            assert_eq!(
                of_server(name),
                if is_on { "TRUE" } else { "FALSE" },
                "{number} {name} {text:?}: {ours:?}"
            );
        }
        let has_log = ours.get("log_bin").is_some_and(|value| value != "OFF");
        let log_bin = of_server("log_bin");
        assert_eq!(
            has_log,
            !["0", "(No default value)"].contains(&log_bin.as_str())
                || ours.get("log_bin").is_some_and(|v| v == "0"),
            "{number} {text:?}: {ours:?} {log_bin}"
        );
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn who_asks_for_tls_never_gets_less() {
    let wish = |lines: &str| {
        let options = read(&format!("[client]\n{lines}\n"))?;
        options.tls.wish().map(|(wish, file)| (wish, file.map(|file| file.display().to_string())))
    };
    let verified = Ok((Wish::Verified, Some("/ca".to_owned())));
    for (lines, means) in [
        ("", Ok((Wish::Plain, None))),
        ("ssl", Ok((Wish::Required, None))),
        ("ssl=1", Ok((Wish::Required, None))),
        ("ssl=OFF", Ok((Wish::Plain, None))),
        ("skip-ssl", Ok((Wish::Plain, None))),
        ("skip-ssl=0", Ok((Wish::Required, None))),
        ("ssl\nskip-ssl", Ok((Wish::Plain, None))),
        ("ssl-cert=/c", Ok((Wish::Required, None))),
        ("ssl_ca=/ca", verified.clone()),
        ("ssl-ca=/ca\nskip-ssl", Ok((Wish::Plain, None))),
        ("skip-ssl\nssl-ca=/ca", verified.clone()),
        ("ssl-ca=/ca\ndisable-ssl-verify-server-cert", Ok((Wish::Required, None))),
        ("ssl-ca=/ca\nssl-verify-server-cert", verified.clone()),
        ("ssl-mode=required", Ok((Wish::Required, None))),
        ("ssl-mode=DISABLED\nssl-ca=/ca", Ok((Wish::Plain, None))),
        ("ssl-mode=PREFERRED", Ok((Wish::Plain, None))),
        ("ssl-ca=/ca\nssl-mode=VERIFY_CA", verified.clone()),
        ("loose-ssl-mode=VERIFY_IDENTITY\nssl-ca=/ca", verified),
    ] {
        assert_eq!(wish(lines), means, "{lines}");
    }
    for lines in ["ssl-verify-server-cert", "ssl-mode=VERIFY_IDENTITY", "ssl-capath=/d"] {
        assert!(wish(lines).unwrap_err().contains("takes a file"), "{lines}");
    }
    assert!(wish("ssl-mode=yes").unwrap_err().contains("ssl-mode must be"));
}
