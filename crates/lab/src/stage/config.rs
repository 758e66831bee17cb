//! The my.cnf of a node: the server's own defaults, but for what Galera demands and what a small machine needs.

use std::net::IpAddr;
use std::path::Path;

use super::tools::Tools;

/// What differs from the server's defaults for the machine's sake; `lab status` and `lab up` say so.
pub const SMALL_MACHINE: &str =
    "buffer pool 64M, InnoDB log 16M, gcache 64M, performance_schema off; all else is the server's default";

/// evs settings for a network whose round trip is far below 100 ms: a silent node leaves the view after 0.6 s instead of 5-10.
pub const ADVISED_EVS: &str = "evs.keepalive_period=PT0.2S; evs.inactive_check_period=PT0.1S; evs.suspect_timeout=PT0.6S; \
     evs.inactive_timeout=PT2S; evs.install_timeout=PT1S; evs.join_retrans_period=PT0.2S";

/// InnoDB's log, in the template and in every node alike: they are copies.
pub const LOG_FILE_SIZE: &str = "16M";

/// Everything a node's file depends on.
pub struct Node<'a> {
    /// `db1`.
    pub name: &'a str,
    /// The stage's name, which is the cluster's.
    pub stage: &'a str,
    /// Its own address.
    pub address: IpAddr,
    /// All nodes' addresses, itself included.
    pub members: &'a [IpAddr],
    /// The directory with `data`, `tmp` and the socket.
    pub directory: &'a Path,
    /// Whether the address is its alone (a namespace), or one of many on a shared loopback.
    pub namespaced: bool,
    /// More provider options, `;` between them.
    pub galera_options: &'a str,
    /// More lines.
    pub server_options: &'a [String],
}

impl Node<'_> {
    /// The text of the file.
    pub fn text(&self, tools: &Tools) -> String {
        let directory = self.directory.display();
        let (address, name, stage) = (self.address, self.name, self.stage);
        let members = self.members.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut options = vec!["gcache.size=64M".to_owned()];
        if !self.namespaced {
            // The ports are everybody's, so nothing may listen on all addresses.
            options.push(format!("gmcast.listen_addr=tcp://{address}:4567"));
            options.push(format!("ist.recv_addr=tcp://{address}:4568"));
        }
        options.extend(
            self.galera_options.split(';').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned),
        );
        let mut lines = vec![
            "[mariadbd]".to_owned(),
            format!("datadir = {directory}/data"),
            format!("tmpdir = {directory}/tmp"),
            format!("socket = {directory}/mysqld.sock"),
            format!("pid-file = {directory}/mariadbd.pid"),
            format!("log-error = {directory}/error.log"),
            format!("bind-address = {address}"),
            "port = 3306".to_owned(),
            "# no name server in a namespace".to_owned(),
            "skip-name-resolve".to_owned(),
            "character-set-server = utf8mb4".to_owned(),
            "collation-server = utf8mb4_general_ci".to_owned(),
            "# a small machine".to_owned(),
            "innodb-buffer-pool-size = 64M".to_owned(),
            format!("innodb-log-file-size = {LOG_FILE_SIZE}"),
            "performance-schema = OFF".to_owned(),
            "# Galera demands".to_owned(),
            "binlog-format = ROW".to_owned(),
            "innodb-autoinc-lock-mode = 2".to_owned(),
            "default-storage-engine = InnoDB".to_owned(),
            "wsrep-on = ON".to_owned(),
            format!("wsrep-provider = {}", tools.provider.display()),
            format!("wsrep-cluster-name = us-{stage}"),
            format!("wsrep-cluster-address = gcomm://{members}"),
            format!("wsrep-node-name = {name}"),
            format!("wsrep-node-address = {address}"),
            format!("wsrep-sst-method = {}", tools.sst_method),
            format!("wsrep-sst-receive-address = {address}:4444"),
            "wsrep-sst-auth = root:".to_owned(),
            format!("wsrep-provider-options = \"{}\"", options.join("; ")),
        ];
        if rustix::process::geteuid().is_root() {
            lines.push("# the stage's directory is root's alone, and so is its network".to_owned());
            lines.push("user = root".to_owned());
        }
        lines.extend(self.server_options.iter().cloned());
        // The script's own default is a directory under /tmp that nobody clears away.
        lines.extend(["[sst]".to_owned(), "sst-log-archive = 0".to_owned()]);
        lines.join("\n") + "\n"
    }
}
