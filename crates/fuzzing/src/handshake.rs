//! The login, on both sides.
//!
//! Input: one payload, read as each of the login's packets in turn. Checked: what was read is written so that it is read the
//! same again; nothing grows beyond what came; no bytes make a login that the account's password did not make.

use crate::packets::caps;
use protocol::auth::stored_sha2::Stored;
use protocol::auth::{clear, ed25519, native, parsec};
use protocol::capability::Caps;
use protocol::handshake::{AuthSwitch, ChangeUser, Greeting, LoginRequest, is_ssl_request};
use session::login::{Channel, Check, Plugin, check};
use std::net::{IpAddr, Ipv4Addr};
use topology::account::{Account, Accounts, Proof, Requirement};

/// A byte that is no UTF-8 becomes a mark of three bytes in the names of versions and plugins.
const GROWTH: usize = 3;
/// Fixed fields and the lengths that are written in front of others.
const FIXED: usize = 128;

pub(crate) fn holds(payload: &[u8]) {
    let room = payload.len() * GROWTH + FIXED;
    if let Ok(greeting) = Greeting::parse(payload) {
        let written = greeting.encode();
        assert!(written.len() <= room);
        assert_eq!(Greeting::parse(&written).as_ref(), Ok(&greeting));
    }
    if let Ok(switch) = AuthSwitch::parse(payload) {
        let written = switch.encode();
        assert!(written.len() <= room);
        assert_eq!(AuthSwitch::parse(&written).as_ref(), Ok(&switch));
        assert!(switch.salt().is_none_or(|salt| switch.data.starts_with(&salt)));
    }
    if let Ok(login) = LoginRequest::parse(payload) {
        let written = login.encode();
        assert!(written.len() <= room);
        let again = LoginRequest::parse(&written).expect("a login we wrote is read");
        // Some capabilities follow from the fields; the fields themselves stay.
        assert_eq!(again.caps, login.sent_caps());
        assert_eq!(again.encode(), written);
        assert_eq!(LoginRequest { caps: login.caps, ..again }, login);
        no_forgery(&login.user, &login.auth);
    }
    let _ = is_ssl_request(payload);
    if let Some(derivation) = parsec::Derivation::parse(payload) {
        assert_eq!(parsec::Derivation::parse(&derivation.encode()), Some(derivation));
    }
    if let Some(password) = clear::password_in(payload) {
        assert_eq!(**clear::reply(password), *payload);
    }
    if let Ok(text) = std::str::from_utf8(payload) {
        let _ = (Stored::parse(text), parsec::Stored::parse(text), ed25519::parse_stored(text));
    }
    for attributes in [Caps::NONE, Caps::CONNECT_ATTRS] {
        let caps = caps(0) | attributes;
        change_user(payload, caps);
        change_user(payload, caps.without(Caps::SECURE_CONNECTION));
        change_user(payload, caps.without(Caps::PLUGIN_AUTH));
    }
}

fn change_user(payload: &[u8], caps: Caps) {
    let Ok(change) = ChangeUser::parse(payload, caps) else { return };
    let written = change.encode(caps);
    assert!(written.len() <= payload.len() * GROWTH + FIXED);
    let again = ChangeUser::parse(&written, caps).expect("a change of user we wrote is read");
    assert_eq!(again, change);
}

/// `auth` is an input: it can be right for an account without a password only.
fn no_forgery(user: &[u8], auth: &[u8]) {
    let user = String::from_utf8_lossy(user);
    let row = |proof, locked| Account {
        user: user.clone().into_owned(),
        host: "%".into(),
        proofs: vec![proof],
        locked,
        requires: Requirement::Nothing,
    };
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let stored = "P0:hzl8y5LwfaCUM2Qh37NzvtSj:+jbn8DqgECNC12jUjSai2ZXNKU69hTFOMJohCaRCCnE";
    let parsec = parsec::Stored::parse(stored).expect("MariaDB's own");
    let salt = b"0123456789abcdefghijklmnopqrstuv";
    for (row, may_enter) in [
        (row(Proof::Native(native::stage2(&native::stage1(b"secret"))), false), false),
        (row(Proof::Empty, true), auth.is_empty()),
        (row(Proof::Other("pam".into()), false), false),
        (row(Proof::Ed25519(ed25519::public_key(b"secret")), false), false),
        (row(Proof::Parsec(parsec), false), false),
        (row(Proof::Empty, false), auth.is_empty()),
    ] {
        let accounts = Accounts::new(vec![row]);
        for (plugin, salt) in [
            (Plugin::Native, &salt[..20]),
            (Plugin::CachingSha2, &salt[..20]),
            (Plugin::Ed25519, salt),
            (Plugin::Parsec, salt),
        ] {
            let checked = check(&accounts, &user, from, plugin, salt, auth, Channel::Certificate);
            if matches!(checked, Check::Accept(_) | Check::NotServed(_) | Check::Demands(_)) {
                assert!(may_enter, "a login without the password");
            }
        }
    }
}
