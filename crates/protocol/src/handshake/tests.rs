//! Logins as real programs sent them, and round trips.

use super::*;
use proptest::prelude::*;

/// MariaDB 10.11.19's greeting.
const MARIADB: &[u8] =
    b"\x0a5.5.5-10.11.19-MariaDB-0+deb12u1\x00\x05\x00\x00\x00abcdefgh\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15\
    \x00\x00\x00\x00\x00\x00\x3d\x00\x00\x00ijklmnopqrst\x00mysql_native_password\x00";
/// MySQL 8.0's greeting, up to the plugin's name, whose NUL some old versions leave out.
const MYSQL: &[u8] = b"\x0a8.0.36\x00\x08\x00\x00\x00abcdefgh\x00\xff\xff\xff\x02\x00\xff\xdf\x15\
    \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00ijklmnopqrst\x00caching_sha2_password";

#[test]
fn greetings() {
    let mariadb = Greeting::parse(MARIADB).unwrap();
    assert_eq!(mariadb.version, "5.5.5-10.11.19-MariaDB-0+deb12u1");
    assert_eq!((mariadb.connection_id, mariadb.charset, mariadb.status), (5, 45, 2));
    assert_eq!(&mariadb.salt, b"abcdefghijklmnopqrst");
    assert!(
        mariadb.caps.has(Caps::PROGRESS | Caps::CACHE_METADATA | Caps::SESSION_TRACK | Caps::DEPRECATE_EOF)
    );
    assert!(!mariadb.caps.has(Caps::LONG_PASSWORD));
    assert_eq!(mariadb.encode(), MARIADB);

    let mysql = Greeting::parse(MYSQL).unwrap();
    assert_eq!((mysql.plugin.as_str(), mysql.caps.upper()), ("caching_sha2_password", 0));
    assert!(mysql.caps.has(Caps::LONG_PASSWORD | Caps::QUERY_ATTRIBUTES));
    assert_eq!(mysql.encode(), [MYSQL, b"\0"].concat());
}

#[test]
fn greetings_cut_off_anywhere_are_refused() {
    let salt_ends = MARIADB.len() - "\0mysql_native_password\0".len();
    for len in 0..salt_ends {
        assert!(Greeting::parse(&MARIADB[..len]).is_err(), "{len} bytes");
    }
    assert!(Greeting::parse(b"\x09x").is_err());
    assert!(Greeting::parse(b"\xff\x10\x04Too many connections").is_err());
}

/// The `mariadb` client of 10.11, logging in as app to shop.
fn a_login() -> Vec<u8> {
    let mut out = b"\x8c\xa2\xbf\x80\x00\x00\x00\x40\x2d\x00".to_vec();
    out.extend_from_slice(&[0; 18]);
    out.extend_from_slice(b"\x1c\x00\x00\x00app\x00\x14");
    out.extend_from_slice(&[7; 20]);
    out.extend_from_slice(b"shop\x00mysql_native_password\x00\x0a\x03_os\x05Linux");
    out
}

#[test]
fn logins() {
    let login = LoginRequest::parse(&a_login()).unwrap();
    assert_eq!(login.caps.upper(), 0x1c);
    assert_eq!((login.user.as_slice(), login.auth.as_slice()), (&b"app"[..], &[7; 20][..]));
    assert_eq!((login.database.as_deref(), login.charset), (Some(&b"shop"[..]), 45));
    assert_eq!(
        (login.plugin.as_deref(), login.attrs.as_slice()),
        (Some(native::PLUGIN), &b"\x03_os\x05Linux"[..])
    );
    assert_eq!(login.encode(), a_login());
}

#[test]
fn logins_without_their_last_nul_are_read_as_servers_read_them() {
    let whole = a_login();
    let at = whole.windows(5).position(|window| window == b"shop\0").unwrap();
    let login = LoginRequest::parse(&whole[..at + 4]).unwrap();
    assert_eq!(login.database.as_deref(), Some(&b"shop"[..]));
    assert_eq!((login.plugin, login.attrs), (None, Vec::new()));
    for len in 0..at {
        assert!(LoginRequest::parse(&whole[..len]).is_err() || len >= at, "{len} bytes");
    }
}

#[test]
fn tls_is_asked_for_with_a_short_login() {
    let mut ssl = a_login()[..32].to_vec();
    assert!(!is_ssl_request(&ssl));
    ssl[1] |= 0x08;
    assert!(is_ssl_request(&ssl));
    assert!(!is_ssl_request(&a_login()));
    assert!(!is_ssl_request(b""));
}

#[test]
fn old_protocols_are_refused() {
    assert!(LoginRequest::parse(b"\x05\x24\x00\x00\x00app\x00\x00").is_err());
    let mut old = a_login();
    old[1] &= !0x02;
    assert_eq!(LoginRequest::parse(&old), Err(Malformed::new("a client older than 4.1")));
}

#[test]
fn switches() {
    let switch = AuthSwitch::to(native::PLUGIN, b"abcdefghijklmnopqrst");
    assert_eq!(switch.encode(), b"\xfemysql_native_password\0abcdefghijklmnopqrst\0");
    assert_eq!(switch.salt().as_ref(), Some(b"abcdefghijklmnopqrst"));
    assert_eq!(AuthSwitch::parse(b"\xfe").unwrap().plugin, "mysql_old_password");
    assert_eq!(AuthSwitch::parse(b"\xfex\0short").unwrap().salt(), None);
    assert!(AuthSwitch::parse(b"\xfex").is_err());
}

#[test]
fn a_short_change_of_user() {
    let caps = Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH;
    let change = ChangeUser::parse(b"\x11app\0\0shop\0", caps).unwrap();
    assert_eq!(
        (change.user.as_slice(), change.database.as_slice(), change.charset),
        (&b"app"[..], &b"shop"[..], None)
    );
}

#[test]
fn secrets_are_not_shown() {
    let login = LoginRequest::parse(&a_login()).unwrap();
    assert!(!format!("{login:?}").contains("7, 7"));
}

/// Bytes of a name: anything but NUL.
fn name() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(1u8.., 0..40)
}

fn plugin() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("[a-z_]{1,20}")
}

proptest! {
    #[test]
    fn greeting_round_trip(version in "[ -~]{0,40}", connection_id in any::<u32>(), salt in any::<[u8; 20]>(), caps in any::<u64>(),
                           charset in any::<u8>(), status in any::<u16>(), plugin in "[a-z_0-9]{0,30}") {
        let caps = Caps(caps) | Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH;
        let caps = Caps::of_halves(caps.lower(), caps.upper());
        let greeting = Greeting { version, connection_id, salt, caps, charset, status, plugin };
        prop_assert_eq!(Greeting::parse(&greeting.encode()).unwrap(), greeting);
    }

    #[test]
    fn login_round_trip(caps in any::<u64>(), max_packet in any::<u32>(), charset in any::<u16>(), user in name(),
                        auth in proptest::collection::vec(any::<u8>(), 0..300), database in proptest::option::of(name()),
                        plugin in plugin(), attrs in proptest::collection::vec(any::<u8>(), 0..300), zstd_level in any::<u8>()) {
        let zstd_level = if Caps(caps).has(Caps::ZSTD) { zstd_level } else { 0 };
        let login =
            LoginRequest { caps: Caps(caps), max_packet, charset, user, auth, database, plugin, attrs, zstd_level };
        let read = LoginRequest::parse(&login.encode()).unwrap();
        prop_assert_eq!(&read, &LoginRequest { caps: login.sent_caps(), ..login });
        prop_assert_eq!(read.sent_caps(), read.caps);
    }

    #[test]
    fn change_of_user_round_trip(user in name(), auth in proptest::collection::vec(any::<u8>(), 0..256), database in name(),
                                 charset in any::<u16>(), plugin in plugin(), attrs in proptest::collection::vec(any::<u8>(), 0..300)) {
        let caps = Caps::PROTOCOL_41 | Caps::SECURE_CONNECTION | Caps::PLUGIN_AUTH | Caps::CONNECT_ATTRS;
        let change = ChangeUser { user, auth, database, charset: Some(charset), plugin, attrs };
        prop_assert_eq!(ChangeUser::parse(&change.encode(caps), caps).unwrap(), change);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), caps in any::<u64>()) {
        let _ = Greeting::parse(&[&[10], &bytes[..]].concat());
        let _ = LoginRequest::parse(&bytes);
        let _ = AuthSwitch::parse(&[&[0xFE], &bytes[..]].concat());
        let _ = ChangeUser::parse(&[&[17], &bytes[..]].concat(), Caps(caps));
    }
}
