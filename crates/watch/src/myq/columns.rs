//! Formats the classic lines of myq_status, each from one status and the one before it.
//!
//! Columns, widths and the source of each figure are those of myq_gadgets' `myq_status` (seed-tools.md, section 6), so that programs that
//! parse its output continue to work.

use std::collections::HashMap;

use super::number::{bytes, count, microseconds};

/// The header is repeated after this many lines.
const LINES_PER_HEADER: u64 = 15;

/// The kind of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// `wsrep`.
    Wsrep,
    /// `wsrep_latency`.
    Latency,
}

/// Names that do not change during a run.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// wsrep_cluster_name; empty when it is not known.
    pub cluster: String,
    /// wsrep_node_name; the same.
    pub node: String,
    /// The server's version; the same.
    pub version: String,
}

/// Text from servers and recordings must not contain control characters for the terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// One result of SHOW GLOBAL STATUS, by names in lower case.
#[derive(Clone, Debug, Default)]
pub struct Status(HashMap<String, String>);

impl Status {
    /// From rows of name and value.
    pub fn of<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self(rows.map(|(name, value)| (name.to_ascii_lowercase(), plain(value))).collect())
    }

    /// Whether it is from a Galera node.
    pub fn is_of_galera(&self) -> bool {
        self.has("wsrep_local_state_comment")
    }

    /// Seconds since the server's start.
    pub fn uptime_s(&self) -> Option<i64> {
        self.text("uptime").parse().ok()
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A missing or invalid number is 0, as in the original.
    fn number(&self, name: &str) -> f64 {
        self.text(name).parse::<f64>().ok().filter(|number| number.is_finite()).unwrap_or(0.0)
    }
}

/// Formats one line after the other.
pub struct Lines {
    view: View,
    names: Names,
    before: Option<Status>,
    written: u64,
}

impl Lines {
    /// Before the first line.
    pub fn new(view: View, names: Names) -> Self {
        Self { view, names, before: None, written: 0 }
    }

    /// The line for this status, after a header where one is due. The first line, and the first one after a restart of the server, show the
    /// totals since the server's start.
    pub fn line(&mut self, time: &str, status: Status) -> String {
        let is_restarted = self.before.as_ref().is_some_and(|before| status.uptime_s() < before.uptime_s());
        let before = self.before.take().filter(|_| !is_restarted);
        let grown =
            |name: &str| status.number(name) - before.as_ref().map_or(0.0, |before| before.number(name));
        let mut text = String::new();
        if self.written.is_multiple_of(LINES_PER_HEADER) {
            self.header(&mut text, &status);
        }
        self.written += 1;
        let primary = if status.text("wsrep_cluster_status") == "Primary" { "P" } else { "N" };
        let configuration = tail(status.text("wsrep_cluster_conf_id"));
        let head = format!(
            "{time:>8} {primary:>1} {configuration:>3} {:>2} {:>4.4}",
            count(status.number("wsrep_cluster_size"), 2),
            state(status.text("wsrep_local_state_comment")),
        );
        text += &match self.view {
            View::Wsrep => format!("{head} {}", self.wsrep(&status, grown)),
            View::Latency => format!("{head} {}", latency(&status, grown)),
        };
        text.push('\n');
        self.before = Some(status);
        text
    }

    fn header(&self, text: &mut String, status: &Status) {
        *text += &format!(
            "{} / {} (idx: {}) / {} {}\n",
            plain(&self.names.cluster),
            plain(&self.names.node),
            index(status.text("wsrep_local_index")),
            status.text("wsrep_provider_name"),
            status.text("wsrep_provider_version"),
        );
        *text += match self.view {
            View::Wsrep => concat!(
                "Wsrep    Cluster  Node Repl  Queue     Ops       Bytes     Conflct   Gcache    Window        Flow    \n",
                "    time P cnf  # Stat Laten   Up   Dn   Up   Dn   Up   Dn  lcf  bfa  ist  idx dst appl comm  p_ms\n",
            ),
            View::Latency => concat!(
                "Wsrep    Cluster  Node Ops         Latencies\n",
                "    time P cnf  # Stat    Up    Dn Size    Min    Avg    Max    Dev\n",
            ),
        };
    }

    fn wsrep(&self, status: &Status, grown: impl Fn(&str) -> f64) -> String {
        let latency = repl_latency(status.text("wsrep_evs_repl_latency"));
        let latency = latency.map_or_else(|| "N/A".to_owned(), |us| microseconds(us, 5));
        let cached = status.number("wsrep_last_committed") - status.number("wsrep_local_cached_downto");
        // Servers of 5.5 report the pause as a fraction of the time, the first of them only so; a recording does not say its server's version.
        let is_5_5 = self.names.version.starts_with("5.5") || !status.has("wsrep_flow_control_paused_ns");
        let (paused, sent) = if is_5_5 {
            (short_part(status.number("wsrep_flow_control_paused")), status.number("wsrep_flow_control_sent"))
        } else {
            let paused_ms = grown("wsrep_flow_control_paused_ns") / 1e6;
            (count(paused_ms, 4), grown("wsrep_flow_control_sent"))
        };
        format!(
            "{latency:>5} {:>4} {:>4} {:>4} {:>4} {:>4} {:>4} {:>4} {:>4} {:>4} {:>4} {:>3} {:>4} {:>4} {paused:>5}{}",
            count(status.number("wsrep_local_send_queue"), 4),
            count(status.number("wsrep_local_recv_queue"), 4),
            count(grown("wsrep_replicated"), 4),
            count(grown("wsrep_received"), 4),
            bytes(grown("wsrep_replicated_bytes"), 4),
            bytes(grown("wsrep_received_bytes"), 4),
            count(grown("wsrep_local_cert_failures"), 3),
            count(grown("wsrep_local_bf_aborts"), 3),
            count(cached.max(0.0), 4),
            count(status.number("wsrep_cert_index_size"), 4),
            count(status.number("wsrep_cert_deps_distance"), 3),
            count(status.number("wsrep_apply_window"), 4),
            count(status.number("wsrep_commit_window"), 4),
            if sent > 0.0 { "*" } else { "" },
        )
    }
}

/// A node without an index says the largest number of 64 bits, which is -1.
fn index(text: &str) -> i64 {
    let is_none = text.parse::<u64>().is_ok();
    text.parse().unwrap_or(if is_none { -1 } else { 0 })
}

/// The last three characters.
fn tail(text: &str) -> &str {
    let from = text.char_indices().rev().nth(2).map_or(0, |(at, _)| at);
    &text[from..]
}

/// A fraction of the time, with one decimal.
fn short_part(part: f64) -> String {
    format!("{part:.1}")
}

fn latency(status: &Status, grown: impl Fn(&str) -> f64) -> String {
    let text = status.text("wsrep_evs_repl_latency");
    let parts: Vec<f64> = text.split('/').filter_map(|part| part.parse().ok()).collect();
    let part = |place: usize| parts.get(place).copied().filter(|part| part.is_finite()).unwrap_or(0.0);
    let time = |place: usize| microseconds(part(place) * 1e6, 6);
    format!(
        "{:>5} {:>5} {:>4} {:>6} {:>6} {:>6} {:>6}",
        count(grown("wsrep_replicated"), 5),
        count(grown("wsrep_received"), 5),
        count(part(4), 4),
        time(0),
        time(1),
        time(2),
        time(3),
    )
}

/// `Joining: receiving State Transfer` and `Joined (3)` without the part in parentheses.
fn state(comment: &str) -> &str {
    comment.split_once(" (").map_or(comment, |(word, _)| word.trim_end())
}

/// The average of `minimum/average/maximum/deviation/count` (seconds), in microseconds; `None` without a measurement: the value then has no
/// decimal point.
fn repl_latency(text: &str) -> Option<f64> {
    let average = text.split('/').nth(1)?;
    let seconds: f64 = average.contains('.').then(|| average.parse().ok())??;
    seconds.is_finite().then_some(seconds * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names { cluster: "shop".into(), node: "db1".into(), version: "10.11.19-MariaDB".into() }
    }

    fn status(more: &[(&str, &str)]) -> Status {
        let base = [
            ("Uptime", "100"),
            ("wsrep_local_state_comment", "Synced"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_cluster_conf_id", "5"),
            ("wsrep_cluster_size", "2"),
            ("wsrep_local_index", "1"),
            ("wsrep_provider_name", "Galera"),
            ("wsrep_provider_version", "3.21(r8678538)"),
            ("wsrep_evs_repl_latency", "0/0/0/0/0"),
            ("wsrep_flow_control_paused_ns", "0"),
        ];
        Status::of(base.into_iter().chain(more.iter().copied()))
    }

    #[test]
    fn the_lines_are_the_originals_to_the_byte() {
        // Printed output of the original (a server that had just started, then an idle second), and the status it was made from.
        let mut lines = Lines::new(
            View::Wsrep,
            Names { cluster: "my_unicorn_cluster".into(), node: "node1".into(), ..names() },
        );
        let figures = [
            ("wsrep_replicated", "141"),
            ("wsrep_received", "324"),
            ("wsrep_replicated_bytes", "105000"),
            ("wsrep_received_bytes", "210000"),
            ("wsrep_last_committed", "500"),
            ("wsrep_local_cached_downto", "44"),
            ("wsrep_cert_index_size", "597"),
            ("wsrep_cert_deps_distance", "8.25"),
            ("wsrep_apply_window", "1.0"),
            ("wsrep_commit_window", "1.0"),
            ("wsrep_flow_control_paused_ns", "377000000000"),
        ];
        let steering = Status::of([("a", "x\u{1b}[2Jy\n")].into_iter());
        assert_eq!(steering.text("a"), "x [2Jy ");
        let lines_written =
            lines.line("04:55:22", status(&figures)) + &lines.line("04:55:23", status(&figures));
        assert_eq!(
            lines_written,
            "\
my_unicorn_cluster / node1 (idx: 1) / Galera 3.21(r8678538)
Wsrep    Cluster  Node Repl  Queue     Ops       Bytes     Conflct   Gcache    Window        Flow    \n    time P cnf  # Stat Laten   Up   Dn   Up   Dn   Up   Dn  lcf  bfa  ist  idx dst appl comm  p_ms
04:55:22 P   5  2 Sync   N/A    0    0  141  324 0.1M 0.2M    0    0  456  597   8    1    1  377k
04:55:23 P   5  2 Sync   N/A    0    0    0    0  0.0  0.0    0    0  456  597   8    1    1     0
"
        );
    }

    #[test]
    fn a_node_with_a_queue_that_asks_for_flow_control_is_marked() {
        let mut lines = Lines::new(View::Wsrep, names());
        lines.line("20:19:00", status(&[("wsrep_local_state_comment", "Donor/Desynced")]));
        let busy = [
            ("wsrep_local_state_comment", "Donor/Desynced"),
            ("wsrep_cluster_status", "non-Primary"),
            ("wsrep_cluster_conf_id", "18446744073709551615"),
            ("wsrep_local_recv_queue", "349123"),
            ("wsrep_received", "13344"),
            ("wsrep_flow_control_sent", "2"),
            ("wsrep_evs_repl_latency", "0.00012/0.00035/0.0009/0.0001/17"),
        ];
        let line = lines.line("20:19:01", status(&busy));
        let want = "20:19:01 N 615  2 Dono 350µs    0 349k    0  13k  0.0  0.0    0    0    0    0   0    0    0     0*\n";
        assert_eq!(line, want);
    }

    #[test]
    fn a_node_outside_of_any_component_has_no_index() {
        for (said, shown) in [("0", 0), ("2", 2), ("18446744073709551615", -1), ("-1", -1), ("", 0), ("x", 0)]
        {
            let line = Lines::new(View::Wsrep, names()).line("x", status(&[("wsrep_local_index", said)]));
            assert!(line.contains(&format!("(idx: {shown})")), "{said}: {line}");
        }
    }

    #[test]
    fn a_server_that_has_only_the_paused_share_is_known_by_that() {
        let mut old = status(&[("wsrep_flow_control_paused", "0.26"), ("wsrep_flow_control_sent", "3")]);
        assert!(Lines::new(View::Wsrep, names()).line("x", old.clone()).ends_with("     0*\n"));
        old.0.remove("wsrep_flow_control_paused_ns");
        let mut lines = Lines::new(View::Wsrep, Names::default());
        lines.line("x", old.clone());
        assert!(lines.line("x", old).ends_with("   0.3*\n"), "since its start, as in the original");
    }

    #[test]
    fn latencies_have_a_view_of_their_own() {
        let mut lines = Lines::new(View::Latency, names());
        let line =
            lines.line("20:19:00", status(&[("wsrep_evs_repl_latency", "0.00012/0.00035/0.0009/0.0001/17")]));
        assert_eq!(
            line.lines().nth(2),
            Some("    time P cnf  # Stat    Up    Dn Size    Min    Avg    Max    Dev")
        );
        assert_eq!(
            line.lines().last(),
            Some("20:19:00 P   5  2 Sync     0     0   17  120µs  350µs  900µs  100µs")
        );
    }

    #[test]
    fn the_header_comes_back_after_fifteen_lines() {
        let mut lines = Lines::new(View::Wsrep, names());
        let headed: Vec<bool> = (0..31).map(|_| lines.line("x", status(&[])).lines().count() > 1).collect();
        assert!(headed[0] && headed[15] && headed[30]);
        assert_eq!(headed.iter().filter(|headed| **headed).count(), 3);
    }

    #[test]
    fn after_a_restart_the_totals_are_told_and_nothing_negative() {
        let mut lines = Lines::new(View::Wsrep, names());
        lines.line("1", status(&[("wsrep_received", "900")]));
        let line = lines.line("2", status(&[("Uptime", "3"), ("wsrep_received", "7")]));
        assert!(line.contains("    0    0    0    7 "), "{line}");
    }

    #[test]
    fn odd_words_of_a_server_do_no_harm() {
        let mut lines = Lines::new(View::Wsrep, Names::default());
        let odd = [
            ("wsrep_cluster_conf_id", "é"),
            ("wsrep_last_committed", "x"),
            ("wsrep_evs_repl_latency", "a/b"),
        ];
        assert!(lines.line("", status(&odd)).contains("Sync"));
    }
}
