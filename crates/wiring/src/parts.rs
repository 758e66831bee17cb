//! The settings of each part, out of the program's.

use std::sync::Arc;
use std::time::Duration;

use hooks::Hooks;
use link::ServerConfig;
use proxy::ClientTls;
use settings::descriptors::Shares;
use settings::{Settings, table as t};
use topology::settings::NodeSettings;
use web::certificate::Shown;

use super::warm;

/// The longest that a session waits on a replica for what it may have seen on another, before it tries the next.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);

/// The accounts on the nodes and whoever else is spoken to, with what was read from wherever the configuration says it is.
#[derive(Clone)]
pub struct Accounts {
    /// The monitor's.
    pub monitor: manager::Account,
    /// The account that replicas log in with at the primary.
    pub replication: Option<manager::Account>,
    /// Those of the proxy's clients that sign.
    pub clients: Vec<manager::Account>,
    /// What is shown to standbys, and to whoever tells what the active node was asked.
    pub warm: Option<warm::Secrets>,
    /// Who is told of decisions.
    pub hooks: Option<Hooks>,
}

/// What web needs that may have to be made at first start.
pub struct Credentials {
    /// The API's keys.
    pub keys: web::key::Keys,
    /// What HTTPS shows; `None` without HTTPS listeners.
    pub https: Option<Arc<ServerConfig>>,
    /// What clients of the database are shown; `None` where they may not use TLS.
    pub clients: Option<Shown>,
}

pub(crate) fn catch_up_max(settings: &Settings) -> Duration {
    settings.get(&t::READ_LAG_MAX).min(CATCH_UP_MAX)
}

pub fn manager_settings(settings: &Settings, accounts: &Accounts) -> manager::Settings {
    let node = |node: &settings::Node| NodeSettings {
        name: node.name.clone(),
        address: node.address.clone(),
        priority: node.priority,
    };
    let nodes = settings.nodes.iter().map(node).collect();
    let mut cluster = topology::settings::Settings::new(settings.name.clone(), settings.writers, nodes);
    cluster.kind = settings.kind;
    cluster.reads = settings.reads();
    cluster.replication = settings.loss();
    cluster.galera.evict = settings.get(&t::MONITOR_EVICT);
    cluster.galera.silence = settings.get(&t::MONITOR_SILENT);
    cluster.galera.bootstrap = settings.get(&t::CLUSTER_BOOTSTRAP);
    cluster.galera.proof_deadline = settings.get(&t::CLUSTER_PROOF_DEADLINE);
    cluster.galera.leave_grace = settings.get(&t::MONITOR_STOP_GRACE);
    cluster.probe_interval = settings.get(&t::MONITOR_INTERVAL);
    cluster.misses_max = settings.get(&t::MONITOR_MISSES);
    cluster.events = settings.follows_events();
    cluster.heartbeat = topology::heartbeat::Settings {
        interval: settings.get(&t::HEARTBEAT_INTERVAL),
        schema: settings.get(&t::HEARTBEAT_SCHEMA),
        stuck_max: settings.get(&t::HEARTBEAT_STUCK),
    };
    manager::Settings {
        cluster,
        monitor: accounts.monitor.clone(),
        replication: accounts.replication.clone(),
        proof_command: settings.get(&t::CLUSTER_PROOF_COMMAND),
        store: settings.store(),
    }
}

pub(crate) fn proxy_settings(
    settings: &Settings,
    shares: Shares,
    certificate: Option<&Shown>,
    accounts: &Accounts,
) -> proxy::Settings {
    let clients = accounts.clients.iter();
    proxy::Settings {
        listen: settings.get(&t::LISTEN_MYSQL),
        tls: client_tls(&settings.get(&t::LISTEN_TLS), certificate),
        certificate_expires_unix_s: certificate.and_then(|certificate| certificate.expires_unix_s),
        passwords: Arc::new(clients.map(|client| (client.user.clone(), client.password.clone())).collect()),
        monitor: accounts.monitor.login(),
        node_tls: accounts.monitor.tls.clone(),
        proxy_header_from: settings.get(&t::LISTEN_PROXY_HEADER).into(),
        node_compression: settings.node_compression(),
        node_proxy_header: settings.node_proxy_header(),
        hold_time: settings.get(&t::HOLD_TIME),
        hold_statements_max: settings.get(&t::HOLD_STATEMENTS),
        hold_bytes_max: settings.get(&t::HOLD_BYTES),
        release_at_once: settings.get(&t::HOLD_RELEASE),
        connect_timeout: settings.get(&t::PROXY_CONNECT_TIMEOUT),
        login_timeout: settings.get(&t::PROXY_LOGIN_TIMEOUT),
        client_idle_max: settings.get(&t::PROXY_CLIENT_IDLE),
        retain_bytes_max: settings.get(&t::PROXY_RETAIN),
        resends_max: settings.get(&t::PROXY_RESENDS),
        suspect_time: settings.get(&t::PROXY_SUSPECT),
        password_errors_max: settings.get(&t::PROXY_PASSWORD_ERRORS),
        password_error_pause: settings.get(&t::PROXY_PASSWORD_PAUSE),
        client_connections_max: shares.clients_max,
        writers_all: settings.writers == topology::settings::Writers::All,
    }
}

/// The same for the port for reads.
pub(crate) fn reads_settings(
    settings: &Settings,
    certificate: Option<&Shown>,
    own: proxy::Settings,
) -> proxy::Settings {
    proxy::Settings {
        listen: settings.get(&t::LISTEN_READ),
        tls: client_tls(&settings.tls_for_reads(), certificate),
        ..own
    }
}

fn client_tls(mode: &str, certificate: Option<&Shown>) -> Option<ClientTls> {
    let certificate = certificate.filter(|_| mode != "off")?;
    Some(ClientTls {
        config: certificate.config.clone(),
        fingerprint: certificate.fingerprint,
        is_required: mode == "required",
    })
}

pub(crate) fn web_settings(
    settings: &Settings,
    shares: Shares,
    credentials: Credentials,
) -> web::server::Settings {
    web::server::Settings {
        http: settings.get(&t::LISTEN_HTTP),
        https: settings.get(&t::LISTEN_HTTPS),
        tls: credentials.https,
        keys: credentials.keys,
        budget: settings.get(&t::SWITCHOVER_BUDGET),
        limits: shares.api,
    }
}
