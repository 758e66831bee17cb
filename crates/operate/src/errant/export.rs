//! Exports errant transactions as SQL: to be read, and to be run on a server that lacks them.

use std::fmt::Write;

use super::file::Transaction;
use super::gather::Found;
use super::tool::{parts, sql};
use super::work::Work;
use cli::exit::Failure;

/// Lines that set a transaction's original GTID. On another server it must get a new one: gtid_strict_mode refuses the old one.
const GTID_LINES: [&[u8]; 3] = [
    b"/*M!100001 SET @@session.gtid_domain_id=",
    b"/*M!100001 SET @@session.server_id=",
    b"/*M!100001 SET @@session.gtid_seq_no=",
];

/// The whole text; the rows are also included as comments.
pub fn text(work: &Work, node: &str, primary: &str, found: &Found) -> Result<Vec<u8>, Failure> {
    let transactions = &found.errant.transactions;
    let mut text = head(node, primary, found).into_bytes();
    for (file, from, to) in parts(transactions) {
        let in_part = |one: &&Transaction| one.file == file && (from..to).contains(&one.begins);
        let begins: Vec<u64> = transactions.iter().filter(in_part).map(|one| one.begins).collect();
        without_gtids(&sql(work, &[file], from, Some(to), &["-v"])?, &begins, &mut text);
    }
    Ok(text)
}

fn head(node: &str, primary: &str, found: &Found) -> String {
    let mut head = String::new();
    let _ = writeln!(
        head,
        "-- Transactions that {node} has and {primary}, the primary, has not: {}",
        found.errant.gtids()
    );
    head.push_str(
        "-- To write them on the primary, read what they do, take out what is not wanted, and run:\n\
         --   mariadb --binary-mode -h PRIMARY < THIS FILE\n\
         -- as an account with BINLOG REPLAY. They get new GTIDs. A row that is not there any more as it was is an error (1032 or 1062).\n\n",
    );
    head
}

/// Comments out the GTID lines below the head of each transaction, and only there. `begins`: the byte positions of the transactions, in
/// order.
fn without_gtids(sql: &[u8], begins: &[u64], text: &mut Vec<u8>) {
    let mut begins = begins.iter().peekable();
    // Below the position line of a transaction comes its head, then the lines that set its session variables.
    let (mut is_at, mut is_head) = (false, false);
    for line in sql.split_inclusive(|byte| *byte == b'\n') {
        let starts = |with: &[u8]| line.starts_with(with);
        if starts(b"# at ") {
            let at = String::from_utf8_lossy(&line[5..]).trim().parse::<u64>();
            is_at = at.is_ok_and(|at| begins.next_if(|next| **next == at).is_some());
            is_head = false;
        } else if starts(b"#") {
            is_head = is_at;
            is_at = false;
        } else if !starts(b"/*") {
            (is_at, is_head) = (false, false);
        } else if is_head && GTID_LINES.iter().any(|gtid| starts(gtid)) {
            text.extend_from_slice(b"-- ");
        }
        text.extend_from_slice(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_loses_its_number_and_nothing_else() {
        let sql = "# at 10\n#261122 GTID 0-1-6 trans\n/*M!100101 SET @@session.skip_parallel_replication=0*//*!*/;\n\
                   /*M!100001 SET @@session.gtid_seq_no=6*//*!*/;\nSTART TRANSACTION\n/*!*/;\n# at 20\n\
                   UPDATE t SET a = '\n# at 10\n/*M!100001 SET @@session.gtid_seq_no=6*//*!*/;\n'";
        let mut text = Vec::new();
        without_gtids(sql.as_bytes(), &[10], &mut text);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("\n-- /*M!100001 SET").count(), 1, "{text}");
        assert_eq!(text.matches("-- /*M!100101").count(), 0, "{text}");
    }
}
