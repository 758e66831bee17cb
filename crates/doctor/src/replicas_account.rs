//! The account that replicas log in with: what is wrong with it, and the statements that mend it.

use std::fmt;
use std::time::Duration;

use link::Login;
use topology::rules::privileges::account;

/// What is wrong with the account that replicas log in with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicasAccount {
    /// The server's or the link's error.
    Refused(String),
    /// It may log in, and not replicate.
    LacksRight,
}

impl ReplicasAccount {
    /// It cannot log in at all.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// The statements that make the account of that name what it should be, where the password in the configuration is right.
    pub fn statements(&self, user: &str) -> Vec<String> {
        let account = account(user);
        let grant = format!("GRANT REPLICATION SLAVE ON *.* TO {account}");
        match self {
            Self::LacksRight => vec![grant],
            Self::Refused(_) => vec![
                format!("CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '...'"),
                format!("ALTER USER {account} IDENTIFIED BY '...'"),
                grant,
            ],
        }
    }
}

/// To follow the account's name.
impl fmt::Display for ReplicasAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "is refused: {error}"),
            Self::LacksRight => write!(f, "lacks REPLICATION SLAVE"),
        }
    }
}

/// `None` when nothing is wrong with it, or when its grants cannot be read.
pub async fn check(address: &str, login: &Login, deadline: Duration) -> Option<ReplicasAccount> {
    match manager::follower::admits(address, login, deadline).await {
        Err(error) => Some(ReplicasAccount::Refused(error.to_string())),
        Ok(Some(false)) => Some(ReplicasAccount::LacksRight),
        Ok(_) => None,
    }
}
