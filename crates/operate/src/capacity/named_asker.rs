//! One server that is asked, with its name in every error.

use std::time::Duration;

use link::{Asker, Link, LinkError, Login, Rows};

use super::servers::{CONNECT_MAX, Member};

/// See the head of this file.
pub struct NamedAsker {
    /// What it is called.
    pub name: String,
    asker: Asker,
}

impl NamedAsker {
    /// Nothing is sent yet.
    pub fn new(member: &Member, login: &Login) -> Self {
        Self { name: member.name.clone(), asker: Asker::new(&member.address, login.clone(), CONNECT_MAX) }
    }

    /// The same server, on a link of its own.
    pub fn another(&self) -> Self {
        Self { name: self.name.clone(), asker: self.asker.another() }
    }

    /// Runs a statement. A link that was idle and turns out to be broken is made anew, once.
    ///
    /// # Errors
    /// The server's refusal, or why there is no answer; both with the server's name.
    pub async fn ask(&mut self, sql: &str, within: Duration) -> Result<Rows, String> {
        self.asker.ask(sql, within).await.map_err(|e| format!("{}: {e}", self.name))
    }

    /// A connection of its own, for what belongs to one session, and that session's number.
    ///
    /// # Errors
    /// Why there is none, with the server's name.
    pub async fn session(&self, prepare: &str) -> Result<(Link, u64), String> {
        let open = async {
            let mut link = self.asker.connect().await?;
            link.query(prepare, CONNECT_MAX).await?;
            let rows = link.query("SELECT CONNECTION_ID()", CONNECT_MAX).await?;
            let id = rows.text(0, 0).and_then(|text| text.parse().ok());
            let id = id.ok_or_else(|| LinkError::Protocol("CONNECTION_ID() is no number".into()))?;
            Ok::<_, LinkError>((link, id))
        };
        open.await.map_err(|e| format!("{}: {e}", self.name))
    }

    /// Says goodbye.
    pub fn quit(&self) {
        self.asker.quit();
    }
}
