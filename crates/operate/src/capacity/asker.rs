//! A way to one server that is made anew when it broke.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows};

use super::servers::CONNECT_MAX;

/// See the head of this file.
pub struct Asker {
    /// What it is called.
    pub name: String,
    address: String,
    login: Login,
    link: Option<Link>,
}

impl Asker {
    /// To this server; nothing is sent yet.
    pub fn new(member: &super::servers::Member, login: &Login) -> Self {
        Self { name: member.name.clone(), address: member.address.clone(), login: login.clone(), link: None }
    }

    /// Another way to the same server.
    pub fn another(&self) -> Self {
        Self { name: self.name.clone(), address: self.address.clone(), login: self.login.clone(), link: None }
    }

    /// Runs a statement. A link that was idle and turns out to be broken is made anew, once.
    ///
    /// # Errors
    /// The server's refusal, or why there is no answer; both with the server's name.
    pub async fn ask(&mut self, sql: &str, within: Duration) -> Result<Rows, String> {
        let had_link = self.link.is_some();
        match self.once(sql, within).await {
            Err(LinkError::Reset | LinkError::Closed) if had_link => self.once(sql, within).await,
            answer => answer,
        }
        .map_err(|e| format!("{}: {e}", self.name))
    }

    async fn once(&mut self, sql: &str, within: Duration) -> Result<Rows, LinkError> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => Link::connect(&self.address, &self.login, CONNECT_MAX.min(within)).await?,
        };
        let answer = link.query(sql, within).await;
        // After anything else the rest of the answer may still be on its way.
        if matches!(answer, Ok(_) | Err(LinkError::Rejected { .. })) {
            self.link = Some(link);
        }
        answer
    }

    /// A connection of its own, for what belongs to one session, and that session's number.
    ///
    /// # Errors
    /// Why there is none, with the server's name.
    pub async fn session(&self, prepare: &str) -> Result<(Link, u64), String> {
        let open = async {
            let mut link = Link::connect(&self.address, &self.login, CONNECT_MAX).await?;
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
        if let Some(link) = &self.link {
            link.quit();
        }
    }
}
