//! Flashback: undoes the errant transactions on their server, last first, in one transaction that is not written to the binlog; then
//! removes them from the server's GTID state.
//!
//! ```text
//!   obstacles? ──none──> script (mariadb-binlog --flashback), checked against what the binlog's events say
//!                           └──> one transaction, sql_log_bin = 0 ──> forget (one statement) ──> its position is before them
//! ```
//!
//! Invariants: either all of them are undone or none; what cannot be undone exactly is refused before anything is changed.

use std::collections::BTreeSet;
use std::net::IpAddr;

use protocol::gtid::mariadb::State;

use super::ask::{self, Server};
use super::file::Transaction;
use super::gather::Found;
use super::tool::sql;
use super::work::Work;
use cli::exit::Failure;
use report::table::wrap;

/// The limit of what is undone, in bytes: all of it is in memory, and in one transaction.
const BYTES_MAX: u64 = 256 << 20;

/// The statements to run, in this order.
pub struct Script {
    /// The format description events for the rows.
    pub format: Vec<String>,
    /// The row events, the last first.
    pub rows: Vec<String>,
    /// The whole output of mariadb-binlog, with the rows as comments.
    pub text: Vec<u8>,
}

/// The other servers of the cluster.
#[derive(Debug, Default)]
pub struct Others {
    /// Their addresses: a connection from one of these that still fetches binlogs is a stale one.
    pub hosts: Vec<IpAddr>,
    /// The names of those that replicate from the server.
    pub followers: Vec<String>,
}

/// Why the transactions cannot be undone, one sentence each. Only queries; nothing is changed.
pub async fn obstacles(
    found: &Found,
    node: &mut Server,
    primary: &mut Server,
    others: &Others,
) -> Result<Vec<String>, Failure> {
    let mut all = found.errant.obstacles();
    all.extend(found.errant.not_errant(&found.standing.slave_pos, found.primary_id, &primary.name));
    if !found.received.is_empty() {
        all.push(format!(
            "{} was received and not applied, and is nowhere else: while one of its threads runs, run there START SLAVE SQL_THREAD; when both are \
             stopped, START SLAVE would remove it: SHOW SLAVE STATUS; CHANGE MASTER TO RELAY_LOG_FILE = 'Relay_Log_File', RELAY_LOG_POS = \
             Relay_Log_Pos; START SLAVE SQL_THREAD, with the two as shown; then look again",
            found.received
        ));
    }
    let bytes: u64 = found.errant.transactions.iter().map(Transaction::bytes).sum();
    if bytes > BYTES_MAX {
        all.push(format!("they are {} MiB, and {} are undone at the most", bytes >> 20, BYTES_MAX >> 20));
    }
    if !found.standing.read_only {
        all.push(format!("{} is writable: run there SET GLOBAL read_only = ON", node.name));
    }
    all.extend(node.loose_settings().await?);
    for name in &others.followers {
        all.push(format!("{name} follows {}, whose binlogs would be thrown away", node.name));
    }
    for (_, host) in node.readers().await? {
        if !is_among(&host, &others.hosts) {
            all.push(format!("{host} fetches the binlogs of {}, which would be thrown away", node.name));
        }
    }
    let tables: BTreeSet<String> = found
        .errant
        .transactions
        .iter()
        .flat_map(|one| &one.changes)
        .map(|(_, table)| table.clone())
        .collect();
    let tables: Vec<String> = tables.into_iter().collect();
    for key in node.cascades(&tables).await? {
        all.push(format!("the foreign key of {key} changes rows that no binlog has"));
    }
    for table in node.versioned(&tables).await? {
        all.push(format!("{table} is versioned: what it was before is kept, too"));
    }
    let position = found.errant.position_before(&found.standing.slave_pos);
    let oldest = primary.binlogs().await?.into_iter().next();
    let oldest = match oldest {
        Some((binlog, _)) => primary.before(&binlog).await?,
        None => State::default(),
    };
    let purged = oldest
        .position()
        .gtids()
        .find(|gtid| position.in_domain(gtid.domain).is_none_or(|has| has.sequence < gtid.sequence));
    if let Some(gtid) = purged {
        all.push(format!(
            "{} has purged its binlogs up to {gtid}, and {} would stand at {position}: it could not follow",
            primary.name, node.name
        ));
    }
    Ok(all)
}

/// `host`: as in PROCESSLIST, with or without a port.
fn is_among(host: &str, hosts: &[IpAddr]) -> bool {
    let ip = host
        .parse::<IpAddr>()
        .ok()
        .or_else(|| host.rsplit_once(':')?.0.trim_matches(['[', ']']).parse().ok());
    ip.is_some_and(|ip| hosts.contains(&ip))
}

/// The error when there are obstacles.
pub fn refused(node: &str, obstacles: &[String]) -> Failure {
    let mut text = format!("nothing was changed: what {node} has cannot be flashed back:\n");
    for obstacle in obstacles {
        for (nth, line) in wrap(obstacle, 100).iter().enumerate() {
            text += &format!("  {} {line}\n", if nth == 0 { '-' } else { ' ' });
        }
    }
    text += &format!(
        "save what must be kept (understudy errant export {node} --file errant.sql), and make {node} a copy of the primary (mariadb-backup)"
    );
    Failure::Failed(text)
}

/// The statements that undo the transactions.
pub fn script(work: &Work, found: &Found) -> Result<Script, Failure> {
    let transactions = &found.errant.transactions;
    let Some(first) = transactions.first() else {
        return Err(Failure::Failed("there is nothing to flash back".into()));
    };
    let mut files: Vec<&str> = transactions.iter().map(|one| one.file.as_str()).collect();
    files.dedup();
    let text = sql(work, &files, first.begins, None, &["--flashback", "-v"])?;
    let expected: Vec<u64> =
        transactions.iter().rev().flat_map(|one| one.rows_end.iter().rev().copied()).collect();
    read(text, &expected, found.standing.packet_bytes_max).map_err(|why| {
        Failure::Failed(format!(
            "nothing was changed: mariadb-binlog --flashback gave something else than was expected: {why}"
        ))
    })
}

/// Extracts the statements. `expected`: the end positions of all row events, the last first; exactly these must be undone.
fn read(text: Vec<u8>, expected: &[u64], packet_bytes_max: usize) -> Result<Script, String> {
    let (mut format, mut rows, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_rows = false;
    let mut statement: Option<String> = None;
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(open) = &mut statement {
            if line.starts_with(b"'") {
                open.push('\'');
                let done = std::mem::take(open);
                if done.len() >= packet_bytes_max {
                    return Err(format!(
                        "a statement of {} bytes, and max_allowed_packet there is {packet_bytes_max}: raise it",
                        done.len()
                    ));
                }
                if is_rows {
                    rows.push(done)
                } else {
                    format.push(done)
                }
                statement = None;
            } else {
                open.push_str(std::str::from_utf8(line).map_err(|_| "a statement that is no text")?);
                open.push('\n');
            }
        } else if line == b"BINLOG '" {
            statement = Some("BINLOG '\n".to_owned());
        } else if line.starts_with(b"BINLOG") || line.starts_with(b"SET @binlog_fragment") {
            return Err("a statement in several parts".into());
        } else if line.starts_with(b"START TRANSACTION") {
            is_rows = true;
        } else if let Some(end) = rows_end(line) {
            ends.push(end);
        }
    }
    if ends != expected {
        return Err(format!("{} events of rows, and {} are known", ends.len(), expected.len()));
    }
    if rows.is_empty() && !expected.is_empty() {
        return Err("no statements".into());
    }
    Ok(Script { format, rows, text })
}

/// The end position of a row event, if this is its line.
fn rows_end(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    // A date follows the `#`; lines with a statement's text begin differently.
    let line = line.strip_prefix('#').filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))?;
    let (head, what) = line.split_once('\t')?;
    if !["Write_rows", "Update_rows", "Delete_rows"].iter().any(|kind| what.starts_with(kind)) {
        return None;
    }
    head.split_once("end_log_pos ")?.1.split_whitespace().next()?.parse().ok()
}

/// Undoes the transactions, and removes them from the server's GTID state. `note` is called between the two.
pub async fn run(
    node: &mut Server,
    found: &Found,
    script: &Script,
    note: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let undone = match undo(node, script).await {
        Ok(()) => is_as_it_was(node, found).await,
        failed => failed,
    };
    if let Err(failure) = undone {
        // Without the ROLLBACK, the transaction ends with the connection.
        let _ = node.order("ROLLBACK").await;
        return Err(failure.explained("nothing was changed: the rows could not be undone"));
    }
    if let Err(failure) = node.order("COMMIT").await {
        return Err(failure.explained(
            "whether they are undone is not known, since the commit was not answered; compare the tables",
        ));
    }
    note()?;
    let undone = "the transactions are undone, and the server still counts them as its own";
    node.end_readers().await.map_err(|failure| failure.explained(undone))?;
    let position = found.errant.position_before(&found.standing.slave_pos);
    let standing = &found.standing;
    let forget = ask::forget(&standing.binlog_state, &found.errant.before, &position, standing.strict);
    node.order(&forget).await.map(drop).map_err(|failure| failure.explained(undone))
}

/// Checks that nobody has written there since the search.
async fn is_as_it_was(node: &mut Server, found: &Found) -> Result<(), Failure> {
    let now = node.standing().await?;
    if now.binlog_state == found.standing.binlog_state && now.read_only {
        return Ok(());
    }
    Err(Failure::Failed(format!("{} was written, or made writable, meanwhile", node.name)))
}

async fn undo(node: &mut Server, script: &Script) -> Result<(), Failure> {
    node.order("SET SESSION sql_log_bin = 0").await?;
    for statement in &script.format {
        node.order(statement).await?;
    }
    node.order("START TRANSACTION").await?;
    for statement in &script.rows {
        node.order(statement).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "DELIMITER /*!*/;\n#261122 14:34:40 server id 1  end_log_pos 256 CRC32 0x6b98ddd1 \tStart: binlog v 4\nROLLBACK/*!*/;\n\
        BINLOG '\ngP0C\n'/*!*/;\n#Q> #x end_log_pos 7 \tWrite_rows: x\nSTART TRANSACTION/*!*/;\n\
        #261122 14:35:03 server id 1  end_log_pos 1868 CRC32 0x99ae036b \tDelete_rows: table id 22 flags: STMT_END_F\n\n\
        BINLOG '\nl/0C\naxkB\n'/*!*/;\n### INSERT INTO `sbtest`.`u`\nCOMMIT\n/*!*/;\nSTART TRANSACTION/*!*/;\n\
        #261122 14:36:56 server id 1  end_log_pos 300 \tUpdate_rows: table id 24\n\
        #261122 14:36:56 server id 1  end_log_pos 200 \tUpdate_rows: table id 24 flags: STMT_END_F\nBINLOG '\nAAAA\n'/*!*/;\nCOMMIT\n/*!*/;\n";

    #[test]
    fn the_statements_are_taken_and_every_event_is_accounted_for() {
        let script = read(TEXT.into(), &[1868, 300, 200], 1000).unwrap();
        assert_eq!(script.format, ["BINLOG '\ngP0C\n'"]);
        assert_eq!(script.rows, ["BINLOG '\nl/0C\naxkB\n'", "BINLOG '\nAAAA\n'"]);
    }

    #[test]
    fn a_reader_is_known_by_its_host() {
        let hosts = ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        for (host, is) in [
            ("10.0.0.2:4711", true),
            ("fd00::2:4711", false),
            ("[fd00::2]:4711", true),
            ("10.0.0.9:1", false),
            ("", false),
        ] {
            assert_eq!(is_among(host, &hosts), is, "{host}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for expected in [&[1868, 300][..], &[1868, 200, 300], &[]] {
            assert!(read(TEXT.into(), expected, 1000).is_err());
        }
        assert!(
            read(TEXT.into(), &[1868, 300, 200], 15).is_err_and(|why| why.contains("max_allowed_packet"))
        );
        let parts = TEXT.replace("BINLOG '\nAAAA\n'", "SET @binlog_fragment_0='AAAA'");
        assert!(read(parts.into(), &[1868, 300, 200], 1000).is_err());
    }
}
