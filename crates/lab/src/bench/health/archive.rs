//! Earlier measurements: what the seed article says, and the result files that its author published beside his scripts.
//!
//! Sources: the article "Benchmark: SimpleHTTPServer vs pyclustercheck (twisted implementation)", MySQL Performance Blog, 2014;
//! `benchmark/clustercheck/results/*/results.html` of <https://github.com/Oneiroi/clustercheck>. All of it on an AMD FX-8350, by
//! multi-mechanize on the same machine, whose Python processes reached 190 to 270 transactions a second each, whatever the server: its
//! throughput says little about the servers. Its outliers do: 1, 3, 7, 15, 31, 63, 127 s are SYN retransmissions to a full backlog.

use super::cell::Cell;

/// Source of the archived figures.
pub const SOURCE: &str =
    "github.com/Oneiroi/clustercheck, benchmark/clustercheck/results/*/results.html (600 s, ramp-up 60 s)";

/// An archived benchmark run.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Archived {
    /// What was measured, and when.
    pub name: &'static str,
    /// All transactions.
    pub transactions: u64,
    /// Transactions a second, on average.
    pub per_s: f64,
    /// Average response time, s.
    pub average_s: f64,
    /// 95th percentile of the response times, s.
    pub p95_s: f64,
    /// The longest response time, s.
    pub max_s: f64,
}

const fn archived(
    name: &'static str,
    transactions: u64,
    per_s: f64,
    average_s: f64,
    p95_s: f64,
    max_s: f64,
) -> Archived {
    Archived { name, transactions, per_s, average_s, p95_s, max_s }
}

const A: [Archived; 4] = [
    archived("BaseHTTPServer, 2013-05", 211_519, 353.0, 0.456, 1.218, 127.309),
    archived("BaseHTTPServer, 2014-05-08", 282_407, 471.0, 0.368, 1.236, 63.368),
    archived("twisted, 2014-05-08", 270_552, 451.0, 0.302, 0.443, 0.688),
    archived("twisted, default caching", 247_148, 412.0, 0.425, 0.576, 0.783),
];

const B: [Archived; 2] = [
    archived("BaseHTTPServer, 2014-05-12", 349_789, 583.0, 0.627, 1.436, 127.359),
    archived("twisted, 2014-05-12", 421_493, 702.0, 0.483, 0.697, 31.645),
];

/// The archived runs of one of the seed's loads.
pub fn runs(cell: Cell) -> &'static [Archived] {
    match cell {
        Cell::A => &A,
        Cell::B => &B,
        _ => &[],
    }
}

/// What the seed article says about this load.
pub fn seed_says(cell: Cell) -> &'static [&'static str] {
    match cell {
        Cell::A => &[
            "SimpleHTTPServer: about 500 TPS, outliers near 70 s",
            "twisted: -19 % TPS (an estimate from the pictures), always under 1 s",
        ],
        Cell::B => &[
            "SimpleHTTPServer: \"stability issues\", 470 lines with `timed out`",
            "twisted: more consistent, 0 lines with `timed out`",
        ],
        _ => &[],
    }
}
