//! Asks one server, on a link that is opened when it is first needed, and anew after it broke.

use std::time::Duration;

use crate::{Link, LinkError, Login, Rows};

#[derive(Debug)]
pub struct Asker {
    address: String,
    login: Login,
    connect_max: Duration,
    link: Option<Link>,
}

impl Asker {
    /// Nothing is sent yet.
    pub fn new(address: impl Into<String>, login: Login, connect_max: Duration) -> Self {
        Self { address: address.into(), login, connect_max, link: None }
    }

    /// Asks the same server on a link of its own.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(self.address.clone(), self.login.clone(), self.connect_max)
    }

    /// A link of its own, for what belongs to one session.
    pub async fn connect(&self) -> Result<Link, LinkError> {
        Link::connect(&self.address, &self.login, self.connect_max).await
    }

    /// The link; opened when there is none that can be used.
    pub async fn link(&mut self, within: Duration) -> Result<&mut Link, LinkError> {
        let link = match self.link.take().filter(Link::is_usable) {
            Some(link) => link,
            None => Link::connect(&self.address, &self.login, self.connect_max.min(within)).await?,
        };
        Ok(self.link.insert(link))
    }

    /// A link that was idle and turns out to be broken is made anew, once.
    pub async fn ask(&mut self, sql: &str, within: Duration) -> Result<Rows, LinkError> {
        let was_idle = self.link.as_ref().is_some_and(Link::is_usable);
        match self.link(within).await?.query(sql, within).await {
            Err(LinkError::Reset | LinkError::Closed) if was_idle => {
                self.link = None;
                self.link(within).await?.query(sql, within).await
            }
            answer => answer,
        }
    }

    /// The open link, if there is one: for what is meant for the server at its end, and for none that has started since.
    pub fn opened(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// The next question is asked on a new link.
    pub fn close(&mut self) {
        self.link = None;
    }

    /// Says goodbye.
    pub fn quit(&self) {
        if let Some(link) = &self.link {
            link.quit();
        }
    }
}

/// Asks one question, on a link of its own.
pub async fn ask_once(address: &str, login: &Login, sql: &str, within: Duration) -> Result<Rows, LinkError> {
    let mut link = Link::connect(address, login, within).await?;
    let answer = link.query(sql, within).await;
    link.quit();
    answer
}
