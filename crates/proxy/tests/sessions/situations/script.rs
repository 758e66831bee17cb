//! Reads `situations.txt`; the form is explained in its head.

use fixture::client::{ClientOptions, Param};

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

/// One line.
#[derive(Clone, Debug)]
pub struct Step {
    pub line: String,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// COM_QUERY.
    Say(Vec<u8>),
    /// A command of one packet, whole.
    Ask(Vec<u8>),
    /// COM_STATISTICS: its text is never the same.
    Statistics,
    Reset,
    ChangeUser(ClientOptions),
    Prepare(Vec<u8>),
    /// By the number of the statement.
    Execute(usize, Vec<Param>),
    /// With a cursor, and the first row.
    OpenCursor(usize),
    Fetch(usize),
    StmtReset(usize),
    /// KILL QUERY of what another session runs.
    KillOther,
    /// An administrator says this straight to the server.
    Root(String),
    /// An administrator ends this statement, straight at the server, while it runs: KILL or KILL QUERY.
    Killed(String, Vec<u8>),
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
    let mut made = Situation {
        name: lines[0].trim().to_owned(),
        login: ClientOptions::default(),
        given: vec![],
        after: vec![],
        steps: vec![],
        lost_at: None,
        questions: vec![],
        is_apart: false,
        is_unlike_galera: false,
        defects: vec![],
    };
    for line in &lines[1..] {
        let line = line.trim();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "login" => made.login = login(&made.login, rest),
            "given" => made.given.push(rest.to_owned()),
            "after" => made.after.push(rest.to_owned()),
            "apart" => made.is_apart = true,
            "unlike" => made.is_unlike_galera = true,
            "defect" => made.defects.push(defect(rest)),
            "?" => made.questions.push(step(rest, &made.login)),
            "!" => {
                made.lost_at = Some(made.steps.len());
                made.steps.push(step(rest, &made.login));
            }
            _ => made.steps.push(step(line, &made.login)),
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

fn login(before: &ClientOptions, text: &str) -> ClientOptions {
    let mut options = before.clone();
    for word in text.split_whitespace() {
        match word.split_once('=').unwrap_or_else(|| panic!("not of a login: {word}")) {
            ("user", name) => options.user = name.as_bytes().to_vec(),
            ("password", secret) => options.password = secret.to_owned(),
            ("schema", "") => options.database = None,
            ("schema", name) => options.database = Some(bytes(name)),
            ("collation", id) => options.charset = id.parse().unwrap(),
            other => panic!("not of a login: {other:?}"),
        }
    }
    options
}

fn step(line: &str, options: &ClientOptions) -> Step {
    let Some(command) = line.strip_prefix('.') else {
        return Step { line: line.to_owned(), what: What::Say(bytes(line)) };
    };
    let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
    let number = || rest.split(' ').next().unwrap().parse().unwrap();
    let what = match word {
        "raw" => What::Ask(bytes(rest)),
        "ping" => What::Ask(vec![14]),
        "init" => What::Ask([&[2], &bytes(rest)[..]].concat()),
        "option" => What::Ask(vec![27, u8::from(rest == "off"), 0]),
        "statistics" => What::Statistics,
        "reset" => What::Reset,
        "user" => What::ChangeUser(login(options, rest)),
        "prepare" => What::Prepare(bytes(rest)),
        "execute" => {
            let params = rest.split(' ').skip(1).map(|word| match word.parse() {
                Ok(whole) => Param::Int(whole),
                Err(_) => Param::Text(bytes(word)),
            });
            What::Execute(number(), params.collect())
        }
        "cursor" => What::OpenCursor(number()),
        "fetch" => What::Fetch(number()),
        "stmt_reset" => What::StmtReset(number()),
        "kill_unknown" => What::Ask([&[12][..], &0x7FFF_FF00u32.to_le_bytes()].concat()),
        "kill_other" => What::KillOther,
        "root" => What::Root(rest.to_owned()),
        "killed" => {
            let (how, sql) = rest.split_once(" during ").unwrap();
            What::Killed(how.to_owned(), bytes(sql))
        }
        _ => panic!("no such command: {line}"),
    };
    Step { line: line.to_owned(), what }
}

/// The text with `\xHH` put in as bytes.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut pieces = text.split("\\x");
    let mut out = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        out.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        out.extend_from_slice(&piece.as_bytes()[2..]);
    }
    out
}
