//! The statements by which a session set user variables, to be said again on another node.
//!
//! Invariant: said in turn, they leave the variables as the session has them, but for those that were set in other ways since (which pin).

use protocol::statement::assigned_user_variables;

/// As many statements are kept, and so many bytes of them.
pub(crate) const TEXTS_MAX: usize = 128;
const BYTES_MAX: usize = 64 * 1024;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct UserVariables(Vec<Said>);

#[derive(Debug)]
struct Said {
    text: String,
    /// The variables that it sets; `None` where their names are not known for certain.
    names: Option<Vec<String>>,
}

impl Said {
    /// Whether nothing is left of what this one set, once `later` has been said.
    fn is_overruled_by(&self, later: &Said) -> bool {
        match (&self.names, &later.names) {
            (Some(own), Some(others)) => own.iter().all(|name| others.contains(name)),
            _ => self.text == later.text,
        }
    }
}

impl UserVariables {
    /// What was read from a node, as statements: as much as there is.
    pub(crate) fn read(texts: Vec<String>) -> Self {
        Self(texts.into_iter().map(|text| Said { text, names: None }).collect())
    }

    /// Keeps a text that sets user variables to plain values, in place of those that set no others; false when there is no more room.
    pub(crate) fn keep(&mut self, text: &str) -> bool {
        let said = Said { text: text.to_owned(), names: assigned_user_variables(text.as_bytes(), 0) };
        self.0.retain(|known| !known.is_overruled_by(&said));
        // What was read from a node is one text, as large as it is.
        let of_client = self.0.iter().filter(|known| known.names.is_some());
        let used: usize = of_client.map(|known| known.text.len()).sum();
        let has_room = self.0.len() < TEXTS_MAX && used + text.len() <= BYTES_MAX;
        if has_room {
            self.0.push(said);
        }
        has_room
    }

    /// Whether there are strings in them, which another character set would read otherwise.
    pub(crate) fn have_strings(&self) -> bool {
        self.0.iter().any(|known| known.text.contains('\''))
    }

    /// In the order in which they are to be said.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|known| known.text.as_str())
    }
}
