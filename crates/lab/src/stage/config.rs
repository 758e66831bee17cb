//! The my.cnf of a node: the server's defaults, except for what its kind of cluster requires and what a small machine needs.

use std::net::IpAddr;
use std::path::Path;

/// Settings that differ from the server's defaults because of a small machine; `lab status` and `lab up` print it.
pub const SMALL_MACHINE: &str =
    "buffer pool 64M, InnoDB log 16M, performance_schema off; all else is the server's default";

/// InnoDB's log size, the same in the template and in every node, since they are copies.
pub const LOG_FILE_SIZE: &str = "16M";

/// The SQL port of every node.
pub const PORT: u16 = 3306;

/// The inputs of a node's my.cnf.
pub struct Node<'a> {
    /// Its own address.
    pub address: IpAddr,
    /// The directory with `data`, `tmp` and the socket.
    pub directory: &'a Path,
    /// Lines that its kind of cluster requires.
    pub kind_lines: Vec<String>,
    /// Additional lines.
    pub server_options: &'a [String],
}

impl Node<'_> {
    /// The text of the file.
    pub fn text(&self) -> String {
        let directory = self.directory.display();
        let mut lines = files(&directory.to_string());
        lines.extend([
            format!("bind-address = {}", self.address),
            format!("port = {PORT}"),
            "# no name server in a namespace".to_owned(),
            "skip-name-resolve".to_owned(),
            "character-set-server = utf8mb4".to_owned(),
            "collation-server = utf8mb4_general_ci".to_owned(),
            "# a small machine".to_owned(),
            "innodb-buffer-pool-size = 64M".to_owned(),
            format!("innodb-log-file-size = {LOG_FILE_SIZE}"),
            "performance-schema = OFF".to_owned(),
        ]);
        lines.extend(self.kind_lines.iter().cloned());
        lines.extend(self.server_options.iter().cloned());
        // The SST script's default is a directory under /tmp that is never cleaned up.
        lines.extend(["[sst]".to_owned(), "sst-log-archive = 0".to_owned()]);
        lines.join("\n") + "\n"
    }
}

/// Settings for the location of a server's files, used for the template too.
pub fn files(directory: &str) -> Vec<String> {
    let mut lines = vec![
        "[mariadbd]".to_owned(),
        format!("datadir = {directory}/data"),
        format!("tmpdir = {directory}/tmp"),
        format!("socket = {directory}/mysqld.sock"),
        format!("pid-file = {directory}/mariadbd.pid"),
        format!("log-error = {directory}/error.log"),
    ];
    if rustix::process::geteuid().is_root() {
        lines.push("# the stage's directory is root's alone, and so is its network".to_owned());
        lines.push("user = root".to_owned());
    }
    lines
}
