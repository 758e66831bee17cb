//! The settings of `[warm]`: who is replayed what on the standbys. Present when its `user` is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::document::{Document, Value};
use super::password::{self, PasswordSource};
use super::{Getter, table as t};

/// How standbys are warmed.
#[derive(Clone, Debug)]
pub struct Warm {
    /// The account that reads there.
    pub user: String,
    /// Where its password is.
    pub password: PasswordSource,
    /// From the proxy itself; otherwise from the slow logs.
    pub from_proxy: bool,
    /// Where each node's slow log is streamed.
    pub stream_port: u16,
    /// The file with the streamers' key.
    pub stream_key_file: Option<PathBuf>,
    /// The file with the certificate by which the streamers are known.
    pub stream_ca_file: Option<PathBuf>,
    /// How much of it is replayed.
    pub sample: warmup::source::Sample,
    /// How many sessions; `None`: one for each recorded connection.
    pub sessions_max: Option<usize>,
    /// Older statements than this are left out.
    pub lag_max: Duration,
    /// Bytes of statements that may wait for one standby.
    pub waiting_bytes_max: usize,
    /// What these accounts ran is not replayed.
    pub skip_users: Vec<String>,
    /// The account may write.
    pub writable_account: bool,
    /// A planned switchover needs a standby of this score; `None`: of none.
    pub require_percent: Option<u8>,
}

/// Notes what does not go together.
pub(super) fn check(document: &mut Document) {
    if document.has(&t::WARM_USER) {
        password::WARM.check(document);
        if document.value(&t::CLUSTER_WRITERS) == Some(Value::Text("all".into())) {
            let text = "warm.user is set and cluster.writers is \"all\": where all nodes take the traffic there is no standby to warm; \
                        take [warm] out";
            document.problem(document.line(t::WARM_USER.path), text);
        }
        if document.value(&t::WARM_SOURCE) == Some(Value::Text("proxy".into())) {
            let of_streams = [&t::WARM_STREAM_PORT, &t::WARM_STREAM_KEY_FILE, &t::WARM_STREAM_CA];
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

/// The outer `None`: a row's kind and its use here disagree.
#[allow(clippy::option_option)] // one is a defect, the other says that nothing is warmed
pub(super) fn build(document: &Document, base: &Path) -> Option<Option<Warm>> {
    if !document.has(&t::WARM_USER) {
        return Some(None);
    }
    let get = |row| Getter(document.value(row));
    let path = |row: &'static t::Row| get(row).text().map(|file| base.join(file));
    let positive = |number: u64| (number > 0).then_some(number);
    Some(Some(Warm {
        user: get(&t::WARM_USER).text()?,
        password: password::WARM.source(document, base)?,
        from_proxy: get(&t::WARM_SOURCE).text()? == "proxy",
        stream_port: get(&t::WARM_STREAM_PORT).number()?,
        stream_key_file: path(&t::WARM_STREAM_KEY_FILE),
        stream_ca_file: path(&t::WARM_STREAM_CA),
        sample: warmup::source::Sample {
            one_in: get(&t::WARM_SAMPLE).number()?,
            by_session: get(&t::WARM_SAMPLE_BY).text()? == "session",
        },
        sessions_max: positive(get(&t::WARM_SESSIONS).number()?).map(|sessions| sessions as usize),
        lag_max: get(&t::WARM_LAG_MAX).millis()?,
        waiting_bytes_max: get(&t::WARM_WAITING).number()?,
        skip_users: get(&t::WARM_SKIP).list()?,
        writable_account: get(&t::WARM_WRITABLE).switch()?,
        require_percent: positive(get(&t::WARM_REQUIRE).number()?).map(|percent| percent as u8),
    }))
}
