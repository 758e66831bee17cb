//! What a server fixes when it prepares a statement: the schema that names without one mean, and the variables that decide how the text is
//! read. The client may change them afterwards; the statement keeps them. So it must be prepared elsewhere under the same ones.
//!
//! Which variables: those that MariaDB's and MySQL's parsers read (`sql_mode`, `old_mode`, the character sets and collation of the text and
//! its literals, `character_set_filesystem` for file names, `default_week_format`, which becomes an argument of WEEK()).

use std::fmt::Write; // into a String it cannot fail

use crate::value::put_value;

/// The variables that are fixed, besides [`CHARSETS`].
pub const BOUND: [&str; 4] = ["sql_mode", "old_mode", "character_set_filesystem", "default_week_format"];

/// The variables that SET NAMES sets. They go together: each may change another.
pub const CHARSETS: [&str; 4] =
    ["character_set_client", "character_set_results", "character_set_connection", "collation_connection"];

/// Asks for [`BOUND`] and [`CHARSETS`] as rows of name and value; a server that lacks one of them simply does not say it.
pub const ASK: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN ('sql_mode','old_mode','character_set_filesystem',\
                       'default_week_format','character_set_client','character_set_results','character_set_connection',\
                       'collation_connection')";

/// Values in the order of [`BOUND`]; `None` for one that the session has not changed since its login.
type Values = [Option<Box<[u8]>>; BOUND.len()];

/// What a fresh link has before the session is set up on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    values: Values,
    charsets: String,
}

impl Baseline {
    /// From a way to look a variable up by its name.
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

/// What was in force when a statement was prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The default schema, if there was one.
    pub schema: Option<Box<[u8]>>,
    values: Values,
    /// What makes the character sets of a fresh link the session's; none when it has not changed them.
    charsets: Vec<String>,
}

/// What to say around a PREPARE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Before it.
    pub before: Vec<Say>,
    /// After it, whether it went well or not.
    pub after: Vec<Say>,
}

/// One thing to say to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// A statement.
    Sql(String),
    /// COM_INIT_DB with this schema.
    Schema(Box<[u8]>),
}

impl Bound {
    /// What is in force in a session with this schema, these changed variables, and what sets its character sets.
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

    /// Whether a text means the same under `other`, but for the names that stand without a schema.
    pub fn reads_as(&self, other: &Bound) -> bool {
        self.values == other.values && self.charsets == other.charsets
    }

    /// What makes a link that stands under `now` prepare under this, and stand under `now` again. `None` when that cannot be said: the
    /// link's values at its login are not known, or one of the two has no schema, which no statement takes away.
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
                // From the ground up: a collation that nobody told is that of its character set.
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

/// SET of those that differ.
fn set(to: &Values, from: &Values, baseline: &Baseline) -> Option<String> {
    let mut text = String::from("SET ");
    for (at, name) in BOUND.iter().enumerate() {
        if to[at] != from[at] {
            put(&mut text, name, to[at].as_deref().or(baseline.values[at].as_deref())?);
        }
    }
    Some(text)
}

/// Adds one to a SET.
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
