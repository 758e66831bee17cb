//! Cuts a log that arrives in pieces into lines, and parses each line's head (time, node, level).

use crate::time::Moment;

/// Longer lines are cut here: no line that is evaluated comes near this length.
const LINE_BYTES_MAX: usize = 8 * 1024;

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
    /// The text after ` -- `, trimmed.
    pub text: &'a str,
}

impl<'a> Entry<'a> {
    /// Reads `TIME [WRITER] LEVEL -- TEXT`.
    pub fn of(line: &'a str) -> Option<Self> {
        let (time, rest) = Moment::at_start(line)?;
        let rest = rest.trim_start();
        let (writer, rest) = match (rest.strip_prefix("[MgmtSrvr]"), rest.strip_prefix("[ndbd]")) {
            (Some(rest), _) => (Writer::Management, rest),
            (None, Some(rest)) => (Writer::DataNode, rest),
            _ => return None,
        };
        let (level, text) = rest.split_once("-- ")?;
        // The level is one word; otherwise the line has no head.
        (level.split_whitespace().count() == 1).then_some(Self { time, writer, text: text.trim() })
    }
}

/// Cuts pieces into lines. Invariant: keeps at most one line, of limited length.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    /// The number of complete lines.
    pub ended: u64,
    /// How many of them were longer than the limit.
    pub long: u64,
    is_long: bool,
}

impl Lines {
    /// Calls `each` with the number and the text of each line that ends in this piece.
    pub fn feed(&mut self, piece: &[u8], mut each: impl FnMut(u64, &str)) {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.keep(line);
            self.ended += 1;
            self.long += u64::from(std::mem::take(&mut self.is_long));
            let whole = std::mem::take(&mut self.partial);
            let text = String::from_utf8_lossy(&whole);
            each(self.ended, text.trim_end_matches('\r'));
            rest = after.get(1..).unwrap_or_default();
        }
        self.keep(rest);
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
        lines.feed(b"\ny\r\nz", |at, text| found.push((at, text.len())));
        assert_eq!(
            (found, lines.long, lines.unfinished()),
            (vec![(1, LINE_BYTES_MAX), (2, 1)], 1, "z".to_owned())
        );
    }
}
