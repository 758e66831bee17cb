//! Tries the listening addresses, before anything is started that would have to be stopped again: a port in use is told with
//! the line of its key.

use std::net::TcpListener;

use settings::problem::Problem;
use settings::{Settings, table as t};

/// One key of addresses that is not empty: its row, its addresses, and what came of them.
pub type Tried = (&'static t::Row, Vec<String>, Result<Vec<TcpListener>, Problem>);

/// Tries them all. They stay open as long as the result is kept, so that one port in two keys is noticed.
pub fn try_all(settings: &Settings) -> Vec<Tried> {
    let rows = [
        &t::LISTEN_MYSQL,
        &t::LISTEN_HTTP,
        &t::LISTEN_HTTPS,
        &t::LISTEN_HEALTH,
        &t::LISTEN_AGENT,
        &t::LISTEN_READ,
    ];
    let tried = rows.into_iter().map(|row| {
        let list = settings.get(row);
        let opened = listen::open(&list);
        (&row.row, list, opened.map_err(|e| settings.problem(row, format!("{}: {e}", row.path))))
    });
    tried.filter(|(_, list, _)| !list.is_empty()).collect()
}

/// The first that cannot be listened on; all are closed again.
pub fn first_problem(settings: &Settings) -> Option<Problem> {
    try_all(settings).into_iter().find_map(|(_, _, opened)| opened.err())
}
