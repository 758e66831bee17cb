//! What the kernel counts: dropped connections and processor time. Read from /proc before and after a measurement.

use std::time::Duration;

use anyhow::Context;

/// TCP's counters of connections that were not established, in this process's network namespace. They count for all programs of the
/// namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Drops {
    /// Connections that arrived at a full backlog.
    pub listen_overflows: u64,
    /// SYNs dropped for any reason, the overflows among them.
    pub listen_drops: u64,
    /// Retransmitted SYNs (and SYN-ACKs): each adds a wait of 1, 3, 7, 15 ... s.
    pub syn_retransmits: u64,
}

impl Drops {
    /// The counters now.
    pub fn now() -> anyhow::Result<Self> {
        let path = "/proc/net/netstat";
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        Self::read(&text).with_context(|| format!("{path} has no TcpExt counters"))
    }

    /// Pairs of lines: names, then values.
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (names, values) = (lines.next()?.split_whitespace(), lines.next()?.split_whitespace());
        let value = |name: &str| {
            let found = names.clone().zip(values.clone()).find(|(known, _)| *known == name);
            found.and_then(|(_, value)| value.parse::<u64>().ok())
        };
        Some(Self {
            listen_overflows: value("ListenOverflows")?,
            listen_drops: value("ListenDrops")?,
            // Kernels before 4.18 do not count it.
            syn_retransmits: value("TCPSynRetrans").unwrap_or(0),
        })
    }

    /// The increase since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            listen_overflows: self.listen_overflows.saturating_sub(before.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(before.listen_drops),
            syn_retransmits: self.syn_retransmits.saturating_sub(before.syn_retransmits),
        }
    }

    /// Adds the counts of another period.
    pub fn add(&mut self, other: Self) {
        self.listen_overflows += other.listen_overflows;
        self.listen_drops += other.listen_drops;
        self.syn_retransmits += other.syn_retransmits;
    }
}

/// Processor time that a process and its threads have used. The kernel reports it in ticks, of 10 ms on most machines.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = ticks(&text).with_context(|| format!("{path} is not as expected"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// User and system time. The process name is in parentheses and may contain any characters, so fields are counted after the last `)`.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 333\nIpExt: InNoRoutes\nIpExt: 4\n";
        let drops = Drops::read(text).unwrap();
        assert_eq!((drops.listen_overflows, drops.listen_drops, drops.syn_retransmits), (22, 333, 0));
        assert_eq!(drops.since(Drops { listen_overflows: 20, ..drops }).listen_overflows, 2);
        assert_eq!(Drops::read("TcpExt: A\nTcpExt: 1\n"), None);
    }

    #[test]
    fn a_process_is_read_whatever_it_is_called() {
        let stat = "12 (a) b) (c) R 1 2 3 4 5 6 7 8 9 10 700 55 0 0 20";
        assert_eq!(ticks(stat), Some(755));
        assert!(cpu_time(std::process::id()).unwrap() < Duration::from_secs(24 * 3600));
    }

    #[test]
    fn this_machine_has_the_counters() {
        Drops::now().unwrap();
    }
}
