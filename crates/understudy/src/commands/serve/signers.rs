//! What `understudy serve --check` finds of the accounts whose clients sign: whether the passwords of `[[proxy.account]]` fit what the database stores.

use std::collections::BTreeSet;
use std::time::Duration;

use link::Login;
use session::configured::Passwords;
use topology::account::{Account, Proof};

use settings::Settings;
use settings::problem::Problem;

/// The longest that a node may take for its account table.
const TABLE_WAIT: Duration = Duration::from_secs(5);

/// What was found of one account.
pub enum Found {
    /// A password fits it.
    Well(String),
    /// There is no such account, which harms nobody.
    Needless(Problem),
    /// Its clients are not let in.
    Shut(Problem),
}

/// Of each name, by the table of the first node that gives one; nothing where none does.
///
/// # Errors
/// A password that cannot be read.
pub async fn all(settings: &Settings, monitor: &Login) -> Result<Vec<Found>, Problem> {
    let clients = settings.client_accounts()?.into_iter();
    let passwords: Passwords = clients.map(|client| (client.user, client.password)).collect();
    if settings.clients.is_empty() {
        return Ok(vec![]);
    }
    for node in &settings.nodes {
        if let Ok(table) = manager::account_table(&node.address, monitor, TABLE_WAIT).await {
            let mut seen = BTreeSet::new();
            let names = settings.clients.iter().filter(|(client, _)| seen.insert(&client.user));
            let of_name = |(client, line): &(settings::password::Account, usize)| {
                let problem = |text| Problem { file: settings.file.clone(), line: Some(*line), text };
                of_name(&client.user, &table, &passwords, problem)
            };
            return Ok(names.flat_map(of_name).collect());
        }
    }
    Ok(vec![])
}

fn of_name(
    user: &str,
    table: &[Account],
    passwords: &Passwords,
    problem: impl Fn(String) -> Problem,
) -> Vec<Found> {
    let signs = |account: &&Account| {
        account.proofs.iter().any(|proof| matches!(proof, Proof::Ed25519(_) | Proof::Parsec(_)))
    };
    let found: Vec<_> = table.iter().filter(|account| account.user == user).filter(signs).collect();
    if found.is_empty() {
        let why = "the database has no account of this name that authenticates with ed25519 or parsec, and others need no password here";
        return vec![Found::Needless(problem(format!("proxy.account.user {user:?}: {why}")))];
    }
    let of_account = |account: &Account| {
        let name = format!("'{user}'@'{}'", account.host);
        match passwords.fitting(account) {
            Ok(_) => Found::Well(format!("a password of proxy.account fits {name}")),
            Err(why) => Found::Shut(problem(format!("clients of {name} cannot be let in: {why}"))),
        }
    };
    found.into_iter().map(of_account).collect()
}
