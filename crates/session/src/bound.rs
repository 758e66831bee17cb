//! What a server fixes when it prepares a statement: the schema that names without one mean, and the variables that decide how the text is
//! read. The client may change them afterwards; the statement keeps them. So it must be prepared elsewhere under the same ones.
//!
//! Which variables: those that MariaDB's and MySQL's parsers read (`sql_mode`, `old_mode`, the character sets and collation of the text and
//! its literals, `character_set_filesystem` for file names, `default_week_format`, which becomes an argument of WEEK()).

use std::fmt::Write; // into a String it cannot fail

use crate::value::put_value;

/// The variables that are fixed.
pub const BOUND: [&str; 7] = [
    "sql_mode",
    "old_mode",
    "character_set_client",
    "character_set_connection",
    "collation_connection",
    "character_set_filesystem",
    "default_week_format",
];

/// Asks for [`BOUND`] as rows of name and value; a server that lacks one of them simply does not say it.
pub const ASK: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN ('sql_mode','old_mode','character_set_client',\
                       'character_set_connection','collation_connection','character_set_filesystem','default_week_format')";

/// Values in the order of [`BOUND`]; `None` for one that the session has not changed since its login.
type Values = [Option<Box<[u8]>>; BOUND.len()];

/// What a fresh link has before the session is set up on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(Values);

impl Baseline {
    /// From a way to look a variable up by its name.
    pub fn of<'a>(value: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        Self(BOUND.map(|name| value(name).map(Into::into)))
    }
}

/// What was in force when a statement was prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The default schema, if there was one.
    pub schema: Option<Box<[u8]>>,
    values: Values,
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
    /// What is in force in a session with this schema and these changed variables.
    pub fn new<'a>(schema: Option<&[u8]>, changed: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        Self { schema: schema.map(Into::into), values: BOUND.map(|name| changed(name).map(Into::into)) }
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
        if self.values != now.values {
            let baseline = baseline?;
            around.before.push(Say::Sql(set(&self.values, &now.values, baseline)?));
            around.after.push(Say::Sql(set(&now.values, &self.values, baseline)?));
        }
        Some(around)
    }
}

/// SET of those that differ. A collation is set behind its character set, which would set it to another.
fn set(to: &Values, from: &Values, baseline: &Baseline) -> Option<String> {
    let mut text = String::from("SET ");
    let charset_differs = (2..=4).any(|at| to[at] != from[at]);
    for (at, name) in BOUND.iter().enumerate() {
        // The three of the connection go together: each may change another.
        let needed = to[at] != from[at] || (charset_differs && (2..=4).contains(&at));
        let value = to[at].as_deref().or(baseline.0[at].as_deref());
        match value {
            Some(value) if needed => {
                if text.len() > 4 {
                    text.push(',');
                }
                let _ = write!(text, "`{name}`=");
                put_value(&mut text, name, value);
            }
            None if to[at] != from[at] => return None,
            _ => {}
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(schema: &str, mode: Option<&str>, collation: Option<&str>) -> Bound {
        Bound::new(Some(schema.as_bytes()), |name| match name {
            "sql_mode" => mode.map(str::as_bytes),
            "collation_connection" => collation.map(str::as_bytes),
            _ => None,
        })
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
        let same = bound("a", Some("ANSI"), None);
        assert_eq!(same.around(&same.clone(), None), Some(Around::default()));
    }

    #[test]
    fn a_schema_is_taken_and_given_back() {
        let around = bound("a", None, None).around(&bound("b", None, None), None).unwrap();
        assert_eq!(around.before, [Say::Schema(b"a"[..].into())]);
        assert_eq!(around.after, [Say::Schema(b"b"[..].into())]);
        let without = Bound::new(None, |_| None);
        assert_eq!(without.around(&bound("b", None, None), None), None);
        assert_eq!(bound("a", None, None).around(&without, None), None);
    }

    #[test]
    fn a_variable_is_set_to_what_it_was_and_back_to_what_the_login_gave() {
        let around = bound("a", Some(""), None).around(&bound("a", None, None), Some(&baseline())).unwrap();
        assert_eq!(around.before, [Say::Sql("SET `sql_mode`=''".into())]);
        assert_eq!(around.after, [Say::Sql("SET `sql_mode`=_utf8mb4 0x414E5349".into())]);
        assert_eq!(bound("a", Some(""), None).around(&bound("a", None, None), None), None, "from what?");
    }

    #[test]
    fn the_three_of_the_connection_go_together() {
        let around =
            bound("a", None, Some("latin1_bin")).around(&bound("a", None, None), Some(&baseline())).unwrap();
        let Say::Sql(text) = &around.before[0] else { panic!("{around:?}") };
        let order: Vec<_> = ["character_set_client", "character_set_connection", "collation_connection"]
            .iter()
            .map(|name| text.find(name))
            .collect();
        assert!(order.is_sorted() && order[0].is_some(), "{text}");
    }
}
