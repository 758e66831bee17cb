//! Reads `situations.txt`; the form is explained in its head.

use fixture::client::ClientOptions;

use crate::steps::{Step, login, step};

/// One situation, with a row of its table put in.
#[derive(Clone, Debug)]
pub struct Situation {
    pub name: String,
    pub login: ClientOptions,
    pub given: Vec<String>,
    pub after: Vec<String>,
    pub steps: Vec<Step>,
    /// During which of the steps the loss happens.
    pub lost_at: Option<usize>,
    pub questions: Vec<Step>,
    /// Each question is asked in a run of its own.
    pub is_apart: bool,
    /// On Galera the server itself does it otherwise.
    pub is_unlike_galera: bool,
    pub defects: Vec<Defect>,
}

/// What today's code has wrong.
#[derive(Clone, Debug)]
pub struct Defect {
    /// Is found in what is reported of it.
    pub shows: String,
    pub sentence: String,
}

impl Situation {
    /// One without steps, before which this is said on each server.
    pub fn of(given: Vec<String>) -> Situation {
        Situation {
            name: String::new(),
            login: ClientOptions::default(),
            given,
            after: vec![],
            steps: vec![],
            lost_at: None,
            questions: vec![],
            is_apart: false,
            is_unlike_galera: false,
            defects: vec![],
        }
    }
}

const UNLIKE_GALERA: &str = "unlike galera";

/// All situations of the file.
pub fn read(text: &str) -> Vec<Situation> {
    let mut all = vec![];
    for block in text.split("\n== ").skip(1) {
        let lines: Vec<&str> =
            block.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect();
        let (rows, body): (Vec<&str>, Vec<&str>) = lines.into_iter().partition(|line| line.starts_with("| "));
        if rows.is_empty() {
            all.push(situation(&body));
        }
        for row in rows {
            let cells: Vec<&str> = row[2..].split(" | ").map(str::trim).collect();
            let (defects, cells): (Vec<&str>, Vec<&str>) =
                cells.into_iter().partition(|cell| cell.starts_with("defect ") || *cell == UNLIKE_GALERA);
            let mut body: Vec<String> = body.iter().map(ToString::to_string).collect();
            let mut used = vec![false; cells.len()];
            for line in &mut body {
                for (at, cell) in cells.iter().enumerate() {
                    let place = format!("{{{}}}", at + 1);
                    used[at] |= line.contains(&place);
                    *line = line.replace(&place, cell);
                }
            }
            assert!(used.iter().all(|used| *used), "a cell without a place: {row}");
            // A cell may be several lines.
            let whole = body.join("\n").replace(" // ", "\n");
            let mut lines: Vec<&str> = whole.lines().filter(|line| !line.trim().is_empty()).collect();
            lines.extend(defects);
            let mut made = situation(&lines);
            made.name = format!("{}: {}", made.name, cells.join(" | "));
            all.push(made);
        }
    }
    all
}

fn situation(lines: &[&str]) -> Situation {
    let mut made = Situation { name: lines[0].trim().to_owned(), ..Situation::of(vec![]) };
    let of =
        |line: &str, login: &ClientOptions| step(line, login).unwrap_or_else(|why| panic!("{line}: {why}"));
    for line in &lines[1..] {
        let line = line.trim();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "login" => made.login = login(&made.login, rest).unwrap_or_else(|why| panic!("{line}: {why}")),
            "given" => made.given.push(rest.to_owned()),
            "after" => made.after.push(rest.to_owned()),
            "apart" => made.is_apart = true,
            "unlike" => made.is_unlike_galera = true,
            "defect" => made.defects.push(defect(rest)),
            "?" => made.questions.push(of(rest, &made.login)),
            "!" => {
                made.lost_at = Some(made.steps.len());
                made.steps.push(of(rest, &made.login));
            }
            _ => made.steps.push(of(line, &made.login)),
        }
    }
    made
}

fn defect(text: &str) -> Defect {
    let mut parts = text.splitn(3, '"');
    let (Some(""), Some(shows), Some(sentence)) = (parts.next(), parts.next(), parts.next()) else {
        panic!("not a mark: {text}");
    };
    Defect { shows: shows.to_owned(), sentence: sentence.trim().to_owned() }
}
