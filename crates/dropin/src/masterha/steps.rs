//! Steps that several commands take: the file is read, a new master is chosen, and the replicas follow it.

use std::io::{BufRead, Write};
use std::time::Duration;

use api::Status;

use super::log::Log;
use super::options::Options;
use super::site::Site;
use import::mha::conf::{Conf, Server};
use import::mha::tiny::{self, Line};

/// How long to wait until the state of the servers is known.
pub const KNOWN_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait until the replicas follow the new master.
pub const FOLLOW_WITHIN: Duration = Duration::from_secs(30);

/// Reads the file of `--conf`, with MHA's log lines.
pub fn read_conf(log: &Log, options: &Options) -> Result<Conf, String> {
    let file = options.path("conf").ok_or("--conf=<server_config_file> must be set.")?;
    let global = options.path("global_conf");
    log.info(&format!("Reading application default configuration from {}..", file.display()));
    let conf = Conf::read(&file, global.as_deref())?;
    if !conf.unknown.is_empty() {
        return Err(conf.unknown.join("; "));
    }
    for odd in &conf.odd {
        log.warning(odd);
    }
    log.info(&format!("Reading server configuration from {}..", file.display()));
    Ok(conf)
}

/// Tells how a server that is not managed here is made to follow the new master: from its GTID position, which it has itself.
pub fn start_from(log: &Log, site: &Site, new: &Server) {
    let status = site.status().unwrap_or_default();
    let facts = site.node(&status, new).and_then(|node| node.facts.as_ref()?.replication());
    let is_mysql = facts.is_some_and(|facts| facts.server_uuid.is_some());
    let position = if is_mysql { "MASTER_AUTO_POSITION=1" } else { "MASTER_USE_GTID=slave_pos" };
    let host = if new.host() == new.ip() {
        new.host().to_owned()
    } else {
        format!("{} or {}", new.host(), new.ip())
    };
    log.info(&format!(
        " All other slaves should start replication from here. Statement should be: CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={}, {position}, MASTER_USER='{}', MASTER_PASSWORD='xxx';",
        new.port().unwrap_or(3306),
        new.get("repl_user").unwrap_or("repl_user")
    ));
}

/// Waits until all follow `new`. `true`: some do not.
pub fn followers(log: &Log, site: &Site, others: &[&Server], new: &Server) -> bool {
    let all = |status: &Status| others.iter().all(|server| site.follows(status, server, new));
    let (status, is_late) = match site.wait(FOLLOW_WITHIN, all) {
        Ok(status) => (status, false),
        Err(status) => (*status, true),
    };
    for server in others {
        if site.follows(&status, server, new) {
            log.info(&format!("-- Slave switch on host {} succeeded.", server.shown()));
        } else {
            let why = site.reason(&status, server, "it is not known");
            log.error(&format!("-- Slave switch on host {} failed: {why}", server.shown()));
        }
    }
    if !is_late {
        log.info("All new slave servers switched successfully.");
    }
    is_late
}

/// The server of `--new_master_host`; else the first with candidate_master, else the first without no_master.
pub fn chosen<'a>(
    conf: &'a Conf,
    options: &Options,
    others: &[&'a Server],
    orig: &'a Server,
) -> Result<&'a Server, String> {
    if let Some(host) = options.get("new_master_host") {
        let port = options.port("new_master_port")?;
        let found = conf
            .find(host, port)
            .ok_or_else(|| format!("Detected new master {host} does not exist in {}", conf.file.display()))?;
        return if found.is_on("no_master") && found.block != orig.block {
            Err(format!("{} can not be new master: no_master is set", found.shown()))
        } else {
            Ok(found)
        };
    }
    let may = || others.iter().copied().filter(|server| !server.is_on("no_master"));
    let best = may().find(|server| server.is_on("candidate_master")).or_else(|| may().next());
    best.ok_or_else(|| "None of existing slaves can be a new master: no_master is set on all".into())
}

/// Asks for confirmation on the terminal.
pub fn confirm(question: &str) -> Result<(), String> {
    let mut out = std::io::stdout();
    // If the question cannot be printed, it cannot be answered, which counts as no.
    let _ = write!(out, "\n{question}").and_then(|()| out.flush());
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && answer.trim().eq_ignore_ascii_case("yes") {
        Ok(())
    } else {
        Err("Not typed yes. Stopping.".into())
    }
}

/// Removes a server's block from the file.
pub fn remove(conf: &Conf, server: &Server) -> Result<(), String> {
    let shown = conf.file.display();
    let text = infile::read(&conf.file).map_err(|e| format!("{shown} cannot be read: {e}"))?;
    let mut inside = false;
    let mut kept = Vec::new();
    // Comments may be in any encoding, and stay as they are.
    for line in text.split_inclusive(|byte| b"\r\n".contains(byte)) {
        if let Some((_, Some(Line::Block(name)))) = tiny::lines(line).next() {
            inside = name == server.block.as_bytes();
        }
        if !inside {
            kept.extend_from_slice(line);
        }
    }
    std::fs::write(&conf.file, kept).map_err(|e| format!("{shown} cannot be written: {e}"))
}
