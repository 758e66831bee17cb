//! Converts the server's account table to [`Account`]s. It contains no passwords, only what the server stores: sums of them, and public keys.

use link::Rows;
use protocol::auth::{caching_sha2, clear, ed25519, native, parsec, stored_sha2};
use serde_json::Value;
use topology::account::{Account, Proof, Requirement};
use topology::flavor::Flavor;

/// The accounts in the answer to [`Flavor::accounts`]; roles and invalid rows are left out.
pub(crate) fn read(flavor: Flavor, rows: &Rows) -> Vec<Account> {
    (0..rows.len())
        .filter_map(|row| match flavor {
            Flavor::MariaDb => global_priv(rows.text(row, 0)?, rows.text(row, 1)?, rows.text(row, 2)?),
            Flavor::MySql => Some(Account {
                user: rows.text(row, 0)?.into(),
                host: rows.text(row, 1)?.into(),
                proofs: mysql(rows.text(row, 2)?, rows.text(row, 3).unwrap_or(""), rows.text(row, 5)),
                locked: rows.text(row, 4) == Some("Y"),
                requires: match rows.text(row, 6).unwrap_or("") {
                    "" => Requirement::Nothing,
                    "ANY" => Requirement::Tls,
                    "X509" => Requirement::Certificate,
                    _ => Requirement::Particular,
                },
            }),
        })
        .collect()
}

/// How an account of MySQL's family may prove itself. Its attributes have a second password (`RETAIN CURRENT PASSWORD`) and further factors.
fn mysql(plugin: &str, stored: &str, attributes: Option<&str>) -> Vec<Proof> {
    let attributes: Value =
        attributes.and_then(|document| serde_json::from_str(document).ok()).unwrap_or(Value::Null);
    if attributes.get("multi_factor_authentication").is_some() {
        return vec![Proof::Other("more than one factor".into())];
    }
    let second = attributes.get("additional_password").and_then(Value::as_str);
    std::iter::once(stored).chain(second).map(|stored| proof(plugin, stored)).collect()
}

/// One row of mysql.global_priv. An account may have several plugins (`auth_or`), each of which is enough.
fn global_priv(user: &str, host: &str, document: &str) -> Option<Account> {
    let document: Value = serde_json::from_str(document).ok()?;
    let flag = |name: &str| document.get(name).and_then(Value::as_bool).unwrap_or(false);
    if flag("is_role") {
        return None;
    }
    let one = |way: &Value| {
        let text = |name: &str| way.get(name).and_then(Value::as_str);
        proof(text("plugin").unwrap_or(native::PLUGIN), text("authentication_string").unwrap_or(""))
    };
    // The last plugin is at the top level; an empty object in `auth_or` stands for it.
    let top = one(&document);
    let proofs = match document.get("auth_or").and_then(Value::as_array) {
        Some(ways) => {
            ways.iter().map(|way| if way.get("plugin").is_some() { one(way) } else { top.clone() }).collect()
        }
        None => vec![top],
    };
    // SSL_type of MariaDB's sql_acl.h.
    let requires = match document.get("ssl_type").and_then(Value::as_u64).unwrap_or(0) {
        0 => Requirement::Nothing,
        1 => Requirement::Tls,
        2 => Requirement::Certificate,
        _ => Requirement::Particular,
    };
    Some(Account { user: user.into(), host: host.into(), proofs, locked: flag("account_locked"), requires })
}

fn proof(plugin: &str, stored: &str) -> Proof {
    let read = match plugin {
        "" | native::PLUGIN | caching_sha2::PLUGIN | clear::SHA256 if stored.is_empty() => Some(Proof::Empty),
        "" | native::PLUGIN => native::parse_stored(stored).map(Proof::Native),
        caching_sha2::PLUGIN => stored_sha2::Stored::parse(stored).map(Proof::CachingSha2),
        clear::SHA256 => stored_sha2::Stored::parse_sha256(stored).map(Proof::Sha256),
        ed25519::STORED_AS => ed25519::parse_stored(stored).map(Proof::Ed25519),
        parsec::PLUGIN => parsec::Stored::parse(stored).map(Proof::Parsec),
        clear::PAM => Some(Proof::Clear),
        _ => return Proof::Other(plugin.into()),
    };
    // "invalid" and the like: an account without a usable password. Or a newer form of MySQL's.
    read.unwrap_or_else(|| Proof::Other(format!("{plugin} with a hash of another form than is known here")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9";

    fn one(document: &str) -> Option<Account> {
        global_priv("app", "%", document)
    }

    #[test]
    fn the_ways_in_are_told_apart() {
        let native = one(&format!(
            r#"{{"access":0,"plugin":"mysql_native_password","authentication_string":"{HASH}"}}"#
        ));
        assert!(matches!(native.unwrap().proofs[..], [Proof::Native(_)]));
        assert_eq!(one(r#"{"access":0}"#).unwrap().proofs, [Proof::Empty]);
        let key = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
        let signs = one(&format!(r#"{{"plugin":"ed25519","authentication_string":"{key}"}}"#)).unwrap();
        assert_eq!(signs.proofs, [Proof::Ed25519(ed25519::public_key(b"secret"))]);
        let stored = "P0:hzl8y5LwfaCUM2Qh37NzvtSj:+jbn8DqgECNC12jUjSai2ZXNKU69hTFOMJohCaRCCnE";
        let signs = one(&format!(r#"{{"plugin":"parsec","authentication_string":"{stored}"}}"#)).unwrap();
        assert_eq!(signs.proofs, [Proof::Parsec(parsec::Stored::parse(stored).unwrap())]);
        let pam = one(r#"{"plugin":"pam","authentication_string":"mariadb"}"#).unwrap();
        assert_eq!(pam.proofs, [Proof::Clear]);
        for other in [
            r#"{"plugin":"ed25519","authentication_string":"x"}"#,
            r#"{"plugin":"caching_sha2_password","authentication_string":"$B$x"}"#,
            r#"{"plugin":"parsec","authentication_string":"x"}"#,
            r#"{"plugin":"gssapi","authentication_string":"x"}"#,
        ] {
            assert!(matches!(one(other).unwrap().proofs[..], [Proof::Other(_)]), "{other}");
        }
        assert!(one(r#"{"is_role":true}"#).is_none());
        assert!(one("not json").is_none());
        assert!(one(r#"{"account_locked":true}"#).unwrap().locked);
    }

    #[test]
    fn all_of_several_ways_are_kept() {
        let root = one(&format!(
            r#"{{"plugin":"mysql_native_password","authentication_string":"{HASH}","auth_or":[{{"plugin":"unix_socket"}},{{}}]}}"#
        ));
        assert!(matches!(root.unwrap().proofs[..], [Proof::Other(_), Proof::Native(_)]));
        let invalid = one(
            r#"{"plugin":"mysql_native_password","authentication_string":"invalid","auth_or":[{},{"plugin":"unix_socket"}]}"#,
        );
        assert!(matches!(invalid.unwrap().proofs[..], [Proof::Other(_), Proof::Other(_)]));
    }

    #[test]
    fn accounts_of_mysql() {
        let stored = format!("$A$005${}{}", "s".repeat(20), ".".repeat(43));
        let of = |stored: &str, attributes| mysql("caching_sha2_password", stored, attributes);
        let sha2 = Proof::CachingSha2(stored_sha2::Stored::parse(&stored).unwrap());
        assert_eq!(of(&stored, None), std::slice::from_ref(&sha2));
        assert_eq!(of("", None), [Proof::Empty]);
        let second = format!(r#"{{"additional_password": "{}"}}"#, stored.replace("005", "006"));
        let both = of(&stored, Some(&second));
        assert!(both.len() == 2 && both[0] == sha2 && both[1] != sha2);
        let stored = format!("$5${}${}", "s".repeat(20), ".".repeat(43));
        assert!(matches!(mysql("sha256_password", &stored, None)[..], [Proof::Sha256(_)]));
        assert_eq!(mysql("sha256_password", "", None), [Proof::Empty]);
        assert!(matches!(mysql("sha256_password", &stored[1..], None)[..], [Proof::Other(_)]));
        let factors = r#"{"multi_factor_authentication": [{"plugin": "authentication_ldap_simple"}]}"#;
        assert!(matches!(of(&stored, Some(factors))[..], [Proof::Other(_)]));
    }
}
