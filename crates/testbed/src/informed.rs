//! The second half of the seed's pair: whoever has moved the writer tells the balancer.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Serving, run, until};

/// How long after a change of the writer a request without a target only tells of it.
const WINDOW: Duration = Duration::from_secs(10);

/// The seed's line, for the API at `place`. -s: no progress beside the answer; -m: never for ever.
pub fn line(place: &str, key: &str) -> String {
    let path = "api/cluster/5/manual_failover";
    format!("curl -s -m 60 -k -X PUT {place}/{path} -d '{{\"apikey\": \"{key}\"}}'")
}

/// Carries out a line of a shell: the answer at its end.
pub fn answer(command: &mut Command, line: &str) -> Value {
    let ended = run(command.arg("-c").arg(line));
    assert_eq!(ended.code, 0, "{}", ended.said());
    let json = ended.out.find("{\"").map(|begin| &ended.out[begin..]);
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_else(|| panic!("{}", ended.said()))
}

/// Such a request was answered, and nothing was moved by it: `writer` writes under the same term as before.
pub fn nothing_was_moved(said: &Value, serving: &Serving, writer: &str, term: &Value) {
    assert_eq!(said["success"], true, "{said}");
    let data = &said["data"];
    assert_eq!((&data["changed"], &data["repeated"]), (&Value::from(false), &Value::from(true)), "{said}");
    assert_eq!(data["writer"], writer, "{said}");
    let status = serving.status();
    assert_eq!((&status["writer"], &status["term"]), (&Value::from(writer), term), "{said}");
}

/// Tells it again and again. Nothing is moved until the window is over, and then the request is one to move the writer. `changed`: when the
/// writer had changed at the latest.
pub fn moves_after_the_window(line: &str, serving: &Serving, changed: Instant) {
    let before = serving.status();
    let moved = until("a request that moves the writer", || {
        let said = answer(&mut Command::new("sh"), line);
        Some(said).filter(|said| said["data"]["changed"] == true)
    });
    // The answer comes after the move, whose request came when the window was over.
    assert!(changed.elapsed() > WINDOW / 2, "after {:?}: {moved}", changed.elapsed());
    let after = serving.status();
    assert_ne!(after["writer"], before["writer"], "{moved}");
    assert_eq!(after["term"].as_u64(), before["term"].as_u64().map(|term| term + 1), "one move: {moved}");
}
