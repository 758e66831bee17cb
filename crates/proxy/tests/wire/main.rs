//! What a client says, what its node hears of it, and what the client is told: logins, statements, results, errors, KILL, and the ends of connections.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests fail by panicking

mod client_gone;
mod compression;
mod costly_statements;
mod cursor_results;
mod early_flags;
mod forged_refusals;
mod kills;
mod logins;
mod mariadb_accounts;
mod mysql_accounts;
mod plugins;
mod proxy_header;
mod repeats;

mod tls;
mod told_as_it_is;
mod unread_results;
mod unsent_statements;
mod wire;
