//! The cells: which restart is measured under which conditions, and the seed article's time for it.

use serde::Serialize;

/// A time from the seed article, s. It includes writing the initial checkpoint, which took about 120 s each time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SeedTime {
    /// As the article gives it.
    pub gross_s: f64,
    /// Without the checkpoint.
    pub net_s: f64,
}

const fn seed(minutes: u32, seconds: u32) -> Option<SeedTime> {
    let gross_s = (minutes * 60 + seconds) as f64;
    Some(SeedTime { gross_s, net_s: gross_s - 120.0 })
}

/// How long the node is away, relative to what the gcache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Absence {
    /// Short, with a large enough gcache.
    Short,
    /// Equally short, but with a gcache that is too small for it.
    ShortForSmall,
    /// Longer than the gcache lasts.
    Long,
}

/// One cell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cell {
    /// Name in files and JSON.
    pub name: &'static str,
    /// Title for output.
    pub title: &'static str,
    /// `wsrep_sst_method`.
    pub method: &'static str,
    /// The node's position is deleted, which forces a full copy.
    pub is_forced: bool,
    /// With updates during the restart.
    pub is_loaded: bool,
    /// Length of the absence.
    pub absence: Absence,
    /// The expected transfer: `ist`, `sst`.
    pub expected: &'static str,
    /// The seed's time, for comparison.
    pub seed: Option<SeedTime>,
    /// Part of a quick run, too.
    pub is_quick: bool,
}

const IST: Cell = Cell {
    name: "ist-idle",
    title: "missed writesets, no load",
    method: "mariabackup",
    is_forced: false,
    is_loaded: false,
    absence: Absence::Short,
    expected: "ist",
    seed: seed(3, 3),
    is_quick: false,
};

/// All cells; the one with the small gcache is last, since it needs its own cluster.
pub const CELLS: [Cell; 8] = [
    IST,
    Cell {
        name: "ist-load",
        title: "missed writesets, updates",
        is_loaded: true,
        seed: seed(4, 42),
        is_quick: true,
        ..IST
    },
    Cell {
        name: "full-rsync-idle",
        title: "full copy with rsync, no load",
        method: "rsync",
        is_forced: true,
        expected: "sst",
        seed: seed(5, 27),
        is_quick: true,
        ..IST
    },
    Cell {
        name: "full-mariabackup-idle",
        title: "full copy with mariabackup, no load",
        is_forced: true,
        expected: "sst",
        seed: seed(5, 27),
        ..IST
    },
    Cell {
        name: "full-rsync-load",
        title: "full copy with rsync, updates",
        method: "rsync",
        is_forced: true,
        is_loaded: true,
        expected: "sst",
        seed: seed(7, 24),
        ..IST
    },
    Cell {
        name: "full-mariabackup-load",
        title: "full copy with mariabackup, updates",
        is_forced: true,
        is_loaded: true,
        expected: "sst",
        seed: seed(7, 24),
        ..IST
    },
    Cell {
        name: "away-too-long",
        title: "away longer than the gcache lasts, updates",
        method: "rsync",
        is_loaded: true,
        absence: Absence::Long,
        expected: "sst",
        seed: None,
        ..IST
    },
    Cell {
        name: "gcache-too-small",
        title: "away shortly, but the gcache is too small, updates",
        method: "rsync",
        is_loaded: true,
        absence: Absence::ShortForSmall,
        expected: "sst",
        seed: None,
        ..IST
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_times_and_ratios() {
        let net = |name: &str| CELLS.iter().find(|cell| cell.name == name).unwrap().seed.unwrap().net_s;
        let names = ["ist-idle", "full-rsync-idle", "ist-load", "full-rsync-load"];
        assert_eq!(names.map(|name| net(name).round() as u64), [63, 207, 162, 324]);
        assert!((net("full-rsync-idle") / net("ist-idle") - 3.3).abs() < 0.05);
    }
}
