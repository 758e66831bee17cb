//! One answer, now: from the program that already knows, or else from the database itself. Never later than [`TIME_MAX`].

use std::path::PathBuf;
use std::time::{Duration, Instant};

use health::answer::{Answer, AnswerKind};
use health::refresh;
use link::LinkError;
use topology::health::Question;

use super::database::Database;
use crate::local;

/// For all of it. keepalived and its like ask each second.
const TIME_MAX: Duration = Duration::from_millis(900);
/// A program that knows answers within a millisecond; one that does not is frozen.
const LOCAL_TIME_MAX: Duration = Duration::from_millis(150);

/// What is asked.
#[derive(Debug)]
pub struct Once {
    /// The database.
    pub database: Database,
    /// What about it.
    pub question: Question,
    /// Where a running program may be asked first.
    pub socket: PathBuf,
    /// An older answer than this is not taken.
    pub age_max: Duration,
    /// While this file exists, the node is not to be used.
    pub disabled_file: Option<PathBuf>,
}

impl Once {
    /// Asks.
    pub fn answer(&self) -> Answer {
        let until = Instant::now() + TIME_MAX;
        if let Some(answer) = self.disabled_file.as_deref().and_then(refresh::disabled) {
            return answer;
        }
        let told = local::ask(&self.socket, self.question, LOCAL_TIME_MAX);
        // One that is itself just asking the database, or was never told, knows no more than we do: that must not move an address.
        let is_known = |answer: &Answer| {
            answer.age <= self.age_max && !matches!(answer.kind, AnswerKind::Doubted | AnswerKind::Unasked)
        };
        if let Some(answer) = told.filter(is_known) {
            return answer;
        }
        self.ask_database(until.saturating_duration_since(Instant::now()))
    }

    fn ask_database(&self, deadline: Duration) -> Answer {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(e) => {
                let why = LinkError::Local(format!("no runtime: {e}"));
                return Answer::new(AnswerKind::Unknown, format!("cannot be asked: {why}"), Duration::ZERO);
            }
        };
        let settings = refresh::Settings {
            whereabouts: self.database.whereabouts.clone(),
            login: self.database.login.clone(),
            interval: deadline,
            deadline,
            disabled_file: None,
        };
        let state = runtime.block_on(refresh::once(&settings));
        // A name that is still being resolved is not waited for.
        runtime.shutdown_background();
        state.answer(self.question, self.age_max)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::thread;

    use link::{Endpoint, Login, Secret};
    use topology::health::Rules;

    use super::*;
    use crate::local::Target;

    #[test]
    fn what_nobody_knows_is_not_passed_on_but_asked_about() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let (listener, _bound) = local::bind(&socket).unwrap();
        let knows = thread::spawn(move || {
            for kind in [AnswerKind::Good, AnswerKind::Doubted, AnswerKind::Unasked] {
                let (mut client, _) = listener.accept().unwrap();
                let mut request = [0; 512];
                assert!(client.read(&mut request).unwrap() > 0);
                let body = health::style::json(&Answer::new(kind, "it says", Duration::ZERO));
                write!(client, "HTTP/1.1 200 OK\r\n\r\n{body}").unwrap();
            }
        });
        let place = Endpoint::Unix(dir.path().join("no-database"));
        let database = Database {
            target: Target::of(&place, 0),
            whereabouts: place.into(),
            login: Login::new("x", Secret::None),
        };
        let question = Question::Member(Rules::default());
        let once = Once { database, question, socket, age_max: TIME_MAX, disabled_file: None };
        assert_eq!(once.answer().kind, AnswerKind::Good);
        for _ in [AnswerKind::Doubted, AnswerKind::Unasked] {
            let asked = once.answer();
            assert_eq!(asked.kind, AnswerKind::Unknown);
            assert!(asked.reason.starts_with("cannot be asked"), "{}", asked.reason);
        }
        knows.join().unwrap();
    }
}
