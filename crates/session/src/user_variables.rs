//! The statements by which a session set user variables, to be repeated on another node.
//!
//! Invariant: repeated in order, they give the variables the session's values, except for variables that were set in other ways since
//! (which tie the session to its node).

use protocol::statement::assigned_user_variables;

/// How many statements are kept, and how many bytes of them.
pub(crate) const TEXTS_MAX: usize = 128;
const BYTES_MAX: usize = 64 * 1024;

/// The statements that are kept. See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct UserVariables(Vec<SetStatement>);

#[derive(Debug)]
struct SetStatement {
    text: String,
    /// The variables that it sets; `None` where their names are not known for certain.
    names: Option<Vec<String>>,
}

impl SetStatement {
    /// Whether everything that this statement set is set again by `later`.
    fn is_overruled_by(&self, later: &SetStatement) -> bool {
        match (&self.names, &later.names) {
            (Some(own), Some(others)) => own.iter().all(|name| others.contains(name)),
            _ => self.text == later.text,
        }
    }
}

/// Whether a text of plain values contains `''` as a whole literal, and not as a quote within one.
fn has_empty_string(text: &str) -> bool {
    // Every second piece is within quotes; an empty one between two of these is a doubled quote, where one literal goes on.
    let pieces: Vec<_> = text.split('\'').collect();
    (1..pieces.len()).step_by(2).any(|at| {
        let goes_on = pieces.get(at + 1).is_some_and(|next| next.is_empty()) && at + 2 < pieces.len();
        pieces[at].is_empty() && !pieces[at - 1].is_empty() && !goes_on
    })
}

impl UserVariables {
    /// The statements that were made from a node's answer, without a limit.
    pub(crate) fn read(texts: Vec<String>) -> Self {
        Self(texts.into_iter().map(|text| SetStatement { text, names: None }).collect())
    }

    /// Keeps a statement that sets user variables to plain values, and drops those that set no other variables. False when there is no more room.
    pub(crate) fn keep(&mut self, text: &str) -> bool {
        let said = SetStatement { text: text.to_owned(), names: assigned_user_variables(text.as_bytes(), 0) };
        self.0.retain(|known| !known.is_overruled_by(&said));
        // What was read from a node is one text of any size.
        let of_client = self.0.iter().filter(|known| known.names.is_some());
        let used: usize = of_client.map(|known| known.text.len()).sum();
        let has_room = self.0.len() < TEXTS_MAX && used + text.len() <= BYTES_MAX;
        if has_room {
            self.0.push(said);
        }
        has_room
    }

    /// Whether they contain strings, which another character set would change.
    pub(crate) fn have_strings(&self) -> bool {
        self.0.iter().any(|known| known.text.contains('\''))
    }

    /// Whether one of these is empty.
    pub(crate) fn have_empty_strings(&self) -> bool {
        self.0.iter().any(|known| has_empty_string(&known.text))
    }

    /// In the order in which they are to be sent.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|known| known.text.as_str())
    }
}
