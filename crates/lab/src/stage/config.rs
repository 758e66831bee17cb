//! The my.cnf of a node: the server's defaults, except for what its kind of cluster requires and what a small machine needs.

use std::net::IpAddr;
use std::path::Path;

use super::product::Product;
use super::tools::Tools;

/// Settings that differ from the server's defaults because of a small machine; `lab status` and `lab up` print it.
pub const SMALL_MACHINE: &str =
    "buffer pool 64M, InnoDB log 16M, performance_schema off; all else is the server's default";

/// The same for MySQL, whose server needs its performance_schema to show its replication, and more of a log to be installed.
pub const SMALL_MACHINE_MYSQL: &str = "buffer pool 64M, InnoDB log 32M; all else is the server's default";

/// The SQL port of every node.
pub const PORT: u16 = 3306;

/// The inputs of a node's my.cnf.
pub struct Node<'a> {
    /// Its own address.
    pub address: IpAddr,
    /// The directory with `data`, `tmp` and the socket.
    pub directory: &'a Path,
    /// Its server.
    pub tools: &'a Tools,
    /// Lines that its kind of cluster requires.
    pub kind_lines: Vec<String>,
    /// Additional lines.
    pub server_options: &'a [String],
}

impl Node<'_> {
    /// The text of the file.
    pub fn text(&self) -> String {
        let directory = self.directory.display();
        let mut lines = server(self.tools, &directory.to_string());
        lines.extend([
            format!("bind-address = {}", self.address),
            format!("port = {PORT}"),
            "# no name server in a namespace".to_owned(),
            "skip-name-resolve".to_owned(),
            "character-set-server = utf8mb4".to_owned(),
            "collation-server = utf8mb4_general_ci".to_owned(),
            "# a small machine".to_owned(),
            "innodb-buffer-pool-size = 64M".to_owned(),
        ]);
        if self.tools.version.product == Product::MariaDb {
            lines.push("performance-schema = OFF".to_owned());
        }
        lines.extend(self.kind_lines.iter().cloned());
        lines.extend(self.server_options.iter().cloned());
        // The SST script's default is a directory under /tmp that is never cleaned up.
        lines.extend(["[sst]".to_owned(), "sst-log-archive = 0".to_owned()]);
        lines.join("\n") + "\n"
    }
}

/// The lines of every server, of one that makes a template, too.
pub fn server(tools: &Tools, directory: &str) -> Vec<String> {
    let product = tools.version.product;
    let section = match product {
        Product::MariaDb => "[mariadbd]",
        Product::MySql => "[mysqld]",
    };
    let mut lines = vec![
        section.to_owned(),
        format!("datadir = {directory}/data"),
        format!("tmpdir = {directory}/tmp"),
        format!("socket = {directory}/mysqld.sock"),
        format!("pid-file = {directory}/server.pid"),
        format!("log-error = {directory}/error.log"),
        log_size(product),
    ];
    // Its messages, character sets and plugins are below.
    lines.extend(tools.usr.as_ref().map(|usr| format!("basedir = {}", usr.display())));
    if product == Product::MySql {
        lines.extend(
            ["# no second port, and no directory of the packages", "mysqlx = OFF"].map(str::to_owned),
        );
        lines.push(NO_FILES.to_owned());
    }
    if rustix::process::geteuid().is_root() {
        lines.push("# the stage's directory is root's alone, and so is its network".to_owned());
        lines.push("user = root".to_owned());
    }
    lines
}

/// MySQL's packages name a directory for LOAD DATA and the like, without which the server does not start.
pub const NO_FILES: &str = "secure-file-priv = NULL";

/// InnoDB's log size, the same in the template and in every node, since they are copies.
pub fn log_size(product: Product) -> String {
    match product {
        Product::MariaDb => "innodb-log-file-size = 16M".to_owned(),
        Product::MySql => "innodb-redo-log-capacity = 32M".to_owned(),
    }
}
