//! `understudy explain`: one change of the writer as a story, out of the journal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use api::Status;
use api::change::{End, WriterChange};
use clap::Args;
use serde_json::json;
use topology::about::{About, Change, Clients};
use topology::time::seconds;
use topology::view::{Decision, Problem};

use cli::exit::{CommandResult, Failure};
use client::Server;
use report::document::Document;
use report::table::{Lean, Table, moment, span};

/// Characters in a line of a sentence.
const WIDTH: usize = 110;

/// Why the writer changed: what was seen, what was decided and done, how long each phase took, what clients noticed, and what to change. Times are
/// UTC.
#[derive(Args)]
pub struct Explain {
    /// The change nearest to this time: so long ago (10m, 2h, 1d), a moment ('2026-11-21 12:03:11', UTC), milliseconds since 1970, or `last`
    #[arg(value_name = "TIME", value_parser = moment_of, default_value = "last")]
    when: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Write it to a file as a page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

/// `last` is the end of time: the newest change is the nearest.
fn moment_of(text: &str) -> Result<u64, String> {
    if text == "last" { Ok(u64::MAX) } else { crate::journal::after(text) }
}

impl Explain {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        let client = self.server.client()?;
        let all: Vec<WriterChange> = client.get("changes")?.read()?;
        // Of two at the same distance, the later one.
        let nearest = all
            .iter()
            .rev()
            .filter(|change| change.is_notable())
            .min_by_key(|change| change.distance_ms(self.when));
        let change =
            nearest.ok_or_else(|| Failure::Failed("the journal has no change of the writer".into()))?;
        let advice = advice(change, &client.get("status")?.read()?);
        if let Some(file) = &self.html {
            report::file::write_text(file, &document(change, &advice).html())
                .map_err(|error| Failure::failed(&error))?;
        }
        if self.json {
            println!("{:#}", json!({ "change": change, "advice": advice }));
        } else {
            print!("{}", document(change, &advice).text());
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn document(change: &WriterChange, advice: &[String]) -> Document {
    let mut document = Document::new("Why the writer changed");
    document.prose(headline(change));
    let parts =
        [("SEEN BEFORE", &change.seen), ("DECIDED AND DONE", &change.done), ("AFTERWARDS", &change.after)];
    for (name, entries) in parts.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        document.table(entries_table(name, entries, change.decided_unix_ms));
    }
    document.table(phases(change));
    if let Some(clients) = &change.clients {
        document.table(clients_table(clients));
    }
    document.lines(advice.iter().map(|advice| format!("to do: {advice}")));
    document
}

fn headline(change: &WriterChange) -> String {
    let what = match (change.change, &change.from, &change.to) {
        (None, ..) => "no node could be the writer".to_owned(),
        (Some(Change::Start), Some(from), Some(to)) if from == to => {
            format!("no node could be the writer, then {to} as before")
        }
        (Some(Change::Start), _, Some(to)) => format!("start, with {to} as the writer"),
        (Some(change), Some(from), Some(to)) => format!("{} from {from} to {to}", word(change)),
        (Some(change), ..) => word(change).to_owned(),
    };
    let took = change.ended_unix_ms.map(|ended| seconds_of(ended.abs_diff(change.decided_unix_ms)));
    let end = match (change.end, took, &change.to) {
        (End::Writes, Some(took), Some(to)) => format!("{to} wrote {took} later"),
        (End::Undone, Some(took), _) => format!("undone after {took}, the old writer went on"),
        _ => "it has not ended".to_owned(),
    };
    format!("{} UTC: {what}, term {}; {end}", moment(change.decided_unix_ms), change.term)
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Start => "start",
        Change::Failover => "failover",
        Change::Switchover => "switchover",
        Change::Followed => "move by another program",
    }
}

/// Entries with their time as seen from the decision.
fn entries_table(name: &str, entries: &[Decision], decided_unix_ms: u64) -> Table {
    let columns = [("FROM THE DECISION", Lean::Right), ("LEVEL", Lean::Left), (name, Lean::Left)];
    let mut table = Table::new(&columns).wrapping([WIDTH]);
    for entry in entries {
        let sign = if entry.at_unix_ms < decided_unix_ms { '-' } else { '+' };
        let distance = seconds_of(entry.at_unix_ms.abs_diff(decided_unix_ms));
        table.row([format!("{sign}{distance}"), entry.level.word().to_owned(), entry.text.clone()]);
    }
    table
}

fn phases(change: &WriterChange) -> Table {
    let mut table = Table::new(&[("PHASE", Lean::Left), ("TOOK", Lean::Right)]);
    let decided = change.decided_unix_ms;
    if let (Some(sign), Some(from)) = (change.first_sign_unix_ms(), &change.from) {
        let name = format!("from the first sign of trouble with {from} to the decision");
        table.row([name, seconds_of(decided.saturating_sub(sign))]);
    }
    if let Some(ended) = change.ended_unix_ms {
        table.row(["from the decision to the end".into(), seconds_of(ended.saturating_sub(decided))]);
    }
    table
}

fn clients_table(clients: &Clients) -> Table {
    let Clients { since_unix_ms, connected, held, held_at_most_ms, left, moved, again, errors } = clients;
    let since = format!("CLIENTS, SINCE {}", moment(*since_unix_ms));
    let mut table = Table::new(&[(&since, Lean::Left), ("", Lean::Right)]);
    let at_most = held_at_most_ms.map(|ms| format!(", none for more than {ms} ms")).unwrap_or_default();
    let mut row = |name: String, count: &u64| table.row([name, count.to_string()]);
    row("connected at the end".into(), connected);
    row(format!("statements that waited{at_most}"), held);
    row("clients that left while their statement waited".into(), left);
    row("sessions that moved".into(), moved);
    row("statements sent again".into(), again);
    for (code, count) in errors {
        row(format!("errors {code}"), count);
    }
    if errors.is_empty() {
        row("errors of the proxy".into(), &0);
    }
    table
}

/// What an operator can do about what happened.
fn advice(change: &WriterChange, status: &Status) -> Vec<String> {
    let errors = change.clients.iter().flat_map(|clients| &clients.errors);
    let mut all: Vec<String> = errors
        .map(|(code, _)| format!("`understudy errors {code}` says what error {code} means to an application"))
        .collect();
    let stood = change.done.iter().find(|entry| entry.about == About::NobodyWrites);
    if let (Some(entry), Some(ended)) = (stood, change.ended_unix_ms) {
        all.push(format!(
            "no node could be the writer for {}: `understudy switchover --check` says what speaks against each node now",
            span(ended.saturating_sub(entry.at_unix_ms))
        ));
    }
    if change.end == End::Undone {
        all.push(
            "`understudy processlist` shows the transactions that a switchover would wait for; --budget waits longer, --force ends them"
                .to_owned(),
        );
    }
    let involved = change.from.iter().chain(&change.to);
    for node in involved.filter_map(|name| status.node(name)) {
        if let Some(problem) = node.problem.filter(|problem| *problem != Problem::None) {
            all.push(format!("{} is not well now ({}): {}", node.name, problem.name(), node.reason));
        }
        all.extend(node.advice.iter().map(|advice| format!("{}: {advice}", node.name)));
    }
    all.dedup();
    all
}

fn seconds_of(ms: u64) -> String {
    seconds(Duration::from_millis(ms))
}
