//! File descriptors: as many as the system allows us, and a warning when that is too few for the clients we promise to take.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A client costs its own socket, the link to its node, and the handle by which that link can be cut.
const FOR_A_CLIENT: u64 = 3;
/// Listeners, probes, the journal, the web, the log.
const FOR_THE_HOUSE: u64 = 100;

/// Raises the soft limit to the hard one (login shells and systemd begin with 1024, for programs that use `select`), and warns
/// when that does not suffice for `clients_max` clients.
pub fn raise(clients_max: usize) {
    let now = raise_to_hard();
    if let Some(fit) = too_few(now, clients_max) {
        tracing::warn!(
            "proxy.client_connections_max is {clients_max}, and the limit of open files ({}) suffices for about {fit} clients: \
             raise LimitNOFILE= (systemd) or `ulimit -Hn`, or lower the setting",
            shown(now)
        );
    }
}

/// The same for a health check, whose clients cost one descriptor each. Returns how many it may take, at most `wanted`.
pub fn raise_for_check(wanted: u64) -> u64 {
    let now = raise_to_hard();
    let fit = now.map_or(wanted, |now| now.saturating_sub(FOR_THE_HOUSE).clamp(1, wanted));
    if fit < wanted {
        tracing::warn!(
            "the limit of open files ({}) suffices for about {fit} connections instead of {wanted}: raise LimitNOFILE= (systemd) or \
             `ulimit -Hn`; clients beyond are answered and not kept",
            shown(now)
        );
    }
    fit
}

/// What the limit is then.
fn raise_to_hard() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("the limit of open files could not be raised from {}: {error}", shown(limit.current));
    }
    getrlimit(Resource::Nofile).current
}

/// How many clients fit when not all do; `None` for the limit is no limit.
fn too_few(limit: Option<u64>, clients_max: usize) -> Option<u64> {
    let fit = limit?.saturating_sub(FOR_THE_HOUSE) / FOR_A_CLIENT;
    (fit < clients_max as u64).then_some(fit)
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or("none".into(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_for_each_client() {
        assert_eq!(too_few(Some(1024), 10_000), Some(308));
        assert_eq!(too_few(Some(30_100), 10_000), None);
        assert_eq!(too_few(Some(30_099), 10_000), Some(9_999));
        assert_eq!(too_few(None, 1_000_000), None);
        assert_eq!(too_few(Some(10), 1), Some(0));
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        raise(1);
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
