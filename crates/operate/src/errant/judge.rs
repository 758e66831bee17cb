//! Decides which transactions are errant, and whether they can be flashed back. No I/O.

use protocol::gtid::mariadb::{Gtid, Position, Runs, State};

use super::file::{Contents, Transaction};

/// What a server has and the primary lacks.
#[derive(Clone, Debug, Default)]
pub struct Errant {
    /// The errant transactions, in the order of the server's binlog.
    pub transactions: Vec<Transaction>,
    /// The GTIDs that it had before the first of them.
    pub before: State,
    /// The first transaction after the first errant one that the primary has, too.
    pub mixed_with: Option<Gtid>,
    /// GTIDs that may be errant, in binlogs that are purged.
    pub purged: Runs,
    /// The files are from different server versions, or only some have checksums.
    pub formats_differ: bool,
}

/// `files`: the server's binlogs in order, from one that begins before the first errant transaction; `primary`: all GTIDs of the primary,
/// queried after the files were read.
pub fn errant(files: &[Contents], primary: &State) -> Errant {
    let mut found = Errant::default();
    let Some(first) = files.first() else { return found };
    found.purged = first.before.minus(primary);
    found.before = first.before.clone();
    found.formats_differ = files.iter().any(|file| file.format != first.format);
    for transaction in files.iter().flat_map(|file| &file.transactions) {
        match (primary.contains_gtid(transaction.gtid), found.transactions.is_empty()) {
            (false, _) => found.transactions.push(transaction.clone()),
            (true, true) => found.before.add(transaction.gtid),
            (true, false) => found.mixed_with = found.mixed_with.or(Some(transaction.gtid)),
        }
    }
    found
}

impl Errant {
    /// `0-1-101,0-1-102`: their GTIDs, in order.
    pub fn gtids(&self) -> String {
        self.transactions.iter().map(|one| one.gtid.to_string()).collect::<Vec<_>>().join(",")
    }

    /// The server's position before the first of them. `slave_pos`: what it applied as a replica, for domains that its binlogs do not have.
    pub fn position_before(&self, slave_pos: &Position) -> Position {
        let in_binlog = self.before.position();
        let is_errant = |domain| self.transactions.iter().any(|one| one.gtid.domain == domain);
        let mut all = self.before.clone();
        for gtid in slave_pos.gtids() {
            if in_binlog.in_domain(gtid.domain).is_none() && !is_errant(gtid.domain) {
                all.add(gtid);
            }
        }
        all.position()
    }

    /// Why they may not be errant at all: the primary, whose `server_id` is given, may have had them before its numbers began anew.
    pub fn not_errant(&self, slave_pos: &Position, primary_id: u32, primary: &str) -> Option<String> {
        let first = self.transactions.first()?.gtid;
        if let Some(own) = self.transactions.iter().find(|one| one.gtid.server == primary_id) {
            return Some(format!(
                "{} was written by {primary} itself, which does not know its number any more (RESET MASTER there?): it is not errant, and undoing it \
                 would lose it",
                own.gtid
            ));
        }
        self.position_before(slave_pos).in_domain(first.domain).is_none().then(|| {
            format!(
                "{first} is the first transaction of domain {} here, so that nothing shows whether {primary} had it before its binlogs begin",
                first.domain
            )
        })
    }

    /// Why they cannot be flashed back, one sentence each.
    pub fn obstacles(&self) -> Vec<String> {
        let mut all = Vec::new();
        if !self.purged.is_empty() {
            all.push(format!("{} may be in binlogs that are purged there", self.purged));
        }
        if let Some(gtid) = self.mixed_with {
            all.push(format!("{gtid}, which the primary has, too, was written after the first of them"));
        }
        if self.formats_differ {
            all.push(
                "they are in binlogs of different versions of the server, or of different binlog_checksum"
                    .into(),
            );
        }
        for transaction in &self.transactions {
            all.extend(transaction.obstacles.iter().map(|why| format!("{} {why}", transaction.gtid)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(before: &str, gtids: &[&str]) -> Contents {
        let transactions = gtids.iter().map(|gtid| Transaction::of(gtid.parse().unwrap()));
        Contents {
            before: before.parse().unwrap(),
            transactions: transactions.collect(),
            ..Contents::default()
        }
    }

    fn found(files: &[Contents], primary: &str) -> Errant {
        errant(files, &primary.parse().unwrap())
    }

    #[test]
    fn only_numbers_that_are_in_the_binlog_and_not_the_primarys_are_errant() {
        // By the binlog state alone, 0-2-5..6 would be errant, but 5 is a transaction of another server.
        let files = [file("0-1-3", &["0-2-4", "0-1-5", "0-2-6"])];
        let of = found(&files, "0-2-4,0-1-7");
        assert_eq!((of.gtids().as_str(), of.mixed_with), ("0-2-6", None));
        assert_eq!(of.before.to_string(), "0-2-4,0-1-5");
        assert_eq!(of.position_before(&"0-1-3".parse().unwrap()).to_string(), "0-1-5");
        assert!(of.obstacles().is_empty());
    }

    #[test]
    fn what_the_primary_wrote_itself_is_not_errant() {
        let why = |files: &[Contents], primary: &str, id| {
            found(files, primary).not_errant(&"".parse().unwrap(), id, "db1").unwrap_or_default()
        };
        let replica = [file("0-1-3", &["0-1-4", "0-1-5"])];
        assert_eq!(why(&replica, "0-1-4,0-2-5", 2), "");
        // RESET MASTER on server 1, which has written four since.
        assert!(why(&replica, "0-1-4", 1).starts_with("0-1-5 was written by db1 itself"));
        // The same on server 2, which had taken over from server 1.
        let all = [file("", &["0-1-1", "0-1-2", "0-2-3"])];
        assert!(why(&all, "0-2-1", 2).starts_with("0-2-3 was written by db1 itself"));
        let before = [file("", &["0-1-1", "0-1-2"])];
        assert!(why(&before, "0-2-1", 2).starts_with("0-1-1 is the first transaction of domain 0 here"));
    }

    #[test]
    fn several_files_are_one_history() {
        let files = [file("", &["0-1-1", "0-1-2"]), file("0-1-2", &["0-1-3"])];
        assert_eq!(found(&files, "0-1-1,0-2-2").gtids(), "0-1-2,0-1-3");
        assert!(found(&files, "0-1-3").transactions.is_empty());
        assert!(found(&[], "0-1-3").transactions.is_empty());
    }

    #[test]
    fn what_came_after_them_or_is_purged_keeps_them_from_being_undone() {
        let mixed = found(&[file("", &["0-1-1", "0-2-2", "0-1-3"])], "0-1-3");
        assert_eq!(mixed.gtids(), "0-2-2");
        assert!(
            mixed.obstacles()[0].starts_with("0-1-3, which the primary has, too"),
            "{:?}",
            mixed.obstacles()
        );
        let purged = found(&[file("0-1-9", &["0-1-10"])], "0-1-7");
        assert!(purged.obstacles()[0].starts_with("0-1-8..9 may be in binlogs"), "{:?}", purged.obstacles());
        let mut later = file("0-1-1", &["0-1-2"]);
        later.format.1 = true;
        assert_eq!(found(&[file("", &["0-1-1"]), later], "").obstacles().len(), 1);
    }

    #[test]
    fn a_position_has_the_domains_that_the_binlog_knows_nothing_of_and_no_errant_one() {
        let of = found(&[file("0-1-1", &["7-1-5"])], "0-1-1");
        let position = of.position_before(&"0-9-9,3-3-3,7-1-5".parse().unwrap());
        assert_eq!(position.to_string(), "0-1-1,3-3-3");
    }
}
