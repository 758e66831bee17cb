//! Does this machine's `understudy serve` take clients? Asked through its own unix socket, never a database: for the keepalived of
//! two machines that share an address.
//!
//! Of the configuration only the cluster's name is read, whatever else stands there: the one that runs has read its file when it
//! started, and an edit that is not yet right, or a password that only `serve` is given, must not move an address.

use std::path::Path;
use std::time::Duration;

use health::answer::{Answer, AnswerKind};
use toml::de::DeTable;
use topology::health::{Question, Rules};

use crate::local::{self, Target};
use cli::exit::Failure;

/// It answers from memory; one that takes longer hangs. keepalived asks each second.
const TIME_MAX: Duration = Duration::from_millis(500);

/// Asks the one that `config` (or the configuration in one of the usual places) is for.
///
/// # Errors
/// When there is no such configuration, or it names no cluster: then nobody knows which one to ask.
pub fn answer(config: Option<&Path>) -> Result<Answer, Failure> {
    let file = settings::find(config).map_err(Failure::Usage)?;
    let text = infile::read_text(&file)
        .map_err(|e| Failure::Usage(format!("{}: cannot be read: {e}", file.display())))?;
    let cluster = cluster(&text).ok_or_else(|| {
        Failure::Usage(format!("{}: cluster.name is missing; it must be text in quotes", file.display()))
    })?;
    let socket = Target::Door(cluster).file();
    let told = local::ask(&socket, Question::Member(Rules::default()), TIME_MAX);
    Ok(told.unwrap_or_else(|| {
        let why = format!(
            "does not answer at {}: is it running, as a user who may make that file?",
            socket.display()
        );
        Answer::new(AnswerKind::Unknown, why, Duration::ZERO)
    }))
}

/// Its name, also where the rest is no TOML.
fn cluster(text: &str) -> Option<String> {
    let (root, _) = DeTable::parse_recoverable(text);
    let cluster = root.get_ref().get("cluster")?.get_ref().as_table()?;
    cluster.get("name")?.get_ref().as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_whatever_else_is_wrong() {
        let whole = "[cluster]\nname = \"shop\"\n";
        for rest in ["", "unknown = 1\n", "[[cluster.node]]\nname = \"db1\"\n", "[listen]\nmysql = \"", "]["]
        {
            assert_eq!(cluster(&format!("{whole}{rest}")).as_deref(), Some("shop"), "{rest}");
        }
        for none in ["", "name = \"shop\"", "[cluster]\nname = 5", "cluster = 1"] {
            assert_eq!(cluster(none), None, "{none}");
        }
    }
}
