//! The words of a script that mean a value.

use std::time::Duration;

use topology::fact::{ConnectFailure, LinkEnd};
use topology::routes::ServerGreeting;

/// The value of the word that begins with `key`.
pub fn option<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key))
}

pub fn address(name: &str) -> String {
    format!("{name}:3306")
}

pub fn greeting() -> ServerGreeting {
    ServerGreeting {
        version: "5.5.5-10.11.19-MariaDB".into(),
        capabilities: 1,
        charset: 45,
        status: 2,
        plugin: "mysql_native_password".into(),
    }
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|time| Duration::try_from_secs_f64(time).ok())
        .ok_or(format!("{text} is no time"))
}

pub fn ended(how: &str) -> Result<LinkEnd, String> {
    Ok(match how.split_once(' ') {
        Some(("goodbye", errno)) => LinkEnd::Goodbye { errno: errno.parse().map_err(|_| "errno?")? },
        None if how == "closed" => LinkEnd::Closed,
        None if how == "silent" => LinkEnd::Silent,
        _ => return Err("how?".into()),
    })
}

pub fn failed(how: &str) -> Result<ConnectFailure, String> {
    Ok(match how.split_once(' ') {
        Some(("rejected", errno)) => {
            ConnectFailure::Rejected { errno: errno.parse().map_err(|_| "errno?")?, message: "no".into() }
        }
        None if how == "refused" => ConnectFailure::Refused,
        None if how == "reset" => ConnectFailure::Reset,
        None if how == "timeout" => ConnectFailure::TimedOut,
        None if how == "unreachable" => ConnectFailure::Unreachable,
        _ => return Err("how?".into()),
    })
}
