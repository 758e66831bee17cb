//! The ways of warming a standby that are compared, as a table: each way is one entry, and [`super::case`] runs it.

/// A part of the recorded log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// The statements before the failover.
    First,
    /// The statements after it.
    Second,
}

/// The warming. The standby was just restarted, except for `Follows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Nothing.
    Nothing,
    /// The standby applied the active node's writes of chunk 1 during the recording, and nothing else.
    Follows,
    /// A part of the log is replayed as fast as the standby allows.
    Replays {
        /// The chunk.
        chunk: Chunk,
        /// One in `one_in` events is replayed; 1: all.
        one_in: u32,
        /// Number of sessions, instead of one for each recorded connection.
        pool: Option<u32>,
    },
    /// The application runs chunk 1 through Understudy, which replays its reads on the standby.
    ReplaysProxy,
    /// The pages that the active node had in memory after a chunk are loaded, by their page numbers.
    LoadsPool {
        /// The chunk.
        chunk: Chunk,
        /// Whether that chunk is then replayed.
        then_replays: bool,
    },
}

/// One way of warming.
#[derive(Debug, PartialEq, Eq)]
pub struct Way {
    /// Name on the command line and in files.
    pub name: &'static str,
    /// Title in tables.
    pub title: &'static str,
    /// The warming.
    pub does: Does,
    /// The plot that contains it, with the control and the cold standby; those two are in all plots.
    pub group: &'static str,
    /// Whether a run with --quick includes it.
    pub is_quick: bool,
}

/// The plots of the report.
const REPLAYED: &str = "Chunk 1 replayed";
const SAMPLED: &str = "A part of chunk 1 replayed";
const LOADED: &str = "The active node's buffer pool loaded";

/// The way with which all others are compared.
pub const CONTROL: &str = "control";
/// The way without warming.
pub const COLD: &str = "cold";
/// The way that has a goal.
pub const PARALLEL: &str = "parallel";

const fn sampled(name: &'static str, title: &'static str, one_in: u32, is_quick: bool) -> Way {
    let does = Does::Replays { chunk: Chunk::First, one_in, pool: None };
    Way { name, title, does, group: if one_in == 1 { REPLAYED } else { SAMPLED }, is_quick }
}

/// All ways. The one that replicated comes first: what it applied during the recording cannot be recreated.
pub const WAYS: &[Way] = &[
    Way {
        name: "replication",
        title: "replication alone",
        does: Does::Follows,
        group: REPLAYED,
        is_quick: false,
    },
    Way {
        name: CONTROL,
        title: "control: chunk 2 itself",
        does: Does::Replays { chunk: Chunk::Second, one_in: 1, pool: None },
        group: "",
        is_quick: true,
    },
    Way { name: COLD, title: "cold", does: Does::Nothing, group: "", is_quick: true },
    Way {
        name: "take1",
        title: "take 1: one session",
        does: Does::Replays { chunk: Chunk::First, one_in: 1, pool: Some(1) },
        group: REPLAYED,
        is_quick: false,
    },
    sampled(PARALLEL, "parallel replay", 1, true),
    sampled("sampled-100", "1 in 100", 100, false),
    sampled("sampled-45", "1 in 45", 45, false),
    sampled("sampled-36", "1 in 36", 36, false),
    sampled("sampled-10", "1 in 10", 10, true),
    sampled("sampled-2", "1 in 2", 2, false),
    Way {
        name: "proxy",
        title: "replay of the proxy's reads",
        does: Does::ReplaysProxy,
        group: REPLAYED,
        is_quick: false,
    },
    Way {
        name: "pool",
        title: "buffer pool dump and load",
        does: Does::LoadsPool { chunk: Chunk::First, then_replays: false },
        group: LOADED,
        is_quick: false,
    },
    Way {
        name: "pool-and-replay",
        title: "dump and load, then replay",
        does: Does::LoadsPool { chunk: Chunk::First, then_replays: true },
        group: LOADED,
        is_quick: false,
    },
];

/// The way with this name.
pub fn named(name: &str) -> Option<&'static Way> {
    WAYS.iter().find(|way| way.name == name)
}

/// The same for a command line.
pub fn parse(name: &str) -> Result<&'static Way, String> {
    named(name).ok_or_else(|| {
        let names: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        format!("there is {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_those_with_a_meaning_are_there() {
        for (index, way) in WAYS.iter().enumerate() {
            assert_eq!(WAYS.iter().position(|other| other.name == way.name), Some(index));
        }
        for name in [CONTROL, COLD, PARALLEL] {
            assert!(named(name).is_some_and(|way| way.is_quick), "{name}");
        }
    }
}
