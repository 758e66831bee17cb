//! One small statement and its whole answer.

use std::time::Duration;

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::ok::{EOF, ERR, OK, OkPacket};
use protocol::packet::Fields;
use protocol::response::{Answer, End, Step};
use tokio::time::timeout;

use crate::wire::{ANSWER_MAX, packet, send};
use crate::{Link, LinkError, unless_rejected};

/// The most rows an answer may have.
const ROWS_MAX: usize = 10_000;

/// An answer: the first result that has columns, if any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows' values as text; `None` is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The server's status flags at the end.
    pub status: u16,
    /// Rows changed, of the last statement that gave no rows.
    pub affected: u64,
    /// Its AUTO_INCREMENT value.
    pub last_insert_id: u64,
    /// Warnings at the end.
    pub warnings: u16,
}

impl Rows {
    /// A value by row and column number, when it is there, not NULL, and UTF-8.
    pub fn text(&self, row: usize, column: usize) -> Option<&str> {
        std::str::from_utf8(self.rows.get(row)?.get(column)?.as_deref()?).ok()
    }

    /// A column's number by its name, in any case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// For answers of two columns, a name and a value, as SHOW STATUS and SHOW VARIABLES give them: the value of `name`,
    /// in any case.
    pub fn value_of(&self, name: &str) -> Option<&str> {
        let row = (0..self.rows.len())
            .find(|&row| self.text(row, 0).is_some_and(|found| found.eq_ignore_ascii_case(name)))?;
        self.text(row, 1)
    }
}

impl Link {
    /// Runs one statement and collects its answer, which must have at most 10,000 rows and 16 MiB.
    ///
    /// The server's ERR comes back as [`LinkError::Rejected`], and the link can be used on. After any other error, or when
    /// the future is dropped before it ends, the rest of the answer may still be on its way: the link refuses further
    /// statements.
    pub async fn query(&mut self, sql: &str, deadline: Duration) -> Result<Rows, LinkError> {
        self.query_bytes(sql.as_bytes(), deadline).await
    }

    /// As [`Link::query`], for what the account may not be allowed to ask, or the server not know: `None` when it rejects the statement.
    pub async fn query_unless_rejected(
        &mut self,
        sql: &str,
        deadline: Duration,
    ) -> Result<Option<Rows>, LinkError> {
        unless_rejected(self.query(sql, deadline).await)
    }

    /// As [`Link::query`], with a text that is sent byte for byte, in whatever character set it is.
    pub async fn query_bytes(&mut self, sql: &[u8], deadline: Duration) -> Result<Rows, LinkError> {
        let payload = self.query_payload(sql);
        let mut collected = Collected::new(self.caps);
        self.run(Command::QUERY, &payload, &mut collected, deadline).await?;
        Ok(collected.rows)
    }

    /// Runs one text and counts the rows of its answer, which may be of any size and are thrown away as they come. The text is sent byte for
    /// byte, in whatever character set it is. Otherwise as [`Link::query`].
    pub async fn count_rows(&mut self, sql: &[u8], deadline: Duration) -> Result<u64, LinkError> {
        let payload = self.query_payload(sql);
        let mut counted = Counted { parts: Parts::new(self.caps), rows: 0 };
        self.run(Command::QUERY, &payload, &mut counted, deadline).await?;
        Ok(counted.rows)
    }

    fn query_payload(&self, sql: &[u8]) -> Vec<u8> {
        let mut payload = vec![Command::QUERY.0];
        if self.caps.has(Caps::QUERY_ATTRIBUTES) {
            payload.extend_from_slice(&[0, 1]); // no attributes, in one set
        }
        payload.extend_from_slice(sql);
        payload
    }

    /// Sends COM_PING, which takes 0.05 ms on MariaDB 10.11. Errors as with [`Link::query`].
    pub async fn ping(&mut self, deadline: Duration) -> Result<(), LinkError> {
        let mut collected = Collected::new(self.caps);
        self.run(Command::PING, &[Command::PING.0], &mut collected, deadline).await
    }

    async fn run(
        &mut self,
        command: Command,
        payload: &[u8],
        taker: &mut impl Take,
        deadline: Duration,
    ) -> Result<(), LinkError> {
        if self.is_busy {
            return Err(LinkError::Protocol(
                "an earlier statement on this connection was given up before its answer had ended".into(),
            ));
        }
        // An error packet that arrived before the statement: it would be taken for the statement's answer.
        if !self.buffer.is_empty() {
            return Err(LinkError::Closed);
        }
        self.is_busy = true;
        let answer = timeout(deadline, self.ask(command, payload, taker, deadline)).await;
        let answer = answer.unwrap_or(Err(LinkError::TimedOut { after: deadline }));
        if matches!(answer, Ok(()) | Err(LinkError::Rejected { .. })) {
            self.is_busy = false;
            self.buffer.rest();
        }
        answer
    }

    async fn ask(
        &mut self,
        command: Command,
        payload: &[u8],
        taker: &mut impl Take,
        deadline: Duration,
    ) -> Result<(), LinkError> {
        send(&mut self.stream, 0, payload, deadline).await?;

        let mut answer = Answer::new(command, self.caps);
        loop {
            let (_, payload) = packet(&mut self.buffer, &mut self.stream, deadline).await?;
            // A joined payload longer than one packet counts as one of the greatest length that is not continued.
            let len = payload.len().min(protocol::packet::PAYLOAD_MAX - 1);
            let step = answer.step(len, &payload)?;
            match step {
                Step::More => taker.take(&payload)?,
                Step::Part { .. } => taker.end_of_part(&payload).map(|_| ())?,
                Step::End(End::Err { .. }) => return Err(LinkError::of_err_packet(&payload)),
                Step::End(_) => {
                    if let Some(status) = taker.end_of_part(&payload)? {
                        self.status = status;
                    }
                    return Ok(());
                }
                Step::LocalInfile | Step::Auth => {
                    return Err(LinkError::Protocol(
                        "the server asks for a file that was not offered".into(),
                    ));
                }
            }
        }
    }
}

/// Receives the packets of an answer; [`Answer`] decides where the answer ends.
trait Take {
    /// A packet that does not end anything.
    fn take(&mut self, payload: &[u8]) -> Result<(), LinkError>;
    /// The packet that ends one result; gives the server's status flags where the packet has them.
    fn end_of_part(&mut self, payload: &[u8]) -> Result<Option<u16>, LinkError>;
}

/// The role of a packet within an answer.
enum Part {
    /// How many columns there are, a progress report, or the end of the columns.
    Other,
    Column,
    Row,
}

/// Classifies the packets of an answer.
struct Parts {
    caps: Caps,
    phase: Phase,
}

enum Phase {
    Head,
    Columns { left: u64 },
    ColumnsEof,
    Rows,
}

impl Parts {
    fn new(caps: Caps) -> Parts {
        Parts { caps, phase: Phase::Head }
    }

    fn next(&mut self, payload: &[u8]) -> Result<Part, LinkError> {
        let behind_columns =
            |caps: Caps| if caps.has(Caps::DEPRECATE_EOF) { Phase::Rows } else { Phase::ColumnsEof };
        match self.phase {
            _ if payload.first() == Some(&ERR) => Ok(Part::Other), // a progress report
            Phase::Head => {
                let mut fields = Fields::new(payload);
                let left = fields.lenenc_int()?;
                let are_left_out = !fields.is_empty() && fields.u8()? == 0;
                self.phase = if are_left_out { behind_columns(self.caps) } else { Phase::Columns { left } };
                Ok(Part::Other)
            }
            Phase::Columns { left } => {
                self.phase =
                    if left > 1 { Phase::Columns { left: left - 1 } } else { behind_columns(self.caps) };
                Ok(Part::Column)
            }
            Phase::ColumnsEof => {
                self.phase = Phase::Rows;
                Ok(Part::Other)
            }
            Phase::Rows => Ok(Part::Row),
        }
    }
}

/// Counts rows.
struct Counted {
    parts: Parts,
    rows: u64,
}

impl Take for Counted {
    fn take(&mut self, payload: &[u8]) -> Result<(), LinkError> {
        self.rows += u64::from(matches!(self.parts.next(payload)?, Part::Row));
        Ok(())
    }

    fn end_of_part(&mut self, payload: &[u8]) -> Result<Option<u16>, LinkError> {
        self.parts.phase = Phase::Head;
        match payload.first() {
            Some(&EOF) if payload.len() <= 5 => {
                let mut fields = Fields::new(payload);
                fields.u8()?;
                fields.u16()?;
                Ok(Some(fields.u16()?))
            }
            Some(_) => Ok(Some(OkPacket::parse(payload, self.parts.caps)?.status)),
            None => Ok(None),
        }
    }
}

/// Collects an answer's column names and values.
struct Collected {
    rows: Rows,
    parts: Parts,
    /// Whether the result at hand is one after the first that had columns.
    is_done: bool,
    bytes: usize,
}

impl Collected {
    fn new(caps: Caps) -> Collected {
        Collected { rows: Rows::default(), parts: Parts::new(caps), is_done: false, bytes: 0 }
    }
}

impl Take for Collected {
    fn take(&mut self, payload: &[u8]) -> Result<(), LinkError> {
        self.bytes += payload.len();
        if self.bytes > ANSWER_MAX {
            return Err(LinkError::Protocol(format!("an answer of more than {ANSWER_MAX} bytes")));
        }
        match self.parts.next(payload)? {
            Part::Other => {}
            _ if self.is_done => {}
            Part::Column => self.rows.columns.push(column_name(payload)?),
            Part::Row if self.rows.rows.len() >= ROWS_MAX => {
                return Err(LinkError::Protocol(format!("an answer of more than {ROWS_MAX} rows")));
            }
            Part::Row => self.rows.rows.push(values(payload)?),
        }
        Ok(())
    }

    fn end_of_part(&mut self, payload: &[u8]) -> Result<Option<u16>, LinkError> {
        match payload.first() {
            Some(&EOF) if payload.len() <= 5 => {
                let mut fields = Fields::new(payload);
                fields.u8()?;
                self.rows.warnings = fields.u16()?;
                self.rows.status = fields.u16()?;
            }
            Some(&header) => {
                let ok = OkPacket::parse(payload, self.parts.caps)?;
                self.rows.status = ok.status;
                self.rows.warnings = ok.warnings;
                if header == OK {
                    self.rows.affected = ok.affected;
                    self.rows.last_insert_id = ok.last_insert_id;
                }
            }
            None => {}
        }
        self.is_done |= !self.rows.columns.is_empty();
        self.parts.phase = Phase::Head;
        Ok(Some(self.rows.status))
    }
}

/// The name in a column definition: the fifth of its strings.
fn column_name(payload: &[u8]) -> Result<String, LinkError> {
    let mut fields = Fields::new(payload);
    for _ in 0..4 {
        fields.lenenc_bytes()?;
    }
    Ok(String::from_utf8_lossy(fields.lenenc_bytes()?).into_owned())
}

fn values(payload: &[u8]) -> Result<Vec<Option<Vec<u8>>>, LinkError> {
    let mut fields = Fields::new(payload);
    let mut row = Vec::new();
    while !fields.is_empty() {
        row.push(fields.lenenc_nullable()?.map(<[u8]>::to_vec));
    }
    Ok(row)
}
