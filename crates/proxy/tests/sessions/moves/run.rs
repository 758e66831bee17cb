//! Carries out the cases of one section: each on a session that moves and on its twin, which does not.

use std::time::{Duration, Instant};

use fixture::client::{ClientOptions, Reply};
use harness::SECOND;
use harness::cluster::{Cluster, Move};
use harness::twin::{Comparison, Ground, Twins, none_of};

use super::read::{Answers, Case, Leave, Manner, Mark, NumberedStep, Section, read};
use crate::steps::What;

/// A hold lasts 10 s, and everything else much less, also on a busy machine: what took so long was held.
const HELD: Duration = Duration::from_secs(9);

/// Where the files are.
pub fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions/moves/cases")
}

/// The sections of a file.
pub fn sections(file: &str) -> Vec<Section> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    read(file, &text).unwrap_or_else(|why| panic!("{why}"))
}

/// One session.
struct SessionCase<'a> {
    login: &'a ClientOptions,
    moves: &'a [Leave],
    manner: Manner,
    before: Vec<&'a NumberedStep>,
    case: &'a Case,
    then: Vec<&'a NumberedStep>,
}

/// Every session of a section: of each case at least one.
fn sessions(section: &Section) -> Vec<SessionCase<'_>> {
    let Section { logins, moved, said, first, last, then, cases, .. } = section;
    let mut all = vec![];
    for login in logins {
        for moves in moved {
            for &manner in said {
                for (number, case) in cases.iter().enumerate() {
                    for first in first.sessions(number) {
                        for last in last.sessions(number) {
                            for then in then.sessions(number) {
                                let before =
                                    first.iter().copied().chain(&case.before).chain(last.iter().copied());
                                let (before, login) =
                                    (before.collect(), case.login.as_ref().unwrap_or(login));
                                all.push(SessionCase { login, moves, manner, before, case, then });
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

/// How often a question was answered as the twin's, and what was not known.
#[derive(Default)]
struct Count {
    same: usize,
    unknown: Vec<String>,
}

/// Carries out the section of this name.
pub async fn play(file: &str, name: &str) {
    let sections = sections(file);
    let section = sections.iter().find(|section| section.name == name).expect("a section of this name");
    let servers: Vec<&str> = section.servers.iter().map(String::as_str).collect();
    let mut ground = Ground::lay_with(&servers);
    if !section.setup.is_empty() {
        ground.everywhere(&section.setup);
    }
    let clean: Vec<&str> = section.clean.iter().map(String::as_str).collect();
    let (mut count, mut wrong) = (Count::default(), vec![]);
    let sessions = sessions(section);
    assert!(section.cases.iter().all(|case| sessions.iter().any(|session| session.case.line == case.line)));
    for session in &sessions {
        ground.begin(&clean).await;
        if let Err((said, found)) = session.run(&mut ground, section, &mut count).await {
            let SessionCase { login, moves, manner, case, .. } = session;
            let (caps, charset) = (login.caps, login.charset);
            let case =
                if said.line == case.line { String::new() } else { format!("case of line {}, ", case.line) };
            let how = format!("{case}{moves:?}, {manner:?}, {caps:?}, collation {charset}");
            wrong.push(format!("{file}:{}: {found} ({how})", said.line));
        }
    }
    let (played, unknown) = (sessions.len(), count.unknown.len());
    println!(
        "{played} sessions, {} answers the same, {unknown} unknown:\n{}",
        count.same,
        count.unknown.join("\n")
    );
    none_of(&wrong);
    assert!(!section.is_rarely_unknown || unknown < count.same / 4, "hardly anything can be asked");
}

impl<'a> SessionCase<'a> {
    /// What is wrong, and where.
    async fn run(
        &self,
        ground: &mut Ground,
        section: &Section,
        count: &mut Count,
    ) -> Result<(), (&'a NumberedStep, String)> {
        let mut twins = ground.twins_as(self.login).await;
        for &said in &self.before {
            let (told, moved) =
                take(ground, &mut twins, said, self.manner).await.map_err(|why| (said, why))?;
            judge(Answers::Same, said.mark.as_ref(), Leave::NotAtAll, told, &moved)
                .map_err(|found| (said, format!("before the move: {found}")))?;
        }
        let after = &self.case.after;
        for at in 0..self.moves.len().max(after.len()) {
            let how = self.moves[at % self.moves.len()];
            leave(&mut ground.cluster, how).await;
            // What is asked after one move is asked after every one.
            let own = after.get(at).or(after.last()).into_iter().flatten();
            for said in own.chain(self.then.iter().copied()) {
                let (told, moved) =
                    take(ground, &mut twins, said, Manner::Text).await.map_err(|why| (said, why))?;
                match &told {
                    Comparison::Same(_) => count.same += 1,
                    Comparison::Forgotten | Comparison::Ended(_) => {
                        count
                            .unknown
                            .push(format!("{how:?}, line {}: {}: {told:?}", said.line, said.step.line));
                    }
                    Comparison::Differs(_) => {}
                }
                let is_over = match told {
                    Comparison::Ended(_) => true,
                    Comparison::Forgotten => section.answers == Answers::SameUntilUnknown,
                    _ => false,
                };
                judge(section.answers, said.mark.as_ref(), how, told, &moved)
                    .map_err(|found| (said, found))?;
                if is_over {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Both take one step; what came of it, and what the moved one was told.
async fn take(
    ground: &Ground,
    twins: &mut Twins,
    said: &NumberedStep,
    manner: Manner,
) -> Result<(Comparison, Reply), String> {
    let began = Instant::now();
    let told = match &said.step.what {
        What::Say(sql) if manner == Manner::Prepared && !sql.contains(&b';') => {
            match twins.prepare_each(sql).await {
                Ok(statement) => twins.execute_each(statement, &[]).await,
                // Some cannot be prepared.
                Err(told) => return Ok((told, Reply { parts: vec![] })),
            }
        }
        What::Say(sql) => twins.say_each(sql).await,
        What::Ask(payload) => twins.ask_each(payload).await,
        What::Execute(statement, params) => twins.execute_each(*statement, params).await,
        What::Reset => twins.reset_each().await,
        What::ChangeUser(options) => twins.change_user_each(options).await,
        What::Prepare(sql) => {
            let told = twins.prepare_each(sql).await.err();
            return Ok((told.unwrap_or_else(Comparison::nothing), Reply { parts: vec![] }));
        }
        What::Root(sql) => {
            ground.everywhere(sql);
            return Ok((Comparison::nothing(), Reply { parts: vec![] }));
        }
        other => unreachable!("refused when it was read: {other:?}"),
    };
    if began.elapsed() > HELD {
        return Err(format!("{}: it took {:?}", said.step.line, began.elapsed()));
    }
    let moved = told.0.clone();
    Ok((Comparison::of(&said.step.line, told), moved))
}

/// What is wrong about an answer after a move.
fn judge(
    answers: Answers,
    mark: Option<&Mark>,
    how: Leave,
    told: Comparison,
    moved: &Reply,
) -> Result<(), String> {
    let is_shut = how == Leave::By(Move::Shut);
    let found = match mark {
        Some(Mark::Errors(codes)) => {
            let is_one = moved.error().is_some_and(|code| codes.contains(&code));
            (!is_one).then(|| format!("{moved:?} in place of one of {codes:?}"))
        }
        Some(Mark::Answered) => {
            let is_answered =
                moved.error().is_none() && !moved.is_lost() && moved.value().as_deref() != Some("NULL");
            (!is_answered).then(|| format!("{moved:?}"))
        }
        Some(Mark::Null) => (moved.value().as_deref() != Some("NULL")).then(|| format!("{moved:?}")),
        Some(Mark::AnythingWhenShut) if is_shut => None,
        Some(Mark::EndWhenShut) if is_shut && matches!(told, Comparison::Ended(_)) => None,
        Some(Mark::Same) => told.unequal("only the same is right"),
        _ if answers == Answers::Same => told.unequal("only the same is right"),
        _ => told.wrong(),
    };
    found.map_or(Ok(()), Err)
}

async fn leave(cluster: &mut Cluster, how: Leave) {
    match how {
        Leave::NotAtAll => {}
        Leave::GivenUp => give_up(cluster).await,
        Leave::AtTheSecondAttempt => {
            give_up(cluster).await;
            cluster.move_on(Move::HandedOver).await;
        }
        Leave::By(how) => cluster.move_on(how).await,
    }
}

/// A switchover that is given up when nothing is missing any more.
async fn give_up(cluster: &mut Cluster) {
    cluster.drain().await;
    assert!(cluster.quiet(3 * SECOND).await, "the lane never became quiet");
    cluster.undrain().await;
}
