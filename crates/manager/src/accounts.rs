//! Converts the server's account table to [`Account`]s. It contains no passwords, only what the server stores, SHA1(SHA1(password)).

use link::Rows;
use topology::account::{Account, Proof};
use topology::flavor::Flavor;

const NATIVE: &str = "mysql_native_password";

/// The accounts in the answer to [`Flavor::accounts`]; roles and invalid rows are left out.
pub(crate) fn read(flavor: Flavor, rows: &Rows) -> Vec<Account> {
    (0..rows.len())
        .filter_map(|row| match flavor {
            Flavor::MariaDb => global_priv(rows.text(row, 0)?, rows.text(row, 1)?, rows.text(row, 2)?),
            Flavor::MySql => Some(Account {
                user: rows.text(row, 0)?.into(),
                host: rows.text(row, 1)?.into(),
                proof: proof(rows.text(row, 2)?, rows.text(row, 3).unwrap_or("")),
                locked: rows.text(row, 4) == Some("Y"),
            }),
        })
        .collect()
}

/// One row of mysql.global_priv. An account may have several plugins (`auth_or`): the first one that is supported is used.
fn global_priv(user: &str, host: &str, document: &str) -> Option<Account> {
    let document: serde_json::Value = serde_json::from_str(document).ok()?;
    let flag = |name: &str| document.get(name).and_then(serde_json::Value::as_bool).unwrap_or(false);
    if flag("is_role") {
        return None;
    }
    let one = |way: &serde_json::Value| -> Option<Proof> {
        let text = |name: &str| way.get(name).and_then(serde_json::Value::as_str);
        Some(proof(text("plugin").unwrap_or(NATIVE), text("authentication_string").unwrap_or("")))
    };
    // The last plugin is at the top level; an empty object in `auth_or` stands for it.
    let top = one(&document);
    let ways: Vec<Proof> = match document.get("auth_or").and_then(serde_json::Value::as_array) {
        Some(ways) => ways
            .iter()
            .filter_map(|way| if way.get("plugin").is_some() { one(way) } else { top.clone() })
            .collect(),
        None => top.into_iter().collect(),
    };
    let spoken = ways.iter().find(|way| !matches!(way, Proof::Other(_)));
    let proof = spoken.or(ways.first())?.clone();
    Some(Account { user: user.into(), host: host.into(), proof, locked: flag("account_locked") })
}

fn proof(plugin: &str, stored: &str) -> Proof {
    if !plugin.is_empty() && plugin != NATIVE {
        return Proof::Other(plugin.into());
    }
    if stored.is_empty() {
        return Proof::Empty;
    }
    match protocol::auth::native::parse_stored(stored) {
        Some(hash) => Proof::Native(hash),
        // "invalid" and the like: an account without a usable password.
        None => Proof::Other(format!("{NATIVE} with an invalid hash")),
    }
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
        assert!(matches!(native.unwrap().proof, Proof::Native(_)));
        assert_eq!(one(r#"{"access":0}"#).unwrap().proof, Proof::Empty);
        assert_eq!(
            one(r#"{"plugin":"ed25519","authentication_string":"x"}"#).unwrap().proof,
            Proof::Other("ed25519".into())
        );
        assert!(one(r#"{"is_role":true}"#).is_none());
        assert!(one("not json").is_none());
        assert!(one(r#"{"account_locked":true}"#).unwrap().locked);
    }

    #[test]
    fn of_several_ways_the_one_we_speak_is_taken() {
        let root = one(&format!(
            r#"{{"plugin":"mysql_native_password","authentication_string":"{HASH}","auth_or":[{{"plugin":"unix_socket"}},{{}}]}}"#
        ));
        assert!(matches!(root.unwrap().proof, Proof::Native(_)));
        let invalid = one(
            r#"{"plugin":"mysql_native_password","authentication_string":"invalid","auth_or":[{},{"plugin":"unix_socket"}]}"#,
        );
        assert!(matches!(invalid.unwrap().proof, Proof::Other(_)));
    }
}
