//! What we hold true of one node: the last things it said, what it failed to say, and what that makes it.
//!
//! Facts change the fields; [`crate::problem::judge`] turns the fields into a state; nobody else decides what a node is.

use crate::alarms::Alarms;
use crate::detector::Counts;
use crate::finding::{Finding, Problem, Serves};
use crate::heartbeat::Pulse;
use crate::lost::LostStatements;
use crate::proxies::Proxies;
use crate::routes::{Cut, LaneState, ServerGreeting};
use crate::settings::NodeSettings;
use crate::status::Status;
use crate::time::Now;

/// Errors by which a server refuses a login because of what it is about to do or to be: WSREP has not yet prepared node, shutdown in
/// progress, an option prevents it, read only, connection killed.
pub(crate) const REFUSES_ALL: [u16; 5] = [1047, 1053, 1290, 1836, 1927];

/// Something happened that may mean that the node is lost (its connection ended, traffic failed there). The node is asked, and gets no new
/// transactions until it has answered.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub why: String,
    /// Only a new connection ends the doubt, since the one that the probe had is gone.
    pub wants_link: bool,
    /// Only the answer to a query that was sent then or later ends the doubt: one that was sent before says nothing about the event.
    pub asked_from: Now,
}

/// All that is known of one node.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    pub name: String,
    pub address: String,
    pub priority: u32,
    /// How many of the other nodes have transactions that this one has not.
    pub behind: u32,
    pub sessions_max: Option<u32>,
    /// The limit before it was drained: undraining gives it back. Not kept over a restart.
    pub sessions_max_before: Option<u32>,
    /// Its transactions are numbered as the primary's were before those began anew; see [`crate::replication`]. On disk, too.
    pub is_renumbered: bool,
    /// The replication filters that it had last, until an operator says that it is a copy of the primary; see [`crate::replication`].
    pub had_filters: Option<String>,
    /// Drained by an order that is not for the time of somebody's work only.
    pub drain_is_lasting: bool,

    /// The probe's connection to it stands.
    pub linked: bool,
    /// It stood at least once since this process started. Only such a node can be lost, and be evicted.
    pub linked_once: bool,
    /// See [`crate::routes::Lane::links_anew`].
    pub links_anew: u64,
    /// See [`crate::routes::Lane::shows_sessions`].
    pub shows_sessions: bool,
    pub greeting: Option<ServerGreeting>,
    /// The server lets nobody in, or not us; errno 0 when it does not speak the protocol.
    pub rejected: Option<(u16, String)>,
    pub status: Option<Status>,
    /// When its last status came, and when the query for that was sent: the status is true for some moment between the two.
    pub answered_at: Option<Now>,
    pub asked_at: Option<Now>,
    pub counts: Counts,
    /// New connections that failed in a row while the kept link stood, and how the last one did.
    pub shut_out: u32,
    pub shut_out_why: String,
    /// When it was first seen not to answer, or to be lost; `None` while it is well.
    pub lost_at: Option<Now>,
    /// Since when it has not been able to serve; `None` while it can. Unlike `lost_at` it outlasts the answers of a node that says itself that it
    /// refuses: what waits for another node waits from here, and so for a limited time.
    pub unfit_since: Option<Now>,
    /// Since when it has been shutting down, by its own report (error 1053, or a status that shows that it left the Primary component).
    pub leaving_since: Option<Now>,
    pub doubt: Option<Doubt>,
    pub doubt_cleared: Option<Now>,
    /// When a new connection was ordered that has not been answered yet; at most one is under way.
    pub confirm_asked: Option<Now>,
    /// While new connections fail, the next one is not tried before.
    pub confirm_after: Now,
    pub probe_asked: Option<Now>,
    /// An operator drained it or moved the writer away from it: until then its stop is expected.
    pub stop_expected_until: Now,

    /// Whether it still commits, by heartbeats and clients' commits.
    pub pulse: Pulse,

    /// What it is held to be, as [`crate::judgement::judge_all`] finds anew after each fact.
    pub finding: Finding,
    /// What was found against it other than by its own status; kept also if its own status is worse and therefore decides.
    pub others: Option<Finding>,
    /// It is dead or silent, or the others have gone on without it. Not set if it only said itself that it does not serve: that may be over in
    /// a moment.
    pub gone: bool,
    pub since: Now,

    pub lane: LaneState,
    pub epoch: u64,
    pub cut: Cut,
    /// No new session may come, whatever the limit. Sessions that cannot be moved may stay.
    pub turned_away: bool,
    /// Alarms of the traffic on the lane's present epoch.
    pub alarms: Alarms,
    /// The last epoch that ended since the node was gone.
    pub lost_epoch: Option<u64>,
    /// What the proxies have acknowledged of its lane.
    pub proxies: Proxies,
    /// Statements that ran there when connections broke, since it was last well.
    pub lost: LostStatements,
}

impl Belief {
    pub fn new(node: &NodeSettings, sessions_max: Option<u32>, now: Now) -> Self {
        let unchecked = Problem::Unchecked.found("not yet checked, which counts as down");
        Self {
            name: node.name.clone(),
            address: node.address.clone(),
            priority: node.priority,
            sessions_max,
            behind: 0,
            sessions_max_before: None,
            is_renumbered: false,
            had_filters: None,
            drain_is_lasting: sessions_max == Some(0),
            linked: false,
            linked_once: false,
            links_anew: 0,
            shows_sessions: false,
            greeting: None,
            rejected: None,
            status: None,
            answered_at: None,
            asked_at: None,
            counts: Counts::default(),
            shut_out: 0,
            shut_out_why: String::new(),
            lost_at: None,
            unfit_since: None,
            leaving_since: None,
            doubt: None,
            doubt_cleared: None,
            confirm_asked: None,
            confirm_after: Now::ZERO,
            probe_asked: None,
            stop_expected_until: Now::ZERO,
            pulse: Pulse::default(),
            finding: unchecked.clone(),
            others: Some(unchecked),
            gone: false,
            since: now,
            lane: LaneState::Shut,
            epoch: 0,
            cut: Cut::Nothing,
            turned_away: false,
            alarms: Alarms::default(),
            lost_epoch: None,
            proxies: Proxies::default(),
            lost: LostStatements::default(),
        }
    }

    /// Traffic raised alarm number `alarm` on the lane of `epoch`: the node is to be asked for its status.
    pub fn alarmed(&mut self, epoch: u64, alarm: u64, now: Now) {
        if epoch == self.epoch {
            self.alarms.raised(alarm, now);
        }
    }

    /// Sets the limit of sessions; 0 drains, and remembers what there was.
    pub fn limit(&mut self, sessions_max: Option<u32>) {
        if sessions_max == Some(0) && !self.drained() {
            self.sessions_max_before = self.sessions_max;
        }
        self.sessions_max = sessions_max;
    }

    /// It answers new connections with an error that is about the monitor's login, and not about the server itself.
    pub fn is_only_unseen(&self) -> bool {
        self.rejected.as_ref().is_some_and(|(errno, _)| *errno != 0 && !REFUSES_ALL.contains(errno))
    }

    pub fn drained(&self) -> bool {
        self.sessions_max == Some(0)
    }

    /// It serves, and is not doubted.
    pub fn sound(&self) -> bool {
        self.finding.serves != Serves::No && self.doubt.is_none()
    }

    /// May be chosen as the writer: it is well, linked, and has missed no probe.
    pub fn electable(&self) -> bool {
        self.finding.serves == Serves::Well && self.present()
    }

    /// It serves, is linked and has missed no probe, though it may be a donor, or drained.
    pub fn present(&self) -> bool {
        self.finding.serves != Serves::No && self.doubt.is_none() && self.linked && self.counts.misses == 0
    }

    /// Its last status is the answer to a query that was sent after `moment`.
    pub fn answered_since(&self, moment: Now) -> bool {
        self.asked_at.is_some_and(|at| at > moment)
    }
}
