//! The position of a stopped node in the history of its cluster, from the files on its disk.
//!
//! Three sources: `grastate.dat` (exact after a clean stop, seqno -1 while the server runs and after a crash), the log of a run with
//! `--wsrep-recover` (what InnoDB has, after a crash), and `gvwstate.dat` (the last Primary view the node was in, removed by a clean stop).
//! Pure: the shell reads the files.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The uuid of a node that has no data of any cluster.
const NO_HISTORY: &str = "00000000-0000-0000-0000-000000000000";

/// In place of members, where a node has left no view.
const NO_VIEW: &str = "none";

/// A position in the history of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Position {
    /// Which history: wsrep_cluster_state_uuid.
    pub uuid: String,
    /// The last writeset in it. Never negative.
    pub seqno: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uuid, self.seqno)
    }
}

impl FromStr for Position {
    type Err = String;

    /// Reads `UUID:SEQNO`. An unknown seqno (-1) and the uuid of a node without data are refused.
    fn from_str(text: &str) -> Result<Self, String> {
        let (uuid, seqno) = text
            .trim()
            .rsplit_once(':')
            .ok_or_else(|| format!("{text:?} is no position: it is written UUID:SEQNO"))?;
        let seqno: i64 = seqno.parse().map_err(|_| format!("{text:?} has no whole number as its seqno"))?;
        Self::new(uuid, seqno)
    }
}

impl Position {
    fn new(uuid: &str, seqno: i64) -> Result<Self, String> {
        if !is_uuid(uuid) {
            return Err(format!("{uuid:?} is no uuid of a cluster"));
        }
        if uuid == NO_HISTORY {
            return Err("the node has no data of any cluster (its uuid is zero)".to_owned());
        }
        match u64::try_from(seqno) {
            Ok(seqno) => Ok(Self { uuid: uuid.to_ascii_lowercase(), seqno }),
            Err(_) => Err(format!(
                "its seqno is {seqno}: it did not stop in good order, and only --wsrep-recover can tell"
            )),
        }
    }
}

/// Whether it is the uuid of a history: 8-4-4-4-12 hexadecimal digits.
pub fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The content of `grastate.dat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grastate {
    /// The position, or why the file has none.
    pub position: Result<Position, String>,
    /// It has data of a cluster. The uuid is zero where there is none, and while a full copy (SST) is under way.
    pub has_data: bool,
    /// Galera lets this node be the first of a cluster.
    pub safe_to_bootstrap: bool,
}

/// Reads `grastate.dat`.
///
/// # Errors
/// When it is no such file.
pub fn grastate(text: &str) -> Result<Grastate, String> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        value.ok_or_else(|| format!("grastate.dat has no line {name:?}"))
    };
    let seqno = field("seqno:")?;
    let seqno: i64 = seqno.parse().map_err(|_| format!("the seqno of grastate.dat is {seqno:?}"))?;
    let uuid = field("uuid:")?;
    Ok(Grastate {
        position: Position::new(uuid, seqno),
        has_data: is_uuid(uuid) && uuid != NO_HISTORY,
        safe_to_bootstrap: field("safe_to_bootstrap:").is_ok_and(|value| value == "1"),
    })
}

/// The position in the log of a run with `--wsrep-recover`.
///
/// # Errors
/// When the log has none.
pub fn recovered(log: &str) -> Result<Position, String> {
    let found = log.lines().rev().find_map(|line| line.split_once("WSREP: Recovered position:"));
    let Some((_, text)) = found else {
        let last = log.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
        return Err(format!("--wsrep-recover reported no position; its last line: {last}"));
    };
    // Some versions write the domain and server id of GTIDs behind it, after a comma.
    text.split(',').next().unwrap_or_default().parse()
}

/// innodb_flush_log_at_trx_commit in the arguments that a server's program would be started with, as its `--print-defaults` writes them. The last
/// one counts; 1 where none is given, which is the default of every version. `None` where it is no number.
pub fn flush_at_commit(arguments: &str) -> Option<u8> {
    const NAME: &str = "innodb_flush_log_at_trx_commit";
    let mut values = arguments.split_whitespace().filter_map(|argument| {
        let (name, value) = argument.strip_prefix("--")?.split_once('=')?;
        let name = name.replace('-', "_");
        (name.strip_prefix("loose_").unwrap_or(&name) == NAME).then_some(value)
    });
    values.next_back().map_or(Some(1), |value| value.parse().ok())
}

/// The gcomm uuids of the members of the last Primary view that the node was in, by `gvwstate.dat`; none when it says nothing.
pub fn last_primary_view(gvwstate: &str) -> Vec<String> {
    let members = gvwstate.lines().filter_map(|line| line.strip_prefix("member:"));
    members.filter_map(|line| line.split_whitespace().next()).map(str::to_ascii_lowercase).collect()
}

/// The data of a node that does not run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Left {
    /// Its position.
    pub position: Position,
    /// The gcomm uuids of the last Primary view it was in; none where it is not known.
    pub members: Vec<String>,
    /// Galera lets it be the first of a cluster, as it stands.
    pub safe_to_bootstrap: bool,
    /// The position is only a lower bound of what the node acknowledged: it crashed, and was not seen to run with
    /// innodb_flush_log_at_trx_commit = 1, so the last commits may never have reached its disk.
    pub is_lower_bound: bool,
}

impl Left {
    /// A position and nothing else.
    pub fn at(position: Position) -> Self {
        Self { position, members: Vec::new(), safe_to_bootstrap: false, is_lower_bound: false }
    }

    /// The lines that a proof command prints, which [`Left::read`] reads.
    pub fn lines(&self) -> String {
        let mut text = format!("position {}\n", self.position);
        let members = if self.members.is_empty() { NO_VIEW.to_owned() } else { self.members.join(" ") };
        text.push_str(&format!("members {members}\n"));
        text.push_str(&format!("safe_to_bootstrap {}\n", u8::from(self.safe_to_bootstrap)));
        text.push_str(&format!("lower_bound {}\n", u8::from(self.is_lower_bound)));
        text
    }

    /// Reads the output of a proof command: exactly one line `position UUID:SEQNO`; `members UUID UUID ...`, or `members none` where no
    /// last view was left, as after a clean stop; and `safe_to_bootstrap 1` and `lower_bound 1` where they apply. Other lines are ignored.
    ///
    /// # Errors
    /// When the position is missing, given twice, or invalid; when the members are missing, which show whether the node went on without others.
    pub fn read(text: &str) -> Result<Self, String> {
        let lines = |name: &'static str| {
            text.lines()
                .filter_map(move |line| line.trim().strip_prefix(name))
                .filter_map(|rest| rest.strip_prefix(' '))
        };
        let mut positions = lines("position");
        let (Some(position), None) = (positions.next(), positions.next()) else {
            return Err("it must write one line `position UUID:SEQNO`".to_owned());
        };
        let position = position.parse()?;
        let mut members: Vec<String> =
            lines("members").flat_map(str::split_whitespace).map(str::to_ascii_lowercase).collect();
        if members.is_empty() {
            return Err(format!(
                "it must write a line `members UUID ...`, the last Primary view in gvwstate.dat, or `members {NO_VIEW}`"
            ));
        }
        members.retain(|member| member != NO_VIEW);
        let is_set = |name: &'static str| lines(name).any(|value| value.trim() == "1");
        let (safe_to_bootstrap, is_lower_bound) = (is_set("safe_to_bootstrap"), is_set("lower_bound"));
        Ok(Self { position, members, safe_to_bootstrap, is_lower_bound })
    }
}

/// The line that says when a node's data was looked at: `at` since 1970.
pub fn taken(at: Duration) -> String {
    format!("taken {}\n", at.as_secs())
}

/// When that was, since 1970; `None` where the report has no such line.
pub fn taken_at(report: &str) -> Option<Duration> {
    let line = report.lines().find_map(|line| line.trim().strip_prefix("taken "))?;
    line.trim().parse().ok().map(Duration::from_secs)
}

/// Reads the members of a last Primary view from a command line: gcomm uuids, separated by commas, or `none`.
///
/// # Errors
/// When one of them is not a uuid, or the list is empty.
pub fn members(text: &str) -> Result<Vec<String>, String> {
    if text.trim() == NO_VIEW {
        return Ok(Vec::new());
    }
    let each = text.split(',').map(|member| member.trim().to_ascii_lowercase());
    each.map(
        |member| {
            if is_uuid(&member) { Ok(member) } else { Err(format!("{member:?} is no uuid of a member")) }
        },
    )
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";

    #[test]
    fn positions_are_read_and_unknown_ones_refused() {
        let position: Position = format!("{UUID}:42").parse().unwrap();
        assert_eq!((position.uuid.as_str(), position.seqno), (UUID, 42));
        assert_eq!(position.to_string(), format!("{UUID}:42"));
        for (text, why) in [
            (format!("{UUID}:-1"), "--wsrep-recover"),
            (format!("{NO_HISTORY}:0"), "no data"),
            (format!("{NO_HISTORY}:-1"), "no data"),
            ("42".to_owned(), "UUID:SEQNO"),
            (format!("{UUID}:x"), "whole number"),
            ("short:1".to_owned(), "no uuid"),
        ] {
            let said = text.parse::<Position>().unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn grastate_is_read() {
        let file = |seqno: &str, safe: &str| {
            format!(
                "# GALERA saved state\nversion: 2.1\nuuid:    {UUID}\nseqno:   {seqno}\nsafe_to_bootstrap: {safe}\n"
            )
        };
        let clean = grastate(&file("7", "1")).unwrap();
        assert_eq!(clean.position.unwrap().seqno, 7);
        assert!(clean.safe_to_bootstrap);
        let crashed = grastate(&file("-1", "0")).unwrap();
        assert!(crashed.position.is_err() && !crashed.safe_to_bootstrap);
        assert!(grastate("nothing").is_err());
        assert!(grastate(&file("many", "0")).is_err());
    }

    #[test]
    fn the_log_of_a_recovery_is_read() {
        let log = format!("x\n2026-01-01  1:00:00 0 [Note] WSREP: Recovered position: {UUID}:38233\n");
        assert_eq!(recovered(&log).unwrap().seqno, 38_233);
        let with_gtid = format!("WSREP: Recovered position: {UUID}:9,1-1-4\n");
        assert_eq!(recovered(&with_gtid).unwrap().seqno, 9);
        assert!(recovered("a\nit failed\n\n").unwrap_err().contains("it failed"));
        assert!(recovered(&format!("WSREP: Recovered position: {NO_HISTORY}:-1\n")).is_err());
    }

    #[test]
    fn what_a_server_promises_of_its_disk_is_read() {
        assert_eq!(
            flush_at_commit("mariadbd would have been started with the following arguments:\n\n"),
            Some(1)
        );
        let both = "--innodb-flush-log-at-trx-commit=2 --port=1 --loose-innodb_flush_log_at_trx_commit=0 ";
        assert_eq!(flush_at_commit(both), Some(0));
        assert_eq!(flush_at_commit("--innodb_flush_log_at_trx_commit=x"), None);
    }

    #[test]
    fn the_last_primary_view_is_read() {
        let file =
            "my_uuid: a-1\n#vwbeg\nview_id: 3 a-1 5\nbootstrap: 0\nmember: A-1 0\nmember: b-2 0\n#vwend\n";
        assert_eq!(last_primary_view(file), ["a-1", "b-2"]);
        assert!(last_primary_view("").is_empty());
    }

    #[test]
    fn members_are_read_as_a_person_writes_them() {
        assert_eq!(members(&format!("{UUID}, {}", UUID.to_uppercase())), Ok(vec![UUID.to_owned(); 2]));
        assert_eq!(members("none"), Ok(Vec::new()));
        for wrong in ["", "a-1", &format!("{UUID},")] {
            assert!(members(wrong).unwrap_err().contains("is no uuid of a member"), "{wrong}");
        }
    }

    #[test]
    fn what_a_proof_writes_is_read_back() {
        let left =
            Left { members: vec!["a".into(), "b".into()], ..Left::at(format!("{UUID}:5").parse().unwrap()) };
        assert_eq!(Left::read(&left.lines()), Ok(left));
        let clean = Left::at(format!("{UUID}:5").parse().unwrap());
        assert_eq!(Left::read(&clean.lines()), Ok(clean.clone()));
        let bound = Left { is_lower_bound: true, ..clean };
        assert_eq!(Left::read(&bound.lines()), Ok(bound));
        assert!(Left::read("").is_err());
        assert!(Left::read(&format!("position {UUID}:5\n")).unwrap_err().contains("members none"));
        assert!(Left::read(&format!("position {UUID}:5\nposition {UUID}:6\n")).is_err(), "which one?");
        assert!(Left::read(&format!("position {UUID}:-1\n")).is_err());
        assert!(Left::read(&format!("positions {UUID}:5\n")).is_err());
    }
}
