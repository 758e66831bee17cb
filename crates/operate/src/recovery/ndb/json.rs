//! The findings for programs. Times are as the log's, in text; lengths are microseconds; what is not known is null.

use ndb::Moment;
use ndb::advice;
use ndb::restart::{Checkpoint, Restart, Story};
use ndb::restart_info::{Row, TIMES};
use ndb::verdict::{self, Rule, Source};
use serde_json::{Map, Value, json};

use super::report::own_of;
use super::{Advice, Findings};

/// All of it.
pub(super) fn of(found: &Findings) -> Value {
    let story = found.story.as_ref();
    json!({
        "version": story.and_then(|story| story.version).map(|version| version.to_string()),
        "first": story.map(|story| story.first.to_string()),
        "last": story.map(|story| story.last.to_string()),
        "notes": story.map(|story| story.notes.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "restarts": story.map(|story| story.restarts.iter().map(|one| restart(one, story, found)).collect::<Vec<_>>()),
        "checkpoints": story.map(|story| story.checkpoints.iter().map(checkpoint).collect::<Vec<_>>()),
        "restart_info": found.rows.iter().map(row).collect::<Vec<_>>(),
        "advice": found.advice.as_ref().map(advised),
    })
}

fn time(time: Option<Moment>) -> Option<String> {
    time.map(|time| time.to_string())
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Disk => "disk",
        Source::FullCopy => "full_copy",
        Source::Both { .. } => "both",
        Source::NotKnown => "not_known",
        Source::WholeCluster => "whole_cluster",
    }
}

fn restart(restart: &Restart, story: &Story, found: &Findings) -> Value {
    let happened = verdict::happened(restart, own_of(restart, found));
    let predicted = verdict::predicted(restart, !story.checkpoints.is_empty());
    let parts: Vec<Value> =
        restart.parts().iter().map(|part| json!({ "name": part.name, "us": part.us })).collect();
    json!({
        "node": restart.node,
        "kind": restart.start.map(ndb::Start::name),
        "version": restart.version.map(|version| version.to_string()),
        "stop_asked": time(restart.stop_asked),
        "process_ended": time(restart.process_ended),
        "why": restart.why,
        "failed": time(restart.failed),
        "node_id": time(restart.node_id),
        "started": time(restart.started),
        "failed_again": time(restart.failed_again),
        "total_us": restart.total_us(),
        "start_us": restart.start_us(),
        "own_checkpoint_us": restart.checkpoint_us(),
        "net_us": restart.net_us(),
        "parts": parts,
        "restored_checkpoint": restart.restored_lcp,
        "restored_rows": restart.restored_rows,
        "fetched_rows": restart.rows_fetched,
        "fetched_bytes": restart.bytes_fetched,
        "checkpoints_while_away": restart.failed.map(|_| &restart.lcps_absent),
        "checkpoints_while_starting": restart.lcps_starting,
        "own_checkpoint": restart.own_lcp,
        "happened": { "source": source(happened.source), "because": happened.because, "is_finished": happened.is_finished },
        "rule_of_three": {
            "source": source(predicted.source),
            "checkpoints_missed": predicted.missed,
            "checkpoints_missed_max": predicted.missed_max,
            "decides": match predicted.rule {
                Rule::Decides => Some(true),
                Rule::DecidesNothing | Rule::AlwaysCopies => Some(false),
                Rule::NotEstablished | Rule::VersionNotNamed => None,
            },
        },
        "restart_info_agrees": found.rows.iter().any(|row| row.is_of(restart)),
    })
}

fn checkpoint(checkpoint: &Checkpoint) -> Value {
    json!({
        "id": checkpoint.id,
        "started": checkpoint.started.to_string(),
        "completed": time(checkpoint.completed),
        "bytes": checkpoint.bytes,
    })
}

fn row(row: &Row) -> Value {
    let mut fields = Map::new();
    fields.insert("node_id".into(), row.node.into());
    fields.insert("node_restart_status".into(), row.status.clone().into());
    fields.extend(TIMES.iter().zip(row.seconds).map(|(name, s)| ((*name).to_owned(), s.into())));
    Value::Object(fields)
}

fn advised(given: &Advice) -> Value {
    let meaning = |meaning: advice::Meaning| {
        json!({
            "setting": meaning.setting,
            "trigger_bytes": advice::trigger_bytes(meaning.setting),
            "trigger_ms": meaning.trigger_ms,
            "spacing_ms": meaning.spacing_ms,
            "window_ms": meaning.window_ms,
            "is_enough": meaning.is_enough,
        })
    };
    json!({
        "write_bytes_per_s": given.load.write_bytes_s,
        "is_rate_from_log": given.is_rate_from_log,
        "checkpoint_ms": given.load.checkpoint_ms,
        "needed_ms": given.load.needed_ms,
        "present": given.setting.map(|setting| meaning(given.load.meaning(setting))),
        "default": meaning(given.load.meaning(advice::DEFAULT)),
        "advised": given.load.advised().map(meaning),
    })
}
