use super::*;

const SALT: [u8; 20] = *b"abcdefghijklmnopqrst";
const LONG_SALT: [u8; 32] = [7; 32];

fn row(user: &str, proofs: Vec<Proof>) -> Account {
    Account { user: user.into(), host: "%".into(), proofs, ..Account::default() }
}

fn native_proof() -> Proof {
    Proof::Native(native::stage2(&native::stage1(b"secret")))
}

fn ed25519_proof() -> Proof {
    Proof::Ed25519(ed25519::public_key(b"secret"))
}

/// Of "secret", as MySQL 9.7.4 stores it.
fn sha2_proof() -> Proof {
    let stored = "$A$00A$#:c=(Ww(|_sW\"K<3WM6\x01FcNcHaj8vWvQ1i5JCOrrdhEs.XWDztVV4P45b3bgLF0";
    Proof::CachingSha2(Stored::parse(stored).unwrap())
}

/// Of "secret", as MariaDB 11.8.9 and MySQL 9.7.4 store it.
fn parsec_proof() -> Proof {
    let stored = "P0:hzl8y5LwfaCUM2Qh37NzvtSj:+jbn8DqgECNC12jUjSai2ZXNKU69hTFOMJohCaRCCnE";
    Proof::Parsec(parsec::Stored::parse(stored).unwrap())
}

fn sha256_proof() -> Proof {
    let stored = "$5$\x1d&i^p:%;\x0e\x1aE(0W\x07\x12h0-\x0e$Io.BTit2K2OVi0fdLhrn.D4xC6KvThp2E6sBAlE7Gh7";
    Proof::Sha256(Stored::parse_sha256(stored).unwrap())
}

fn accounts() -> Accounts {
    Accounts::new(vec![
        row("app", vec![native_proof()]),
        row("open", vec![Proof::Empty]),
        Account { locked: true, ..row("shut", vec![Proof::Empty]) },
        row("new", vec![sha2_proof()]),
        row("signs", vec![ed25519_proof()]),
        row("both", vec![ed25519_proof(), native_proof()]),
        row("other", vec![Proof::Other("gssapi".into()), Proof::Other("unix_socket".into())]),
        row("parsec", vec![parsec_proof()]),
        row("old", vec![sha256_proof()]),
        row("pam", vec![Proof::Clear]),
    ])
}

fn from() -> IpAddr {
    "10.0.0.1".parse().unwrap()
}

#[test]
fn the_clients_own_answer_gives_what_a_node_needs() {
    let accounts = accounts();
    let stage1 = native::stage1(b"secret");
    let ask =
        |user, answer: &[u8]| check(&accounts, user, from(), Plugin::Native, &SALT, answer, Channel::Plain);
    let good = native::reply(&stage1, &SALT);
    let accepted = Check::Accept(Credential::Stage1(Zeroizing::new(stage1)));
    assert_eq!(ask("app", &good), accepted);
    assert_eq!(ask("both", &good), accepted);
    assert_eq!(ask("app", &[7; 20]), Check::Denied);
    assert_eq!(ask("app", b""), Check::Denied);
    assert_eq!(ask("open", b""), Check::Accept(Credential::Empty));
    assert_eq!(ask("open", &good), Check::Denied);
    assert_eq!(ask("shut", b""), Check::NotServed(LOCKED));
    assert_eq!(ask("shut", &good), Check::Denied, "who proves nothing is told nothing");
    assert_eq!(ask("who", b""), Check::Unknown);
    assert_eq!(ask("new", &good), Check::Denied);
    assert_eq!(ask("other", b""), Check::Unsupported { what: "gssapi, unix_socket".into() });
    for user in ["parsec", "old", "pam"] {
        assert_eq!((ask(user, b""), ask(user, &good)), (Check::Denied, Check::Denied));
    }
    for check in [
        Check::Accept(Credential::Stage1(Zeroizing::new(stage1))),
        Check::Accept(sha256(b"secret")),
        shown(b"secret"),
        Check::Accept(Credential::Pam("secret".into())),
    ] {
        let printed = format!("{check:?}");
        assert!(!printed.contains(',') && !printed.contains("secret"), "secrets are not printed: {printed}");
    }
}

#[test]
fn a_signature_is_right_and_a_node_is_shown_what_is_configured() {
    let accounts = accounts();
    let ask = |user, plugin, answer: &[u8]| {
        check(&accounts, user, from(), plugin, &LONG_SALT, answer, Channel::Plain)
    };
    let passwords = |password: &str| -> Passwords {
        ["signs", "parsec"].map(|user| (user.to_owned(), password.to_owned())).into_iter().collect()
    };
    let Proof::Parsec(stored) = parsec_proof() else { unreachable!() };
    let parsec = |password: &[u8]| {
        parsec::Key::derive(password, stored.derivation).reply(&LONG_SALT, &[3; 32]).to_vec()
    };
    let ed25519 = |password: &[u8]| ed25519::reply(password, &LONG_SALT).to_vec();
    for (user, plugin, answer) in [
        ("signs", Plugin::Ed25519, &ed25519 as &dyn Fn(&[u8]) -> Vec<u8>),
        ("parsec", Plugin::Parsec, &parsec),
    ] {
        let right = ask(user, plugin, &answer(b"secret"));
        assert_eq!(right, Check::Accept(Credential::Configured));
        let account = accounts.find(user, from());
        let with = |passwords: &Passwords| configured(right.clone(), account, passwords);
        assert_eq!(with(&passwords("secret")), right);
        assert_eq!(with(&passwords("Secret")), Check::NotServed(crate::configured::OTHER));
        assert_eq!(with(&Passwords::default()), Check::NotServed(crate::configured::NONE));
        assert_eq!(ask(user, plugin, &answer(b"Secret")), Check::Denied);
        assert_eq!(ask("app", plugin, &answer(b"secret")), Check::Denied);
    }
    let denied = configured(Check::Denied, accounts.find("signs", from()), &passwords("secret"));
    assert_eq!(denied, Check::Denied);
}

#[test]
fn a_password_is_compared_with_what_is_stored() {
    let accounts = accounts();
    let look = |user: &str, plugin, password: &[u8]| {
        check_password(&accounts, user, from(), plugin, password, Channel::Plain)
    };
    let new = |user| look(user, Plugin::CachingSha2, b"secret");
    assert_eq!(
        (new("new"), new("app"), new("old"), new("who")),
        (Check::Accept(sha256(b"secret")), Check::Denied, Check::Denied, Check::Unknown)
    );
    let old = |user| look(user, Plugin::Sha256, b"secret");
    assert_eq!((old("old"), old("new"), old("who")), (shown(b"secret"), Check::Denied, Check::Unknown));
    assert_eq!(look("old", Plugin::Sha256, b"Secret"), Check::Denied);
    let ask = |user: &str, password: &str| unchecked(&accounts, user, from(), password, Channel::Tls);
    let pam = Check::Accept(Credential::Pam("any".into()));
    assert_eq!((ask("pam", "any"), ask("who", "any")), (pam, Check::Unknown));
    assert_eq!((ask("app", "secret"), ask("old", "secret")), (Check::Denied, Check::Denied));
    for requires in [Requirement::Certificate, Requirement::Particular] {
        let demands = Accounts::new(vec![Account { requires, ..row("pam", vec![Proof::Clear]) }]);
        let said = unchecked(&demands, "pam", from(), "any", Channel::Tls);
        assert!(matches!(said, Check::Demands(_)), "nobody says yet that the password is right: {said:?}");
    }
    let account = row("new", vec![sha2_proof()]);
    assert_eq!(remembered(&account, caching_sha2::stage1(b"x"), Channel::Plain), Check::Accept(sha256(b"x")));
    let locked = Account { locked: true, ..account };
    assert_eq!(remembered(&locked, caching_sha2::stage1(b"x"), Channel::Plain), Check::NotServed(LOCKED));
}

#[test]
fn the_question_is_the_accounts() {
    let accounts = accounts();
    let asked =
        |user, own, default| plugin_for(&accounts, user, from(), own, (default, &Passwords::default()), 0);
    for default in [Plugin::Native, Plugin::CachingSha2] {
        for own in [None, Some(Plugin::Native), Some(Plugin::CachingSha2), Some(Plugin::Ed25519)] {
            assert_eq!(asked("app", own, default), Plugin::Native);
            assert_eq!(asked("new", own, default), Plugin::CachingSha2);
            assert_eq!(asked("signs", own, default), Plugin::Ed25519);
            assert_eq!(asked("parsec", own, default), Plugin::Parsec);
            assert_eq!(asked("old", own, default), Plugin::Sha256);
            assert_eq!(asked("pam", own, default), Plugin::Clear);
            for user in ["open", "other"] {
                assert_eq!(asked(user, own, default), default);
            }
            // A signature leads nowhere without a password of the configuration.
            assert_eq!(asked("both", own, default), Plugin::Native);
            let configured: Passwords = [("both".to_owned(), "secret".to_owned())].into_iter().collect();
            let asked = plugin_for(&accounts, "both", from(), own, (default, &configured), 0);
            let both = if own == Some(Plugin::Native) { Plugin::Native } else { Plugin::Ed25519 };
            assert_eq!(asked, both);
        }
    }
}

#[test]
fn a_name_that_does_not_exist_is_asked_as_one_that_does() {
    let accounts = accounts();
    let asked =
        |decoy| plugin_for(&accounts, "who", from(), None, (Plugin::Native, &Passwords::default()), decoy);
    let all: Vec<Plugin> = (0..accounts.len() as u64).map(asked).collect();
    for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519] {
        assert!(all.contains(&plugin), "{plugin:?}");
    }
    assert_eq!(
        plugin_for(
            &Accounts::default(),
            "who",
            from(),
            None,
            (Plugin::CachingSha2, &Passwords::default()),
            5
        ),
        Plugin::CachingSha2
    );
}

#[test]
fn what_an_account_demands_of_a_connection_is_looked_at_behind_its_password() {
    use Channel::{Certificate, Plain, Tls};
    let stored = Proof::Native(native::stage2(&native::stage1(b"secret")));
    let right = native::reply(&native::stage1(b"secret"), &SALT);
    let is_let_in = |requires| {
        let accounts = Accounts::new(vec![Account { requires, ..row("app", vec![stored.clone()]) }]);
        let ask =
            |answer: &[u8], channel| check(&accounts, "app", from(), Plugin::Native, &SALT, answer, channel);
        assert_eq!(ask(&[1; 20], Certificate), Check::Denied, "the password first");
        [Plain, Tls, Certificate].map(|channel| matches!(ask(&right, channel), Check::Accept(_)))
    };
    assert_eq!(is_let_in(Requirement::Nothing), [true; 3]);
    assert_eq!(is_let_in(Requirement::Tls), [false, true, true]);
    assert_eq!(is_let_in(Requirement::Certificate), [false, false, true]);
    assert_eq!(is_let_in(Requirement::Particular), [false; 3]);
}
