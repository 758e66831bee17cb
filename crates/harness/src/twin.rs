//! Two sessions that do the same: one through the proxy, which is moved from server to server, and its twin, which stands straight
//! on a server of its own and never moves. Whatever the moved one is told must be what its twin is told, or an error that says that
//! it cannot be known.

use fixture::Server;
use fixture::client::{Client, ClientOptions, Param, Part, Prepared, Reply};

use super::cluster::{Cluster, Move};

/// Errors by which the proxy says that the session could not be moved whole: the first ends nothing, the others the session.
pub const FORGOTTEN: u16 = 9110;
pub const SESSION_LOST: u16 = 9104;
const NOT_REBUILT: u16 = 9111;

/// Where both stand.
pub struct Ground {
    pub cluster: Cluster,
    /// The twin's own.
    pub apart: Server,
    cleaners: Vec<Client>,
}

impl Ground {
    /// Two servers behind the proxy, and one apart.
    pub fn lay() -> Self {
        Self::lay_with(&[])
    }

    /// The same with options of the servers.
    pub fn lay_with(options: &[&str]) -> Self {
        let apart = Server::start(options);
        Self { cluster: Cluster::with(2, super::settings(), options), apart, cleaners: vec![] }
    }

    /// The same SQL on each server, as root.
    pub fn everywhere(&self, sql: &str) {
        self.cluster.everywhere(sql);
        self.apart.sql(sql);
    }

    /// Begins anew: the first server takes the traffic, and every server is cleaned up by `sql`.
    pub async fn begin(&mut self, sql: &[&str]) {
        if self.cluster.at != 0 {
            self.cluster.open_next().await;
        }
        let servers = self.cluster.servers.iter().chain([&self.apart]).map(Server::address);
        if self.cleaners.is_empty() {
            for address in servers {
                self.cleaners.push(Client::connect(address).await);
            }
        }
        for cleaner in &mut self.cleaners {
            for sql in sql {
                cleaner.run(sql).await;
            }
        }
    }

    /// A fresh pair.
    pub async fn twins(&self) -> Twins {
        self.twins_as(&ClientOptions::default()).await
    }

    /// A fresh pair that logs in otherwise.
    pub async fn twins_as(&self, options: &ClientOptions) -> Twins {
        let moved = self.cluster.client_as(options).await;
        let stayed = Client::connect_as(self.apart.address(), options).await;
        Twins { moved, stayed: stayed.unwrap_or_else(|part| panic!("{part:?}")), statements: vec![] }
    }
}

/// See the head of this file.
pub struct Twins {
    pub moved: Client,
    pub stayed: Client,
    statements: Vec<(Prepared, Prepared)>,
}

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Both were told the same.
    Same(Reply),
    /// The moved one was told that it cannot be known, and goes on.
    Forgotten,
    /// The moved one was told that it cannot go on.
    Ended(u16),
    /// They were told different things: what.
    Differs(String),
}

impl Comparison {
    /// Both had nothing to be told.
    pub fn nothing() -> Comparison {
        Comparison::Same(Reply { parts: vec![] })
    }

    /// What the moved one and the other were told when asked `what`.
    pub fn of(what: &str, (moved, stayed): (Reply, Reply)) -> Comparison {
        let Some(difference) = moved.difference(&stayed) else { return Comparison::Same(moved) };
        // A session with a time limit for statements: which of them reach it on a busy machine is chance.
        if [&moved, &stayed].iter().any(|reply| reply.error() == Some(protocol::errno::STATEMENT_TIMEOUT)) {
            return Comparison::Same(moved);
        }
        match moved.error() {
            Some(FORGOTTEN) => Comparison::Forgotten,
            Some(code @ (SESSION_LOST | NOT_REBUILT)) => Comparison::Ended(code),
            _ => Comparison::Differs(format!("{what} => {difference}")),
        }
    }

    /// The same, or an error that says so: `None`; otherwise the difference.
    pub fn wrong(self) -> Option<String> {
        match self {
            Comparison::Differs(what) => Some(what),
            _ => None,
        }
    }

    /// Only the same will do: `None`; otherwise what came.
    pub fn unequal(self, what: &str) -> Option<String> {
        match self {
            Comparison::Same(_) => None,
            Comparison::Differs(found) => Some(format!("{what}: {found}")),
            Comparison::Forgotten => Some(format!("{what}: 9110, where the same could have been told")),
            Comparison::Ended(code) => Some(format!("{what}: {code}, where the same could have been told")),
        }
    }
}

impl Twins {
    /// These two.
    pub fn of(moved: Client, stayed: Client) -> Self {
        Self { moved, stayed, statements: vec![] }
    }

    /// Both say the same; what each was told.
    pub async fn say_each(&mut self, sql: &[u8]) -> (Reply, Reply) {
        (self.moved.query(sql).await, self.stayed.query(sql).await)
    }

    /// Both say the same.
    pub async fn say(&mut self, sql: impl AsRef<[u8]>) -> Comparison {
        let sql = sql.as_ref();
        Comparison::of(&sql.escape_ascii().to_string(), self.say_each(sql).await)
    }

    /// Both send one command; what each was told.
    pub async fn ask_each(&mut self, payload: &[u8]) -> (Reply, Reply) {
        (self.moved.ask(payload).await, self.stayed.ask(payload).await)
    }

    /// Both send one command.
    pub async fn ask(&mut self, payload: &[u8]) -> Comparison {
        Comparison::of(&payload.escape_ascii().to_string(), self.ask_each(payload).await)
    }

    /// How many statements are prepared.
    pub fn statements(&self) -> usize {
        self.statements.len()
    }

    /// How many parameters a statement takes.
    pub fn params(&self, number: usize) -> usize {
        usize::from(self.statements[number].0.params)
    }

    /// Both prepare; the number that [`Twins::execute`] takes, or what both were told instead.
    pub async fn prepare_each(&mut self, sql: impl AsRef<[u8]>) -> Result<usize, Comparison> {
        let sql = sql.as_ref();
        let error = |said: Result<Prepared, Part>| match said {
            Ok(statement) => Reply { parts: vec![Part::Lost(format!("prepared {statement:?}"))] },
            Err(part) => Reply { parts: vec![part] },
        };
        match (self.moved.prepare(sql).await, self.stayed.prepare(sql).await) {
            (Ok(moved), Ok(stayed)) if (moved.params, moved.columns) == (stayed.params, stayed.columns) => {
                self.statements.push((moved, stayed));
                Ok(self.statements.len() - 1)
            }
            (moved, stayed) => {
                let what = format!("PREPARE {}", sql.escape_ascii());
                Err(Comparison::of(&what, (error(moved), error(stayed))))
            }
        }
    }

    /// Both execute; what each was told.
    pub async fn execute_each(&mut self, number: usize, params: &[Param]) -> (Reply, Reply) {
        let (in_moved, in_stayed) = self.statements[number].clone();
        (self.moved.execute(&in_moved, params).await, self.stayed.execute(&in_stayed, params).await)
    }

    /// Both execute.
    pub async fn execute(&mut self, number: usize, params: &[Param]) -> Comparison {
        Comparison::of(&format!("execute {params:?}"), self.execute_each(number, params).await)
    }

    /// Both reset their connection; what each was told.
    pub async fn reset_each(&mut self) -> (Reply, Reply) {
        self.statements.clear();
        (self.moved.reset().await, self.stayed.reset().await)
    }

    /// Both change to another account; what each was told.
    pub async fn change_user_each(&mut self, options: &ClientOptions) -> (Reply, Reply) {
        self.statements.clear();
        let reply = |said: Result<(), Part>| Reply { parts: said.err().into_iter().collect() };
        (reply(self.moved.change_user(options).await), reply(self.stayed.change_user(options).await))
    }
}

/// The ways to move, each of which must keep a session as it is.
pub const MOVES: [Move; 3] = [Move::HandedOver, Move::Drained, Move::Shut];

/// Fails with all that was found, one below the other.
pub fn none_of(wrong: &[String]) {
    const SHOWN: usize = 60;
    let (shown, count) = (&wrong[..wrong.len().min(SHOWN)], wrong.len());
    assert!(wrong.is_empty(), "{count} wrong, the first {} of them:\n{}", shown.len(), shown.join("\n"));
}
