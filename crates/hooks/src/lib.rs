//! Hooks: a command of the site is run, and a webhook is called, for each entry of the journal that is about what `hooks.kinds` names.
//!
//! Each of the two is told one entry after the other, in the journal's order. A webhook that does not answer is called six times in all; the entries
//! behind wait meanwhile, and the journal says which was given up. Nothing that Understudy decides waits for a hook.

pub mod command;
mod message;
mod webhook;

use std::time::Duration;

use manager::{Journal, Shell};
use settings::problem::Problem;
use settings::{Settings, table as t};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use topology::Term;
use topology::about::About;
use topology::action::Sentence;
use topology::view::{Decision, Level};

use self::message::Message;
use self::webhook::{Called, Webhook};

/// Pauses between the calls for one entry: after the last one it is given up.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];

/// Tells what is journalled from now on, until this is dropped. What is being told when the hooks are replaced is told to those of before. The command
/// and the webhook do not wait for one another.
pub fn follow(hooks: watch::Receiver<Option<Hooks>>, journal: Journal) -> impl Future<Output = ()> {
    let (for_command, for_webhook) = (journal.news(), journal.news());
    let (of_command, of_webhook) = (hooks.clone(), hooks);
    async move {
        tokio::join!(
            tell(for_command, of_command, &journal, async |hooks, message| hooks.run(&message).await),
            tell(for_webhook, of_webhook, &journal, async |hooks, message| hooks
                .call(&message, &PAUSES)
                .await),
        );
    }
}

/// Tells one of the two, entry by entry.
async fn tell(
    mut news: broadcast::Receiver<Decision>,
    hooks: watch::Receiver<Option<Hooks>>,
    journal: &Journal,
    told: impl AsyncFn(Hooks, Message) -> Option<Result<String, String>>,
) {
    loop {
        let entry = match news.recv().await {
            Ok(entry) => entry,
            Err(RecvError::Closed) => return,
            Err(RecvError::Lagged(missed)) => {
                let text = format!("a hook is too slow: {missed} entries of the journal were not told");
                journal.note(Term(0), Sentence::new(Level::Error, text));
                continue;
            }
        };
        let Some(hooks) = hooks.borrow().clone() else { continue };
        let message =
            Message::of(&hooks.cluster, &entry).filter(|it| hooks.kinds.iter().any(|kind| kind == it.kind));
        let Some(message) = message else { continue };
        if let Some(Err(why)) = told(hooks, message).await {
            let text = format!("{why}; not told: {}", entry.text);
            journal.note(Term(entry.term), Sentence::new(Level::Error, text));
        }
    }
}

/// Who is told, and of what.
#[derive(Clone)]
pub struct Hooks {
    cluster: String,
    kinds: Vec<String>,
    command: Option<(String, Duration)>,
    /// Variables with passwords, which are none of the command's business.
    hidden: Vec<String>,
    webhook: Option<Webhook>,
}

impl Hooks {
    /// As the configuration says; `None` where it has no hooks.
    ///
    /// # Errors
    /// A setting is wrong, or a file that it names cannot be read.
    pub fn read(settings: &Settings) -> Result<Option<Self>, Problem> {
        let time = settings.get(&t::HOOKS_COMMAND_TIME);
        let command = settings.get(&t::HOOKS_COMMAND).map(|command| (command, time));
        let webhook = Webhook::read(settings)?;
        if command.is_none() && webhook.is_none() {
            return Ok(None);
        }
        let kinds = settings.get(&t::HOOKS_KINDS);
        let known: Vec<&str> = About::kinds().collect();
        if let Some(unknown) = kinds.iter().find(|kind| !known.contains(&kind.as_str())) {
            let text = format!("hooks.kinds: {unknown:?} is none of {}", known.join(", "));
            return Err(settings.problem(&t::HOOKS_KINDS, text));
        }
        let hidden = settings.password_variables();
        Ok(Some(Self { cluster: settings.name.clone(), kinds, command, hidden, webhook }))
    }

    /// Runs the command, if there is one, with the message at its standard input.
    async fn run(&self, message: &Message) -> Option<Result<String, String>> {
        let (command, within) = self.command.as_ref()?;
        let shell = Shell {
            setting: "hooks.command",
            command,
            environment: &[("UNDERSTUDY_KIND", message.kind), ("UNDERSTUDY_CLUSTER", &self.cluster)],
            hidden: &self.hidden,
            input: message.body.as_bytes(),
        };
        Some(match shell.run(*within).await {
            Ok(output) if output.status.success() => Ok("hooks.command ended with exit code 0".to_owned()),
            Ok(output) => Err(format!(
                "hooks.command ended with {}, and said: {}",
                output.status,
                manager::last_words(&output)
            )),
            Err(why) => Err(why),
        })
    }

    /// Calls the webhook, if there is one, until it takes the message or there are no pauses left.
    async fn call(&self, message: &Message, pauses: &[Duration]) -> Option<Result<String, String>> {
        let webhook = self.webhook.as_ref()?;
        let mut pauses = pauses.iter();
        loop {
            let (webhook, message) = (webhook.clone(), message.clone());
            let called = tokio::task::spawn_blocking(move || webhook.call(&message)).await;
            let why = match called {
                Ok(Called::Taken(said)) => return Some(Ok(said)),
                Ok(Called::Refused(why)) => return Some(Err(why)),
                Ok(Called::Failed(why)) => why,
                Err(error) => error.to_string(),
            };
            let Some(pause) = pauses.next() else { return Some(Err(why)) };
            tracing::warn!("{why}; it is called again in {} s", pause.as_secs());
            tokio::time::sleep(*pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers each call with the next of these statuses; returns the ids that it was called with.
    fn answer(listener: &TcpListener, statuses: &[&str]) -> Vec<String> {
        let one = |status: &&str| {
            let (stream, _) = listener.accept().unwrap();
            let (mut reader, mut length, mut id) = (BufReader::new(&stream), 0, String::new());
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let line = line.trim().to_lowercase();
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.parse().unwrap();
                } else if let Some(value) = line.strip_prefix("x-understudy-id: ") {
                    id = value.to_owned();
                } else if line.is_empty() {
                    break;
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            (&stream).write_all(answer.as_bytes()).unwrap();
            id
        };
        statuses.iter().map(one).collect()
    }

    #[tokio::test]
    async fn the_command_does_not_find_what_is_hidden_from_it() {
        // Cargo gives it to every test.
        let name = "CARGO_PKG_NAME";
        assert!(std::env::var_os(name).is_some());
        let about = About::Writes { node: "db2".into() };
        let entry = Decision { at_unix_ms: 7, level: Level::Info, text: "db2 writes".into(), term: 3, about };
        let message = Message::of("shop", &entry).unwrap();
        for (hidden, is_found) in [(vec![], true), (vec![name.to_owned()], false)] {
            let command = Some((format!("test -n \"${name}\""), Duration::from_secs(30)));
            let hooks = Hooks { cluster: "shop".into(), kinds: vec![], command, hidden, webhook: None };
            assert_eq!(hooks.run(&message).await.unwrap().is_ok(), is_found);
        }
    }

    #[tokio::test]
    async fn a_webhook_is_called_again_while_it_may_take_it_and_until_no_pause_is_left() {
        let about = About::Writes { node: "db2".into() };
        let entry = Decision { at_unix_ms: 7, level: Level::Info, text: "db2 writes".into(), term: 3, about };
        let message = Message::of("shop", &entry).unwrap();
        let pauses = [Duration::from_millis(1); 2];
        let cases: [(&'static [&'static str], Result<&str, &str>); 4] = [
            (&["503 Later", "429 Slower", "201 Made"], Ok("the webhook answered 201 Created")),
            (&["500 No", "502 No", "503 No"], Err("the webhook answered 503 Service Unavailable")),
            (&["403 No"], Err("the webhook answered 403 Forbidden")),
            // Whoever gets what it was to get is nobody's business but its own.
            (&["302 Elsewhere"], Err("the webhook answered 302 Found")),
        ];
        for (statuses, wanted) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/?token=hidden", listener.local_addr().unwrap());
            let webhook = Some(Webhook::new(url, None, None));
            let hooks =
                Hooks { cluster: "shop".into(), kinds: vec![], command: None, hidden: vec![], webhook };
            let calls = tokio::task::spawn_blocking(move || answer(&listener, statuses));
            let told = hooks.call(&message, &pauses).await.unwrap();
            assert_eq!(told.as_ref().map(String::as_str).map_err(String::as_str), wanted);
            assert_eq!(calls.await.unwrap(), vec![message.id.clone(); statuses.len()]);
        }
        let none = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let webhook = Some(Webhook::new(format!("http://{none}/?token=hidden"), None, None));
        let hooks = Hooks { cluster: "shop".into(), kinds: vec![], command: None, hidden: vec![], webhook };
        let told = hooks.call(&message, &pauses).await.unwrap().unwrap_err();
        assert!(told.starts_with("the webhook cannot be reached") && !told.contains("hidden"), "{told}");
    }
}
