//! results.csv as multi-mechanize wrote it, line for line:
//! `number,elapsed,epoch,group,response time,error,timers`, where the timers are Python's `repr` of a dictionary.
//!
//! The timer has the name of that in the seed's script. mechanize raises on 503, so such lines carry an error although they are valid
//! responses; `grep -c 'timed out'` counts the timeouts, as in the seed article.

use std::io::Write;

use super::record::Row;

/// Writes the rows.
pub fn write<'a>(rows: impl Iterator<Item = &'a Row>, to: &mut impl Write) -> std::io::Result<()> {
    for (index, row) in rows.enumerate() {
        let (elapsed_s, took_s) = (f64::from(row.elapsed_ms) / 1e3, f64::from(row.took_us) / 1e6);
        write!(
            to,
            "{},{elapsed_s:.3},{},user_group-{},{took_s:.6},{},",
            index + 1,
            row.epoch_s,
            row.group + 1,
            row.outcome.error()
        )?;
        if row.outcome.is_answer() {
            writeln!(to, "{{'Cluster_check_latency': {took_s}}}")?;
        } else {
            writeln!(to, "{{}}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::answer::AnswerClass;
    use super::*;

    #[test]
    fn lines_are_multi_mechanizes() {
        let row = Row {
            elapsed_ms: 1500,
            epoch_s: 1_399_543_065,
            group: 1,
            outcome: AnswerClass::Good,
            took_us: 1234,
        };
        let rows = [
            row,
            Row { outcome: AnswerClass::Unavailable, group: 0, ..row },
            Row { outcome: AnswerClass::Timeout, took_us: 10_000_000, ..row },
        ];
        let mut out = Vec::new();
        write(rows.iter(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "1,1.500,1399543065,user_group-2,0.001234,,{'Cluster_check_latency': 0.001234}\n\
             2,1.500,1399543065,user_group-1,0.001234,HTTP Error 503: Service Unavailable,{'Cluster_check_latency': 0.001234}\n\
             3,1.500,1399543065,user_group-2,10.000000,<urlopen error timed out>,{}\n"
        );
    }
}
