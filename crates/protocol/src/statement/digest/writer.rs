//! Items, written down with the gaps that a digest has, its lists and rows folded.

use super::items::Item;
use crate::statement::names::is_keyword;
use crate::statement::word::Upper;

/// Where a digest goes. What was put behind a mark can be taken back.
pub(super) trait Sink {
    type Mark: Copy;
    fn put(&mut self, byte: u8);
    fn mark(&self) -> Self::Mark;
    fn take_back(&mut self, mark: Self::Mark);
}

/// FNV-1a, 64 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) const NEW: Fnv = Fnv(0xcbf2_9ce4_8422_2325);

    pub(super) fn number(self) -> u64 {
        self.0
    }
}

impl Sink for Fnv {
    type Mark = Fnv;

    #[inline]
    fn put(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    fn mark(&self) -> Fnv {
        *self
    }

    fn take_back(&mut self, mark: Fnv) {
        *self = mark;
    }
}

impl Sink for Vec<u8> {
    type Mark = usize;

    #[inline]
    fn put(&mut self, byte: u8) {
        self.push(byte);
    }

    fn mark(&self) -> usize {
        self.len()
    }

    fn take_back(&mut self, mark: usize) {
        self.truncate(mark);
    }
}

/// What was written last, as far as the next gap and parenthesis depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    /// `(`: no gap behind it.
    Open,
    /// `.`: no gap behind it, and a name follows.
    Point,
    /// IN: a parenthesis behind it holds values or rows.
    In,
    /// VALUES or VALUE: rows follow.
    Values,
    /// A name; a parenthesis behind it is its arguments'.
    Name,
    /// `;`, which is put only when something follows.
    End,
    Other,
}

/// The values of a list or row, as long as nothing else stands among them.
#[derive(Clone, Copy)]
struct Values<M> {
    depth: u32,
    /// Behind the opening parenthesis.
    from: M,
    /// The hash of the row at hand there.
    row: Fnv,
    has_any: bool,
}

/// A row.
#[derive(Clone, Copy)]
struct Row<M> {
    depth: u32,
    /// The row before it, if there is one: its hash, and where the comma behind it stands.
    before: Option<(Fnv, M)>,
    hash: Fnv,
}

/// See the head of [`super`].
pub(super) struct Writer<'s, S: Sink> {
    sink: &'s mut S,
    last: Last,
    depth: u32,
    /// By depth, one bit each: the parenthesis is IN's. Deeper ones are not looked at.
    is_in: u64,
    values: Option<Values<S::Mark>>,
    row: Option<Row<S::Mark>>,
    /// The row that was closed last, while nothing but a comma stands behind it: the depth around it, and its hash.
    row_before: Option<(u32, Fnv)>,
    /// Before the comma that was written last, while nothing stands behind it.
    comma: Option<S::Mark>,
}

impl<'s, S: Sink> Writer<'s, S> {
    pub(super) fn new(sink: &'s mut S) -> Writer<'s, S> {
        Writer {
            sink,
            last: Last::Nothing,
            depth: 0,
            is_in: 0,
            values: None,
            row: None,
            row_before: None,
            comma: None,
        }
    }

    pub(super) fn take(&mut self, item: Item<'_>) {
        if self.last == Last::End && item != Item::Operator(b";") {
            self.put(b";");
            self.last = Last::Other;
        }
        match item {
            Item::Operator(b"(") => self.open(),
            Item::Operator(b")") => self.close(),
            Item::Operator(b",") => {
                self.comma = Some(self.sink.mark());
                self.put(b",");
                self.last = Last::Other;
            }
            Item::Literal => {
                self.values = self.values.filter(|values| values.depth == self.depth);
                self.values = self.values.map(|values| Values { has_any: true, ..values });
                self.between_rows();
                self.spaced(b"?", Last::Other);
            }
            item => {
                self.values = None;
                self.between_rows();
                self.other(item);
            }
        }
    }

    fn other(&mut self, item: Item<'_>) {
        match item {
            Item::Word(word) => {
                let upper = Upper::of(word);
                let behind = match upper.as_bytes() {
                    _ if self.last == Last::Point => Last::Name,
                    b"IN" => Last::In,
                    b"VALUES" | b"VALUE" => Last::Values,
                    name if is_keyword(name) => Last::Other,
                    _ => Last::Name,
                };
                self.spaced(word, behind);
            }
            Item::Quoted(name) => {
                self.spaced(b"`", Last::Name);
                self.put(name);
                self.put(b"`");
            }
            Item::Variable(variable) => self.spaced(variable, Last::Name),
            Item::Operator(b";") => {
                // One that nothing stands before ends nothing.
                if self.last != Last::Nothing {
                    self.last = Last::End;
                }
            }
            Item::Operator(b".") => {
                self.put(b".");
                self.last = Last::Point;
            }
            Item::Operator(operator) => self.spaced(operator, Last::Other),
            Item::Literal => {}
        }
    }

    /// Something stands behind the last row or comma that is neither.
    fn between_rows(&mut self) {
        self.comma = None;
        self.row_before = None;
    }

    fn open(&mut self) {
        let before = self.row_before.take().filter(|(around, _)| *around == self.depth);
        let before = before.zip(self.comma.take()).map(|((_, hash), comma)| (hash, comma));
        let is_in = self.last == Last::In;
        let is_first = self.last == Last::Values || (self.last == Last::Open && self.stands_in());
        let is_row = is_first || before.is_some();
        if self.last != Last::Name {
            self.gap();
        }
        self.depth = self.depth.saturating_add(1);
        if self.depth < u64::BITS {
            self.is_in = self.is_in & !(1 << self.depth) | u64::from(is_in) << self.depth;
        }
        // A row within a row is a value of it.
        if is_row && self.row.is_none() {
            self.row = Some(Row { depth: self.depth, before, hash: Fnv::NEW });
        }
        self.put(b"(");
        self.last = Last::Open;
        self.values = (is_in || is_row).then(|| Values {
            depth: self.depth,
            from: self.sink.mark(),
            row: self.row.map_or(Fnv::NEW, |row| row.hash),
            has_any: false,
        });
    }

    /// Whether the parenthesis at hand is IN's.
    fn stands_in(&self) -> bool {
        self.depth < u64::BITS && self.is_in >> self.depth & 1 == 1
    }

    fn close(&mut self) {
        if let Some(values) = self.values.take().filter(|values| values.has_any && values.depth == self.depth)
        {
            self.sink.take_back(values.from);
            if let Some(row) = &mut self.row {
                row.hash = values.row;
            }
            self.put(b"?+");
        }
        self.put(b")");
        self.last = Last::Other;
        self.between_rows();
        let closed = self.depth;
        self.depth = closed.saturating_sub(1);
        if let Some(row) = self.row.take_if(|row| row.depth == closed) {
            if let Some((hash, comma)) = row.before
                && hash == row.hash
            {
                self.sink.take_back(comma);
            }
            self.row_before = Some((self.depth, row.hash));
        }
    }

    fn gap(&mut self) {
        if !matches!(self.last, Last::Nothing | Last::Open | Last::Point) {
            self.put(b" ");
        }
    }

    fn spaced(&mut self, bytes: &[u8], behind: Last) {
        self.gap();
        self.put(bytes);
        self.last = behind;
    }

    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let byte = byte.to_ascii_lowercase();
            self.sink.put(byte);
            if let Some(row) = &mut self.row {
                row.hash.put(byte);
            }
        }
    }
}
