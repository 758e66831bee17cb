use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use protocol::capability::Caps;
use protocol::ok::put_err;

use super::*;

const SALT: [u8; 20] = *b"abcdefghijklmnopqrst";
const LONG_SALT: [u8; 32] = [9; 32];
const DONE: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

fn greeting(plugin: &str) -> Greeting {
    Greeting {
        version: "9.7.0".into(),
        connection_id: 7,
        salt: SALT,
        caps: Caps::PROTOCOL_41 | Caps::PLUGIN_AUTH,
        charset: 45,
        status: 2,
        plugin: plugin.into(),
    }
}

fn switch(plugin: &str, challenge: &[u8]) -> Vec<u8> {
    AuthSwitch { plugin: plugin.into(), data: [challenge, &[0]].concat() }.encode()
}

fn refusal() -> Vec<u8> {
    let mut out = vec![];
    put_err(&mut out, 1045, b"28000", "Access denied");
    out
}

fn password() -> Secret {
    Secret::Password("secret".into())
}

/// The plugin and the answers of a login to a server that says these payloads; the error that ends it, if one does.
fn told(
    secret: &Secret,
    way: Way,
    default: &str,
    said: &[Vec<u8>],
) -> (&'static str, Vec<Vec<u8>>, Option<LinkError>) {
    let (mut authentication, plugin, first) = Authentication::begin(secret, &greeting(default), way);
    let mut answers = vec![first];
    for payload in said {
        match authentication.step(payload) {
            Ok(Step::Send(answer)) => answers.push(answer.to_vec()),
            Ok(Step::Wait) => {}
            Ok(Step::Done) => return (plugin, answers, None),
            Err(error) => return (plugin, answers, Some(error)),
        }
    }
    panic!("the login has no end")
}

#[test]
fn the_greetings_own_plugin_is_answered_at_once() {
    let one = caching_sha2::stage1(b"secret");
    let fast = [caching_sha2::FAST.to_vec(), DONE.to_vec()];
    for secret in [password(), Secret::Sha256(one)] {
        let (plugin, answers, error) = told(&secret, Way::Plain, caching_sha2::PLUGIN, &fast);
        assert_eq!((plugin, error), (caching_sha2::PLUGIN, None));
        assert_eq!(answers, [caching_sha2::reply(&one, &SALT).to_vec()]);
    }
    let one = native::stage1(b"secret");
    for (secret, default) in [
        (password(), native::PLUGIN),
        (password(), "what"),
        (Secret::Stage1(one), native::PLUGIN),
        (Secret::Stage1(one), caching_sha2::PLUGIN),
    ] {
        let (plugin, answers, error) = told(&secret, Way::Plain, default, &[DONE.to_vec()]);
        assert_eq!((plugin, error), (native::PLUGIN, None));
        assert_eq!(answers, [native::reply(&one, &SALT).to_vec()]);
    }
    for default in [native::PLUGIN, caching_sha2::PLUGIN] {
        for secret in [Secret::None, Secret::Password("".into())] {
            let (plugin, answers, _) = told(&secret, Way::Plain, default, &[DONE.to_vec()]);
            assert_eq!((plugin, answers), (default, vec![vec![]]));
        }
    }
}

#[test]
fn a_switch_is_followed() {
    let one = native::stage1(b"secret");
    let other = b"tsrqponmlkjihgfedcba";
    let said = [switch(native::PLUGIN, other), DONE.to_vec()];
    let (_, answers, _) = told(&password(), Way::Plain, caching_sha2::PLUGIN, &said);
    assert_eq!(answers[1], native::reply(&one, other));
    let said = [switch(ed25519::PLUGIN, &LONG_SALT), DONE.to_vec()];
    let (_, answers, _) = told(&password(), Way::Plain, native::PLUGIN, &said);
    assert!(ed25519::verify(&ed25519::public_key(b"secret"), &LONG_SALT, &answers[1]));
    for plugin in [clear::PLUGIN, clear::DIALOG, clear::SHA256] {
        let said = [switch(plugin, &SALT), DONE.to_vec()];
        let (_, answers, _) = told(&password(), Way::Proved, native::PLUGIN, &said);
        assert_eq!(answers[1], b"secret\0");
    }
    let stored =
        parsec::Stored::parse("P0:hzl8y5LwfaCUM2Qh37NzvtSj:+jbn8DqgECNC12jUjSai2ZXNKU69hTFOMJohCaRCCnE");
    let stored = stored.unwrap();
    let said = [switch(parsec::PLUGIN, &LONG_SALT), stored.derivation.encode(), DONE.to_vec()];
    let (_, answers, _) = told(&password(), Way::Plain, native::PLUGIN, &said);
    assert!(answers[1].is_empty() && stored.verify(&LONG_SALT, &answers[2]));
    let (_, again, _) = told(&password(), Way::Plain, native::PLUGIN, &said);
    assert_ne!(answers[2], again[2], "with bytes of its own");
}

#[test]
fn full_authentication_shows_the_password_where_nobody_listens() {
    let said = [caching_sha2::FULL.to_vec(), DONE.to_vec()];
    let (_, answers, error) = told(&password(), Way::Proved, caching_sha2::PLUGIN, &said);
    assert_eq!((answers[1].as_slice(), error), (&b"secret\0"[..], None));
}

/// MySQL's own plugin asks for it on such a way; another could be named by whoever stands between.
#[test]
fn a_password_in_clear_is_only_for_a_server_that_has_proved_itself() {
    let full = [caching_sha2::FULL.to_vec(), DONE.to_vec()];
    let (_, answers, _) = told(&password(), Way::Encrypted, caching_sha2::PLUGIN, &full);
    assert_eq!(answers[1], b"secret\0");
    let sha256 = [switch(clear::SHA256, &SALT), DONE.to_vec()];
    let (_, answers, _) = told(&password(), Way::Encrypted, caching_sha2::PLUGIN, &sha256);
    assert_eq!(answers[1], b"secret\0");
    for plugin in [clear::PLUGIN, clear::DIALOG] {
        let clear = [switch(plugin, &[]), refusal()];
        let (_, answers, error) = told(&password(), Way::Encrypted, native::PLUGIN, &clear);
        assert!(matches!(error, Some(LinkError::Unanswered(Unanswered::Withheld { .. }))), "{error:?}");
        assert!(!answers.concat().windows(6).any(|part| part == b"secret"));
    }
}

#[test]
fn a_password_is_never_shown_on_a_plain_way() {
    let withheld = |plugin: &str| Some(LinkError::Unanswered(Unanswered::Withheld { plugin: plugin.into() }));
    let full = || caching_sha2::FULL.to_vec();
    let no_key = || b"\x01-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n".to_vec();
    let sha256 = || switch(clear::SHA256, &SALT);
    for (said, plugin, last) in [
        (vec![full()], caching_sha2::PLUGIN, &caching_sha2::KEY_WANTED[..]),
        (vec![switch(caching_sha2::PLUGIN, &SALT), full()], caching_sha2::PLUGIN, &caching_sha2::KEY_WANTED),
        (vec![full(), no_key()], caching_sha2::PLUGIN, &[0]),
        (vec![sha256()], clear::SHA256, &clear::SHA256_KEY_WANTED),
        (vec![sha256(), no_key()], clear::SHA256, &[0]),
        (vec![switch(clear::PLUGIN, &[])], clear::PLUGIN, &[0]),
        (vec![switch(clear::DIALOG, &[])], clear::DIALOG, &[0]),
        (vec![switch(native::PLUGIN, &SALT), switch(clear::PLUGIN, &[])], clear::PLUGIN, &[0]),
        (vec![full(), switch(clear::PLUGIN, &[])], clear::PLUGIN, &[0]),
    ] {
        let (_, answers, error) =
            told(&password(), Way::Plain, caching_sha2::PLUGIN, &[said, vec![refusal()]].concat());
        assert_eq!(error, withheld(plugin));
        assert_eq!(answers.last().unwrap(), last, "nothing but a question, or an empty password");
        assert!(!answers.concat().windows(6).any(|part| part == b"secret"));
    }
}

#[test]
fn full_authentication_on_a_plain_way_encrypts_the_password_for_the_servers_key() {
    let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
    let der: PublicKeyX509Der<'_> = private.public_key().as_der().unwrap();
    let pem = BASE64.encode(der.as_ref());
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{pem}\n-----END PUBLIC KEY-----\n");
    let private = OaepPrivateDecryptingKey::new(private).unwrap();
    let key = [&[caching_sha2::MORE], pem.as_bytes()].concat();
    let other = b"tsrqponmlkjihgfedcba";
    for (said, salt) in [
        (vec![caching_sha2::FULL.to_vec(), key.clone()], &SALT),
        (vec![switch(caching_sha2::PLUGIN, other), caching_sha2::FULL.to_vec(), key.clone()], other),
    ] {
        let default = if salt == other { native::PLUGIN } else { caching_sha2::PLUGIN };
        let said = [said, vec![DONE.to_vec()]].concat();
        let (_, answers, error) = told(&password(), Way::Plain, default, &said);
        assert_eq!(error, None);
        let [.., wanted, encrypted] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(wanted, &caching_sha2::KEY_WANTED);
        let mut room = [0; 256];
        let shown = private.decrypt(&OAEP_SHA1_MGF1SHA1, encrypted, &mut room, None).unwrap();
        caching_sha2::mask_password(shown, salt);
        assert_eq!(shown, b"secret\0");
    }
    // A server that has no key, and goes on to another plugin: its own refusal counts.
    let said = [caching_sha2::FULL.to_vec(), switch(native::PLUGIN, other), refusal()];
    let (_, _, error) = told(&password(), Way::Plain, caching_sha2::PLUGIN, &said);
    assert!(matches!(error, Some(LinkError::Rejected { errno: 1045, .. })), "{error:?}");
    // By a digest nothing can be encrypted, and no key is asked for where nobody can listen.
    let full = [caching_sha2::FULL.to_vec(), refusal()];
    let sha256 = Secret::Sha256(caching_sha2::stage1(b"secret"));
    let (_, answers, error) = told(&sha256, Way::Plain, caching_sha2::PLUGIN, &full);
    assert_eq!(
        (answers.last().unwrap().as_slice(), error),
        (&[0][..], Some(LinkError::Unanswered(Unanswered::Forgotten)))
    );
    for way in [Way::Encrypted, Way::Proved] {
        let (_, answers, _) = told(&password(), way, caching_sha2::PLUGIN, &full);
        assert_eq!(answers[1], b"secret\0");
    }
}

#[test]
fn a_digest_is_enough_for_its_own_plugin_only() {
    let sha1 = Secret::Stage1(native::stage1(b"secret"));
    let sha256 = Secret::Sha256(caching_sha2::stage1(b"secret"));
    let ended = |secret: &Secret, said: Vec<u8>| {
        told(secret, Way::Proved, caching_sha2::PLUGIN, &[said, refusal()]).2
    };
    let for_another =
        |plugin: &str| Some(LinkError::Unanswered(Unanswered::ForAnother { plugin: plugin.into() }));
    assert_eq!(ended(&sha1, switch(caching_sha2::PLUGIN, &SALT)), for_another(caching_sha2::PLUGIN));
    assert_eq!(ended(&sha1, switch(ed25519::PLUGIN, &LONG_SALT)), for_another(ed25519::PLUGIN));
    for plugin in [clear::PLUGIN, clear::DIALOG, clear::SHA256, parsec::PLUGIN] {
        for secret in [&sha1, &sha256] {
            assert_eq!(ended(secret, switch(plugin, &LONG_SALT)), for_another(plugin));
        }
    }
    assert_eq!(ended(&sha256, switch(native::PLUGIN, &SALT)), for_another(native::PLUGIN));
    assert_eq!(
        ended(&sha256, caching_sha2::FULL.to_vec()),
        Some(LinkError::Unanswered(Unanswered::Forgotten))
    );
}

/// Whoever stands between could ask for it by another plugin than the account's.
#[test]
fn a_password_for_signatures_or_for_pam_is_used_for_nothing_else() {
    let (signing, shown) = (Secret::Signing("secret".into()), Secret::Shown("secret".into()));
    let said = |plugin| vec![switch(plugin, &LONG_SALT), refusal()];
    let full = || vec![switch(caching_sha2::PLUGIN, &SALT), caching_sha2::FULL.to_vec(), refusal()];
    for way in [Way::Plain, Way::Encrypted, Way::Proved] {
        for (secret, plugins) in
            [(&signing, &[clear::PLUGIN, clear::DIALOG][..]), (&shown, &[ed25519::PLUGIN, parsec::PLUGIN])]
        {
            for plugin in plugins.iter().copied().chain([clear::SHA256, native::PLUGIN]) {
                let (_, answers, error) = told(secret, way, native::PLUGIN, &said(plugin));
                assert!(matches!(error, Some(LinkError::Unanswered(_))), "{plugin}: {error:?}");
                assert_eq!(*answers.concat(), b"\0"[..], "{plugin}");
            }
            let (_, answers, error) = told(secret, way, caching_sha2::PLUGIN, &full());
            assert!(matches!(error, Some(LinkError::Unanswered(_))), "{error:?}");
            assert!(answers.concat().iter().all(|byte| *byte == 0), "no digest, no question for a key");
        }
    }
    let (_, answers, error) = told(&shown, Way::Encrypted, native::PLUGIN, &said(clear::PLUGIN));
    assert!(answers[1] == b"\0" && error.is_some(), "its certificate was not looked at");
    let done = [switch(clear::PLUGIN, &[]), DONE.to_vec()];
    assert_eq!(told(&shown, Way::Proved, native::PLUGIN, &done).1[1], b"secret\0");
    let done = [switch(ed25519::PLUGIN, &LONG_SALT), DONE.to_vec()];
    assert_eq!(told(&signing, Way::Plain, native::PLUGIN, &done).1[1].len(), 64);
}

#[test]
fn of_several_plugins_one_is_enough() {
    let one = native::stage1(b"secret");
    let said = [switch("dialog", b""), switch(ed25519::PLUGIN, &LONG_SALT), switch(native::PLUGIN, &SALT)];
    let (_, answers, error) = told(
        &Secret::Stage1(one),
        Way::Plain,
        native::PLUGIN,
        &[said.to_vec(), vec![DONE.to_vec()]].concat(),
    );
    assert_eq!(error, None);
    assert_eq!(answers[1..3], [[0], [0]]);
    assert_eq!(answers[3], native::reply(&one, &SALT));
    // The last question was answered, and wrongly.
    let (_, _, error) =
        told(&Secret::Stage1(one), Way::Plain, native::PLUGIN, &[said.to_vec(), vec![refusal()]].concat());
    assert!(matches!(error, Some(LinkError::Rejected { errno: 1045, .. })), "{error:?}");
}

#[test]
fn what_is_no_login_is_refused() {
    let ended = |said: &[Vec<u8>]| told(&password(), Way::Proved, native::PLUGIN, said).2;
    for said in [
        vec![vec![]],
        vec![caching_sha2::FULL.to_vec()],
        vec![switch(caching_sha2::PLUGIN, &SALT), vec![1, 9]],
        vec![switch(native::PLUGIN, b"short")],
        vec![switch(parsec::PLUGIN, b"short")],
        vec![switch(parsec::PLUGIN, &LONG_SALT), b"\x01P\0short".to_vec()],
        // Rounds that would take minutes.
        vec![switch(parsec::PLUGIN, &LONG_SALT), [&b"\x01P\x16"[..], &[7; 18]].concat()],
        vec![switch(native::PLUGIN, &SALT); usize::from(SWITCHES_MAX) + 1],
    ] {
        let error = ended(&said);
        assert!(matches!(error, Some(LinkError::Protocol(_))), "{said:?}: {error:?}");
    }
}
