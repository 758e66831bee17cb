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

fn accounts() -> Accounts {
    Accounts::new(vec![
        row("app", vec![native_proof()]),
        row("open", vec![Proof::Empty]),
        Account { locked: true, ..row("shut", vec![Proof::Empty]) },
        row("new", vec![sha2_proof()]),
        row("signs", vec![ed25519_proof()]),
        row("both", vec![ed25519_proof(), native_proof()]),
        row("pam", vec![Proof::Other("pam".into()), Proof::Other("unix_socket".into())]),
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
    assert_eq!(ask("pam", b""), Check::Unsupported { what: "pam, unix_socket".into() });
    for secret in [Credential::Stage1(Zeroizing::new(stage1)), sha256(b"secret")] {
        assert!(!format!("{secret:?}").contains(','), "secrets are not printed");
    }
}

#[test]
fn a_signature_is_looked_at_and_cannot_be_used() {
    let accounts = accounts();
    let ask = |user, answer: &[u8]| {
        check(&accounts, user, from(), Plugin::Ed25519, &LONG_SALT, answer, Channel::Plain)
    };
    assert_eq!(ask("signs", &ed25519::reply(b"secret", &LONG_SALT)), Check::NotServed(SIGNED));
    assert_eq!(ask("signs", &ed25519::reply(b"Secret", &LONG_SALT)), Check::Denied);
    assert_eq!(ask("app", &ed25519::reply(b"secret", &LONG_SALT)), Check::Denied);
}

#[test]
fn a_password_is_compared_with_what_is_stored() {
    let accounts = accounts();
    let shown = |user: &str| check_password(&accounts, user, from(), b"secret", Channel::Plain);
    assert_eq!(
        (shown("new"), shown("app"), shown("who")),
        (Check::Accept(sha256(b"secret")), Check::Denied, Check::Unknown)
    );
    let account = row("new", vec![sha2_proof()]);
    assert_eq!(remembered(&account, caching_sha2::stage1(b"x"), Channel::Plain), Check::Accept(sha256(b"x")));
    let locked = Account { locked: true, ..account };
    assert_eq!(remembered(&locked, caching_sha2::stage1(b"x"), Channel::Plain), Check::NotServed(LOCKED));
}

#[test]
fn the_question_is_the_accounts() {
    let accounts = accounts();
    let asked = |user, own, default| plugin_for(&accounts, user, from(), own, default, 0);
    for default in [Plugin::Native, Plugin::CachingSha2] {
        for own in [None, Some(Plugin::Native), Some(Plugin::CachingSha2), Some(Plugin::Ed25519)] {
            assert_eq!(asked("app", own, default), Plugin::Native);
            assert_eq!(asked("new", own, default), Plugin::CachingSha2);
            assert_eq!(asked("signs", own, default), Plugin::Ed25519);
            for user in ["open", "pam"] {
                assert_eq!(asked(user, own, default), default);
            }
            let both = if own == Some(Plugin::Native) { Plugin::Native } else { Plugin::Ed25519 };
            assert_eq!(asked("both", own, default), both);
        }
    }
}

#[test]
fn a_name_that_does_not_exist_is_asked_as_one_that_does() {
    let accounts = accounts();
    let asked = |decoy| plugin_for(&accounts, "who", from(), None, Plugin::Native, decoy);
    let all: Vec<Plugin> = (0..accounts.len() as u64).map(asked).collect();
    for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519] {
        assert!(all.contains(&plugin), "{plugin:?}");
    }
    assert_eq!(
        plugin_for(&Accounts::default(), "who", from(), None, Plugin::CachingSha2, 5),
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
