//! The session's second link, to a replica, where reads outside transactions may run. Its first link stays on the primary.
//!
//! ```text
//!   a command ──> session::split ── Primary ─────────────────────────────────────────────────────────────> as ever
//!                      │ Replica                                                                              ▲
//!                      v                                                                                      │
//!            a link to a replica, with the session's settings ──> which position is needed? ──> wait ──> run ────┤ anything but an answer
//!                                                                                                        │    │
//!                                                                                                        v
//!                                                                                                    the client
//! ```
//!
//! What a read leaves for later statements (warnings, ROW_COUNT(), FOUND_ROWS()) is then on the replica. It counts as forgotten on the
//! primary's link; a statement that asks for it is sent to the replica, or gets error 9110.

mod settings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::capability::Caps;
use protocol::command;
use protocol::errno::{self, Whose};
use protocol::packet::HEADER_LEN;
use protocol::response::End;
use protocol::statement::{Recalls, names_made};
use session::command::InFlight;
use session::digests::Told;
use session::finish::{Delivered, Failure, Finish, NodeError};
use session::split::{Gtid, LEFT, Need, RunsOn as Runs, is_position, runs_on};
use tokio::time::timeout;
use topology::NodeId;
use topology::fact::ConnectFailure;

use self::settings::{INDISPENSABLE, SETTINGS, Unsettled, settings_hash, settle};
use super::{Driver, END, Flow, OF_LOGIN};
use crate::activity::Doing;
use crate::backend::{AttachError, Backend, insecure, of_io};
use crate::ending;
use crate::frontend::BufferedCommand;
use crate::lane::{Lane, Lease};
use crate::reads::replicas::{Ran, Replicas, Why};
use crate::reads::{CatchUp, Waited};
use crate::relay::{Relay, Relayed};

/// The primary's position, which contains everything that a session has seen there.
const POSITION: &str = "SELECT @@GLOBAL.gtid_current_pos";

/// The primary answers these questions from memory. The limit leaves time for an overloaded server; after it the link is given up.
const ASK_MAX: Duration = Duration::from_secs(60);
/// A session whose settings no replica can have does not try again for this long.
const SESSION_WAITS: Duration = Duration::from_secs(1);
/// A session does not try a replica again for this long after it refused the session: its schema, account or a setting may exist there later.
const REFUSED_WAITS: Duration = Duration::from_secs(10);
/// A session does not try a replica again for this long if the replica's settings differ from its own.
const UNLIKE_WAITS: Duration = Duration::from_secs(60);
/// If the primary ends an idle link (`wait_timeout`), what ties the session to it is lost. After this long without a statement there, a
/// read goes to the primary.
const TIED_RESTS_MAX: Duration = Duration::from_secs(3);

/// The session's link to a replica. See the head of this file.
pub(super) struct Side {
    backend: Backend,
    /// The session's settings when the link was made.
    state: Vec<String>,
    schema: Option<Vec<u8>>,
    /// A hash of the settings, its own and inherited, that the session had on the primary then: see [`settings_hash`].
    settings: u64,
    /// The settings that it inherits there may have changed since.
    may_differ: bool,
}

impl Side {
    /// Resolves when the replica has ended the idle link, or that was cut with its lane.
    pub(super) async fn ends(&mut self) {
        self.backend.stirs(false).await;
    }

    /// Something that an earlier read left here is newer on the primary.
    pub(super) fn forget(&mut self, what: Recalls) {
        self.backend.standing.forget(what);
    }
}

/// The result of a read that might have run on a replica.
pub(super) enum Elsewhere {
    /// The client has its answer, or is gone.
    Done(Flow),
    /// It runs on the primary. `lost`: a replica was lost while it ran the read.
    Primary { lost: bool },
}

const TO_PRIMARY: Elsewhere = Elsewhere::Primary { lost: false };

/// Why no replica can be read from now.
enum Unfit {
    /// There is none, or the session cannot use this one.
    Nobody,
    /// It did not reach the position in time.
    Behind,
    /// It failed.
    Failed,
    /// The client went away meanwhile.
    ClientGone,
}

impl Driver {
    /// Runs a command on a replica, if it may run there.
    pub(super) async fn elsewhere(&mut self, flight: &InFlight, command: BufferedCommand) -> Elsewhere {
        let Some(replicas) = self.shared.replicas.clone() else { return TO_PRIMARY };
        let runs = self.runs(flight, command);
        let fit = match runs {
            Runs::Primary => {
                if flight.command.answers() {
                    replicas.count(Ran::Primary);
                }
                return TO_PRIMARY;
            }
            Runs::LastReplica => self.has_last(flight),
            Runs::Replica => {
                self.card.set_running(flight, Instant::now());
                self.side_for_read(&replicas).await
            }
        };
        match fit {
            Ok(lease) => self.run_on_side(&replicas, flight, command, lease).await,
            Err(unfit) => {
                replicas.count(match unfit {
                    Unfit::Nobody => Ran::Nobody,
                    Unfit::Behind => Ran::Behind,
                    Unfit::Failed => Ran::Failed,
                    Unfit::ClientGone => return Elsewhere::Done(END),
                });
                TO_PRIMARY
            }
        }
    }

    /// A command has run on the primary.
    pub(super) fn has_run_on_primary(&mut self, flight: &InFlight) {
        let gtid = self.session.wanted.take_last_gtid();
        let domain = self.shared.replicas.as_ref().and_then(|replicas| replicas.only_domain());
        self.need.after(flight, gtid, domain);
        // It may have replaced what the last read left. (What counts as known on the primary's link is correct.)
        if let Some(side) = &mut self.side {
            side.forget(LEFT);
        }
    }

    /// The names that a command is about to give to views or tables. From now on, no read that names them runs on a replica.
    pub(super) fn makes_names(&self, flight: &InFlight, command: BufferedCommand) -> Vec<String> {
        let Some(replicas) = self.shared.replicas.as_ref().filter(|_| flight.changes_tables()) else {
            return vec![];
        };
        let text = self.text(flight, command).unwrap_or_default();
        let made = names_made(text, self.session.flags());
        if !made.is_empty() {
            replicas.makes(&made, true);
        }
        made
    }

    /// The command has ended; if its end is not known, the names stay excluded.
    pub(super) fn has_made(&self, made: &[String], finish: &Finish) {
        let has_ended = matches!(finish, Finish::Answered | Finish::NodeError { .. });
        if let (false, true, Some(replicas)) = (made.is_empty(), has_ended, &self.shared.replicas) {
            replicas.makes(made, false);
        }
    }

    /// COM_RESET_CONNECTION: the link to the replica is kept, unless its login asked for an option that is reset now. The session inherits
    /// the primary's settings again, and before the next read it is checked whether the link still has the same.
    pub(super) fn reset_side(&mut self) {
        if (self.client.caps & OF_LOGIN) != Caps::NONE {
            self.side = None;
        }
        if let Some(side) = &mut self.side {
            side.forget(LEFT);
            side.may_differ = true;
        }
    }

    /// Where the command runs.
    fn runs(&self, flight: &InFlight, command: BufferedCommand) -> Runs {
        let (Some(backend), true) = (self.at.backend.as_ref(), command.whole) else { return Runs::Primary };
        if self.session.owed().is_some() || self.at.is_leased() || backend.lane().is_cut() {
            return Runs::Primary;
        }
        let payload = self.client.buffer.bytes().get(HEADER_LEN..command.len).unwrap_or_default();
        let Ok(text) = command::query_text(payload, self.client.caps) else { return Runs::Primary };
        let door = &self.shared.door;
        let runs = runs_on(flight, text, &self.session, &backend.standing, &|list| door.names(list));
        let is_tied = !backend.standing.pins().is_empty();
        let is_overdue = || is_tied && backend.rested_at().elapsed() > TIED_RESTS_MAX;
        let may_mean_more = || {
            let replicas = self.shared.replicas.as_ref();
            replicas.is_some_and(|replicas| replicas.names_just_made(text, self.session.flags()))
        };
        match runs {
            Runs::Replica if is_overdue() || may_mean_more() => Runs::Primary,
            runs => runs,
        }
    }

    /// The replica that ran the last read, if it still knows what is asked for.
    fn has_last(&mut self, flight: &InFlight) -> Result<Option<Lease>, Unfit> {
        match &self.side {
            Some(side)
                if side.backend.standing.forgotten(flight.recalls()).is_empty()
                    && !side.backend.lane().is_cut()
                    && !side.backend.has_ended() =>
            {
                Ok(side.backend.lane().lease())
            }
            _ => Err(Unfit::Nobody),
        }
    }

    // ---- a link to a replica

    /// A link to a replica that has all that the session needs, and a lease on its lane.
    async fn side_for_read(&mut self, replicas: &Replicas) -> Result<Option<Lease>, Unfit> {
        let Some(primary) = self.at.backend.as_ref().map(|backend| backend.lane().node) else {
            return Err(Unfit::Nobody);
        };
        let state = self.session.wanted.restore_for_reads();
        if let Some(lease) = self.keep_side(replicas, &state)
            && self.is_as_on_primary(replicas).await?
        {
            if let Err(unfit) = self.catch_up(replicas).await {
                self.leave_late(replicas, primary);
                return Err(unfit);
            }
            self.use_schema(replicas).await?;
            return Ok(Some(lease));
        }
        self.side = None;
        let lease = self.lease_side(replicas, primary).ok_or(Unfit::Nobody)?;
        self.make_side(replicas, &lease, state).await?;
        Ok(Some(lease))
    }

    /// A lease on a replica for a new link.
    fn lease_side(&self, replicas: &Replicas, primary: NodeId) -> Option<Lease> {
        let now = Instant::now();
        let avoids = |node| self.side_avoids.iter().any(|(avoided, until)| *avoided == node && *until > now);
        replicas.lease(primary, &self.who.user, &avoids)
    }

    /// This session does not try that replica again for `time`.
    fn avoid(&mut self, node: NodeId, time: Duration) {
        let now = Instant::now();
        self.side_avoids.retain(|(avoided, until)| *avoided != node && *until > now);
        self.side_avoids.push((node, now + time));
    }

    /// The replica of the present link has not reached the position: the next read goes to another one, if there is one.
    fn leave_late(&mut self, replicas: &Replicas, primary: NodeId) {
        let late = self.side.as_ref().map(|side| side.backend.lane().node);
        if late.is_some_and(|late| replicas.alone(late, None) == Some(Why::Late))
            && self.lease_side(replicas, primary).is_some()
        {
            self.side = None;
        }
    }

    /// Whether the present link has the settings that the session inherits on the primary now. The primary is asked only if they may have changed.
    async fn is_as_on_primary(&mut self, replicas: &Replicas) -> Result<bool, Unfit> {
        if self.side.as_ref().is_none_or(|side| !side.may_differ) {
            return Ok(self.side.is_some());
        }
        let on_primary = self.ask_primary(SETTINGS).await?;
        self.ask_position(replicas).await?;
        let Some(side) = self.side.as_mut() else { return Ok(false) };
        side.may_differ = false;
        Ok(side.settings == settings_hash(&on_primary))
    }

    /// A lease for the present link, if that can still be used.
    fn keep_side(&self, replicas: &Replicas, state: &[String]) -> Option<Lease> {
        let side = self.side.as_ref()?;
        let lane = side.backend.lane();
        // No statement removes a schema.
        let is_without = side.schema.is_some() && self.session.wanted.schema().is_none();
        let is_primary = self.at.backend.as_ref().is_none_or(|primary| primary.lane().node == lane.node);
        if is_primary
            || side.backend.has_unasked()
            || side.state != state
            || is_without
            || replicas.alone(lane.node, None) == Some(Why::Silent)
        {
            return None;
        }
        lane.lease()
    }

    /// Changes the schema of the link to the replica to the session's.
    async fn use_schema(&mut self, replicas: &Replicas) -> Result<(), Unfit> {
        let Some(side) = self.side.as_mut() else { return Err(Unfit::Nobody) };
        let schema = self.session.wanted.schema();
        let Some(wanted) = schema.filter(|_| side.schema.as_deref() != schema) else { return Ok(()) };
        side.forget(LEFT);
        let used = tokio::select! {
            used = timeout(self.shared.connect_timeout(), side.backend.use_schema(wanted)) => used,
            () = self.client.gone() => return Err(Unfit::ClientGone),
        };
        match used.unwrap_or(Err(ConnectFailure::TimedOut)) {
            Ok(None) => {
                side.schema = Some(wanted.to_vec());
                Ok(())
            }
            Ok(Some(_)) => Err(Unfit::Failed),
            Err(how) => {
                self.side_lost(replicas, how);
                Err(Unfit::Failed)
            }
        }
    }

    /// Makes a link to a replica on which a read means the same as on the primary.
    async fn make_side(
        &mut self,
        replicas: &Replicas,
        lease: &Lease,
        state: Vec<String>,
    ) -> Result<(), Unfit> {
        if self.side_not_before.is_some_and(|at| at > Instant::now()) {
            return Err(Unfit::Failed);
        }
        let lane = lease.lane();
        // A position that was enough on another replica is not enough here.
        self.need = Need::Unknown;
        let on_primary = self.ask_primary(SETTINGS).await?;
        let has =
            |name: &str, what: &str| on_primary.value_of(name).is_some_and(|value| value.contains(what));
        if INDISPENSABLE.iter().any(|name| on_primary.value_of(name).is_none())
            || has("sql_auto_is_null", "ON")
            || has("sql_mode", "ORACLE")
        {
            self.side_not_before = Some(Instant::now() + SESSION_WAITS);
            return Err(Unfit::Nobody);
        }
        let position = match self.ask_position(replicas).await {
            // A primary without MariaDB's positions refuses the question.
            Err(Unfit::Failed) => {
                self.side_not_before = Some(Instant::now() + SESSION_WAITS);
                return Err(Unfit::Failed);
            }
            position => position?,
        };
        let backend = self.attach_side(replicas, lane, &on_primary).await?;
        let schema = self.session.wanted.schema().map(<[u8]>::to_vec);
        let settings = settings_hash(&on_primary);
        self.side = Some(Box::new(Side { backend, state, schema, settings, may_differ: false }));
        // The primary has everything that was seen on another replica.
        self.wait(replicas, &position).await
    }

    /// A link to the replica, with the settings that the session has on the primary.
    async fn attach_side(
        &mut self,
        replicas: &Replicas,
        lane: &Arc<Lane>,
        on_primary: &link::Rows,
    ) -> Result<Backend, Unfit> {
        let attach = async {
            let terms = self.shared.terms(&self.who, CatchUp::No, true)?;
            Backend::attach(lane, &self.who, self.client.caps, &self.session, false, terms).await
        };
        let attached = tokio::select! {
            attached = attach => attached,
            () = self.client.gone() => return Err(Unfit::ClientGone),
        };
        let mut backend = match attached {
            Ok(backend) => backend,
            Err(AttachError::Lost(how)) => {
                replicas.lost(lane, how);
                return Err(Unfit::Failed);
            }
            Err(AttachError::Insecure(why)) => {
                replicas.lost(lane, insecure(&why));
                return Err(Unfit::Failed);
            }
            Err(error) => {
                tracing::debug!("a session has no link to {} for its reads: {error}", lane.name);
                match error {
                    AttachError::Refused(error) if error.code == errno::ACCESS_DENIED_ERROR => {
                        replicas.leave_alone(lane.node, Some(&self.who.user), Why::Refused, REFUSED_WAITS);
                    }
                    // Its schema may not exist there yet, which does not concern other sessions.
                    AttachError::Refused(_) | AttachError::NotRebuilt(_) => {
                        self.avoid(lane.node, REFUSED_WAITS);
                    }
                    AttachError::Forgotten(_) => {
                        self.shared.node_told(
                            &self.who.user,
                            self.client.peer.ip(),
                            lane.node,
                            Told::Forgotten,
                        );
                        self.avoid(lane.node, REFUSED_WAITS);
                    }
                    _ => self.side_not_before = Some(Instant::now() + SESSION_WAITS),
                }
                return Err(Unfit::Failed);
            }
        };
        if backend.standing.lacks_schema() {
            // It may not exist there yet.
            self.avoid(lane.node, REFUSED_WAITS);
            return Err(Unfit::Failed);
        }
        self.shared.counts.link_made(false);
        let settled = tokio::select! {
            settled = settle(&mut backend, on_primary, self.shared.connect_timeout()) => settled,
            () = self.client.gone() => return Err(Unfit::ClientGone),
        };
        if let Err(unsettled) = settled {
            match unsettled {
                Unsettled::Lost(how) => replicas.lost(lane, how),
                Unsettled::Refused(why) => {
                    replicas.say_unlike(lane, &why);
                    self.avoid(lane.node, REFUSED_WAITS);
                }
                Unsettled::Unlike { why, is_of_server } => {
                    replicas.say_unlike(lane, &why);
                    self.avoid(lane.node, UNLIKE_WAITS);
                    if is_of_server {
                        replicas.leave_alone(lane.node, None, Why::Unlike, UNLIKE_WAITS);
                    }
                }
            }
            return Err(Unfit::Failed);
        }
        // The questions asked here have replaced nothing that the client's statements left.
        backend.standing.forget(LEFT);
        Ok(backend)
    }

    /// Asks the primary on the session's own link, while it takes transactions. That clears warnings and the like there, as the client's
    /// read itself will, wherever it runs.
    async fn ask_primary(&mut self, question: &str) -> Result<link::Rows, Unfit> {
        let backend = self.at.backend.as_mut().ok_or(Unfit::Failed)?;
        let _lease = backend.lane().lease().ok_or(Unfit::Failed)?;
        backend.standing.forget(LEFT);
        let answer = tokio::select! {
            answer = backend.query(question, ASK_MAX) => answer,
            () = self.client.gone() => return Err(Unfit::ClientGone),
        };
        match answer {
            Ok(rows) => rows.ok_or(Unfit::Failed),
            Err(how) => {
                if self.at.was_killed().await {
                    // The next command on this link finds out.
                    return Err(Unfit::Failed);
                }
                self.at.tell_lost(how);
                self.lost_idle();
                Err(Unfit::Failed)
            }
        }
    }

    /// The primary's position. A SELECT gives the whole of it, where SHOW cuts long values off.
    async fn ask_position(&mut self, replicas: &Replicas) -> Result<String, Unfit> {
        let rows = self.ask_primary(POSITION).await?;
        let position = rows.text(0, 0).unwrap_or_default().to_owned();
        replicas.saw_position(&position);
        Ok(position)
    }

    /// Waits until the replica has what the session has written and seen.
    async fn catch_up(&mut self, replicas: &Replicas) -> Result<(), Unfit> {
        let (Some(side), Some(primary)) = (&self.side, &self.at.backend) else { return Err(Unfit::Nobody) };
        let (lane, primary) = (side.backend.lane(), primary.lane());
        let position = match &self.need {
            Need::Nothing => return Ok(()),
            Need::Gtid(gtid)
                if Gtid::parse(gtid).is_some_and(|gtid| replicas.has_reached(lane, primary, gtid)) =>
            {
                self.need = Need::Nothing;
                return Ok(());
            }
            // Others have just waited for it without success.
            _ if replicas.alone(lane.node, None) == Some(Why::Late) => return Err(Unfit::Behind),
            Need::Gtid(gtid) => gtid.to_string(),
            Need::Unknown => self.ask_position(replicas).await?,
        };
        self.wait(replicas, &position).await
    }

    /// Waits until the replica has applied everything up to `position`; then the session needs nothing more.
    async fn wait(&mut self, replicas: &Replicas, position: &str) -> Result<(), Unfit> {
        let Some(side) = self.side.as_mut() else { return Err(Unfit::Nobody) };
        if !is_position(position) {
            return Err(Unfit::Nobody); // the primary writes no binary log, or none of MariaDB's
        }
        let catch_up = CatchUp::Position(position.into(), replicas.wait_max.get());
        side.forget(LEFT);
        let lane = side.backend.lane().clone();
        let waited = tokio::select! {
            waited = side.backend.catch_up(&catch_up) => waited,
            () = self.client.gone() => return Err(Unfit::ClientGone),
        };
        match waited {
            Ok(Waited::Reached) => {
                // This primary has assigned the GTID of the session's write.
                if let (Need::Gtid(_), Some(gtid), Some(primary)) =
                    (&self.need, Gtid::parse(position), &self.at.backend)
                {
                    replicas.reached(&lane, primary.lane(), gtid);
                }
                self.need = Need::Nothing;
                Ok(())
            }
            Ok(Waited::Late) => {
                replicas.found_late(lane.node);
                Err(Unfit::Behind)
            }
            // The session's own time limits ended it.
            Ok(Waited::Ended) => Err(Unfit::Behind),
            Err(how) => {
                self.side_lost(replicas, how);
                Err(Unfit::Failed)
            }
        }
    }

    /// The link to the replica broke.
    fn side_lost(&mut self, replicas: &Replicas, how: ConnectFailure) {
        if let Some(side) = self.side.take() {
            if side.backend.ended_unread() {
                return; // it was idle for too long
            }
            replicas.lost(side.backend.lane(), how);
        }
    }

    // ---- a read on the replica

    async fn run_on_side(
        &mut self,
        replicas: &Replicas,
        flight: &InFlight,
        command: BufferedCommand,
        lease: Option<Lease>,
    ) -> Elsewhere {
        self.at.settle_aside(self.side.as_ref().map(|side| &side.backend));
        let relayed = self.relay_on_side(flight, command).await;
        self.at.settle_aside(None);
        let was_killed = match &relayed {
            Relayed::Lost { .. } => self.at.was_killed().await,
            _ => self.at.is_killed(),
        };
        // The answer of a statement that was sent may have been ended by somebody, who does not want it to run again.
        let how = match &relayed {
            _ if was_killed => None,
            Relayed::Lost { how, delivered: Delivered::Nothing } => Some(how.clone()),
            Relayed::Refused(error) if error.speaks_of_a_kill() => {
                Some(ConnectFailure::Rejected { errno: error.code, message: error.message.clone() })
            }
            _ => None,
        };
        let ended_alone = match how {
            Some(how) => match self.only_link_ended(replicas, how).await {
                Some(ended_alone) => ended_alone,
                None => return Elsewhere::Done(END),
            },
            None => false,
        };
        match relayed {
            Relayed::Ended(end) => {
                replicas.count(Ran::Replica);
                self.left_on_side(flight, &end);
                self.note_good_end(flight, command);
                Elsewhere::Done(self.finish(Finish::Answered, flight, command).await)
            }
            Relayed::ClientGone => {
                self.card.set(Doing::Ending, Instant::now());
                if let Some(side) = self.side.take() {
                    let (shared, who) = (self.shared.clone(), &self.who);
                    let Side { backend, .. } = *side;
                    ending::end_on_node(&shared, who, self.client.caps, flight, backend, lease).await;
                }
                Elsewhere::Done(END)
            }
            _ if was_killed || ended_alone => {
                self.side = None;
                let killed = Finish::NodeError { error: NodeError::killed(), closes: true };
                Elsewhere::Done(self.finish(killed, flight, command).await)
            }
            // Somebody, or the session's own limit, has ended the statement: so it is said.
            Relayed::Refused(error) if error.whose() == Whose::Will => {
                replicas.count(Ran::Replica);
                let end = End::Err { code: error.code };
                if let Some(side) = &mut self.side {
                    let link = &mut side.backend.standing;
                    self.session.ended(link, flight, &end, &[], &[], self.client.caps);
                }
                self.left_on_side(flight, &end);
                let told = Finish::NodeError { error, closes: false };
                Elsewhere::Done(self.finish(told, flight, command).await)
            }
            // The primary's answer counts: the replica may lack a table, a privilege, or memory.
            Relayed::Refused(_) => {
                replicas.count(Ran::Failed);
                TO_PRIMARY
            }
            Relayed::Lost { how, delivered } => {
                let is_unread = self.side.as_ref().is_some_and(|side| side.backend.ended_unread());
                if let Some(side) = self.side.as_ref().filter(|_| !is_unread)
                    && let Some(text) = self.text(flight, command)
                {
                    let (shared, lane) = (self.shared.clone(), side.backend.lane().clone());
                    tokio::spawn(ending::tell_if_replica_lost(shared, lane, text.to_vec()));
                }
                self.side_lost(replicas, how);
                if delivered == Delivered::Nothing {
                    replicas.count(Ran::Failed);
                    return Elsewhere::Primary { lost: !is_unread };
                }
                self.cut_short(flight, command, delivered).await
            }
            Relayed::NotFollowed { delivered } | Relayed::Stalled { delivered } => {
                self.side = None;
                if delivered == Delivered::Nothing {
                    replicas.count(Ran::Failed);
                    return TO_PRIMARY;
                }
                self.cut_short(flight, command, delivered).await
            }
        }
    }

    /// The link ended while the replica ran a read: whether the replica is well, so that somebody has ended only this connection. `None`: the
    /// client went away meanwhile.
    async fn only_link_ended(&mut self, replicas: &Replicas, how: ConnectFailure) -> Option<bool> {
        let Some(backend) = self.side.as_ref().map(|side| &side.backend) else { return Some(false) };
        let was_sent = !backend.is_half_sent() && !backend.ended_unread();
        if !was_sent || how == ConnectFailure::TimedOut || backend.lane().is_cut() {
            return Some(false);
        }
        let lane = backend.lane().clone();
        tokio::select! {
            is_well = replicas.is_well(&lane, how) => Some(is_well),
            () = self.client.gone() => None,
        }
    }

    /// The client has a part of the answer, and no more will come.
    async fn cut_short(
        &mut self,
        flight: &InFlight,
        command: BufferedCommand,
        delivered: Delivered,
    ) -> Elsewhere {
        if let Some(backend) = &mut self.at.backend {
            backend.standing.forget(LEFT);
        }
        let finish = Finish::Fail { failure: Failure::CutShort, detail: String::new(), delivered };
        Elsewhere::Done(self.finish(finish, flight, command).await)
    }

    async fn relay_on_side(&mut self, flight: &InFlight, command: BufferedCommand) -> Relayed {
        let nothing = |how| Relayed::Lost { how, delivered: Delivered::Nothing };
        let Some(side) = self.side.as_mut() else { return nothing(ConnectFailure::Closed) };
        let backend = &mut side.backend;
        if let Err(error) = backend.send(&self.client.buffer.bytes()[..command.len]).await {
            return nothing(of_io(&error));
        }
        self.card.set_running(flight, backend.sent_at());
        let mut relay = Relay {
            backend,
            client: &mut self.client,
            session: &mut self.session,
            flight,
            card: &self.card,
            retained: command.len,
            keeps_errors: true,
            rows: 0,
        };
        let relayed = relay.run().await;
        side.backend.rests();
        relayed
    }

    /// What the statement has left is on the replica now, and nowhere else.
    fn left_on_side(&mut self, flight: &InFlight, end: &End) {
        let warns = matches!(end, End::Ok { warnings, .. } if *warnings > 0);
        let left = match end {
            End::Err { .. } => LEFT,
            _ if flight.recalls().is_empty() => LEFT,
            _ if warns => LEFT,
            _ => Recalls::ROW_COUNT.union(Recalls::FOUND_ROWS),
        };
        if let Some(backend) = &mut self.at.backend {
            backend.standing.forget(left);
        }
    }
}
