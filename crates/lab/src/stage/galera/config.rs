//! The my.cnf lines that Galera requires.

use super::super::state::{Stage, StageNode};

/// Settings that differ from the server's defaults because of a small machine.
pub const SMALL_MACHINE: &str =
    "buffer pool 64M, InnoDB log 16M, gcache 64M, performance_schema off; all else is the server's default";

/// evs settings for a network whose round trip is far below 100 ms: a silent node leaves the view after 0.6 s instead of 5-10.
pub const ADVISED_EVS: &str = "evs.keepalive_period=PT0.2S; evs.inactive_check_period=PT0.1S; evs.suspect_timeout=PT0.6S; \
     evs.inactive_timeout=PT2S; evs.install_timeout=PT1S; evs.join_retrans_period=PT0.2S";

/// The lines. `galera_options`: additional provider options, separated by `;`.
///
/// # Errors
/// When Galera is not installed.
pub fn node_lines(stage: &Stage, node: &StageNode, galera_options: &str) -> anyhow::Result<Vec<String>> {
    let galera = stage.tools.galera()?;
    let address = node.address.ip();
    let members = stage.nodes.iter().map(|node| node.address.ip().to_string()).collect::<Vec<_>>().join(",");
    let mut options = vec!["gcache.size=64M".to_owned()];
    if !stage.network.namespaced {
        // All nodes share the ports, so nothing may listen on all addresses.
        options.push(format!("gmcast.listen_addr=tcp://{address}:4567"));
        options.push(format!("ist.recv_addr=tcp://{address}:4568"));
    }
    options
        .extend(galera_options.split(';').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    Ok(vec![
        "# Galera demands".to_owned(),
        "binlog-format = ROW".to_owned(),
        "innodb-autoinc-lock-mode = 2".to_owned(),
        "default-storage-engine = InnoDB".to_owned(),
        "wsrep-on = ON".to_owned(),
        format!("wsrep-provider = {}", galera.provider.display()),
        format!("wsrep-cluster-name = us-{}", stage.name),
        format!("wsrep-cluster-address = gcomm://{members}"),
        format!("wsrep-node-name = {}", node.name),
        format!("wsrep-node-address = {address}"),
        format!("wsrep-sst-method = {}", galera.sst_method),
        format!("wsrep-sst-receive-address = {address}:4444"),
        "wsrep-sst-auth = root:".to_owned(),
        format!("wsrep-provider-options = \"{}\"", options.join("; ")),
    ])
}
