//! The settings that a server fixes for a statement when it prepares it: the default schema, and the variables that determine how the text
//! is parsed. The client may change them afterwards, and the statement keeps the old ones. On another node it must therefore be prepared
//! under the same settings.
//!
//! Which variables: those that MariaDB's and MySQL's parsers read (`sql_mode`, `old_mode`, the character sets and collation of the text and
//! its literals, `character_set_filesystem` for file names, `default_week_format`, which becomes an argument of WEEK()).

use std::fmt::Write; // into a String it cannot fail

use crate::value::put_value;

/// The variables that are fixed, in addition to [`CHARSETS`].
pub const BOUND: [&str; 4] = ["sql_mode", "old_mode", "character_set_filesystem", "default_week_format"];

/// The variables that SET NAMES sets. They are set together, since each may change another.
pub const CHARSETS: [&str; 4] =
    ["character_set_client", "character_set_results", "character_set_connection", "collation_connection"];

/// Asks for [`BOUND`] and [`CHARSETS`] as rows of name and value. A server leaves out those that it does not have.
pub const ASK: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN ('sql_mode','old_mode','character_set_filesystem',\
                       'default_week_format','character_set_client','character_set_results','character_set_connection',\
                       'collation_connection')";

/// Values in the order of [`BOUND`]; `None` for one that the session has not changed since its login.
type Values = [Option<Box<[u8]>>; BOUND.len()];

/// The values on a new link before the session is set up on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    values: Values,
    charsets: String,
}

impl Baseline {
    /// Made with a function that finds a variable by its name.
    pub fn of<'a>(value: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        let mut charsets = String::from("SET ");
        for name in CHARSETS {
            if let Some(value) = value(name) {
                put(&mut charsets, name, value);
            }
        }
        Self { values: BOUND.map(|name| value(name).map(Into::into)), charsets }
    }
}

/// The settings in force when a statement was prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The default schema, if there was one.
    pub schema: Option<Box<[u8]>>,
    values: Values,
    /// The statements that set the session's character sets on a new link; none if it has not changed them.
    charsets: Vec<String>,
}

/// What to send before and after a PREPARE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Before it.
    pub before: Vec<Say>,
    /// After it, whether it succeeded or not.
    pub after: Vec<Say>,
}

/// A command for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// A statement.
    Sql(String),
    /// COM_INIT_DB with this schema.
    Schema(Box<[u8]>),
}

impl Bound {
    /// The settings of a session with this schema, these changed variables, and these statements for its character sets.
    pub fn new<'a>(
        schema: Option<&[u8]>,
        changed: impl Fn(&str) -> Option<&'a [u8]>,
        charsets: Vec<String>,
    ) -> Self {
        Self {
            schema: schema.map(Into::into),
            values: BOUND.map(|name| changed(name).map(Into::into)),
            charsets,
        }
    }

    /// Whether a text means the same under `other`, apart from names without a schema.
    pub fn reads_as(&self, other: &Bound) -> bool {
        self.values == other.values && self.charsets == other.charsets
    }

    /// The statements that let a link with the settings `now` prepare a statement under these, and set it back to `now`. `None` when that
    /// is not possible: the link's values at its login are not known, or one of the two has no schema, since no statement removes a schema.
    pub fn around(&self, now: &Bound, baseline: Option<&Baseline>) -> Option<Around> {
        let mut around = Around::default();
        if self == now {
            return Some(around);
        }
        if self.schema != now.schema {
            around.before.push(Say::Schema(self.schema.clone()?));
            around.after.push(Say::Schema(now.schema.clone()?));
        }
        if self.charsets != now.charsets {
            let baseline = baseline?;
            for (from, say) in [(self, &mut around.before), (now, &mut around.after)] {
                // All character sets are set anew: a collation that was not named is the default of its character set.
                say.push(Say::Sql(baseline.charsets.clone()));
                say.extend(from.charsets.iter().cloned().map(Say::Sql));
            }
        }
        if self.values != now.values {
            let baseline = baseline?;
            around.before.push(Say::Sql(set(&self.values, &now.values, baseline)?));
            around.after.push(Say::Sql(set(&now.values, &self.values, baseline)?));
        }
        Some(around)
    }
}

/// A SET of those that differ.
fn set(to: &Values, from: &Values, baseline: &Baseline) -> Option<String> {
    let mut text = String::from("SET ");
    for (at, name) in BOUND.iter().enumerate() {
        if to[at] != from[at] {
            put(&mut text, name, to[at].as_deref().or(baseline.values[at].as_deref())?);
        }
    }
    Some(text)
}

/// Adds an assignment to a SET.
fn put(text: &mut String, name: &str, value: &[u8]) {
    let comma = if text.ends_with(' ') { "" } else { "," };
    let _ = write!(text, "{comma}`{name}`=");
    put_value(text, name, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(schema: &str, mode: Option<&str>, charsets: &[&str]) -> Bound {
        let value = |name: &str| mode.map(str::as_bytes).filter(|_| name == "sql_mode");
        Bound::new(Some(schema.as_bytes()), value, charsets.iter().map(ToString::to_string).collect())
    }

    fn baseline() -> Baseline {
        Baseline::of(|name| match name {
            "sql_mode" => Some(b"ANSI"),
            "default_week_format" => Some(b"0"),
            "old_mode" => None,
            _ => Some(b"latin1"),
        })
    }

    #[test]
    fn nothing_is_said_where_nothing_differs() {
        let same = bound("a", Some("ANSI"), &[]);
        assert_eq!(same.around(&same.clone(), None), Some(Around::default()));
    }

    #[test]
    fn a_schema_is_taken_and_given_back() {
        let around = bound("a", None, &[]).around(&bound("b", None, &[]), None).unwrap();
        assert_eq!(around.before, [Say::Schema(b"a"[..].into())]);
        assert_eq!(around.after, [Say::Schema(b"b"[..].into())]);
        let without = Bound::new(None, |_| None, vec![]);
        assert_eq!(without.around(&bound("b", None, &[]), None), None);
        assert_eq!(bound("a", None, &[]).around(&without, None), None);
    }

    #[test]
    fn a_variable_is_set_to_what_it_was_and_back_to_what_the_login_gave() {
        let around = bound("a", Some(""), &[]).around(&bound("a", None, &[]), Some(&baseline())).unwrap();
        assert_eq!(around.before, [Say::Sql("SET `sql_mode`=''".into())]);
        assert_eq!(around.after, [Say::Sql("SET `sql_mode`=_utf8mb4 0x414E5349".into())]);
        assert_eq!(bound("a", Some(""), &[]).around(&bound("a", None, &[]), None), None, "from what?");
    }

    #[test]
    fn character_sets_are_set_from_the_ground_up() {
        let ground = Say::Sql(
            "SET `character_set_client`=_utf8mb4 0x6C6174696E31,`character_set_results`=_utf8mb4 0x6C6174696E31,\
             `character_set_connection`=_utf8mb4 0x6C6174696E31,`collation_connection`=_utf8mb4 0x6C6174696E31"
                .into(),
        );
        let names = "SET NAMES utf8mb4 COLLATE utf8mb4_bin";
        let around = bound("a", None, &[]).around(&bound("a", None, &[names]), Some(&baseline())).unwrap();
        assert_eq!(around.before, std::slice::from_ref(&ground));
        assert_eq!(around.after, [ground, Say::Sql(names.into())]);
    }
}
