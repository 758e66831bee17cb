//! Tries the listening addresses, before anything is started that would have to be stopped again: a port in use is told with
//! the line of its key.

use std::net::TcpListener;

use settings::problem::Problem;
use settings::{Settings, table as t};

/// One key of addresses that is not empty: its row, its addresses, and what came of them.
pub type Tried<'a> = (&'static t::Row, &'a [String], Result<Vec<TcpListener>, Problem>);

/// Tries them all. They stay open as long as the result is kept, so that one port in two keys is noticed.
pub fn try_all(settings: &Settings) -> Vec<Tried<'_>> {
    let listen = &settings.listen;
    let keys = [
        (&t::LISTEN_MYSQL, &listen.mysql),
        (&t::LISTEN_HTTP, &listen.http),
        (&t::LISTEN_HTTPS, &listen.https),
        (&t::LISTEN_HEALTH, &listen.health),
        (&t::LISTEN_AGENT, &listen.agent),
        (&t::LISTEN_READ, &listen.read),
    ];
    let open = |(row, list): (&'static t::Row, &'_ Vec<String>)| {
        listen::open(list).map_err(|e| settings.problem(row, format!("{}: {e}", row.path)))
    };
    keys.into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(row, list)| (row, list.as_slice(), open((row, list))))
        .collect()
}

/// The first that cannot be listened on; all are closed again.
pub fn first_problem(settings: &Settings) -> Option<Problem> {
    try_all(settings).into_iter().find_map(|(_, _, opened)| opened.err())
}
