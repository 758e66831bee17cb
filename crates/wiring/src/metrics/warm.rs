//! The figures of warming.

use warmup::warmer::warming_table::{Seen, State};

use super::Page;

/// Name, kind and meaning of a figure that each standby has one of, and where it is.
type Single = (&'static str, &'static str, &'static str, fn(&Seen) -> u64);

fn is_warmed(seen: &Seen) -> bool {
    matches!(seen.state, State::Warmed { .. })
}

/// All of them; nothing where no standby is warmed.
pub(super) fn families(page: &mut Page, seen: &[Seen]) {
    page.family(
        "understudy_warm_on",
        "gauge",
        "1 while the standby is replayed what the active node is asked, 0 while it should be and is not; nothing where it should not be.",
    );
    for seen in seen.iter().filter(|seen| !matches!(seen.state, State::Off { .. })) {
        page.value("understudy_warm_on", &[("node", &seen.standby)], u64::from(is_warmed(seen)));
    }
    let single: &[Single] = &[
        (
            "understudy_warm_replayed_total",
            "counter",
            "Statements replayed on the standby that ended well.",
            |seen| seen.totals.executed,
        ),
        (
            "understudy_warm_late_total",
            "counter",
            "Statements left out, since the standby did not come to run them in time.",
            |seen| seen.totals.late,
        ),
        (
            "understudy_warm_dropped_bytes_total",
            "counter",
            "Bytes of the stream that the standby's replay missed.",
            |seen| seen.totals.dropped_bytes,
        ),
        (
            "understudy_warm_unparsed_bytes_total",
            "counter",
            "Bytes of the stream that are no event.",
            |seen| seen.totals.unparsed_bytes,
        ),
        (
            "understudy_warm_corrected_times_total",
            "counter",
            "Events whose recorded times cannot be true.",
            |seen| seen.totals.corrected,
        ),
    ];
    for (name, kind, help, value) in single {
        page.family(name, kind, help);
        for seen in seen {
            page.value(name, &[("node", &seen.standby)], value(seen));
        }
    }
    // A replay that does not run has none of these: 0 would say that it is up to date.
    let present: &[Single] = &[
        ("understudy_warm_waiting", "gauge", "Statements that wait to be replayed.", |seen| seen.waiting),
        ("understudy_warm_sessions", "gauge", "Sessions of the replay on the standby.", |seen| seen.sessions),
    ];
    for (name, kind, help, value) in present {
        page.family(name, kind, help);
        for seen in seen.iter().filter(|seen| is_warmed(seen)) {
            page.value(name, &[("node", &seen.standby)], value(seen));
        }
    }
    page.family(
        "understudy_warm_lag_seconds",
        "gauge",
        "How far the replay is behind what it has read, in recorded time; nothing while it does not run.",
    );
    for seen in seen.iter().filter(|seen| is_warmed(seen)) {
        page.seconds("understudy_warm_lag_seconds", &[("node", &seen.standby)], seen.lag.as_millis() as u64);
    }
    page.family("understudy_warm_left_out_total", "counter", "Events that were not replayed, by why.");
    for seen in seen {
        for (why, count) in &seen.totals.left_out {
            page.value("understudy_warm_left_out_total", &[("node", &seen.standby), ("why", why)], *count);
        }
    }
    page.family("understudy_warm_errors_total", "counter", "Replayed statements that failed, by class.");
    for seen in seen {
        for (class, count) in &seen.totals.errors {
            page.value("understudy_warm_errors_total", &[("node", &seen.standby), ("class", class)], *count);
        }
    }
    let measured = || seen.iter().filter_map(|seen| Some((seen, seen.warmth.as_ref()?)));
    page.family(
        "understudy_warm_score_ratio",
        "gauge",
        "The share of the active node's page accesses that the standby would serve from memory; nothing while that is not known.",
    );
    for (seen, warmth) in measured() {
        if let Some(score) = &warmth.score {
            page.fraction("understudy_warm_score_ratio", &[("node", &seen.standby)], score.share);
        }
    }
    page.family(
        "understudy_warm_forecast_disk_reads",
        "gauge",
        "Pages that a failover to the standby would read from disk in its first two minutes; nothing while that is not known.",
    );
    for (seen, warmth) in measured() {
        if let Some(forecast) = &warmth.forecast {
            page.value(
                "understudy_warm_forecast_disk_reads",
                &[("node", &seen.standby)],
                forecast.disk_reads,
            );
        }
    }
}
