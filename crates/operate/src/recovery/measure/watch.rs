//! Asks every node for its status, ten times a second, each by a task of its own: a node that hangs keeps no other waiting. Only reads.

use std::time::Duration;

use link::{Asker, Link, LinkError, Login, Rows};
use measure::recovery::galera::Donor;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use settings::Settings;

/// So many connections more than sessions that are listed may be chance.
const HIDDEN_BY_CHANCE: u64 = 2;
/// Between two questions.
const PACE: Duration = Duration::from_millis(100);
/// A connection, or an answer, may take this long. A joining group answers late.
const DEADLINE: Duration = Duration::from_secs(3);
/// Answers that nobody has looked at yet.
const ANSWERS_MAX: usize = 256;
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_local_state', 'wsrep_cluster_status', 'wsrep_ready', \
     'wsrep_cluster_size', 'wsrep_last_committed', 'wsrep_local_recv_queue', 'wsrep_local_cached_downto', 'wsrep_replicated_bytes', \
     'wsrep_received_bytes', 'wsrep_flow_control_paused_ns')";

/// What one node says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    /// `wsrep_local_state`.
    pub(super) state: u64,
    /// Of the primary component, and takes statements.
    pub(super) is_ready: bool,
    /// Nodes in its view.
    pub(super) cluster_size: u64,
    /// The last writeset.
    pub(super) last_committed: u64,
    /// Writesets received and not yet applied.
    pub(super) queue: u64,
    /// The oldest that it can send.
    pub(super) cached_downto: u64,
    /// Sent and received.
    pub(super) bytes: u64,
    /// For how long flow control has stopped writes, ns.
    pub(super) paused_ns: u64,
}

impl Status {
    fn read(rows: &Rows) -> Self {
        let text = |name: &str| rows.value_of(name).unwrap_or_default();
        let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
        Self {
            state: number("wsrep_local_state"),
            is_ready: text("wsrep_ready") == "ON" && text("wsrep_cluster_status") == "Primary",
            cluster_size: number("wsrep_cluster_size"),
            last_committed: number("wsrep_last_committed"),
            queue: number("wsrep_local_recv_queue"),
            cached_downto: number("wsrep_local_cached_downto"),
            bytes: number("wsrep_replicated_bytes") + number("wsrep_received_bytes"),
            paused_ns: number("wsrep_flow_control_paused_ns"),
        }
    }

    /// It has everything, and may be chosen as a donor.
    pub(super) fn may_donate(&self) -> bool {
        self.state == 4 && self.is_ready
    }

    /// What it can send.
    pub(super) fn donor(&self) -> Donor {
        Donor {
            last_committed: self.last_committed,
            cached_downto: self.cached_downto,
            // Only for how long it will be able to, which is not asked here.
            gcache_bytes: 0,
            is_dropping: false,
            mean_bytes: None,
        }
    }
}

/// One answer.
pub(super) struct Answer {
    /// Whose: its place in the configuration.
    pub(super) node: usize,
    /// When it came.
    pub(super) at: Instant,
    /// None: it does not answer.
    pub(super) status: Option<Status>,
}

/// The tasks; they end with it.
pub(super) struct Watch {
    answers: mpsc::Receiver<Answer>,
    _tasks: JoinSet<()>,
}

impl Watch {
    /// Begins.
    pub(super) fn start(settings: &Settings, login: &Login) -> Self {
        let (tell, answers) = mpsc::channel(ANSWERS_MAX);
        let mut tasks = JoinSet::new();
        for (node, place) in settings.nodes.iter().enumerate() {
            tasks.spawn(ask(node, place.address.clone(), login.clone(), tell.clone()));
        }
        Self { answers, _tasks: tasks }
    }

    /// The next answer.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

async fn ask(node: usize, address: String, login: Login, tell: mpsc::Sender<Answer>) {
    let mut asker = Asker::new(address, login, DEADLINE);
    loop {
        let status = asker.ask(STATUS, DEADLINE).await.ok().map(|rows| Status::read(&rows));
        if tell.send(Answer { node, at: Instant::now(), status }).await.is_err() {
            return;
        }
        sleep(PACE).await;
    }
}

/// Sessions of clients on a node.
pub(super) struct Clients {
    /// The names of their accounts, besides the server's own and the monitor's; one each session.
    pub(super) names: Vec<String>,
    /// Connections that the account may not see: without PROCESS it sees its own only.
    pub(super) hidden: u64,
}

/// Who has sessions on the node.
pub(super) async fn clients(settings: &Settings, login: &Login, address: &str) -> Result<Clients, LinkError> {
    let mut link = Link::connect(address, login, DEADLINE).await?;
    let rows = link.query("SELECT USER FROM information_schema.PROCESSLIST", DEADLINE).await?;
    // It needs no right.
    let count = link.query("SHOW GLOBAL STATUS LIKE 'Threads_connected'", DEADLINE).await?;
    link.quit();
    let connected: u64 = count.value_of("Threads_connected").and_then(|text| text.parse().ok()).unwrap_or(0);
    let names = || (0..rows.len()).filter_map(|row| rows.text(row, 0));
    let is_connection = |name: &&str| !["system user", "event_scheduler"].contains(name);
    let seen = names().filter(is_connection).count() as u64;
    let is_client = |name: &&str| *name != settings.monitor.user && *name != "unauthenticated user";
    Ok(Clients {
        names: names().filter(is_connection).filter(is_client).map(str::to_owned).collect(),
        // Some may have come between both questions, or be saying who they are.
        hidden: connected.saturating_sub(seen + HIDDEN_BY_CHANCE),
    })
}
