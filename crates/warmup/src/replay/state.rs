//! What recorded sessions had set, as far as it decides how their reads are meant, and how a session of ours gets the same.
//!
//! The state goes along with each statement, so that a session may serve several recorded ones, or be connected anew. Only texts that the guard
//! let through as [`super::guard::Verdict::State`] come here.

use std::sync::Arc;
use std::time::Duration;

use link::{Link, LinkError};
use protocol::statement::assigned_user_variables;

use crate::recent::Recent;

/// Connections whose state is known, at most twice so many.
const CONNECTIONS_MAX: usize = 32 << 10;
/// Texts of one connection.
const TEXTS_MAX: usize = 32;

/// Everything that may differ from what a session has at its login.
const RESET: &str = "SET sql_mode='',autocommit=1,time_zone=DEFAULT,sql_select_limit=DEFAULT,character_set_client=DEFAULT,\
                     character_set_results=DEFAULT,character_set_connection=DEFAULT,collation_connection=DEFAULT";

/// Texts in the order in which they were said.
pub(super) type Texts = Arc<Vec<Box<[u8]>>>;

/// What each connection of a log has set.
#[derive(Debug)]
pub(super) struct States(Recent<u64, Texts>);

impl States {
    pub(super) fn new() -> Self {
        Self(Recent::new(CONNECTIONS_MAX))
    }

    /// The connection has said this.
    pub(super) fn said(&mut self, connection: u64, sql: &[u8]) {
        if self.0.get(connection).is_none() {
            self.0.insert(connection, Texts::default());
        }
        if let Some(texts) = self.0.get(connection) {
            let texts = Arc::make_mut(texts);
            // Said again, only the last time counts.
            texts.retain(|known| **known != *sql);
            if texts.len() >= TEXTS_MAX {
                texts.remove(0);
            }
            texts.push(sql.into());
        }
    }

    /// What it has said by now.
    pub(super) fn of(&mut self, connection: u64) -> Texts {
        self.0.get(connection).cloned().unwrap_or_default()
    }
}

/// Makes a session that has said `has` one that has said `wanted`. What the server refuses, it most likely refused where it was recorded, too:
/// told to `refused`, and passed over.
pub(crate) async fn apply<T: AsRef<[u8]>, U: AsRef<[u8]>>(
    link: &mut Link,
    has: &[T],
    wanted: &[U],
    limit: Duration,
    mut refused: impl FnMut(&LinkError),
) -> Result<(), LinkError> {
    let is_begun = has.len() <= wanted.len()
        && has.iter().zip(wanted).all(|(has, wanted)| has.as_ref() == wanted.as_ref());
    let mut texts: Vec<Vec<u8>> = vec![];
    if !is_begun {
        texts.push(RESET.into());
        let names = has.iter().filter_map(|text| assigned_user_variables(text.as_ref(), 0)).flatten();
        texts.extend(names.map(|name| format!("SET @`{name}`=NULL").into_bytes()));
    }
    let from = if is_begun { has.len() } else { 0 };
    texts.extend(wanted[from..].iter().map(|text| text.as_ref().to_vec()));
    for text in texts {
        match link.count_rows(&text, limit).await {
            Ok(_) => {}
            Err(error @ LinkError::Rejected { .. }) => refused(&error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let mut states = States::new();
        for sql in ["SET @a=1", "SET @a=2", "SET @a=1"] {
            states.said(7, sql.as_bytes());
        }
        let texts: Vec<_> =
            states.of(7).iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
        assert_eq!(texts, ["SET @a=2", "SET @a=1"]);
        assert!(states.of(8).is_empty());
        for number in 0..100 {
            states.said(7, format!("SET @a={number}").as_bytes());
        }
        assert_eq!(states.of(7).len(), TEXTS_MAX);
    }
}
