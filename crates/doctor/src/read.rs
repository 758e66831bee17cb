//! Queries the nodes about their settings and state. All SQL of the doctor for Galera is here, and it only reads.

use std::time::Duration;

use link::{Link, LinkError, Login, Rows};
use manager::tells_apart;
use serde::Serialize;
use topology::kind::Kind;
use topology::session_defaults::SessionDefaults;

use super::asked;
use super::options::Options;
use settings::Settings;

/// The time limit of one statement, and of connecting.
const DEADLINE: Duration = Duration::from_secs(5);

/// A node's answers, or why there are none.
pub type NodeFacts = super::asked::NodeFacts<MemberState>;

/// A node's answers. A value that it does not have is `None`, or empty.
#[derive(Clone, Debug, Default)]
pub struct MemberState {
    /// `@@version`.
    pub version: String,
    /// `wsrep_on`.
    pub wsrep_on: bool,
    /// `wsrep_provider_options`.
    pub options: Options,
    /// `read_only`.
    pub read_only: bool,
    /// `wsrep_cluster_size`.
    pub cluster_size: Option<u32>,
    /// `wsrep_cluster_conf_id`: the number of its view.
    pub conf_id: String,
    /// `wsrep_gcomm_uuid`, which is new after each start of the server.
    pub gcomm_uuid: String,
    /// `wsrep_incoming_addresses`: the members, by the addresses that they say clients use.
    pub incoming_addresses: String,
    /// `wsrep_cluster_status`.
    pub cluster_status: String,
    /// `wsrep_local_state_comment`.
    pub state: String,
    /// `wsrep_cluster_state_uuid`.
    pub cluster_uuid: String,
    /// `wsrep_sst_method`.
    pub sst_method: String,
    /// `wsrep_slave_threads`.
    pub appliers: Option<u32>,
    /// The fraction of the time since start (or FLUSH STATUS) for which flow control paused this node: 0 to 1.
    pub paused: Option<f64>,
    /// Replicated and received bytes per second, on average since start.
    pub bytes_per_second: Option<f64>,
    /// `wsrep_evs_delayed`: members that answer late.
    pub delayed: String,
    /// What its sessions begin with.
    pub defaults: SessionDefaults,
    /// The privileges that the monitor account lacks.
    pub lacks: Vec<MissingPrivilege>,
}

impl MemberState {
    /// Whether each member has an address of its own in wsrep_incoming_addresses, where that is said; an arbitrator has none.
    pub fn names_all_members(&self) -> bool {
        let list = &self.incoming_addresses;
        let entries: Vec<&str> = list.split(',').map(str::trim).collect();
        let is_complete = self.cluster_size.is_none_or(|size| size as usize == entries.len());
        let named: Vec<String> =
            entries.into_iter().filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        list.is_empty() || is_complete && tells_apart(&named)
    }
}

/// A privilege that the monitor account lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingPrivilege {
    /// The privilege, as GRANT spells it.
    pub privilege: &'static str,
    /// What does not work without it.
    pub for_what: &'static str,
}

impl MissingPrivilege {
    /// The privilege that eviction needs.
    pub const EVICT: &str = "SUPER ON *.*";

    /// "SUPER ON *.* and SELECT ON mysql.global_priv".
    pub fn privileges(lacks: &[MissingPrivilege]) -> String {
        lacks.iter().map(|missing| missing.privilege).collect::<Vec<_>>().join(" and ")
    }

    /// What each is needed for.
    pub fn reasons(lacks: &[MissingPrivilege]) -> String {
        let reason =
            |missing: &MissingPrivilege| format!("{} is needed for {}", missing.privilege, missing.for_what);
        lacks.iter().map(reason).collect::<Vec<_>>().join("; ")
    }
}

/// Queries every node concurrently.
pub async fn all(settings: &Settings, login: &Login) -> Vec<NodeFacts> {
    asked::each(settings, async |address| ask(address, login).await).await
}

async fn ask(address: &str, login: &Login) -> Result<MemberState, LinkError> {
    let mut link = Link::connect(address, login, DEADLINE).await?;
    let variables = link.query("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'wsrep_on', 'read_only', 'wsrep_sst_method', 'wsrep_slave_threads')", DEADLINE).await?;
    let options = provider_options(&mut link, DEADLINE).await?.unwrap_or_default();
    let status = link
        .query(
            "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'wsrep\\_%' OR Variable_name = 'Uptime'",
            DEADLINE,
        )
        .await?;
    let lacks = lacks(&mut link).await?;
    let defaults = manager::session_defaults(&mut link, DEADLINE).await?;
    let variable = |name| variables.value_of(name).unwrap_or_default().to_owned();
    let value = |name| status.value_of(name).unwrap_or_default().to_owned();
    let on = |text: String| !matches!(text.to_ascii_uppercase().as_str(), "OFF" | "0" | "");
    Ok(MemberState {
        version: variable("version"),
        wsrep_on: on(variable("wsrep_on")),
        options: Options::parse(&options),
        read_only: on(variable("read_only")),
        cluster_size: value("wsrep_cluster_size").parse().ok(),
        conf_id: value("wsrep_cluster_conf_id"),
        gcomm_uuid: value("wsrep_gcomm_uuid"),
        incoming_addresses: value("wsrep_incoming_addresses"),
        cluster_status: value("wsrep_cluster_status"),
        state: value("wsrep_local_state_comment"),
        cluster_uuid: value("wsrep_cluster_state_uuid"),
        sst_method: variable("wsrep_sst_method"),
        appliers: variable("wsrep_slave_threads").parse().ok(),
        paused: value("wsrep_flow_control_paused").parse().ok(),
        bytes_per_second: rate(&status),
        delayed: value("wsrep_evs_delayed"),
        defaults,
        lacks,
    })
}

/// `wsrep_provider_options`, whole: SHOW cuts long values off. `None` on a server without Galera.
pub(crate) async fn provider_options(
    link: &mut Link,
    deadline: Duration,
) -> Result<Option<String>, LinkError> {
    let rows = link.query_unless_rejected(topology::galera::sql::PROVIDER_OPTIONS, deadline).await?;
    Ok(rows.and_then(|rows| rows.text(0, 0).map(str::to_owned)))
}

fn rate(status: &Rows) -> Option<f64> {
    let number = |name| status.value_of(name)?.parse::<f64>().ok();
    let uptime = number("Uptime").filter(|seconds| *seconds > 0.0)?;
    Some((number("wsrep_replicated_bytes")? + number("wsrep_received_bytes")?) / uptime)
}

/// Tries reading the accounts, since that is what the manager will do; the other privileges are looked up in SHOW GRANTS.
async fn lacks(link: &mut Link) -> Result<Vec<MissingPrivilege>, LinkError> {
    let mut lacks = Vec::new();
    if !may_read_accounts(link).await? {
        let for_what = "learning the client accounts, so that no application password is stored";
        lacks.push(MissingPrivilege { privilege: "SELECT ON mysql.global_priv", for_what });
    }
    let grants = link.query("SHOW GRANTS", DEADLINE).await?;
    let global = (0..grants.len())
        .filter_map(|row| grants.text(row, 0))
        .filter(|grant| grant.contains(" ON *.* "))
        .map(str::to_ascii_uppercase)
        .collect::<Vec<_>>();
    let may = |privilege: &str| global.iter().any(|grant| grant.contains(privilege));
    let may_all = may("ALL PRIVILEGES");
    if !may_all && !may("SUPER") {
        lacks.push(MissingPrivilege {
            privilege: MissingPrivilege::EVICT,
            for_what: "evicting a dead node from the group (SET GLOBAL wsrep_provider_options)",
        });
    }
    let sees_all = may("TRIGGER") && may("EXECUTE");
    if !may_all && !sees_all {
        lacks.push(MissingPrivilege {
            privilege: "TRIGGER, EXECUTE ON *.*",
            for_what: "knowing which tables have no transactions and whether views may write, so that a statement that lost its node is not called unknown without need",
        });
    }
    Ok(lacks)
}

async fn may_read_accounts(link: &mut Link) -> Result<bool, LinkError> {
    for table in ["mysql.global_priv", "mysql.user"] {
        match link.query(&format!("SELECT COUNT(*) FROM {table}"), DEADLINE).await {
            Ok(_) => return Ok(true),
            // No such table: MySQL and Percona Server have the accounts in mysql.user.
            Err(LinkError::Rejected { errno: 1146, .. }) => {}
            Err(LinkError::Rejected { .. }) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

/// A connection error as a sentence with what to do about it.
pub fn explain(error: &LinkError, kind: Kind, user: &str) -> String {
    let account = |errno: u16| manager::account_for(kind, None, user, errno);
    match error {
        LinkError::Rejected { errno: errno @ (1045 | 1698), message, .. } => {
            format!("the monitor account cannot log in: {message}; {}", account(*errno))
        }
        LinkError::Rejected { errno: errno @ 1130, message, .. } => {
            format!("the node lets nobody in from here: {message}; {}", account(*errno))
        }
        LinkError::Rejected { errno: 1129, message, .. } => {
            format!("the node has blocked this host: {message}; run there: FLUSH HOSTS;")
        }
        LinkError::Rejected { errno: 1040, message, .. } => {
            format!("the node has no connection free ({message}): raise max_connections there")
        }
        LinkError::Refused => {
            "nothing listens there: is the server running, and is the address right?".to_owned()
        }
        LinkError::Unreachable(why) if why.contains("resolve") => {
            format!("{why}: is the name right, and does this machine know it?")
        }
        LinkError::Unreachable(_) => format!("{error}: does a route lead there from this machine?"),
        LinkError::Protocol(_) => format!("{error}: is this the address of a database?"),
        LinkError::TimedOut { .. } => {
            format!("{error}: is the host up, and does a firewall let us through?")
        }
        other => other.to_string(),
    }
}
