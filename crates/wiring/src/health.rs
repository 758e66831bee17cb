//! What the health endpoint of `serve` knows: what the manager holds true, and whether this program does its own part.
//!
//! Enters: the manager's newest view. Leaves: answers by the brain's own rules ([`ClusterView::ask`]), so that a balancer that asks
//! here and the proxy cannot disagree. The manager shows a view at least every 200 ms; one that is too old means that the manager
//! hangs, and then nothing is good.
//!
//! ```text
//!   listen.health, listen.agent ──> Outlook: /health/NODE, or a node's name; without a name: this program
//!   unix sockets (nodecheck::local) ──> one for each node, and one for this program
//! ```

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use health::Source;
use health::answer::{Answer, AnswerKind};
use health::server::{self, Answerer, Counts, Server};
use health::style::Style;
use link::Endpoint;
use serde_json::{Value, json};
use tokio::sync::watch;
use topology::health::{Problem, Question, Rules};
use topology::view::{ClusterView, NodeView};

use crate::metrics::page::{Page, families};
use health::VIEW_AGE_MAX;
use nodecheck::local::{self, Bound, Target};
use settings::{Node, Settings, table as t};

/// How old the manager's last word is; `started`: when the view's clock began.
pub(super) fn age(view: &ClusterView, started: Instant) -> Duration {
    started.elapsed().saturating_sub(Duration::from_millis(view.now_ms))
}

/// What holds for questions that say nothing else: a node is good when the proxy itself would choose it.
pub(super) const RULES: Rules = Rules::STRICT;

/// Answers about every node, and about this program.
struct Outlook {
    view: watch::Receiver<Arc<ClusterView>>,
    /// When the view's clock began.
    started: Instant,
    proxy: proxy::Listening,
    counts: Arc<Counts>,
}

impl Outlook {
    /// `None` when there is no such node.
    fn answer_from(
        &self,
        view: &ClusterView,
        age: Duration,
        node: Option<&str>,
        question: Question,
    ) -> Option<Answer> {
        let found = match (node, question) {
            (Some(name), question) => view.ask(name, question)?,
            (None, Question::Member(_)) if self.proxy.is_open() => Ok(()),
            (None, Question::Member(_)) => Err(Problem::Stopping.found("takes no clients: it is stopping")),
            (None, Question::Writer) => view.ask_for_writer(),
            (None, Question::Replica { .. }) => {
                Err(Problem::NotAsked.found("is no replica: ask about a node"))
            }
        };
        if age > VIEW_AGE_MAX {
            let reason = format!("is not known: the manager's last word is {} ms old", age.as_millis());
            return Some(Answer::new(AnswerKind::Unasked, reason, age));
        }
        let asked = view.nodes.iter().find(|known| Some(&*known.name) == node);
        let lag = match question {
            // How old what it has is.
            Question::Replica { .. } => asked.and_then(|node| node.reads.age_ms).map(Duration::from_millis),
            _ => None,
        };
        let is_good = lag
            .filter(|_| found.is_ok())
            .map(|lag| format!("replicates, at most {:.3} s behind", lag.as_secs_f64()));
        let mut answer = Answer::of(found, is_good.as_deref().unwrap_or(good(node, question)), age);
        if node.is_none() && matches!(question, Question::Member(_)) && answer.kind == AnswerKind::Good {
            answer.kind = AnswerKind::TakesClients;
        }
        answer.lag = lag;
        Some(answer)
    }

    fn is_good(&self, view: &ClusterView, age: Duration, node: Option<&str>, question: Question) -> bool {
        self.answer_from(view, age, node, question).is_some_and(|answer| answer.is_good())
    }

    /// The newest view, and how old it is: the age of what is held true, not of a node's last answer, since it is also known by now when a
    /// node does not answer.
    fn view(&self) -> (Arc<ClusterView>, Duration) {
        let view = self.view.borrow().clone();
        let age = age(&view, self.started);
        (view, age)
    }
}

impl Source for Outlook {
    fn answer(&self, node: Option<&str>, question: Question) -> Option<Answer> {
        let (view, age) = self.view();
        self.answer_from(&view, age, node, question)
    }

    fn status(&self, node: Option<&str>) -> Option<Value> {
        let (view, age) = self.view();
        let answer = self.answer_from(&view, age, node, Question::Member(RULES))?;
        let mut status = match node {
            Some(name) => json!(view.nodes.iter().find(|node| node.name == name)?),
            None => {
                let nodes = view.nodes.iter().map(|node| {
                    let is_good = self.is_good(&view, age, Some(&node.name), Question::Member(RULES));
                    json!({ "name": node.name, "good": is_good, "state": node.state, "reason": node.reason })
                });
                json!({
                    "cluster": view.cluster, "writers": view.writers, "writer": view.writer, "term": view.term,
                    "gate": view.gate, "hold_because": view.hold_because, "nodes": nodes.collect::<Vec<_>>(),
                })
            }
        };
        status["good"] = json!(answer.is_good());
        status["kind"] = json!(answer.kind);
        status["reason"] = json!(*answer.reason);
        status["age_ms"] = json!(answer.age.as_millis() as u64);
        Some(status)
    }

    fn metrics(&self) -> String {
        let (view, age) = self.view();
        let good = |node: Option<&str>, question| self.is_good(&view, age, node, question);
        let is_good = |node: &NodeView| good(Some(&node.name), Question::Member(RULES));
        let is_writable = |node: &NodeView| good(Some(&node.name), Question::Writer);
        let counts = &self.counts;
        let mut page = Page::new(&[]);
        page.add(
            FAMILIES,
            &Figures {
                is_good: good(None, Question::Member(RULES)),
                nodes: view
                    .nodes
                    .iter()
                    .map(|node| (node.name.clone(), is_good(node), is_writable(node)))
                    .collect(),
                connections: [&counts.open, &counts.accepted, &counts.beyond]
                    .map(|counter| counter.load(Relaxed)),
            },
        );
        page.text + &counts.answers("understudy_health_answers_total")
    }
}

/// What the metrics tell.
struct Figures {
    is_good: bool,
    /// Each node's name, and whether it may take traffic and writes.
    nodes: Vec<(String, bool, bool)>,
    /// Connections that are open, that were accepted, and that were refused.
    connections: [u64; 3],
}

families! {
    FAMILIES(Figures) {
        gauge "understudy_good" "1 when this Understudy serves clients."
            => |of, lines| lines.one(u8::from(of.is_good));
        gauge "understudy_node_good" "1 when the node may take traffic."
            => |of, lines| for (node, is_good, _) in &of.nodes { lines.node(node, u8::from(*is_good)) };
        gauge "understudy_node_writable" "1 when the node may take writes."
            => |of, lines| for (node, _, is_writable) in &of.nodes { lines.node(node, u8::from(*is_writable)) };
        gauge "understudy_health_connections" "Health connections that are open."
            => |of, lines| lines.one(of.connections[0]);
        counter "understudy_health_connections_total" "Health connections accepted."
            => |of, lines| lines.one(of.connections[1]);
        counter "understudy_health_connections_refused_total" "Health connections beyond the limit."
            => |of, lines| lines.one(of.connections[2]);
    }
}

/// The same for the programs of this machine that ask about one node: through the socket that carries its name.
struct NodeDoor {
    outlook: Arc<Outlook>,
    node: String,
}

impl Source for NodeDoor {
    fn answer(&self, node: Option<&str>, question: Question) -> Option<Answer> {
        self.outlook.answer(node.or(Some(&self.node)), question)
    }

    fn status(&self, node: Option<&str>) -> Option<Value> {
        self.outlook.status(node.or(Some(&self.node)))
    }

    fn metrics(&self) -> String {
        self.outlook.metrics()
    }
}

/// Everything that answers health questions. Ends when it is dropped.
pub struct Doors {
    main: Server,
    /// A socket has one node, so each has its own listener.
    nodes: Vec<NodeServer>,
    outlook: Arc<Outlook>,
    connections_max: u64,
    #[expect(dead_code, reason = "a socket's file is removed when this is dropped")]
    files: Vec<Bound>,
}

/// Answers on a node's own sockets as long as it is kept.
struct NodeServer {
    node: Node,
    #[expect(dead_code, reason = "serves as long as it is kept; nothing when it has no socket")]
    server: Option<Server>,
    #[expect(dead_code, reason = "a socket's file is removed when this is dropped")]
    files: Vec<Bound>,
}

impl Doors {
    /// Opens all of them. A unix socket that cannot be had is told and left out: whoever would have asked there asks the database.
    pub fn open(
        settings: &Settings,
        connections_max: u64,
        manager: &manager::Handles,
        proxy: proxy::Listening,
    ) -> anyhow::Result<Self> {
        let (view, started) = (manager.view.clone(), manager.started);
        let outlook = Arc::new(Outlook { view, started, proxy, counts: Arc::default() });
        let http = listen::open(&settings.get(&t::LISTEN_HEALTH)).context("listen.health")?;
        let agent = listen::open(&settings.get(&t::LISTEN_AGENT)).context("listen.agent")?;
        let (unix, files) = bind(&[Target::Door(settings.name.clone())]);
        let main = start(&outlook, connections_max, (http, unix, agent), outlook.clone())?;
        let mut doors = Self { main, nodes: Vec::new(), outlook, connections_max, files };
        doors.serve_nodes(&settings.nodes)?;
        Ok(doors)
    }

    /// Opens the sockets of these nodes, and closes those of others.
    pub fn serve_nodes(&mut self, nodes: &[Node]) -> anyhow::Result<()> {
        let same = |a: &Node, b: &Node| a.name == b.name && a.address == b.address;
        let is_as_before = nodes.len() == self.nodes.len()
            && nodes.iter().zip(&self.nodes).all(|(node, served)| same(node, &served.node));
        if is_as_before {
            return Ok(());
        }
        // Which names a node has depends on the others, so all are opened anew.
        self.nodes.clear();
        for node in nodes {
            let (unix, files) = bind(&targets(node, nodes));
            let door = NodeDoor { outlook: Arc::clone(&self.outlook), node: node.name.clone() };
            let server = match unix.is_empty() {
                true => None,
                false => {
                    let listeners = (Vec::new(), unix, Vec::new());
                    Some(start(&self.outlook, self.connections_max, listeners, Arc::new(door))?)
                }
            };
            self.nodes.push(NodeServer { node: node.clone(), server, files });
        }
        Ok(())
    }

    /// Where HTTP is answered.
    pub fn http(&self) -> &[SocketAddr] {
        self.main.http()
    }

    /// Where the agent check is answered.
    pub fn agent(&self) -> &[SocketAddr] {
        self.main.agent()
    }

    /// The same answers, for listen.http.
    pub fn answerer(&self) -> Answerer {
        self.main.answerer()
    }
}

/// The listeners for HTTP, on this machine, and for the agent check.
type Listeners = (Vec<TcpListener>, Vec<UnixListener>, Vec<TcpListener>);

fn start(
    outlook: &Outlook,
    connections_max: u64,
    (http, unix, agent): Listeners,
    source: Arc<dyn Source>,
) -> anyhow::Result<Server> {
    let style = Style::Clustercheck;
    let settings =
        server::Settings { http, unix, agent, style, rules: RULES, several_nodes: true, connections_max };
    server::start(settings, source, Arc::clone(&outlook.counts)).context("cannot answer health questions")
}

/// The sockets that can be had.
fn bind(targets: &[Target]) -> (Vec<UnixListener>, Vec<Bound>) {
    let (mut listeners, mut files) = (Vec::new(), Vec::new());
    for target in targets {
        match local::bind(&target.file()) {
            Ok((listener, file)) => {
                listeners.push(listener);
                files.push(file);
            }
            // Mostly for one reason, and then for all of them.
            Err(why) if IS_TOLD.swap(true, Relaxed) => tracing::debug!("{why}"),
            Err(why) => tracing::warn!("{why}"),
        }
    }
    (listeners, files)
}

/// It was said once why a socket cannot be had.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// The names that programs of this machine may have for a node.
fn targets(node: &Node, all: &[Node]) -> Vec<Target> {
    let mut targets = vec![Target::of(&Endpoint::Tcp(node.address.clone()), 0)];
    let here = |node: &Node| node.address.parse().ok().filter(is_ours).map(|address| address.port());
    // Beside several on one port nobody is "the one that is here".
    if let Some(port) = here(node)
        && all.iter().filter_map(here).filter(|other| *other == port).count() == 1
    {
        targets.push(Target::Here(port));
    }
    targets
}

/// Whether this machine has the address: only then a socket can be bound to it. Names are not looked up, which may take long.
fn is_ours(address: &SocketAddr) -> bool {
    let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
    // Machines with a moving address often allow this, and then a socket can be bound to any address: nothing is known.
    let binds_all = std::fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind"))
        .is_ok_and(|value| value.trim() != "0");
    address.ip().is_loopback() || (!binds_all && UdpSocket::bind((address.ip(), 0)).is_ok())
}

/// What is said of whoever is good.
fn good(node: Option<&str>, question: Question) -> &'static str {
    match (node, question) {
        (None, Question::Writer) => "has a writer",
        (None, _) => "serves clients",
        (Some(_), Question::Writer) => "may take writes",
        (Some(_), _) => "may take traffic",
    }
}

#[cfg(test)]
mod tests {
    use topology::NodeId;
    use topology::brain::{Brain, Restored};
    use topology::fact::{Fact, LinkEnd};
    use topology::galera::GaleraStatus;
    use topology::routes::ServerGreeting;
    use topology::settings::{NodeSettings, Writers};

    use super::*;

    const MEMBER: Question = Question::Member(RULES);

    /// db1 is synced, db2 is drained, db3 has not been asked yet; the view is `age` old.
    fn outlook(age: Duration) -> Outlook {
        outlook_after(age, |_, _| ())
    }

    fn outlook_after(age: Duration, and_then: impl FnOnce(&mut Brain, Duration)) -> Outlook {
        let node =
            |name: &str| NodeSettings { name: name.into(), address: format!("{name}:3306"), priority: 0 };
        let nodes = ["db1", "db2", "db3"].map(node).to_vec();
        let settings = topology::settings::Settings::new("shop", Writers::One, nodes);
        let restored = Restored { sessions_max: vec![(NodeId(1), 0)], ..Restored::default() };
        let now = Duration::from_secs(10);
        let mut brain = Brain::new(settings, restored, now);
        let status = GaleraStatus {
            local_state: Some(4),
            cluster_status: "Primary".into(),
            ready: true,
            connected: true,
            ..GaleraStatus::default()
        };
        for node in [NodeId(0), NodeId(1)] {
            let greeting = ServerGreeting {
                version: "x".into(),
                capabilities: 0,
                charset: 45,
                status: 2,
                plugin: "mysql_native_password".into(),
            };
            brain.on(now, Fact::LinkUp { node, greeting });
            brain.on(now, Fact::Status { node, status: status.clone().into(), asked: now });
        }
        and_then(&mut brain, now);
        let (_, view) = watch::channel(Arc::new(brain.view(now)));
        let started = Instant::now().checked_sub(now + age).unwrap();
        Outlook { view, started, proxy: proxy::Listening::default(), counts: Arc::default() }
    }

    fn kind(outlook: &Outlook, node: Option<&str>, question: Question) -> Option<AnswerKind> {
        outlook.answer(node, question).map(|answer| answer.kind)
    }

    #[test]
    fn each_node_is_as_the_brain_holds_it() {
        let outlook = outlook(Duration::ZERO);
        assert_eq!(kind(&outlook, Some("db1"), MEMBER), Some(AnswerKind::Good));
        assert_eq!(kind(&outlook, Some("db2"), MEMBER), Some(AnswerKind::Disabled));
        assert_eq!(kind(&outlook, Some("db3"), MEMBER), Some(AnswerKind::Unasked));
        assert_eq!(kind(&outlook, Some("db4"), MEMBER), None);
        assert_eq!(kind(&outlook, None, MEMBER), Some(AnswerKind::TakesClients));
        assert_eq!(
            kind(&outlook, None, Question::Writer),
            Some(AnswerKind::NotSynced),
            "nobody was chosen yet"
        );
        let replica = Question::Replica { lag_max: None };
        assert_eq!(kind(&outlook, Some("db1"), replica), Some(AnswerKind::Unasked));
        let metrics = outlook.metrics();
        for line in [
            "understudy_good 1",
            "understudy_node_good{node=\"db1\"} 1",
            "understudy_node_good{node=\"db2\"} 0",
        ] {
            assert!(metrics.lines().any(|said| said == line), "{line}\n{metrics}");
        }
    }

    #[test]
    fn a_node_in_doubt_is_not_good_and_not_yet_down() {
        let outlook = outlook_after(Duration::ZERO, |brain, now| {
            brain.on(now, Fact::LinkEnded { node: NodeId(0), how: LinkEnd::Closed });
        });
        let answer = outlook.answer(Some("db1"), MEMBER).unwrap();
        assert_eq!(answer.kind, AnswerKind::Doubted);
        assert_eq!(&*answer.reason, "is being confirmed: its link was closed without a word");
        assert_eq!(kind(&outlook, Some("db1"), Question::Writer), Some(AnswerKind::Doubted));
    }

    #[test]
    fn a_manager_that_says_nothing_makes_nothing_good() {
        let outlook = outlook(Duration::from_millis(1500));
        for node in [None, Some("db1"), Some("db2")] {
            for question in [MEMBER, Question::Writer] {
                let answer = outlook.answer(node, question).unwrap();
                assert_eq!(answer.kind, AnswerKind::Unasked);
                assert!(
                    answer.reason.starts_with("is not known: the manager's last word is 15"),
                    "{}",
                    answer.reason
                );
            }
        }
        assert_eq!(kind(&outlook, Some("db4"), MEMBER), None);
        assert_eq!(outlook.status(None).unwrap()["good"], false);
    }

    #[test]
    fn a_socket_of_a_node_answers_about_that_node() {
        let door = NodeDoor { outlook: Arc::new(outlook(Duration::ZERO)), node: "db2".into() };
        assert_eq!(door.answer(None, MEMBER).unwrap().kind, AnswerKind::Disabled);
        assert_eq!(door.answer(Some("db1"), MEMBER).unwrap().kind, AnswerKind::Good);
        assert_eq!(door.status(None).unwrap()["name"], "db2");
    }

    #[test]
    fn only_one_that_is_alone_on_this_machine_is_the_one_that_is_here() {
        let node = |address: &str| Node { name: "n".into(), address: address.into(), priority: 0, line: 1 };
        let count = |own: &str, others: &[&str]| {
            let all: Vec<Node> = others.iter().chain([&own]).map(|address| node(address)).collect();
            targets(&node(own), &all).len()
        };
        assert_eq!(count("127.0.0.1:3306", &["192.0.2.1:3306"]), 2);
        assert_eq!(count("127.0.0.1:3306", &["127.0.0.1:3307"]), 2);
        assert_eq!(count("127.0.0.1:3306", &["127.0.0.2:3306"]), 1);
        assert_eq!(count("192.0.2.1:3306", &[]), 1);
        assert_eq!(count("db1.example:3306", &[]), 1);
    }
}
