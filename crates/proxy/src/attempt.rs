//! One statement on its way to a node, as often as that may take: a lease, a link, an exchange, and what a loss leads to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::capability::Caps;
use protocol::command::Command;
use protocol::errno;
use protocol::packet::{HEADER_LEN, Head, PAYLOAD_MAX};
use protocol::response::End;
use session::retry::{Progress, Verdict};
use session::session::{BULK_SENDS_TYPES, InFlight, Session, types_at};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use topology::fact::{ConnectFailure, Fact};

use crate::backend::{AttachError, Backend, of_io};
use crate::door::{NoLane, Slot};
use crate::driver::{Driver, KILLED};
use crate::frontend::{AtHand, Client, Done};
use crate::lane::{Lane, Lease};
use crate::relay::{Delivered, Relayed, relay, speaks_of_the_node};
use crate::voice::{self, Voice};

/// Between two tries on routes that have not changed: the manager needs a moment to see what the session saw.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// A node that refuses by itself (1047, read-only) while the manager calls it healthy is believed after this long.
const REFUSAL_BELIEVED: Duration = Duration::from_secs(2);
/// A killed connection is taken for an operator's KILL when its lane is still open after this long: a node that goes down is
/// out of the routes by then.
const KILL_BELIEVED: Duration = Duration::from_millis(500);

/// What a lost exchange leaves to do.
pub enum Attempt {
    /// The client has its answer.
    Answered,
    /// To be sent again.
    Again,
    /// The client is told this.
    Fail(Voice, String, u8),
    /// The client is told this in the node's words, and the connection ends.
    Killed { code: u16, state: [u8; 5], message: String },
    /// Nothing can be told any more.
    Over,
}

/// What was lost, and how far things had come.
struct Loss {
    how: ConnectFailure,
    progress: Progress,
    delivered: Delivered,
}

impl Driver {
    /// One try: a lease, a link, an exchange.
    pub async fn attempt(&mut self, flight: &InFlight, command: &mut AtHand, wait: &mut Wait) -> Attempt {
        if self.lease.is_none() {
            match self.admit(command.len, wait).await {
                Ok(lease) => self.lease = Some(lease),
                Err(Admission::ClientGone | Admission::None(NoLane::Ended)) => return Attempt::Over,
                Err(Admission::None(NoLane::Expired)) => {
                    let because = self.shared.door.board().hold_because.clone();
                    let why = because.map(|because| format!("({because})")).unwrap_or_default();
                    return Attempt::Fail(voice::HOLD_EXPIRED, why, 1);
                }
                Err(Admission::None(NoLane::Evicted)) => {
                    return Attempt::Fail(voice::HOLD_FULL, String::new(), 1);
                }
            }
        }
        let Some(lane) = self.lease.as_ref().map(|lease| lease.lane().clone()) else { return Attempt::Over };
        if let Some(failed) = self.on_lane(&lane, flight, *command, wait).await {
            return failed;
        }
        if self.session.has_forgotten(flight) {
            return Attempt::Fail(voice::FORGOTTEN, String::new(), 1);
        }
        let rebuilt = match self.localise(flight, *command) {
            Localised::AsItIs => None,
            Localised::Rebuilt(packet) => Some(packet),
            Localised::Unknown => {
                let what = "the types of a prepared statement's parameters, too many to be kept".to_owned();
                return Attempt::Fail(voice::SESSION_LOST, what, 1);
            }
        };
        match self.exchange(flight, command, rebuilt).await {
            Ok(relayed) => self.after(relayed, flight, command, &lane, wait).await,
            Err(loss) => self.after_loss(loss, flight, &lane, wait, *command).await,
        }
    }

    /// Makes sure that the session stands on `lane`, with the statement at hand prepared there.
    async fn on_lane(
        &mut self,
        lane: &Arc<Lane>,
        flight: &InFlight,
        command: AtHand,
        wait: &mut Wait,
    ) -> Option<Attempt> {
        let here = self.backend.as_ref().is_some_and(|backend| Arc::ptr_eq(backend.lane(), lane));
        if !here {
            if self.backend.is_some() {
                if self.was_killed() {
                    self.lose_link();
                    return Some(killed());
                }
                let pins = self.session.pins();
                if !pins.is_empty() {
                    return Some(Attempt::Fail(voice::SESSION_LOST, pins.names().join(", "), 1));
                }
                self.detach();
                self.session.lost_idle();
            }
            let Some(lease) = self.lease.take() else { return Some(Attempt::Over) };
            let attached = self.attach(&lease).await;
            match attached {
                Ok(()) => self.lease = Some(lease),
                Err(AttachError::Refused { errno, state, message }) => {
                    return Some(Attempt::Killed { code: errno, state, message });
                }
                Err(AttachError::NotRebuilt(why)) => return Some(Attempt::Fail(voice::NOT_REBUILT, why, 1)),
                Err(AttachError::Shut | AttachError::Behind | AttachError::Local(_)) => {
                    drop(lease);
                    return Some(self.again(lane, wait).await);
                }
                Err(AttachError::Lost(how)) => {
                    drop(lease);
                    self.shared.tell(Fact::TrafficLost { node: lane.node, epoch: lane.epoch, how, alarm: 0 });
                    return Some(self.again(lane, wait).await);
                }
            }
        }
        self.prepare_here(flight, command, lane, wait).await
    }

    /// Prepares the statement at hand on the present node, when it was prepared on another.
    async fn prepare_here(
        &mut self,
        flight: &InFlight,
        command: AtHand,
        lane: &Arc<Lane>,
        wait: &mut Wait,
    ) -> Option<Attempt> {
        let statement = self.session.memory.statements.get_mut(&flight.statement?)?;
        if statement.on_node.is_some() {
            return None;
        }
        let backend = self.backend.as_mut()?;
        match backend.prepare(&statement.sql).await {
            Ok(Ok(id)) => {
                statement.on_node = Some(id);
                None
            }
            Ok(Err(payload)) => {
                let err = protocol::ok::ErrPacket::parse(&payload).ok()?;
                let (code, message) = (err.code, String::from_utf8_lossy(err.message).into_owned());
                if speaks_of_the_node(code, err.message) {
                    let how = ConnectFailure::Rejected { errno: code, message };
                    return Some(self.after_loss(unsent(how), flight, lane, wait, command).await);
                }
                // The statement is not what it was (its table is gone, a right is missing): the client hears the node.
                let state = err.state.try_into().unwrap_or(*b"HY000");
                Some(self.tell(flight, code, state, &message, command).await)
            }
            Err(how) => Some(self.after_loss(unsent(how), flight, lane, wait, command).await),
        }
    }

    /// Gives the client an error in the node's words; the session goes on.
    async fn tell(
        &mut self,
        flight: &InFlight,
        code: u16,
        state: [u8; 5],
        message: &str,
        command: AtHand,
    ) -> Attempt {
        if self.session.left_long_data(flight) {
            self.lost_idle();
        }
        let dropped = self.client.drop_command(command).await;
        if dropped.is_ok() && flight.command.answers() {
            return match self.client.say_err(1, code, state, message).await {
                Ok(()) => Attempt::Answered,
                Err(_) => Attempt::Over,
            };
        }
        if dropped.is_ok() { Attempt::Answered } else { Attempt::Over }
    }

    /// A lease on an open lane: the session's own if it can, else another, else after the hold.
    async fn admit(&mut self, bytes: usize, wait: &mut Wait) -> Result<Lease, Admission> {
        let own = self.backend.as_ref().map(Backend::lane);
        if let Some(lane) = own
            && !lane.is_crowded()
            && let Some(lease) = lane.lease()
        {
            return Ok(lease);
        }
        // A session that cannot move waits for its own lane: a switchover that is undone lets it go on.
        let must_stay = own.is_some_and(|lane| !lane.is_shut()) && !self.session.pins().is_empty();
        if !must_stay && let Some(lease) = self.shared.door.try_lease(wait.avoid.as_ref()) {
            return Ok(lease);
        }
        // More sessions than may be are here, and nowhere else is room for this one: it stays rather than wait for nothing.
        if let Some(lease) = own.and_then(Lane::lease) {
            return Ok(lease);
        }
        let since = *wait.since.get_or_insert_with(Instant::now);
        loop {
            wait.slot = None;
            let slot = tokio::select! {
                slot = self.shared.door.wait(bytes, since) => slot.map_err(Admission::None)?,
                () = self.client.gone() => return Err(Admission::ClientGone),
            };
            wait.slot = Some(slot);
            let own = self.backend.as_ref().map(Backend::lane);
            if let Some(lease) = own.and_then(Lane::lease) {
                return Ok(lease);
            }
            if let Some(lease) = self.shared.door.try_lease(None) {
                return Ok(lease);
            }
        }
    }

    /// After a loss: waits until the routes change or a moment has passed, since the manager may not have seen it yet.
    async fn again(&mut self, lane: &Arc<Lane>, wait: &mut Wait) -> Attempt {
        self.lease = None;
        wait.slot = None;
        let since = *wait.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.shared.settings.hold_time {
            return Attempt::Fail(voice::HOLD_EXPIRED, String::new(), 1);
        }
        let mut boards = self.shared.door.watch();
        let board = boards.borrow_and_update().clone();
        wait.avoid = Some(lane.clone());
        let elsewhere =
            board.lanes.iter().any(|other| other.is_open() && other.has_room() && !Arc::ptr_eq(other, lane));
        // At once, but once for the same routes: two nodes that both refuse must not be asked in turns without a pause.
        let is_new = wait.at_once != Some(board.version);
        if is_new && (!lane.is_open() || elsewhere) {
            wait.at_once = Some(board.version);
            return Attempt::Again;
        }
        wait.pause = (wait.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        tokio::select! {
            _ = boards.changed() => {}
            () = tokio::time::sleep(wait.pause) => wait.avoid = None,
            () = self.client.gone() => return Attempt::Over,
        }
        Attempt::Again
    }

    /// Sends the command (`rebuilt` in its place, if it had to be) and relays its answer.
    async fn exchange(
        &mut self,
        flight: &InFlight,
        command: &mut AtHand,
        rebuilt: Option<Vec<u8>>,
    ) -> Result<Relayed, Loss> {
        let Some(backend) = self.backend.as_mut() else {
            return Err(unsent(ConnectFailure::Closed));
        };
        self.has_run = true;
        self.has_spoken = true;
        let option = match flight.command {
            Command::SET_OPTION => self.client.buffer.bytes().get(HEADER_LEN + 1).copied(),
            _ => None,
        };
        let mut retained = 0;
        if command.whole {
            let out = rebuilt.as_deref().unwrap_or(&self.client.buffer.bytes()[..command.len]);
            backend.send(out).await.map_err(|error| unsent(of_io(&error)))?;
            retained = command.len;
        } else {
            command.len = 0;
            if !stream_command(&mut self.client, backend).await? {
                return Ok(Relayed::ClientGone);
            }
        }
        if !flight.command.answers() {
            self.client.buffer.consume(retained);
            command.len = 0;
            return Ok(Relayed::Ended(End::Text));
        }
        let relayed = relay(backend, &mut self.client, &mut self.session, flight, &mut retained).await;
        if matches!(relayed, Relayed::Ended(_)) {
            backend.rests();
        }
        if let (Some(option), Relayed::Ended(End::Ok { .. } | End::Eof { .. })) = (option, &relayed) {
            // Asked for again at the login to the next node.
            self.client.caps.0 &= !Caps::MULTI_STATEMENTS.0;
            if option == MULTI_STATEMENTS_ON {
                self.client.caps.0 |= Caps::MULTI_STATEMENTS.0;
            }
        }
        if matches!(relayed, Relayed::Ended(_)) {
            self.client.buffer.consume(retained);
            command.len = 0;
        } else {
            command.len = retained;
        }
        Ok(relayed)
    }

    async fn after(
        &mut self,
        relayed: Relayed,
        flight: &InFlight,
        command: &mut AtHand,
        lane: &Arc<Lane>,
        wait: &mut Wait,
    ) -> Attempt {
        match relayed {
            Relayed::Ended(end) => {
                if self.session.unsure(flight, &end) {
                    self.ask_status(flight).await;
                }
                if self.session.memory.take_must_track()
                    && let Some(backend) = self.backend.as_mut()
                    && backend.track().await.is_err()
                {
                    self.lost_idle();
                }
                Attempt::Answered
            }
            Relayed::ClientGone => Attempt::Over,
            Relayed::Lost { how, delivered } => {
                let progress = Progress { sent: true, delivered: delivered != Delivered::Nothing };
                self.after_loss(Loss { how, progress, delivered }, flight, lane, wait, *command).await
            }
            Relayed::Refused { code, state, message } => {
                self.after_refusal(code, state, message, flight, lane, wait, *command).await
            }
        }
    }

    /// The server alone knows whether an error ended the transaction.
    async fn ask_status(&mut self, flight: &InFlight) {
        let Some(backend) = self.backend.as_mut() else { return };
        match backend.ping().await {
            Ok(status) => self.session.server_status(status),
            Err(_) => self.lost_unsure(flight),
        }
    }

    async fn after_loss(
        &mut self,
        loss: Loss,
        flight: &InFlight,
        lane: &Arc<Lane>,
        wait: &mut Wait,
        command: AtHand,
    ) -> Attempt {
        let unread = self.backend.as_ref().is_some_and(Backend::ended_unread);
        if self.was_killed() {
            self.lose_link();
            return match loss.delivered {
                Delivered::Nothing => killed(),
                _ => Attempt::Over,
            };
        }
        if !lane.is_shut() {
            let how = loss.how.clone();
            self.shared.tell(Fact::TrafficLost { node: lane.node, epoch: lane.epoch, how, alarm: 0 });
        }
        let pins = self.session.pins();
        let verdict = self.session.lost(flight, loss.progress);
        self.lose_link();
        let may_be_killed = verdict == Verdict::Again && loss.progress.sent && !unread;
        if may_be_killed && self.looks_killed(&loss.how, lane).await {
            return killed();
        }
        self.outcome(verdict, pins.names(), loss.delivered, flight, lane, wait, command).await
    }

    /// The node answered with an error that speaks of itself.
    #[allow(clippy::too_many_arguments)] // the node's three words, and where things stand
    async fn after_refusal(
        &mut self,
        code: u16,
        state: [u8; 5],
        message: String,
        flight: &InFlight,
        lane: &Arc<Lane>,
        wait: &mut Wait,
        command: AtHand,
    ) -> Attempt {
        if self.was_killed() {
            self.lose_link();
            return Attempt::Killed { code, state, message };
        }
        self.shared.tell(Fact::TrafficRefused { node: lane.node, epoch: lane.epoch, errno: code, alarm: 0 });
        let killed = matches!(code, errno::CONNECTION_KILLED | errno::SESSION_WAS_KILLED);
        let believed = if killed { KILL_BELIEVED } else { REFUSAL_BELIEVED };
        let first = *wait.refused.get_or_insert_with(Instant::now);
        if killed && self.lane_stays_open(lane, believed).await {
            self.lose_link();
            return Attempt::Killed { code, state, message };
        }
        if !killed && first.elapsed() >= believed && lane.is_open() {
            // The manager says the node is well, and the node says this: the client hears the node.
            self.lease = None;
            return self.tell(flight, code, state, &message, command).await;
        }
        let pins = self.session.pins();
        let verdict = self.session.refused(flight, code);
        self.lose_link();
        self.outcome(verdict, pins.names(), Delivered::Nothing, flight, lane, wait, command).await
    }

    /// Whether it was this one link that was ended, by a KILL, and not its node: that takes connections, and is not given up.
    /// (A KILL of a running statement need not be answered by an error.)
    async fn looks_killed(&self, how: &ConnectFailure, lane: &Arc<Lane>) -> bool {
        // A lane that is shut cut its links itself.
        if *how != ConnectFailure::Closed || lane.is_shut() {
            return false;
        }
        // A process that died refuses at once, so that its reads go on elsewhere without a wait.
        let believed = async {
            let knock = tokio::time::timeout(KILL_BELIEVED, TcpStream::connect(&*lane.address)).await;
            if matches!(knock, Ok(Ok(_))) {
                tokio::time::sleep(KILL_BELIEVED).await;
                return true;
            }
            false
        };
        let mut boards = self.shared.door.watch();
        let given_up = boards.wait_for(|_| lane.is_shut());
        tokio::select! {
            biased;
            _ = given_up => false,
            killed = believed => killed,
        }
    }

    /// Whether the lane is still open after `within`.
    async fn lane_stays_open(&self, lane: &Arc<Lane>, within: Duration) -> bool {
        let mut boards = self.shared.door.watch();
        let left = boards.wait_for(|_| !lane.is_open());
        tokio::time::timeout(within, left).await.is_err()
    }

    #[allow(clippy::too_many_arguments)] // the verdict, and where things stand
    async fn outcome(
        &mut self,
        verdict: Verdict,
        pins: Vec<&'static str>,
        delivered: Delivered,
        flight: &InFlight,
        lane: &Arc<Lane>,
        wait: &mut Wait,
        command: AtHand,
    ) -> Attempt {
        self.lease = None;
        if !flight.command.answers() {
            // Nobody waits for an answer, so nobody can be told: the next command is told.
            self.broken = Some("data sent for a prepared statement".into());
            let _ = self.client.drop_command(command).await;
            return Attempt::Answered;
        }
        let seq = match delivered {
            Delivered::Nothing => 1,
            Delivered::Packets { next_seq } => {
                // Counts on from the answer, not from the command, also where it comes round to the number of a first packet.
                self.client.continued = 0;
                next_seq
            }
            Delivered::PartOfPacket => return Attempt::Over,
        };
        let pinned = !pins.is_empty();
        let names = pins.join(", ");
        match verdict {
            Verdict::Unknown => {
                if pinned {
                    self.broken = Some(names);
                }
                Attempt::Fail(voice::OUTCOME_UNKNOWN, String::new(), seq)
            }
            _ if pinned => Attempt::Fail(voice::SESSION_LOST, names, seq),
            Verdict::Again if command.len == 0 => {
                Attempt::Fail(voice::TOO_LARGE_TO_REPEAT, String::new(), seq)
            }
            Verdict::Again => self.again(lane, wait).await,
            Verdict::Done => {
                let _ = self.client.drop_command(command).await;
                let status = self.session.status();
                match self.client.say_ok(seq, status).await {
                    Ok(()) => Attempt::Answered,
                    Err(_) => Attempt::Over,
                }
            }
            Verdict::RolledBack => Attempt::Fail(voice::ROLLED_BACK, String::new(), seq),
            Verdict::CutShort => Attempt::Fail(voice::CUT_SHORT, String::new(), seq),
        }
    }
}

/// The end of a connection that was killed with a statement running, in the server's words.
fn killed() -> Attempt {
    Attempt::Killed { code: errno::CONNECTION_KILLED, state: *b"70100", message: KILLED.to_owned() }
}

/// Why a statement has no lease.
enum Admission {
    None(NoLane),
    ClientGone,
}

/// How one statement has waited so far.
#[derive(Default)]
pub struct Wait {
    /// First held, or first lost.
    since: Option<Instant>,
    /// First refused by a node that is called healthy.
    refused: Option<Instant>,
    /// Its place in the ramp after a hold.
    slot: Option<Slot>,
    /// The lane it just failed on.
    avoid: Option<Arc<Lane>>,
    /// The routes under which it was tried again at once.
    at_once: Option<u64>,
    pause: Duration,
}

fn unsent(how: ConnectFailure) -> Loss {
    Loss { how, progress: Progress { sent: false, delivered: false }, delivered: Delivered::Nothing }
}

/// Passes a command on that is not kept: packet by packet until one is shorter than the greatest. False when the client went away
/// in the middle of it, which is no fault of the node's.
async fn stream_command(client: &mut Client, backend: &mut Backend) -> Result<bool, Loss> {
    backend.begin_sending();
    loop {
        let head = loop {
            match Head::peek(client.buffer.bytes()) {
                Some(head) => break head,
                None if fill_client(client).await => {}
                None => return Ok(false),
            }
        };
        let mut left = HEADER_LEN + head.len;
        while left > 0 {
            if client.buffer.is_empty() && !fill_client(client).await {
                return Ok(false);
            }
            let piece = left.min(client.buffer.len());
            let written = backend.link.stream.write_all(&client.buffer.bytes()[..piece]).await;
            client.buffer.consume(piece);
            left -= piece;
            if let Err(error) = written {
                // The rest must be read all the same, or the client never listens to the error.
                let rest = async {
                    client.drop_bytes(left).await?;
                    if head.len == PAYLOAD_MAX {
                        client.continued = client.continued.wrapping_add(1);
                        client.drop_command(AtHand { len: HEADER_LEN, whole: false }).await?;
                    }
                    Ok::<(), Done>(())
                };
                let _ = rest.await;
                return Err(unsent(of_io(&error)));
            }
        }
        if head.len < PAYLOAD_MAX {
            backend.sent_whole();
            return Ok(true);
        }
        client.continued = client.continued.wrapping_add(1);
    }
}

/// False when the client is gone.
async fn fill_client(client: &mut Client) -> bool {
    matches!(client.buffer.fill(&mut client.stream).await, Ok(n) if n > 0)
}

/// In a COM_SET_OPTION.
const MULTI_STATEMENTS_ON: u8 = 0;

/// A command in the node's terms.
enum Localised {
    /// As it stands in the client's buffer.
    AsItIs,
    /// This packet in its place.
    Rebuilt(Vec<u8>),
    /// It leaves out what only the former node knows.
    Unknown,
}

impl Driver {
    /// Exchanges the client's statement id for the node's, in place; rebuilds the command when the node must be told the
    /// parameter types that the client told its former node.
    fn localise(&mut self, flight: &InFlight, command: AtHand) -> Localised {
        let at_hand = command.len.min(self.client.buffer.len());
        let packet = &mut self.client.buffer.bytes_mut()[..at_hand];
        localise(&mut self.session, flight, packet, command.whole).unwrap_or(Localised::AsItIs)
    }
}

fn localise(session: &mut Session, flight: &InFlight, packet: &mut [u8], whole: bool) -> Option<Localised> {
    let statement = session.memory.statements.get_mut(&flight.statement?)?;
    let on_node = statement.on_node?;
    packet.get_mut(HEADER_LEN + 1..HEADER_LEN + 5)?.copy_from_slice(&on_node.to_le_bytes());
    // Where the flag stands, what it says when types follow, and where they do.
    let types_at = HEADER_LEN + types_at(flight.command, statement.params);
    let (flag_at, flag) = match flight.command {
        Command::STMT_EXECUTE if statement.params > 0 => (types_at - 1, 1),
        Command::STMT_BULK_EXECUTE if statement.params > 0 => (HEADER_LEN + 5, BULK_SENDS_TYPES),
        _ => return None,
    };
    if packet.get(flag_at)? & flag != 0 {
        statement.types_on_node = true;
        return None;
    }
    if statement.types_on_node {
        return None;
    }
    if statement.types_unseen || (!whole && !statement.types.is_empty()) {
        return Some(Localised::Unknown);
    }
    if statement.types.is_empty() {
        return None; // never told to any node: its own word on that is right
    }
    statement.types_on_node = true;
    let mut payload = packet.get(HEADER_LEN..types_at)?.to_vec();
    payload[flag_at - HEADER_LEN] |= flag;
    payload.extend_from_slice(&statement.types);
    payload.extend_from_slice(packet.get(types_at..)?);
    let mut out = Vec::with_capacity(payload.len() + HEADER_LEN);
    protocol::packet::put_packet(&mut out, &mut 0, &payload);
    Some(Localised::Rebuilt(out))
}
