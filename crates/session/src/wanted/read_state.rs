//! The part of a session's settings that changes what its reads mean, as statements for another connection.
//!
//! Unlike [`Wanted::restore`] it is not complete: it contains only what is accepted by a guard that knows nothing of the session
//! ([`protocol::statement::read_state`]). Modes that change the tokens of a text are therefore left out; see [`Wanted::changes_tokens`].

use std::fmt::Write; // into a String it cannot fail

use protocol::statement::keeps_tokens;

use super::{CHARSETS, Wanted, is_led};
use crate::finished::ReadState;
use crate::value::is_number;

/// Included besides the character sets.
const OTHERS: [&str; 3] = ["sql_mode", "time_zone", "sql_select_limit"];
/// The modes that change the grammar.
const GRAMMARS: [&str; 6] = ["ORACLE", "MSSQL", "DB2", "MAXDB", "POSTGRESQL", "MYSQL323"];

impl Wanted {
    /// Grows whenever [`Wanted::read_state`] may have changed.
    pub fn read_state_number(&self) -> u64 {
        self.reports
    }

    /// The session's settings. `login_charset`: the number of the character set in its login; 0 for the server's default.
    pub fn read_state(&self, login_charset: u16) -> ReadState {
        let mut settings = vec![];
        match &self.names {
            Some((_, said)) => settings.push(said.clone()),
            // A login sets these, and no server reports that.
            None if login_charset != 0 => settings.push(format!(
                "SET character_set_client={login_charset},character_set_results={login_charset},\
                 character_set_connection={login_charset},collation_connection={login_charset}"
            )),
            None => {}
        }
        let names_at = self.names.as_ref().map_or(0, |(at, _)| *at);
        let mut later: Vec<_> = CHARSETS
            .iter()
            .filter_map(|name| self.variables.get(*name).map(|(at, value)| (*at, *name, value)))
            .filter(|(at, _, _)| *at > names_at)
            .collect();
        later.sort_unstable_by_key(|(at, name, _)| (is_led(name), *at));
        let mut set = String::from("SET ");
        for (_, name, value) in later {
            put(&mut set, name, value);
        }
        for name in OTHERS {
            match self.changed(name) {
                Some(modes) if name == "sql_mode" => put(&mut set, name, &usual(modes)),
                Some(value) => put(&mut set, name, value),
                None => {}
            }
        }
        if set.len() > "SET ".len() {
            settings.push(set);
        }
        settings.extend(self.user_variables.texts().map(str::to_owned));
        settings.retain(|text| protocol::statement::read_state(text.as_bytes()).is_some());
        ReadState { statements: settings }
    }

    /// How the session's `sql_mode` changes what a text means.
    pub fn changes_tokens(&self) -> Tokens {
        let mode = self.changed("sql_mode").unwrap_or_default();
        let mut words = mode.split(|byte| *byte == b',').map(|word| std::str::from_utf8(word).unwrap_or("?"));
        let mut tokens = Tokens::Usual;
        if words.clone().any(|word| GRAMMARS.iter().any(|known| known.eq_ignore_ascii_case(word))) {
            tokens = Tokens::AnotherGrammar;
        } else if words.any(|word| !keeps_tokens(word)) {
            tokens = Tokens::OtherQuotes;
        }
        tokens
    }
}

/// What a session's `sql_mode` changes about the tokens of its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// Nothing.
    Usual,
    /// Backslashes or double quotes have another meaning.
    OtherQuotes,
    /// The grammar differs.
    AnotherGrammar,
}

/// The modes without those that change tokens.
fn usual(modes: &[u8]) -> Vec<u8> {
    let words = modes.split(|byte| *byte == b',');
    let kept: Vec<&[u8]> = words.filter(|word| std::str::from_utf8(word).is_ok_and(keeps_tokens)).collect();
    kept.join(&b","[..])
}

/// Adds an assignment to a SET. A value that is neither a number nor plain text is left out.
fn put(set: &mut String, name: &str, value: &[u8]) {
    let is_plain = value.iter().all(|&c| c.is_ascii_graphic() && !matches!(c, b'\'' | b'\\' | b'"'));
    if !is_plain {
        return;
    }
    let comma = if set.ends_with(' ') { "" } else { "," };
    let text = String::from_utf8_lossy(value);
    let _ = match value {
        [] if name.starts_with("character_set_") => write!(set, "{comma}{name}=NULL"),
        number if is_number(number) => write!(set, "{comma}{name}={text}"),
        _ => write!(set, "{comma}{name}='{text}'"),
    };
}
