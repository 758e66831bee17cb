//! File descriptors: as many as the system allows us, divided between the doors, and a warning when that is too few for the clients we promise to take.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use web::ConnectionLimits;

use crate::{Settings, table as t};

/// A client costs its own socket, the link to its node, and the handle by which that link can be cut.
const FOR_A_CLIENT: u64 = 3;
/// With `listen.split` it may have a second link, with a handle, too.
const FOR_A_SPLIT_CLIENT: u64 = 5;
/// Listeners, probes, the journal, the log, clients that are being refused.
const FOR_THE_PROGRAM: u64 = 100;
/// Questions for health at once, and agent checks.
const HEALTH_MAX: u64 = 512;
const AGENT_MAX: u64 = health::server::ASIDE_MAX;
/// Each of the doors other than the clients' has at most this part of all descriptors.
const PART: u64 = 8;

/// How many connections each door of `serve` takes at once, so that all of them together leave the manager its descriptors: no crowd at one
/// door takes those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Clients of each MySQL port.
    pub clients_max: usize,
    /// Of the API, with and without TLS.
    pub api: ConnectionLimits,
    /// Of the health port.
    pub health_max: u64,
}

/// Raises the soft limit to the hard one (login shells and systemd begin with 1024, for programs that use `select`), and divides it. A sentence
/// when fewer clients than proxy.client_connections_max are left.
pub fn divide(settings: &Settings) -> (Shares, Option<String>) {
    let limit = raise_to_hard();
    let wanted = Wanted {
        clients_max: settings.get(&t::PROXY_CLIENTS),
        for_a_client: if settings.get(&t::LISTEN_SPLIT) { FOR_A_SPLIT_CLIENT } else { FOR_A_CLIENT },
        ports: 1 + u64::from(!settings.get(&t::LISTEN_READ).is_empty()),
        has_agent: !settings.get(&t::LISTEN_AGENT).is_empty(),
    };
    let shares = shares(limit, &wanted);
    let is_less = shares.clients_max < wanted.clients_max;
    let warning = is_less.then(|| {
        format!(
            "proxy.client_connections_max is {}, and the limit of open files ({}) suffices for {} clients, which are taken; the next are told \
             1040: raise LimitNOFILE= (systemd) or `ulimit -Hn`, or lower the setting",
            wanted.clients_max,
            shown(limit),
            shares.clients_max
        )
    });
    (shares, warning)
}

/// What the settings ask for.
struct Wanted {
    clients_max: usize,
    for_a_client: u64,
    /// MySQL ports, each with so many clients.
    ports: u64,
    has_agent: bool,
}

fn shares(limit: Option<u64>, wanted: &Wanted) -> Shares {
    let part = |most: u64| limit.map_or(most, |limit| (limit / PART).clamp(16, most));
    let default = ConnectionLimits::default();
    let api = ConnectionLimits {
        connections_max: part(default.connections_max as u64) as usize,
        per_address_max: part(default.per_address_max as u64) as usize,
    };
    let health_max = part(HEALTH_MAX);
    let agent = if wanted.has_agent { part(AGENT_MAX) + health::server::BEYOND_MAX } else { 0 };
    let kept = FOR_THE_PROGRAM + api.connections_max as u64 + health_max + health::server::BEYOND_MAX + agent;
    let clients_max = limit.map_or(wanted.clients_max, |limit| {
        let fit = limit.saturating_sub(kept) / (wanted.for_a_client * wanted.ports);
        wanted.clients_max.min(fit.max(1) as usize)
    });
    Shares { clients_max, api, health_max }
}

/// The same for a health check, whose clients cost one descriptor each. Returns how many it may take, at most `wanted`.
pub fn raise_for_check(wanted: u64) -> u64 {
    let now = raise_to_hard();
    let fit = now.map_or(wanted, |now| now.saturating_sub(FOR_THE_PROGRAM).clamp(1, wanted));
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

fn shown(limit: Option<u64>) -> String {
    limit.map_or("none".into(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(clients_max: usize) -> Wanted {
        Wanted { clients_max, for_a_client: FOR_A_CLIENT, ports: 1, has_agent: true }
    }

    #[test]
    fn all_shares_together_leave_the_program_its_own() {
        for limit in [600, 1024, 4096, 20_000, 524_288] {
            for (ports, for_a_client) in [(1, 3), (2, 3), (1, 5)] {
                let wanted = Wanted { for_a_client, ports, ..wanted(1_000_000) };
                let shares = shares(Some(limit), &wanted);
                let agent = (limit / PART).min(AGENT_MAX) + health::server::BEYOND_MAX;
                let doors =
                    shares.api.connections_max as u64 + shares.health_max + health::server::BEYOND_MAX;
                let clients = shares.clients_max as u64 * for_a_client * ports;
                assert!(clients + doors + agent + FOR_THE_PROGRAM <= limit, "{limit}: {shares:?}");
                assert!(shares.clients_max > 10 && shares.api.per_address_max >= 16, "{limit}: {shares:?}");
            }
        }
    }

    #[test]
    fn what_was_asked_for_is_given_where_it_fits() {
        assert_eq!(shares(Some(40_000), &wanted(10_000)).clients_max, 10_000);
        let unlimited = shares(None, &wanted(1_000_000));
        assert_eq!((unlimited.clients_max, unlimited.api), (1_000_000, ConnectionLimits::default()));
        assert_eq!(shares(Some(10), &wanted(5)).clients_max, 1, "one client, rather than none");
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        raise_to_hard();
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
