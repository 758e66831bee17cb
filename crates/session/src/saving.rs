//! State of a session that only its node knows, and that is read from it before a planned move: the values of user variables that were set
//! by expressions, the id of the last insert, the variables that code may have changed before it failed, and whether the session holds
//! locks.
//!
//! Enters: the node's answers as rows of text. Leaves: statements that set the same on another node. Where that is not certainly possible
//! (a name that is not ASCII, too many values), there are none, and the session stays tied to its node.
//!
//! The session itself may have a `sql_select_limit` of 0. Each question therefore has a LIMIT of its own, which takes precedence. (SET
//! STATEMENT would, too, but then the variables read are those of that statement.)
//!
//! MySQL does not tell a session the names of its own user variables, nor its locks by name: the manager's account asks for those
//! ([`of_thread`]). Its types are found by way of JSON. In return it reports each system variable that stored code sets, so those are not asked for.
//!
//! Each question is a statement of its own, after which the node no longer knows what an earlier statement left; see [`LOSES`]. Measured on
//! MariaDB 10.11.19 and MySQL 9.7.4: a variable set to its value as text has the same type, character set and collation, and a double has the
//! same value.

use std::fmt::Write; // into a String it cannot fail

use protocol::statement::Recalls;
use topology::flavor::Flavor;
use topology::replication::sql::NOTES_LOCKS;

use crate::value::{is_number, put_text};

/// The id of the last insert: one row, one column.
pub const INSERT_ID: &str = "SELECT LAST_INSERT_ID() LIMIT 1";

/// Name (as hexadecimal) and type of each user variable of the session. MariaDB has the table since 10.2; MySQL refuses.
pub const NAMES: &str = "SELECT HEX(VARIABLE_NAME), VARIABLE_TYPE FROM information_schema.USER_VARIABLES LIMIT 18446744073709551615";

/// The role in force.
pub const ROLE: &str = "SELECT CURRENT_ROLE() LIMIT 1";

/// How often the session created something that ties it to its node, also inside a procedure: two rows. MySQL counts temporary tables among all
/// tables.
pub fn ties(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::MariaDb => {
            "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.SESSION_STATUS \
             WHERE VARIABLE_NAME IN ('Com_create_temporary_table','Com_prepare_sql') LIMIT 18446744073709551615"
        }
        Flavor::MySql => "SHOW SESSION STATUS WHERE VARIABLE_NAME IN ('Com_create_table','Com_prepare_sql')",
    }
}

/// Whether the answer to [`ties`] says that there is nothing. `tables_made`: by statements of the session's own, none of them temporary.
pub fn has_no_ties<'a>(mut rows: impl ExactSizeIterator<Item = &'a Row>, tables_made: u64) -> bool {
    rows.len() == 2
        && rows.all(|row| {
            let [Some(name), Some(count)] = row else { return false };
            let harmless = if name == b"Com_create_table" { tables_made } else { 0 };
            count == harmless.to_string().as_bytes()
        })
}

/// How many named locks (GET_LOCK) the session holds: one row, one column. MariaDB reports them if its plugin metadata_lock_info is loaded;
/// without it the server refuses, and the number is unknown.
pub const LOCKS: &str = "SELECT COUNT(*) FROM information_schema.METADATA_LOCK_INFO \
    WHERE THREAD_ID = CONNECTION_ID() AND LOCK_TYPE = 'User lock' LIMIT 1";

/// MySQL: asks on another connection what a session of this connection id has ([`Seen`]): its thread and how many locks that last it holds (by name,
/// of the locking service, of HANDLER), if those are noted; then in each row the name of one user variable, as hexadecimal ("The user_variables_by_thread Table", "The metadata_locks Table").
pub fn of_thread(connection_id: u32) -> String {
    // Locks that the server has had no room to note are none that could be counted.
    format!(
        "SELECT t.THREAD_ID, NULL, (SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OWNER_THREAD_ID = PS_THREAD_ID({connection_id}) \
         AND (OBJECT_TYPE = 'USER LEVEL LOCK' OR LOCK_DURATION = 'EXPLICIT')) FROM performance_schema.threads t \
         WHERE t.THREAD_ID = PS_THREAD_ID({connection_id}) AND t.INSTRUMENTED = 'YES' \
         AND {NOTES_LOCKS} AND EXISTS(SELECT 1 FROM performance_schema.global_status \
         WHERE VARIABLE_NAME = 'Performance_schema_metadata_lock_lost' AND VARIABLE_VALUE = 0) \
         UNION ALL SELECT THREAD_ID, HEX(VARIABLE_NAME), 0 FROM performance_schema.user_variables_by_thread \
         WHERE THREAD_ID = PS_THREAD_ID({connection_id})"
    )
}

/// What the answer to [`of_thread`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Of its user variables.
    pub names: Vec<String>,
    /// Locks that it holds beyond a transaction.
    pub locks: u64,
}

impl Seen {
    /// `None`: the session was not seen, or has a variable that cannot be transferred.
    pub fn of<'a>(rows: impl ExactSizeIterator<Item = &'a Row>) -> Option<Self> {
        if rows.len() > VARIABLES_MAX {
            return None;
        }
        let (mut names, mut counted) = (Vec::new(), None);
        for row in rows {
            match row {
                [Some(_), None, Some(locks)] => counted = std::str::from_utf8(locks).ok()?.parse().ok(),
                [Some(_), Some(variable), _] => names.push(name_of(variable)?),
                _ => return None,
            }
        }
        Some(Self { names, locks: counted? })
    }

    /// MySQL: a statement that asks for the types of these variables, each in a column of one row. `None` when there are none.
    pub fn types(&self) -> Option<String> {
        let types: Vec<String> = self
            .names
            .iter()
            .map(|name| format!("JSON_TYPE(JSON_EXTRACT(JSON_ARRAY({}),'$[0]'))", quoted(name)))
            .collect();
        (!types.is_empty()).then(|| format!("SELECT {} LIMIT 1", types.join(",")))
    }

    /// The variables with the types in the answer to that; `None` when one of them cannot be transferred.
    pub fn variables(self, types: &Row) -> Option<Vec<Variable>> {
        if types.len() != self.names.len() {
            return None;
        }
        let both = self.names.into_iter().zip(types);
        both.map(|(name, kind)| Some(Variable { name, kind: ValueKind::of_json(kind.as_deref()?)? }))
            .collect()
    }
}

/// Asks for the variables whose values differ from those of a new session, by name and value, and for those of `names` in any case. MariaDB
/// has the table since 10.1; MySQL has reported them all, and is not asked. The character sets are left out: after a login with a character set other than the server's default, they
/// differ from the global values, and no SET has the same effect.
pub fn variables_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    // These follow other variables: they must be set even where they have their usual values again.
    let mut list = String::from("'sql_big_selects','collation_server'");
    for name in names {
        let _ = write!(list, ",'{}'", name.replace('\'', "''"));
    }
    format!(
        "SELECT LOWER(VARIABLE_NAME), SESSION_VALUE FROM information_schema.SYSTEM_VARIABLES \
         WHERE VARIABLE_SCOPE = 'SESSION' AND READ_ONLY = 'NO' AND VARIABLE_NAME NOT IN ('character_set_client','character_set_results',\
         'character_set_connection','collation_connection','character_set_database','collation_database') \
         AND (NOT (SESSION_VALUE <=> GLOBAL_VALUE) OR LOWER(VARIABLE_NAME) IN ({list})) \
         LIMIT 18446744073709551615"
    )
}

/// What the node does not know any more after it was asked.
pub const LOSES: Recalls =
    Recalls::ROW_COUNT.union(Recalls::FOUND_ROWS).union(Recalls::WARNINGS).union(Recalls::PROFILE);

/// The most that is transferred for one session, in bytes of SQL.
const BYTES_MAX: usize = 256 * 1024;
/// The most variables that are asked for.
const VARIABLES_MAX: usize = 512;

/// A row of a server's answer.
pub type Row = [Option<Vec<u8>>];

/// A user variable whose value is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    name: String,
    kind: ValueKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Integer,
    Unsigned,
    Decimal,
    Double,
    Text,
}

impl ValueKind {
    /// By the word that MySQL's JSON_TYPE has for it. NULL has none: it is set as a text's, which keeps its character set.
    fn of_json(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"INTEGER" => Self::Integer,
            b"UNSIGNED INTEGER" => Self::Unsigned,
            b"DECIMAL" => Self::Decimal,
            b"DOUBLE" => Self::Double,
            b"STRING" | b"BLOB" | b"NULL" => Self::Text,
            _ => return None,
        })
    }
}

/// A variable's name, from its hexadecimal form.
fn name_of(hex: &[u8]) -> Option<String> {
    String::from_utf8(unhex(hex)?).ok().filter(|name| name.is_ascii())
}

fn quoted(name: &str) -> String {
    format!("@`{}`", name.replace('`', "``"))
}

impl Variable {
    fn of(row: &Row) -> Option<Self> {
        let [Some(name), Some(kind)] = row else { return None };
        let name = name_of(name)?;
        let kind = match kind.as_slice() {
            b"INT" => ValueKind::Integer,
            b"INT UNSIGNED" => ValueKind::Unsigned,
            b"DECIMAL" => ValueKind::Decimal,
            b"DOUBLE" => ValueKind::Double,
            b"VARCHAR" => ValueKind::Text,
            _ => return None,
        };
        Some(Self { name, kind })
    }
}

/// The variables in the answer to [`NAMES`]; `None` when one of them cannot be transferred.
pub fn variables<'a>(rows: impl ExactSizeIterator<Item = &'a Row>) -> Option<Vec<Variable>> {
    if rows.len() > VARIABLES_MAX {
        return None;
    }
    rows.map(Variable::of).collect()
}

/// A statement that asks for their values: one row with three columns for each: value, character set, collation. `None` when there are none.
pub fn values(variables: &[Variable]) -> Option<String> {
    if variables.is_empty() {
        return None;
    }
    let mut text = String::from("SELECT ");
    for (at, variable) in variables.iter().enumerate() {
        let name = quoted(&variable.name);
        let comma = if at > 0 { "," } else { "" };
        let value = if variable.kind == ValueKind::Text { format!("HEX({name})") } else { name.clone() };
        let _ = write!(text, "{comma}{value},CHARSET({name}),COLLATION({name})");
    }
    text.push_str(" LIMIT 1");
    Some(text)
}

/// The statements that set the values in the answer to [`values`]; `None` when that is not possible, or there are too many.
pub fn texts(variables: &[Variable], row: &Row) -> Option<Vec<String>> {
    let mut text = String::from("SET ");
    for (at, variable) in variables.iter().enumerate() {
        let [value, charset, collation] = row.get(at * 3..at * 3 + 3)? else { return None };
        if at > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}=", quoted(&variable.name));
        match value {
            // It keeps its character set.
            None if variable.kind == ValueKind::Text && charset.as_deref() != Some(b"binary") => {
                put_null(&mut text, charset.as_deref()?, collation.as_deref()?)?;
            }
            None => text.push_str("NULL"),
            Some(value) => put(&mut text, variable.kind, value, charset.as_deref()?, collation.as_deref()?)?,
        }
        if text.len() > BYTES_MAX {
            return None;
        }
    }
    Some(if variables.is_empty() { vec![] } else { vec![text] })
}

/// The name of a character set or a collation, if it is one.
fn name(bytes: &[u8]) -> Option<&str> {
    let is_name = bytes.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_') && !bytes.is_empty();
    std::str::from_utf8(bytes).ok().filter(|_| is_name)
}

fn put_null(text: &mut String, charset: &[u8], collation: &[u8]) -> Option<()> {
    let _ = write!(text, "CONVERT(NULL USING {}) COLLATE {}", name(charset)?, name(collation)?);
    Some(())
}

fn put(text: &mut String, kind: ValueKind, value: &[u8], charset: &[u8], collation: &[u8]) -> Option<()> {
    if kind == ValueKind::Text {
        let (charset, collation) = (name(charset)?, name(collation)?);
        put_text(text, charset, &unhex(value)?);
        if charset != "binary" {
            let _ = write!(text, " COLLATE {collation}");
        }
        return Some(());
    }
    let number = std::str::from_utf8(value).ok()?;
    let is_double = !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit() || b"+-.e".contains(&c));
    match kind {
        ValueKind::Double if is_double && number.contains('e') => text.push_str(number),
        ValueKind::Double if is_double => _ = write!(text, "{number}e0"),
        _ if !is_number(value) => return None,
        ValueKind::Unsigned => _ = write!(text, "CAST({number} AS UNSIGNED)"),
        ValueKind::Decimal if !number.contains('.') => _ = write!(text, "CAST({number} AS DECIMAL(65,0))"),
        _ => text.push_str(number),
    }
    Some(())
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&str>]) -> Vec<Option<Vec<u8>>> {
        values.iter().map(|value| value.map(|value| value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn each_kind_comes_back_as_it_was() {
        let said =
            [("61", "INT"), ("62", "INT UNSIGNED"), ("63", "DECIMAL"), ("64", "DOUBLE"), ("6560", "VARCHAR")];
        let rows: Vec<_> = said.iter().map(|(name, kind)| row(&[Some(name), Some(kind)])).collect();
        let variables = variables(rows.iter().map(Vec::as_slice)).unwrap();
        let question = values(&variables).unwrap();
        assert!(question.starts_with("SELECT @`a`,CHARSET(@`a`),COLLATION(@`a`),@`b`"), "{question}");
        assert!(question.contains("HEX(@`e```)"), "{question}");
        let answer = row(&[
            Some("-5"),
            Some("latin1"),
            Some("binary"),
            Some("18446744073709551615"),
            Some("latin1"),
            Some("binary"),
            Some("7"),
            Some("latin1"),
            Some("binary"),
            Some("0.5"),
            Some("latin1"),
            Some("binary"),
            Some("E9"),
            Some("latin1"),
            Some("latin1_bin"),
        ]);
        let expect = "SET @`a`=-5,@`b`=CAST(18446744073709551615 AS UNSIGNED),@`c`=CAST(7 AS DECIMAL(65,0)),@`d`=0.5e0,\
                      @`e```=_latin1 0xE9 COLLATE latin1_bin";
        assert_eq!(texts(&variables, &answer), Some(vec![expect.to_owned()]));
        let mut null = answer;
        null[12] = None;
        assert!(
            texts(&variables, &null).unwrap()[0]
                .ends_with("@`e```=CONVERT(NULL USING latin1) COLLATE latin1_bin")
        );
        null[0] = Some(b"1;DROP".to_vec());
        assert_eq!(texts(&variables, &null), None);
    }

    #[test]
    fn what_mysql_shows_of_a_session() {
        let seen = |rows: &[&[Option<&str>]]| {
            let rows: Vec<_> = rows.iter().map(|values| row(values)).collect();
            Seen::of(rows.iter().map(Vec::as_slice))
        };
        assert_eq!(seen(&[]), None, "the session is not observed");
        let locks = |count| [Some("57"), None, Some(count)];
        let named = |name| [Some("57"), Some(name), Some("0")];
        assert_eq!(seen(&[&locks("0"), &named("C3A9")]), None, "a name in another character set");
        assert_eq!(seen(&[&named("61")]), None, "its locks are not noted");
        assert_eq!(seen(&[&locks("2")]), Some(Seen { names: vec![], locks: 2 }));
        let two = seen(&[&locks("0"), &named("61"), &named("6260")]).unwrap();
        let types = two.types().unwrap();
        assert_eq!(types.matches("JSON_TYPE").count(), 2);
        assert!(types.contains("(@`b```)") && types.ends_with(" LIMIT 1"), "{types}");
        let of = |kinds: &[Option<&str>]| two.clone().variables(&row(kinds));
        assert_eq!(of(&[Some("INTEGER")]), None);
        assert_eq!(of(&[Some("INTEGER"), Some("OPAQUE")]), None);
        let kinds: Vec<_> =
            of(&[Some("DOUBLE"), Some("NULL")]).unwrap().into_iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [ValueKind::Double, ValueKind::Text]);
        let counted = |tables: &str, prepared: &str| {
            [row(&[Some("Com_create_table"), Some(tables)]), row(&[Some("Com_prepare_sql"), Some(prepared)])]
        };
        let has_none =
            |rows: &[Vec<Option<Vec<u8>>>], made| has_no_ties(rows.iter().map(Vec::as_slice), made);
        assert!(has_none(&counted("0", "0"), 0) && has_none(&counted("2", "0"), 2));
        assert!(!has_none(&counted("1", "0"), 0), "stored code has made it, and it may be temporary");
        assert!(!has_none(&counted("3", "0"), 2) && !has_none(&counted("0", "1"), 1));
        assert!(!has_none(&counted("1", "0"), 2), "the server has begun to count anew");
        assert!(!has_none(&counted("0", "0")[..1], 0), "the session's own limit left one out");
    }

    #[test]
    fn what_cannot_be_said_for_certain_is_not_said() {
        let refused = |name: &str, kind: &str| {
            let row = row(&[Some(name), Some(kind)]);
            variables([row.as_slice()].into_iter())
        };
        assert_eq!(refused("C3A9", "INT"), None, "a name that another character set would read otherwise");
        assert_eq!(refused("61", "GEOMETRY"), None);
        assert_eq!(refused("6", "INT"), None);
        assert_eq!(values(&[]), None);
        assert_eq!(texts(&[], &[]), Some(vec![]));
    }
}
