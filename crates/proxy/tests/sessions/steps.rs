//! One line of a text file of cases: what a session says or does. Read here for the situations and for the moves; what it is called is explained in the head
//! of `situations/situations.txt`.

use std::str::FromStr;

use fixture::client::{ClientOptions, Param};
use protocol::capability::Caps;

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

/// A login that is as `before` but for these words.
pub fn login(before: &ClientOptions, text: &str) -> Result<ClientOptions, String> {
    let mut options = before.clone();
    for word in text.split_whitespace() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("user", name) => options.user = name.as_bytes().to_vec(),
            ("password", secret) => options.password = secret.to_owned(),
            ("schema", "") => options.database = None,
            ("schema", name) => options.database = Some(bytes(name)?),
            ("collation", id) => options.charset = number(id)?,
            ("no-eof", "") => options.caps = options.caps | Caps::DEPRECATE_EOF,
            ("tracked", "") => options.caps = options.caps | Caps::SESSION_TRACK,
            ("ignore-space", "") => options.caps = options.caps | Caps::IGNORE_SPACE,
            ("interactive", "") => options.caps = options.caps | Caps::INTERACTIVE,
            _ => return Err(format!("no word of a login: {word}")),
        }
    }
    Ok(options)
}

/// One step of a session that logs in with `options`.
pub fn step(line: &str, options: &ClientOptions) -> Result<Step, String> {
    let Some(command) = line.strip_prefix('.') else {
        return Ok(Step { line: line.to_owned(), what: What::Say(bytes(line)?) });
    };
    let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
    let (first, others) = rest.split_once(' ').unwrap_or((rest, ""));
    let what = match word {
        "raw" => What::Ask(bytes(rest)?),
        "ping" => What::Ask(vec![14]),
        "init" => What::Ask([&[2], &bytes(rest)?[..]].concat()),
        "option" => What::Ask(vec![27, u8::from(rest == "off"), 0]),
        "statistics" => What::Statistics,
        "reset" => What::Reset,
        "user" => What::ChangeUser(login(options, rest)?),
        "prepare" => What::Prepare(bytes(rest)?),
        "execute" => {
            let params = others.split_whitespace().map(param).collect::<Result<_, _>>()?;
            What::Execute(number(first)?, params)
        }
        "cursor" => What::OpenCursor(number(first)?),
        "fetch" => What::Fetch(number(first)?),
        "stmt_reset" => What::StmtReset(number(first)?),
        "kill_unknown" => What::Ask([&[12][..], &0x7FFF_FF00u32.to_le_bytes()].concat()),
        "kill_other" => What::KillOther,
        "root" => What::Root(rest.to_owned()),
        "killed" => {
            let (how, sql) =
                rest.split_once(" during ").ok_or("KILL or KILL QUERY, `during`, a statement")?;
            What::Killed(how.to_owned(), bytes(sql)?)
        }
        _ => return Err(format!("no such command: {line}")),
    };
    Ok(Step { line: line.to_owned(), what })
}

/// A whole number, or text; in quotes it is always text.
fn param(word: &str) -> Result<Param, String> {
    let quoted = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
    match (quoted, word.parse()) {
        (None, Ok(whole)) => Ok(Param::Int(whole)),
        (text, _) => Ok(Param::Text(bytes(text.unwrap_or(word))?)),
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("not a number: {word:?}"))
}

/// The text with `\xHH` put in as bytes.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut pieces = text.split("\\x");
    let mut out = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).ok_or("no byte behind \\x")?;
        out.push(u8::from_str_radix(digits, 16).map_err(|_| format!("not a byte: {digits}"))?);
        out.extend_from_slice(rest.as_bytes());
    }
    Ok(out)
}
