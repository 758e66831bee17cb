//! The ways to warm a standby that are compared, as a table: one more way is one more entry, and [`super::case`] does what it says.

/// Which part of the recorded log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// What was run before the failover.
    First,
    /// What is run after it.
    Second,
}

/// What is done on a standby that was just restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Nothing at all.
    Nothing,
    /// It applied the active node's writes of chunk 1 while that was recorded, and nothing else.
    Follows,
    /// A part of the log is replayed, as fast as the standby is.
    Replays {
        /// Of which chunk.
        chunk: Chunk,
        /// One event in so many; 1: all.
        one_in: u32,
        /// So many sessions instead of one for each recorded connection.
        pool: Option<u32>,
    },
    /// The application runs chunk 1 through Understudy, which repeats its reads on the standby when they have been answered.
    Mirrors {
        /// In no order, as soon as there is an answer, instead of a replay.
        at_once: bool,
    },
    /// The pages that the active node had in memory after a chunk are loaded, by their numbers.
    LoadsPool {
        /// Which chunk.
        chunk: Chunk,
        /// And then that chunk is replayed.
        then_replays: bool,
    },
}

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Way {
    /// On the command line and in files.
    pub name: &'static str,
    /// In tables.
    pub title: &'static str,
    /// What is done.
    pub does: Does,
    /// The picture that it is in, beside the control and the cold standby; those two are in all.
    pub group: &'static str,
    /// A run with --quick has it.
    pub is_quick: bool,
}

/// The pictures of the report.
const REPLAYED: &str = "Chunk 1 replayed";
const SAMPLED: &str = "A part of chunk 1 replayed";
const LOADED: &str = "The active node's buffer pool loaded";

/// The name of the one that all others are compared with.
pub const CONTROL: &str = "control";
/// The name of the one that was not warmed.
pub const COLD: &str = "cold";
/// The name of the one that has a goal.
pub const PARALLEL: &str = "parallel";

const fn sampled(name: &'static str, title: &'static str, one_in: u32, is_quick: bool) -> Way {
    let does = Does::Replays { chunk: Chunk::First, one_in, pool: None };
    Way { name, title, does, group: if one_in == 1 { REPLAYED } else { SAMPLED }, is_quick }
}

/// All of them. The one that followed comes first: what it applied while the log was recorded, nothing brings back.
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
        name: "mirrored",
        title: "mirrored reads",
        does: Does::Mirrors { at_once: false },
        group: REPLAYED,
        is_quick: false,
    },
    Way {
        name: "mirrored-at-once",
        title: "mirrored reads, at once",
        does: Does::Mirrors { at_once: true },
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

/// The one of this name.
pub fn named(name: &str) -> Option<&'static Way> {
    WAYS.iter().find(|way| way.name == name)
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
