//! Cuts a log that arrives in pieces into lines, and parses each line's head (time, node, level).

use crate::time::Moment;

/// Longer lines are cut here: no line that is evaluated comes near this length.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// An input without a line of its format in so many bytes is not of that format.
const UNKNOWN_BYTES_MAX: u64 = 1024 * 1024;
/// What stands in brackets behind the time. The management server was misspelled in 4.1 to 7.x, except where it reports lost messages.
const WRITERS: [(&str, Writer); 3] =
    [("[MgmtSrvr]", Writer::Management), ("[MgmSrvr]", Writer::Management), ("[ndbd]", Writer::DataNode)];

/// The program that wrote an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The management server: a cluster log.
    Management,
    /// A data node or its angel: a node's own log.
    DataNode,
}

/// One line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub time: Moment,
    pub writer: Writer,
    /// The text after ` -- `, trimmed, without ` - Repeated 3 times`.
    pub text: &'a str,
}

impl<'a> Entry<'a> {
    /// Reads `TIME [WRITER] LEVEL -- TEXT`.
    pub fn of(line: &'a str) -> Option<Self> {
        let (time, rest) = Moment::at_start(line)?;
        let rest = rest.trim_start();
        let (writer, rest) =
            WRITERS.iter().find_map(|(name, writer)| Some((*writer, rest.strip_prefix(name)?)))?;
        let (level, text) = rest.split_once("--")?;
        let text = text.trim();
        let text = text.rsplit_once(" - Repeated ").map_or(text, |(once, _)| once.trim_end());
        // The level is one word; otherwise the line has no head.
        (level.split_whitespace().count() == 1).then_some(Self { time, writer, text })
    }

    /// Whether a line that is no entry has a writer between other words: an entry whose time has another form. Not a `[ndbd]` alone, which
    /// heads a section of config.ini.
    pub fn has_writer(line: &str) -> bool {
        let is_between =
            |(before, after): (&str, &str)| !before.trim().is_empty() && !after.trim().is_empty();
        WRITERS.iter().any(|(name, _)| line.split_once(name).is_some_and(is_between))
    }
}

/// Cuts pieces into lines. Invariants: keeps at most one line, of limited length; reads no more than a limit of an input that shows no line
/// of its format.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    /// The number of complete lines.
    pub ended: u64,
    /// How many of them were longer than the limit.
    pub long: u64,
    is_long: bool,
    read_bytes: u64,
    /// A line was of the format.
    is_known: bool,
}

impl Lines {
    /// Calls `each` with the number and the text of each line that ends in this piece; it returns whether the line is of the format.
    /// Returns whether it makes sense to read on.
    pub fn feed(&mut self, piece: &[u8], mut each: impl FnMut(u64, &str) -> bool) -> bool {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.keep(line);
            if self.is_foreign() {
                return false;
            }
            self.ended += 1;
            self.long += u64::from(std::mem::take(&mut self.is_long));
            let whole = std::mem::take(&mut self.partial);
            let text = String::from_utf8_lossy(&whole);
            self.is_known |= each(self.ended, text.trim_end_matches('\r'));
            self.read_bytes += 1;
            rest = after.get(1..).unwrap_or_default();
        }
        self.keep(rest);
        !self.is_foreign()
    }

    fn is_foreign(&self) -> bool {
        !self.is_known && self.read_bytes > UNKNOWN_BYTES_MAX
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.read_bytes == 0
    }

    /// Whether the input ended within a line.
    pub fn is_cut(&self) -> bool {
        !self.partial.is_empty()
    }

    /// The unfinished line.
    pub fn unfinished(&self) -> String {
        String::from_utf8_lossy(&self.partial).into_owned()
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.read_bytes = self.read_bytes.saturating_add(bytes.len() as u64);
        let room = LINE_BYTES_MAX.saturating_sub(self.partial.len());
        self.is_long |= bytes.len() > room;
        self.partial.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests fail by panicking
    use super::*;

    #[test]
    fn heads_of_all_ages() {
        let new = "2026-11-21T11:30:16.811781Z [MgmtSrvr] INFO     -- Node 49 transporter to node 2 (id 2) disconnected ";
        assert_eq!(Entry::of(new).unwrap().text, "Node 49 transporter to node 2 (id 2) disconnected");
        let old = Entry::of("2007-03-07 10:58:14 [ndbd] INFO     -- Angel pid: 12 ndb pid: 13").unwrap();
        assert_eq!((old.writer, old.text), (Writer::DataNode, "Angel pid: 12 ndb pid: 13"));
        let misspelled = Entry::of(
            "2007-03-07 10:58:14 [MgmSrvr] WARNING  -- Node 2: Node 3 missed heartbeat 2 - Repeated 2 times",
        );
        let of_it = misspelled.map(|entry| (entry.writer, entry.text));
        assert_eq!(of_it, Some((Writer::Management, "Node 2: Node 3 missed heartbeat 2")));
        for not in [
            "",
            "[ndbd(DB)]",
            "NodeId=2",
            "2007-03-07 10:58:14 [mysqld] INFO -- x",
            "2007-03-07 10:58:14 [ndbd] a b -- x",
        ] {
            assert_eq!(Entry::of(not), None, "{not}");
        }
    }

    #[test]
    fn a_long_line_is_bounded_and_counted() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.feed(&[b'x'; 1000], |_, _| unreachable!());
        }
        let mut found = Vec::new();
        lines.feed(b"\ny\r\nz", |at, text| {
            found.push((at, text.len()));
            true
        });
        assert_eq!(
            (found, lines.long, lines.unfinished()),
            (vec![(1, LINE_BYTES_MAX), (2, 1)], 1, "z".to_owned())
        );
    }
}
