//! `understudy journal`: what was decided, and why.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use topology::view::Decision;

use cli::exit::{CommandResult, Failure};
use client::{Answer, Server};
use report::table::moment;

/// Between two questions of --follow.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// The decisions, oldest first, each as one sentence with its reason. Times are UTC.
#[derive(Args)]
pub struct Journal {
    /// Only what is newer: so long ago (10m, 2h, 1d), a moment as the journal prints it ('2026-11-21 12:03:11', UTC), or milliseconds since
    /// 1970
    #[arg(long, value_name = "TIME", value_parser = after, default_value = "0")]
    after: u64,
    /// As JSON; with --follow each decision on a line of its own
    #[arg(long)]
    json: bool,
    /// Go on with what is decided from now on, until it is ended; also while the server is away
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    server: Server,
}

impl Journal {
    /// Prints it.
    pub fn run(&self) -> CommandResult {
        let answer = self.asked(self.after)?;
        if self.follow {
            return self.follow(answer);
        }
        if self.json {
            println!("{:#}", answer.data);
            return Ok(ExitCode::SUCCESS);
        }
        for decision in &answer.read::<Vec<Decision>>()? {
            println!("{}", line(decision));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn asked(&self, after: u64) -> Result<Answer, Failure> {
        self.server.client()?.get(&format!("journal?after={after}"))
    }

    /// Asks once a second for what is newer than the last that was told.
    fn follow(&self, first: Answer) -> CommandResult {
        let (mut after, mut answer) = (self.after, Some(first));
        loop {
            for decision in
                answer.as_ref().map(Answer::read::<Vec<Decision>>).transpose()?.unwrap_or_default()
            {
                after = after.max(decision.at_unix_ms);
                let text = if self.json { serde_json::to_string(&decision) } else { Ok(line(&decision)) };
                println!("{}", text.map_err(Failure::usage)?);
            }
            std::thread::sleep(FOLLOW_EVERY);
            answer = match self.asked(after) {
                Ok(answer) => Some(answer),
                // Whoever follows wants to see it come back.
                Err(Failure::Unreachable(_) | Failure::NotRunning(_)) => None,
                Err(other) => return Err(other),
            };
        }
    }
}

/// A moment in milliseconds since 1970.
pub fn after(text: &str) -> Result<u64, String> {
    let wrong = || {
        "it must be a time ago such as 10m or 2h, a moment such as '2026-11-21 12:03:11' (UTC), or milliseconds since 1970".to_owned()
    };
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    if let Some(moment) = ndb::Moment::parse(text) {
        return u64::try_from(moment.0 / 1000).map_err(|_| wrong());
    }
    let ago = health::duration(text).ok_or_else(wrong)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?;
    u64::try_from(now.saturating_sub(ago).as_millis()).map_err(|_| wrong())
}

/// One entry; also used by `status`.
pub fn line(Decision { at_unix_ms, level, text, .. }: &Decision) -> String {
    format!("{}  {:<5}  {text}", moment(*at_unix_ms), level.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_in_three_ways() {
        assert_eq!(after("1404465709250"), Ok(1_404_465_709_250));
        for text in ["2014-07-04 09:21:49.250", "2014-07-04T09:21:49.250Z"] {
            assert_eq!(after(text), Ok(1_404_465_709_250), "{text}");
        }
        let now = after("0s").unwrap();
        let ago = after("10m").unwrap();
        assert!((599_000..=600_000).contains(&(now - ago)), "{now} {ago}");
        assert_eq!(after("99999d"), Ok(0), "before 1970: everything");
        for wrong in ["", "10x", "-5m", "yesterday"] {
            assert!(after(wrong).is_err(), "{wrong}");
        }
    }
}
