//! Reads the files of `cases/`; their form is explained in the head of `mod.rs`.

use fixture::client::ClientOptions;
use harness::cluster::Move;

use crate::steps::{Step, What, login, step};

/// What is the same for all cases of a test, and the cases.
#[derive(Clone)]
pub struct Section {
    pub name: String,
    pub servers: Vec<String>,
    pub logins: Vec<ClientOptions>,
    /// Of each session: its moves, one after the other.
    pub moved: Vec<Vec<Leave>>,
    pub said: Vec<Manner>,
    pub answers: Answers,
    /// Most answers must be the same.
    pub is_rarely_unknown: bool,
    pub setup: String,
    pub clean: Vec<String>,
    pub first: Block,
    pub last: Block,
    pub then: Block,
    pub cases: Vec<Case>,
}

/// How a session leaves its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    NotAtAll,
    /// A switchover begins, and is given up when the node is quiet.
    GivenUp,
    /// The same, and then it is handed over.
    AtTheSecondAttempt,
    By(Move),
}

/// How it is said what comes before a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Text,
    /// What is one statement is prepared and executed.
    Prepared,
}

/// Which answers are right after a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    Same,
    /// Or an error that says that it cannot be known.
    SameOrUnknown,
    /// With that error the session's case is over.
    SameUntilUnknown,
}

/// One step, and where it is written.
#[derive(Clone)]
pub struct NumberedStep {
    pub line: usize,
    pub mark: Option<Mark>,
    pub step: Step,
}

/// What a question may be answered, otherwise than by its section's `answers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    Same,
    /// One of these errors, and nothing else.
    Errors(Vec<u16>),
    /// Something: no error, and not NULL.
    Answered,
    Null,
    /// Anything, after a node was lost.
    AnythingWhenShut,
    /// The end of the session, after a node was lost.
    EndWhenShut,
}

/// Lines that stand around each case.
#[derive(Clone, Default)]
pub struct Block {
    of: Of,
    lines: Vec<Vec<NumberedStep>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Of {
    #[default]
    All,
    One,
    FirstAndEveryThird,
}

impl Block {
    /// What is said in each session of the case of this number: one list for each session.
    pub fn sessions(&self, case: usize) -> Vec<Vec<&NumberedStep>> {
        let numbered = self.lines.iter().enumerate();
        let some = |is_one: fn(usize) -> bool| {
            let chosen = numbered.clone().filter(move |(at, _)| *at == 0 || is_one(*at + case));
            chosen.map(|(_, line)| line.iter().collect()).collect()
        };
        match self.of {
            Of::All => vec![self.lines.iter().flatten().collect()],
            Of::One => some(|_| true),
            Of::FirstAndEveryThird => some(|at| at % 3 == 0),
        }
    }
}

/// What is said, and after each move.
#[derive(Clone)]
pub struct Case {
    pub line: usize,
    /// Where it is another than its section's.
    pub login: Option<ClientOptions>,
    pub before: Vec<NumberedStep>,
    pub after: Vec<Vec<NumberedStep>>,
}

/// The sections of a file.
pub fn read(file: &str, text: &str) -> Result<Vec<Section>, String> {
    let mut common = Section {
        name: String::new(),
        servers: vec![],
        logins: vec![ClientOptions::default()],
        moved: [Move::HandedOver, Move::Drained, Move::Shut].map(|how| vec![Leave::By(how)]).to_vec(),
        said: vec![Manner::Text],
        answers: Answers::Same,
        is_rarely_unknown: false,
        setup: String::new(),
        clean: vec![],
        first: Block::default(),
        last: Block::default(),
        then: Block::default(),
        cases: vec![],
    };
    let mut sections: Vec<Section> = vec![];
    for Entry { line, head, content } in entries(file, text)? {
        if let Some(name) = head.strip_prefix("== ") {
            sections.push(Section { name: name.replace(' ', "_"), ..common.clone() });
            continue;
        }
        let section = sections.last_mut().unwrap_or(&mut common);
        section.take(&head, &content).map_err(|(at, why)| format!("{file}:{}: {why}", at.unwrap_or(line)))?;
    }
    for Section { name, moved, then, cases, .. } in &sections {
        let stays = moved.iter().flatten().all(|how| *how == Leave::NotAtAll);
        let is_vain = |case: &&Case| case.after.concat().is_empty() && then.lines.is_empty() && !stays;
        if let Some(case) = cases.iter().find(is_vain) {
            return Err(format!("{file}:{}: nothing is asked", case.line));
        }
        if cases.is_empty() {
            return Err(format!("{file}: {name} has no cases"));
        }
    }
    Ok(sections)
}

/// A line at the margin with what is indented below it.
struct Entry {
    line: usize,
    head: String,
    content: Vec<(usize, String)>,
}

fn entries(file: &str, text: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = vec![];
    let mut indent = 0;
    for (line, text) in (1..).zip(text.lines()) {
        let (words, depth) = (text.trim(), text.len() - text.trim_start().len());
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        if depth == 0 {
            entries.push(Entry { line, head: words.to_owned(), content: vec![] });
            continue;
        }
        let entry = entries.last_mut().ok_or_else(|| format!("{file}:{line}: what is it a part of?"))?;
        match entry.content.last_mut() {
            // What is indented further goes on.
            Some((_, before)) if depth > indent => *before = format!("{before} {words}"),
            _ => {
                indent = depth;
                entry.content.push((line, words.to_owned()));
            }
        }
    }
    Ok(entries)
}

/// What is wrong, and in which line if not in the one at the margin.
type Wrong = (Option<usize>, String);

impl Section {
    fn take(&mut self, head: &str, content: &[(usize, String)]) -> Result<(), Wrong> {
        let (word, value) = head.split_once(": ").unwrap_or((head, ""));
        let at_margin = |why: String| (None, why);
        let lines = || content.iter().map(|(_, text)| text.clone());
        match word {
            "servers" => self.servers = value.split(' ').map(str::to_owned).collect(),
            "login" => {
                let one = |words: &str| login(&ClientOptions::default(), words);
                self.logins = value.split('|').map(one).collect::<Result<_, _>>().map_err(at_margin)?;
            }
            "moved" => {
                let one = |words: &str| words.split(',').map(|word| leave(word.trim())).collect();
                self.moved = value.split('|').map(one).collect::<Result<_, _>>().map_err(at_margin)?;
            }
            "said" => {
                self.said = match value {
                    "as text | prepared" => vec![Manner::Text, Manner::Prepared],
                    _ => return Err((None, format!("no way to say it: {value}"))),
                }
            }
            "answers" => {
                self.answers = match value {
                    "the same" => Answers::Same,
                    "the same or unknown" => Answers::SameOrUnknown,
                    "the same until unknown" => Answers::SameUntilUnknown,
                    _ => return Err((None, format!("no kind of answers: {value}"))),
                }
            }
            "rarely unknown" => self.is_rarely_unknown = true,
            "setup" => {
                self.setup = [self.setup.clone()].into_iter().chain(lines()).collect::<Vec<_>>().join("\n")
            }
            "clean" => self.clean = lines().collect(),
            "cases" => {
                let of = |(line, text): &(usize, String)| case(*line, text).map_err(|why| (Some(*line), why));
                self.cases = content.iter().map(of).collect::<Result<_, _>>()?;
            }
            _ => {
                let (word, of) = match word.split_once(", ") {
                    None => (word, Of::All),
                    Some((word, "one of")) => (word, Of::One),
                    Some((word, "the first and every third of")) => (word, Of::FirstAndEveryThird),
                    Some((_, which)) => return Err((None, format!("which of them? {which}"))),
                };
                let block = match word {
                    "first" => &mut self.first,
                    "last" => &mut self.last,
                    "then" => &mut self.then,
                    _ => return Err((None, format!("no such word: {word}"))),
                };
                let of_line =
                    |(line, text): &(usize, String)| said(*line, text).map_err(|why| (Some(*line), why));
                *block = Block { of, lines: content.iter().map(of_line).collect::<Result<_, _>>()? };
                return Ok(());
            }
        }
        let takes_lines = matches!(word, "setup" | "clean" | "cases");
        match content.first() {
            Some((line, _)) if !takes_lines => Err((Some(*line), format!("{word} has no lines"))),
            None if takes_lines => Err((None, format!("{word} has no lines below it"))),
            _ => Ok(()),
        }
    }
}

fn leave(word: &str) -> Result<Leave, String> {
    Ok(match word {
        "not at all" => Leave::NotAtAll,
        "given up" => Leave::GivenUp,
        "at the second attempt" => Leave::AtTheSecondAttempt,
        "handed over" => Leave::By(Move::HandedOver),
        "drained" => Leave::By(Move::Drained),
        "shut" => Leave::By(Move::Shut),
        _ => return Err(format!("no move: {word}")),
    })
}

fn case(line: usize, text: &str) -> Result<Case, String> {
    let (words, text) = match text.strip_prefix(".login ") {
        Some(rest) => {
            rest.split_once(" // ").map(|(words, rest)| (Some(words), rest)).ok_or("nothing but a login")?
        }
        None => (None, text),
    };
    let login = words.map(|words| login(&ClientOptions::default(), words)).transpose()?;
    // A case may begin with its move.
    let phases = format!(" {text}");
    let mut phases = phases.split(" => ").map(|phase| said(line, phase)).collect::<Result<Vec<_>, _>>()?;
    let before = phases.remove(0);
    Ok(Case { line, login, before, after: phases })
}

fn said(line: usize, text: &str) -> Result<Vec<NumberedStep>, String> {
    let mut all = vec![];
    for text in text.split(" // ").map(str::trim).filter(|text| !text.is_empty()) {
        let Some(times) = text.strip_prefix(".times ") else {
            all.push(one(line, text)?);
            continue;
        };
        let (count, text) = times.split_once(' ').ok_or("how often, and what?")?;
        let count: usize = count.parse().map_err(|_| format!("not a number: {count}"))?;
        for time in 0..count {
            all.push(one(line, &text.replace("{}", &time.to_string()))?);
        }
    }
    Ok(all)
}

fn one(line: usize, text: &str) -> Result<NumberedStep, String> {
    let (mark, text) = match text.strip_prefix('[').and_then(|text| text.split_once("] ")) {
        Some((words, text)) => (Some(mark(words)?), text),
        None => (None, text),
    };
    let step = step(text, &ClientOptions::default())?;
    let is_possible = match &step.what {
        What::Say(_) | What::Ask(_) | What::Execute(..) | What::Reset | What::ChangeUser(_) => true,
        What::Prepare(_) | What::Root(_) => mark.is_none(),
        _ => false,
    };
    if is_possible { Ok(NumberedStep { line, mark, step }) } else { Err(format!("not here: {text}")) }
}

fn mark(words: &str) -> Result<Mark, String> {
    Ok(match words {
        "the same" => Mark::Same,
        "answered" => Mark::Answered,
        "NULL" => Mark::Null,
        "anything when shut" => Mark::AnythingWhenShut,
        "the end when shut" => Mark::EndWhenShut,
        codes => {
            let codes = codes.split(" or ").map(str::parse).collect::<Result<_, _>>();
            Mark::Errors(codes.map_err(|_| format!("no such mark: [{words}]"))?)
        }
    })
}

#[test]
fn what_is_not_known_is_told_with_its_line() {
    const GOOD: &str = "== a\ncases\n    DO 0 => DO 0\n";
    assert!(read("x", GOOD).is_ok());
    for (bad, why) in [
        ("== a\nword\n", "x:2: no such word: word"),
        ("== a\nmoved: by foot\n", "x:2: no move: by foot"),
        ("== a\nlogin: colour=8\n", "x:2: no word of a login: colour=8"),
        ("== a\nsaid: loudly\n", "x:2: no way to say it: loudly"),
        ("== a\nanswers: none\n", "x:2: no kind of answers: none"),
        ("== a\nthen, some of\n", "x:2: which of them? some of"),
        ("== a\nmoved: shut\n    DO 0\n", "x:3: moved has no lines"),
        ("== a\n\nsetup\n", "x:3: setup has no lines below it"),
        ("    DO 0\n", "x:1: what is it a part of?"),
        ("== a\n# note\ncases\n    DO 0 => .jump\n", "x:4: no such command: .jump"),
        ("== a\ncases\n    DO 0 => DO 1\n    DO 0 => [red] DO 0\n", "x:4: no such mark: [red]"),
        ("== a\ncases\n    DO 0 => .kill_other\n", "x:3: not here: .kill_other"),
        ("== a\ncases\n    DO 0\n", "x:3: nothing is asked"),
        ("== a\n", "x: a has no cases"),
    ] {
        assert_eq!(read("x", bad).err().as_deref(), Some(why), "{bad}");
    }
}
