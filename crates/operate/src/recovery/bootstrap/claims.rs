//! What the command line says of nodes that do not answer, and what of it the nodes themselves contradict.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use topology::galera::bootstrap::{Candidate, Disk, Refusal, Way, Word};
use topology::galera::position::{self, Left, Position};

use cli::exit::Failure;
use report::table::span;
use settings::Settings;

/// Whoever looks on a host and decides on another needs some minutes.
const REPORT_AGE_MAX: Duration = Duration::from_secs(600);
const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);

/// The options, as they are written.
#[derive(Args)]
pub(super) struct Options {
    /// The data directory of a stopped node, on this host
    #[arg(long, value_name = "NODE=DIR")]
    datadir: Vec<String>,
    /// What `understudy recovery position` printed on a stopped node's host at most 10 minutes ago, as a file
    #[arg(long, value_name = "NODE=FILE")]
    report: Vec<String>,
    /// Where a stopped node stands, as mariadbd --wsrep-recover says on its host (--report tells more)
    #[arg(long, value_name = "NODE=UUID:SEQNO")]
    position: Vec<String>,
    /// With --position: the members of the node's last Primary view (the first column of the lines `member:` in its gvwstate.dat), or `none` where it
    /// has no such file
    #[arg(long, value_name = "NODE=UUID,UUID,...")]
    members: Vec<String>,
    /// You have seen on its host that this node's server does not run, and nobody starts it meanwhile
    #[arg(long, value_name = "NODE")]
    dead: Vec<String>,
    /// This node's server does not run, and its data is gone or of no use: what only it had is given up
    #[arg(long, value_name = "NODE")]
    lost: Vec<String>,
}

/// What they mean, by node.
#[derive(Default)]
pub(super) struct OperatorClaims {
    pub(super) datadirs: BTreeMap<String, PathBuf>,
    left: BTreeMap<String, Left>,
    dead: Vec<String>,
    lost: Vec<String>,
}

impl Options {
    /// Reads them.
    ///
    /// # Errors
    /// What is written wrong, or is of no node of the configuration.
    pub(super) fn read(&self, settings: &Settings) -> Result<OperatorClaims, Failure> {
        let mut told =
            OperatorClaims { dead: self.dead.clone(), lost: self.lost.clone(), ..OperatorClaims::default() };
        for said in &self.datadir {
            let (node, dir) = pair(settings, "--datadir", said, "NODE=DIR")?;
            told.datadirs.insert(node.to_owned(), PathBuf::from(dir));
        }
        for said in &self.position {
            let (node, text) = pair(settings, "--position", said, "NODE=UUID:SEQNO")?;
            let position: Position =
                text.parse().map_err(|why| Failure::usage(format!("--position {said}: {why}")))?;
            told.left.insert(node.to_owned(), Left::at(position));
        }
        for said in &self.members {
            let (node, text) = pair(settings, "--members", said, "NODE=UUID,UUID,...")?;
            let members =
                position::members(text).map_err(|why| Failure::usage(format!("--members {said}: {why}")))?;
            let Some(left) = told.left.get_mut(node) else {
                return Err(Failure::usage(format!(
                    "--members {said}: it goes with --position {node}=UUID:SEQNO"
                )));
            };
            left.members = members;
        }
        for said in &self.report {
            let (node, file) = pair(settings, "--report", said, "NODE=FILE")?;
            let left = infile::read_text(file)
                .map_err(|error| format!("cannot read {file}: {error}"))
                .and_then(|text| is_fresh(&text, now()).and_then(|()| Left::read(&text)))
                .map_err(|why| Failure::usage(format!("--report {said}: {why}")))?;
            if told.left.insert(node.to_owned(), left).is_some() {
                return Err(Failure::usage(format!(
                    "--report {said}: --position says the same of {node}: give one"
                )));
            }
        }
        for (flag, names) in [("--dead", &told.dead), ("--lost", &told.lost)] {
            for name in names {
                known(settings, flag, name, name)?;
            }
        }
        Ok(told)
    }
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A report says what a stopped node has. One from before the node's last start says less than it has acknowledged since, and would give that up.
fn is_fresh(report: &str, now: Duration) -> Result<(), String> {
    let again = "take it again with `understudy recovery position` on its host";
    let Some(taken) = position::taken_at(report) else {
        return Err(format!("it does not say when it was taken (a line `taken SECONDS`): {again}"));
    };
    if taken > now + CLOCKS_APART_MAX {
        return Err(format!(
            "it was taken in the future, by the clock of this host: set the clocks, and {again}"
        ));
    }
    let age = now.saturating_sub(taken);
    if age > REPORT_AGE_MAX {
        let age = span(age.as_millis() as u64);
        return Err(format!("it was taken {age} ago, and the node may have run since: {again}"));
    }
    Ok(())
}

fn known(settings: &Settings, flag: &str, said: &str, node: &str) -> Result<(), Failure> {
    if settings.nodes.iter().any(|known| known.name == node) {
        return Ok(());
    }
    let file = settings.file.display();
    Err(Failure::usage(format!("{flag} {said}: {file} has no node {node}")))
}

/// The two sides of `NODE=...`.
fn pair<'a>(
    settings: &Settings,
    flag: &str,
    said: &'a str,
    form: &str,
) -> Result<(&'a str, &'a str), Failure> {
    let (node, value) =
        said.split_once('=').ok_or_else(|| Failure::usage(format!("{flag} {said}: write {form}")))?;
    known(settings, flag, said, node)?;
    Ok((node, value))
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known == name)
}

impl OperatorClaims {
    /// What it is held for when it says nothing itself. `disk`: what its data directory shows, where that is on this host.
    pub(super) fn of_silent(&self, name: &str, how: String, disk: Option<&Word>) -> Word {
        match disk {
            Some(Word::Alive(why)) => return Word::Alive(why.clone()),
            Some(_) if has(&self.lost, name) => return Word::Stopped(Disk::GivenUp),
            Some(word) => return word.clone(),
            None => {}
        }
        if has(&self.lost, name) {
            return Word::Stopped(Disk::GivenUp);
        }
        match (self.left.get(name), has(&self.dead, name)) {
            (Some(left), true) => Word::Stopped(Disk::Read(left.clone())),
            (None, true) => Word::Stopped(Disk::Unread("its position was not told".to_owned())),
            (_, false) => Word::Silent(how),
        }
    }

    /// A node is said not to run, and its server shows that it does. Whoever was wrong about one may be wrong about others.
    pub(super) fn contradicted(&self, nodes: &[Candidate]) -> Option<Refusal> {
        nodes.iter().find_map(|Candidate { name, word, .. }| {
            let flag = [("--dead", &self.dead), ("--lost", &self.lost)]
                .into_iter()
                .find_map(|(flag, names)| has(names, name).then_some(flag));
            let flag = flag.or_else(|| self.left.contains_key(name).then_some("--position or --report"))?;
            let how = match word {
                Word::Answers(answer) => format!("its server answers ({})", answer.cluster_status),
                Word::Alive(how) => how.clone(),
                Word::Stopped(_) | Word::Silent(_) => return None,
            };
            Some(Refusal {
                condition: format!("{name} was said not to run ({flag}), and it does: {how}. Look again at each node of which you said so"),
                way_out: Way::None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use topology::galera::bootstrap::Answer;

    use super::*;

    const UUID: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";

    fn settings() -> Settings {
        let text = "[cluster]\nname = \"shop\"\nnode = [ { name = \"db1\", address = \"a:1\" }, { name = \"db2\", address = \"b:1\" } ]\n\
                    monitor = { user = \"m\", password = \"p\" }\n";
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("understudy.toml");
        fs::write(&file, text).unwrap();
        Settings::load(&file).unwrap()
    }

    fn options() -> Options {
        Options {
            datadir: Vec::new(),
            report: Vec::new(),
            position: Vec::new(),
            members: Vec::new(),
            dead: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn wrong(options: &Options) -> String {
        match options.read(&settings()) {
            Err(Failure::Usage(text)) => text,
            Err(_) | Ok(_) => panic!("no wrong usage"),
        }
    }

    #[test]
    fn a_whole_proof_is_told_by_hand() {
        let position = vec![format!("db1={UUID}:9")];
        let members = vec![format!("db1={UUID},{UUID}")];
        let told = Options {
            position: position.clone(),
            members: members.clone(),
            dead: vec!["db1".into()],
            ..options()
        };
        let word = told.read(&settings()).unwrap().of_silent("db1", "refused".into(), None);
        let Word::Stopped(Disk::Read(left)) = word else { panic!("{word:?}") };
        assert_eq!((left.position.seqno, left.members.len()), (9, 2));

        let file = tempfile::NamedTempFile::new().unwrap();
        let report = vec![format!("db1={}", file.path().display())];
        let lines = Left { is_lower_bound: true, ..left.clone() }.lines() + &position::taken(now());
        fs::write(file.path(), &lines).unwrap();
        let told = Options { report: report.clone(), dead: vec!["db1".into()], ..options() };
        let word = told.read(&settings()).unwrap().of_silent("db1", "refused".into(), None);
        assert_eq!(word, Word::Stopped(Disk::Read(Left { is_lower_bound: true, ..left })));
        // Nobody has seen that it does not run.
        let told = Options { report: report.clone(), ..options() }.read(&settings()).unwrap();
        assert_eq!(told.of_silent("db1", "refused".into(), None), Word::Silent("refused".into()));

        assert!(
            wrong(&Options { members: members.clone(), ..options() }).contains("goes with --position db1=")
        );
        assert!(wrong(&Options { report: report.clone(), position, ..options() }).contains("give one"));
        let bad = vec!["db1=x".to_owned()];
        assert!(wrong(&Options { members: bad.clone(), ..options() }).contains("no uuid of a member"));
        assert!(wrong(&Options { report: bad, ..options() }).contains("cannot read x"));
        assert!(wrong(&Options { dead: vec!["db9".into()], ..options() }).contains("has no node db9"));
        fs::write(file.path(), position::taken(now())).unwrap();
        assert!(wrong(&Options { report, ..options() }).contains("one line `position UUID:SEQNO`"));
    }

    #[test]
    fn an_old_report_is_none() {
        let now = Duration::from_secs(1_800_000_000);
        let report = |taken: u64| format!("position {UUID}:9\nmembers none\ntaken {taken}\n");
        assert_eq!(is_fresh(&report(1_800_000_000 - 600), now), Ok(()));
        assert_eq!(is_fresh(&report(1_800_000_030), now), Ok(()), "clocks are a little apart");
        let why = |text: &str| is_fresh(text, now).unwrap_err();
        assert!(why(&report(1_800_000_000 - 82_800)).starts_with("it was taken 23 h"), "{}", why(&report(1)));
        assert!(why(&report(1_800_000_100)).contains("in the future"));
        assert!(why(&format!("position {UUID}:9\nmembers none\n")).contains("does not say when"));
    }

    #[test]
    fn a_node_that_is_called_dead_and_answers_is_no_small_matter() {
        let nodes = |word: Word| [Candidate { name: "db1".into(), address: "db1:3306".into(), word }];
        let answers = || Word::Answers(Answer { cluster_status: "non-Primary".into(), ..Answer::default() });
        let by = |change: fn(&mut OperatorClaims)| {
            let mut told = OperatorClaims::default();
            change(&mut told);
            told.contradicted(&nodes(answers())).map(|refusal| refusal.condition)
        };
        let dead = by(|told| told.dead.push("db1".into())).unwrap();
        assert!(
            dead.starts_with("db1 was said not to run (--dead), and it does: its server answers"),
            "{dead}"
        );
        assert!(by(|told| told.lost.push("db1".into())).unwrap().contains("--lost"));
        let at = |told: &mut OperatorClaims| {
            told.left.insert("db1".into(), Left::at(format!("{UUID}:1").parse().unwrap()));
        };
        assert!(by(at).unwrap().contains("--position"));
        assert_eq!(by(|_| {}), None);
        let told = OperatorClaims { dead: vec!["db1".into()], ..OperatorClaims::default() };
        assert_eq!(told.contradicted(&nodes(Word::Stopped(Disk::GivenUp))), None);
        assert!(told.contradicted(&nodes(Word::Alive("it has locked ibdata1".into()))).is_some());
    }
}
