//! Carries out the lines of a situation on one connection, through the proxy or straight at a server.

use std::net::SocketAddr;
use std::time::Duration;

use fixture::client::{Client, ClientOptions, Column, Cursor, Part, Prepared, Reply};
use fixture::wait::until_async;

use protocol::capability::Caps;
use protocol::ok::ErrPacket;
use protocol::ok::status::{IN_TRANS, IN_TRANS_READONLY, MORE_RESULTS, NO_GOOD_INDEX_USED, NO_INDEX_USED};
use protocol::packet::{HEADER_LEN, Head};

use crate::steps::{Step, What};

/// What a client was told: read, and as it came.
#[derive(Clone, Debug)]
pub struct Told {
    pub reply: Reply,
    pub bytes: Vec<u8>,
}

impl Told {
    /// Whether both were told the same. In any order: a server tells of changed variables in the order in
    /// which they lie in its memory, which is another in each process.
    pub fn is(&self, other: &Told, how: Bytes) -> bool {
        let sorted = |told: &Told| {
            let mut bytes = told.bytes.clone();
            bytes.sort_unstable();
            bytes
        };
        self.reply == other.reply
            && match how {
                Bytes::InOrder => self.bytes == other.bytes,
                Bytes::WithoutEarlyTransaction => {
                    without_early_transaction(&self.bytes) == without_early_transaction(&other.bytes)
                }
                Bytes::InAnyOrder => sorted(self) == sorted(other),
                Bytes::AsRead => true,
            }
    }
}

/// How the bytes of two answers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    InOrder,
    /// The same, but for whether a transaction is open where columns end.
    WithoutEarlyTransaction,
    InAnyOrder,
    /// Not at all: only what a client reads of them, without what is told of changes.
    AsRead,
}

/// One connection, and where its server is.
pub struct Run {
    client: Client,
    /// Where the client connected, for its companions.
    near: SocketAddr,
    /// The server itself, where an administrator is.
    pub server: SocketAddr,
    statements: Vec<Option<Prepared>>,
    columns: Vec<Column>,
    /// Said to a server straight, at the start of every session, for it to answer as through the proxy.
    first: Vec<&'static str>,
}

/// What the proxy makes a server report of each session, for the control to report the same.
pub const TRACKED: &str = "SET session_track_system_variables = '*', session_track_state_change = 1, session_track_schema = 1, \
    session_track_transaction_info = 'CHARACTERISTICS'";

/// Nothing here takes long on a well server.
const PATIENCE: Duration = Duration::from_secs(15);

impl Run {
    /// Logs in through the proxy at `near`.
    pub async fn through(near: SocketAddr, server: SocketAddr, options: &ClientOptions) -> Result<Run, Told> {
        Self::begin(near, server, options, vec![]).await
    }

    /// Logs in straight at a server, and says `first` there at the start of every session.
    pub async fn straight(
        server: SocketAddr,
        options: &ClientOptions,
        first: &'static str,
    ) -> Result<Run, Told> {
        let tracked = if options.caps.has(Caps::SESSION_TRACK) { TRACKED } else { "" };
        let first = [tracked, first].into_iter().filter(|sql| !sql.is_empty()).collect();
        Self::begin(server, server, options, first).await
    }

    async fn begin(
        near: SocketAddr,
        server: SocketAddr,
        options: &ClientOptions,
        first: Vec<&'static str>,
    ) -> Result<Run, Told> {
        let options = ClientOptions { patience: PATIENCE, ..options.clone() };
        match Client::connect_as(near, &options).await {
            Ok(mut client) => {
                for sql in &first {
                    client.run(sql).await;
                }
                client.tape = Some(vec![]);
                Ok(Run { client, near, server, statements: vec![], columns: vec![], first })
            }
            Err(part) => Err(Told { reply: Reply { parts: vec![part] }, bytes: vec![] }),
        }
    }

    /// Carries out one line.
    pub async fn step(&mut self, step: &Step) -> Told {
        let mut reply = self.carry_out(&step.what).await;
        for part in &mut reply.parts {
            // Which of the two ways a connection ends does not matter.
            if *part == Part::Lost("reset".into()) {
                *part = Part::Lost("closed".into());
            }
        }
        let mut bytes = self.client.tape.replace(vec![]).unwrap_or_default();
        // Its text is never the same, and a new statement may have any number.
        match step.what {
            What::Statistics => bytes.clear(),
            What::Prepare(_) if bytes.get(4) == Some(&0) => bytes[5..9].fill(0),
            // The salt.
            What::ChangeUser(_) if bytes.get(4) == Some(&0xFE) => {
                let len = usize::from(bytes[0]) + 4;
                bytes.drain(..len);
                without_proof(&mut bytes);
            }
            _ => {}
        }
        if matches!(step.what, What::Reset | What::ChangeUser(_)) {
            for sql in &self.first {
                self.client.query(sql).await;
            }
            self.client.tape = Some(vec![]);
        }
        without_early_flags(&mut bytes);
        Told { reply, bytes }
    }

    /// A step that is not carried out: a statement that is not prepared has its number all the same.
    pub fn skip(&mut self, step: &Step) {
        if matches!(step.what, What::Prepare(_)) {
            self.statements.push(None);
        }
    }

    /// A part of a text.
    pub async fn say(&mut self, sql: &[u8]) -> Told {
        let reply = self.client.query(sql).await;
        Told { reply, bytes: self.client.tape.replace(vec![]).unwrap_or_default() }
    }

    async fn carry_out(&mut self, what: &What) -> Reply {
        let nothing = Reply { parts: vec![] };
        let of = |said: Result<(), Part>| Reply { parts: said.err().into_iter().collect() };
        match what {
            What::Say(sql) => self.client.query(sql).await,
            What::Ask(payload) => self.client.ask(payload).await,
            What::Statistics => match self.client.send(0, &[9]).await {
                Ok(()) => match self.client.packet().await {
                    Ok(packet) => of(error(&packet).map_or(Ok(()), Err)),
                    Err(part) => of(Err(part)),
                },
                Err(part) => of(Err(part)),
            },
            What::Reset => {
                self.statements.clear();
                self.client.reset().await
            }
            What::ChangeUser(options) => {
                self.statements.clear();
                of(self.client.change_user(options).await)
            }
            What::Prepare(sql) => {
                let said = self.client.prepare(sql).await;
                self.statements.push(said.clone().ok());
                of(said.map(|_| ()))
            }
            What::Execute(number, params) => {
                let statement = self.statement(*number);
                self.client.execute(&statement, params).await
            }
            What::OpenCursor(number) => {
                let statement = self.statement(*number);
                let reply = self.client.execute_with(&statement, &[], Cursor::ReadOnly, true).await;
                if let Some(Part::Rows { columns, .. }) = reply.parts.first() {
                    self.columns.clone_from(columns);
                }
                reply
            }
            What::Fetch(number) => {
                let (statement, columns) = (self.statement(*number), self.columns.clone());
                self.client.fetch(&statement, &columns, 1).await
            }
            What::StmtReset(number) => {
                let id = self.statement(*number).id.to_le_bytes();
                self.client.ask(&[&[26][..], &id].concat()).await
            }
            What::KillOther => self.kill_other().await,
            What::Root(sql) => {
                Client::connect(self.server).await.run(sql).await;
                nothing
            }
            What::Killed(how, sql) => {
                let mut root = Client::connect(self.server).await;
                // One that a lost link has left may run there as well, and end by itself.
                let kills = async {
                    // One that was killed may be listed for a moment, and a second KILL would be its next statement's.
                    let mut killed = vec!["0".to_owned()];
                    loop {
                        // Where it reads rows: before that, a transaction may have begun or not.
                        let state =
                            format!(" AND state = 'Sending data' AND id NOT IN ({})", killed.join(","));
                        let id = running(&mut root, sql, &state).await;
                        let said = root.query(format!("{how} {id}")).await;
                        assert!(matches!(said.error(), None | Some(1094)), "{said:?}");
                        killed.push(id);
                    }
                };
                // It may be refused and never run.
                tokio::select! {
                    reply = self.client.query(sql) => reply,
                    () = kills => unreachable!("it goes on until the answer is here"),
                }
            }
        }
    }

    fn statement(&self, number: usize) -> Prepared {
        // One that was never prepared has a number that no statement has.
        let nobody = Prepared { id: 0xFFFF, params: 0, columns: 0, warnings: 0 };
        self.statements.get(number).cloned().flatten().unwrap_or(nobody)
    }

    async fn kill_other(&mut self) -> Reply {
        const BUSY: &str = "DO SLEEP(60) OR 'of another session'";
        // Killed before that, it goes on behind SLEEP, and has a warning.
        const SLEEPS: &str = " AND state = 'User sleep'";
        let mut other = Client::connect(self.near).await;
        let mut root = Client::connect(self.server).await;
        let kill = format!("KILL QUERY {}", other.id());
        let ends = async {
            running(&mut root, BUSY.as_bytes(), SLEEPS).await;
            let ours = self.client.query(kill).await;
            if ours.error().is_some() {
                // It was not killed.
                let id = running(&mut root, BUSY.as_bytes(), SLEEPS).await;
                root.run(&format!("KILL QUERY {id}")).await;
            }
            ours
        };
        let (theirs, mut ours) = tokio::join!(other.query(BUSY), ends);
        if ours.error().is_none() {
            ours.parts.extend(theirs.parts);
        }
        ours
    }
}

/// The number on the server of the connection that runs this statement, and is in this state, once one is.
async fn running(root: &mut Client, sql: &[u8], state: &str) -> String {
    let text = String::from_utf8_lossy(sql).replace('\'', "''");
    let look = format!("SELECT id FROM information_schema.processlist WHERE info = '{text}'{state}");
    until_async(&format!("it runs: {text}"), async || root.query(&look).await.value()).await
}

/// The error that a packet is, if it is one.
fn error(packet: &[u8]) -> Option<Part> {
    let ErrPacket { code, state, message } = ErrPacket::parse(packet).ok()?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some(Part::Error { code, state: text(state), message: text(message) })
}

/// The EOF behind the columns comes before the rows: with what the server knows of indexes, of a transaction that only reads, and of further
/// results then, or, where the proxy makes it, with what is in sight, which may not be the end. Clients go by the one behind the rows; a
/// transaction that is not open there may have been told before, or not.
fn without_early_flags(packets: &mut [u8]) {
    const OF_INDEXES: u16 = NO_GOOD_INDEX_USED | NO_INDEX_USED;
    const NOT_YET_KNOWN: u16 = OF_INDEXES | IN_TRANS_READONLY | MORE_RESULTS;
    fn clear(flags: &mut [u8], cleared: u16) -> u16 {
        let left = u16::from_le_bytes([flags[0], flags[1]]) & !cleared;
        flags.copy_from_slice(&left.to_le_bytes());
        left
    }
    let (mut at, mut early) = (0, None);
    while let Some(head) = packets.get(at..).and_then(Head::peek) {
        let next = at + HEADER_LEN + head.len;
        if let Some([0xFE, _, _, _, _]) = packets.get(at + HEADER_LEN..next) {
            let flags = next - 2..next;
            if let Some(early) = early.take() {
                let is_open = clear(&mut packets[flags], OF_INDEXES) & IN_TRANS != 0;
                clear(&mut packets[early], if is_open { 0 } else { IN_TRANS });
            } else {
                clear(&mut packets[flags.clone()], NOT_YET_KNOWN);
                early = Some(flags);
            }
        }
        at = next;
    }
}

/// The same packets without the transaction in the EOF behind the columns of each result: behind some statements (HELP, CHECKSUM TABLE) the proxy tells
/// one that is open there, and the server only behind the rows.
fn without_early_transaction(packets: &[u8]) -> Vec<u8> {
    let (mut packets, mut at, mut is_early) = (packets.to_vec(), 0, true);
    while let Some(head) = packets.get(at..).and_then(Head::peek) {
        let next = at + HEADER_LEN + head.len;
        if let Some([0xFE, _, _, flags, _]) = packets.get_mut(at + HEADER_LEN..next) {
            if is_early {
                *flags &= !IN_TRANS.to_le_bytes()[0];
            }
            is_early = !is_early;
        }
        at = next;
    }
    packets
}

/// Under TLS the OK of a login has what proves the certificate in its text: how the proof is made, and 64 digits.
fn without_proof(ok: &mut Vec<u8>) {
    const AT: usize = HEADER_LEN + 7;
    const LEN: usize = 1 + 1 + 64;
    if ok.get(AT) == Some(&(LEN as u8 - 1)) && ok.len() == AT + LEN {
        ok.truncate(AT);
        ok[0] -= LEN as u8;
    }
}
