//! What does not go together in `[warm]`. Standbys are warmed when its `user` is set.

use topology::settings::Writers;

use super::document::Document;
use super::{password, table as t};

/// Notes what does not go together.
pub(super) fn check(document: &mut Document) {
    if document.has(&t::WARM_USER) {
        password::WARM.check(document, None);
        if document.get(&t::CLUSTER_WRITERS) == Writers::All {
            let text = "warm.user is set and cluster.writers is \"all\": where all nodes take the traffic there is no standby to warm; \
                        take [warm] out";
            document.problem(document.line(t::WARM_USER.path), text);
        }
        if document.get(&t::WARM_SOURCE) == "proxy" {
            let of_streams = [&t::WARM_STREAM_PORT.row, &t::WARM_STREAM_KEY_FILE.row, &t::WARM_STREAM_CA.row];
            if let Some(row) = of_streams.into_iter().find(|row| document.has(row)) {
                let text =
                    format!("{} means something with warm.source = \"slow-log\" only: take it out", row.path);
                document.problem(document.line(row.path), text);
            }
        }
        return;
    }
    let alone = t::TABLE.iter().copied().find(|row| row.section() == "warm" && document.has(row));
    if let Some(row) = alone {
        let text = format!("{} is set without warm.user: set that, too, or take [warm] out", row.path);
        document.problem(document.line(row.path), text);
    }
}
