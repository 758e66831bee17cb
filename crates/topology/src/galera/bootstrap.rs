//! Decides whether a cluster without a Primary component may get one again, and from which node. Used by `understudy recovery bootstrap`,
//! and as the last check of `bootstrap = "proven"` (`revive`).
//!
//! ```text
//!   each node: answers (its status) ──────────────────┐          ┌─ Survivor: pc.bootstrap on the one that is ahead
//!              does not run (what is on its disk) ────┼─ decide ─┤─ Start: all are down; which one is to be started first
//!              not known ─────────────────────────────┘          └─ a refusal: the condition, and what lifts it
//! ```
//!
//! What a bootstrap can do wrong, and what excludes it here:
//!   - Two Primary components: a node that is cut off may have a majority with others. So every other node must be known not to run; that
//!     it does not answer is not enough.
//!   - Lost transactions: a writeset that was acknowledged to a client has been *received* by every member of its view, but a member
//!     applies it only when it knows that all have received it. If the others die in just that moment, the survivor drops it, and they have it
//!     on their disks. So the survivor must have as much as each of them. If one of them is ahead, that one must be started first, and alone:
//!     together with a survivor that is behind, Galera forms a Primary component with the survivor's history as soon as all members are back,
//!     and the one that is ahead aborts ("Reversing history: 19 -> 17 ... Data loss is possible"; seen on MariaDB 10.11.19 / Galera 26.4.23).
//!
//! InnoDB's recovery gives only a lower bound if the server did not write each commit to its disk at once: the node may have acknowledged
//! more. A survivor is then not preferred to it. If all nodes are down, the choice is the same, since no node has what is on no disk; the
//! result says so.
//!
//! Invariant: a decision needs the positions of all nodes, and they must be of one history.

use super::asked::{Apart, Asked, ComponentStatus, apart};
use super::component::{Component, have_joined_another};
use super::position::Left;

/// One node and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name in the configuration.
    pub name: String,
    /// Its address there.
    pub address: String,
    /// What is known of it.
    pub word: Word,
}

impl Candidate {
    fn asked(&self) -> Asked<'_> {
        let said = match &self.word {
            Word::Answers(answer) => Some(ComponentStatus {
                cluster_status: &answer.cluster_status,
                size: Some(answer.size),
                gcomm_uuid: &answer.gcomm_uuid,
            }),
            Word::Stopped(_) | Word::Silent(_) | Word::Alive(_) => None,
        };
        Asked { name: &self.name, address: &self.address, said }
    }
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It answers.
    Answers(Answer),
    /// Its process does not run; a proof or an operator says so.
    Stopped(Disk),
    /// It does not answer, and nothing proves that it does not run. The text describes how its silence looks.
    Silent(String),
    /// Its server runs and rejects the connection; the text is its error.
    Alive(String),
}

/// The status of a node that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// wsrep_cluster_status.
    pub cluster_status: String,
    /// wsrep_cluster_state_uuid.
    pub uuid: String,
    /// wsrep_last_committed.
    pub last_committed: u64,
    /// wsrep_local_recv_queue: writesets received and not yet applied.
    pub recv_queue: u64,
    /// wsrep_cluster_size: members of its component, itself included.
    pub size: u32,
    /// wsrep_cluster_conf_id: the number of its view.
    pub conf_id: u64,
    /// wsrep_gcomm_uuid.
    pub gcomm_uuid: String,
}

/// What is known of a stopped node's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disk {
    /// It was read.
    Read(Left),
    /// It was not, and why.
    Unread(String),
    /// An operator has said that it is gone for good, and that transactions only it had may be lost.
    GivenUp,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Some nodes run, without a Primary component; all others are down. The numbers are indices into the list of candidates.
    Survivor {
        /// The node that gets the order.
        via: usize,
        /// All nodes that run.
        survivors: Vec<usize>,
    },
    /// No node runs.
    Start {
        /// The one that is started first, as a new cluster.
        first: usize,
        /// The nodes that have everything that it has.
        level: Vec<usize>,
    },
}

/// Why nothing may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The condition, as a sentence.
    pub condition: String,
    /// What would change that.
    pub way_out: Way,
}

/// What would lift a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// There is nothing to bootstrap.
    Needless,
    /// Only what the sentence says.
    None,
    /// A confirmation that this node does not run.
    Confirm(String),
    /// The position of this node.
    Tell(String),
    /// An operator's consent to lose what only this node has.
    GiveUp(String),
    /// Only the cluster may run: the nodes of the other one are to be stopped.
    TwoClusters,
    /// An operator's statement which nodes belong to another cluster.
    Choose,
}

fn refuse<T>(condition: String, way_out: Way) -> Result<T, Refusal> {
    Err(Refusal { condition, way_out })
}

/// Decides, from every node of the cluster, and what is remembered of the writer's component.
///
/// # Errors
/// Why nothing may be done.
pub fn decide(nodes: &[Candidate], known: Option<&Component>) -> Result<Decision, Refusal> {
    if let Some(refusal) = is_primary(nodes, known) {
        return Err(refusal);
    }
    let running = running(nodes)?;
    let down = down(nodes)?;
    one_history(&running, &down)?;
    if let Some(known) = known {
        of_the_writers(nodes, &running, &down, known)?;
    }
    if running.is_empty() { first_of(&down) } else { survivor(&running, &down) }
}

type Running<'a> = Vec<(usize, &'a str, &'a Answer)>;
type Down<'a> = Vec<(usize, &'a str, &'a Left)>;

/// What is to be done where there is a Primary component: nothing, unless it is another cluster's.
fn is_primary(nodes: &[Candidate], known: Option<&Component>) -> Option<Refusal> {
    let answers = || {
        nodes.iter().filter_map(|node| match &node.word {
            Word::Answers(answer) => Some((node, answer)),
            Word::Stopped(_) | Word::Silent(_) | Word::Alive(_) => None,
        })
    };
    let is_primary = |answer: &Answer| answer.cluster_status.eq_ignore_ascii_case("Primary");
    let primary: Vec<(&Candidate, &Answer)> = answers().filter(|(_, answer)| is_primary(answer)).collect();
    let (one, first) = *primary.first()?;
    let listed = || primary.iter().map(|(node, _)| node.name.as_str()).collect::<Vec<_>>().join(", ");
    let two = |condition: String| Some(Refusal { condition, way_out: Way::TwoClusters });
    let view = |answer: &Answer| (answer.uuid.clone(), answer.conf_id, answer.size);
    let asked: Vec<Asked> = nodes.iter().map(Candidate::asked).collect();
    // One whose members are not configured any more says nothing.
    let known = known.filter(|known| nodes.iter().any(|node| known.has(&node.address)));
    if primary.len() > first.size as usize || primary.iter().any(|(_, other)| view(other) != view(first)) {
        return two(format!("there are two clusters: {} are Primary, and not in one component", listed()));
    }
    // The furthest of its members: another may have something left to apply.
    let has = primary.iter().map(|(_, answer)| answer.last_committed).max().unwrap_or(0);
    let others = answers().filter(|(_, answer)| !is_primary(answer));
    let more = others.map(|(node, answer)| (node.name.as_str(), answer.uuid.as_str(), answer.last_committed));
    let disks = nodes.iter().filter_map(|node| match &node.word {
        Word::Stopped(Disk::Read(left)) => {
            Some((node.name.as_str(), left.position.uuid.as_str(), left.position.seqno))
        }
        _ => None,
    });
    let remembered = known.map(|known| ("the writer's component", known.cluster_uuid.as_str(), known.seqno));
    for (other, uuid, seqno) in more.chain(disks).chain(remembered) {
        if uuid.eq_ignore_ascii_case(&first.uuid) && seqno > has {
            return two(format!(
                "there are two clusters: {} is Primary and has {has}, and {other} had {seqno}, which may have been acknowledged to clients",
                listed()
            ));
        }
    }
    if let Some(known) = known.filter(|known| !known.cluster_uuid.eq_ignore_ascii_case(&first.uuid)) {
        return two(format!(
            "there are two clusters: {} is Primary in {}, and the writer's component was in {}",
            listed(),
            first.uuid,
            known.cluster_uuid
        ));
    }
    match known.and_then(|known| apart(&asked, known)) {
        Some(Apart::Without(others)) => {
            return two(format!(
                "there are two clusters: {} is Primary without {others}, which had the last acknowledged writes",
                listed()
            ));
        }
        Some(Apart::Joined(members)) => return two(have_joined_another(&members)),
        None => {}
    }
    Some(Refusal {
        condition: format!(
            "{} is in a Primary component of {}: start the others as usual, and they join it",
            one.name,
            members(first.size)
        ),
        way_out: Way::Needless,
    })
}

/// The nodes that answer, in one component that is not Primary.
fn running(nodes: &[Candidate]) -> Result<Running<'_>, Refusal> {
    let mut running = Vec::new();
    for (place, Candidate { name, word, .. }) in nodes.iter().enumerate() {
        match word {
            Word::Answers(answer) if answer.gcomm_uuid.is_empty() || !is_apart(&answer.cluster_status) => {
                let said = &answer.cluster_status;
                return refuse(
                    format!(
                        "{name} runs, and is connected to no group (wsrep_cluster_status is {said:?}): stop it first"
                    ),
                    Way::None,
                );
            }
            Word::Answers(answer) => running.push((place, name.as_str(), answer)),
            Word::Alive(how) => {
                return refuse(
                    format!("the server of {name} runs, and does not let Understudy ask it: {how}"),
                    Way::None,
                );
            }
            Word::Stopped(_) | Word::Silent(_) => {}
        }
    }
    for (_, name, answer) in &running {
        if answer.size as usize != running.len() {
            return refuse(
                format!(
                    "{name} is in a component of {}, and {} of the configured nodes answer: they are not all in one component, or the group \
                     has members that the configuration does not have",
                    members(answer.size),
                    running.len()
                ),
                Way::None,
            );
        }
        if answer.recv_queue > 0 {
            return refuse(
                format!("{name} has still {} writesets to apply: ask again when it has", answer.recv_queue),
                Way::None,
            );
        }
    }
    Ok(running)
}

/// The nodes that do not run and whose data are known. Every other node must be confirmed not to run.
fn down(nodes: &[Candidate]) -> Result<Down<'_>, Refusal> {
    let mut down = Vec::new();
    for (place, Candidate { name, word, .. }) in nodes.iter().enumerate() {
        match word {
            Word::Answers(_) | Word::Alive(_) | Word::Stopped(Disk::GivenUp) => {}
            Word::Stopped(Disk::Read(left)) if left.members.len() > nodes.len() => {
                return refuse(
                    format!(
                        "the last Primary view of {name} had {}, and the configuration has {} nodes: the others may be in a Primary component",
                        members(left.members.len() as u32),
                        nodes.len()
                    ),
                    Way::None,
                );
            }
            Word::Stopped(Disk::Read(left)) => down.push((place, name.as_str(), left)),
            Word::Stopped(Disk::Unread(why)) => {
                return refuse(format!("it is not known what {name} has: {why}"), Way::Tell(name.clone()));
            }
            Word::Silent(how) => {
                return refuse(
                    format!(
                        "{name} does not answer ({how}), and nothing shows that its process has ended: it may be cut off and be in a \
                         Primary component with others"
                    ),
                    Way::Confirm(name.clone()),
                );
            }
        }
    }
    Ok(down)
}

fn one_history(running: &Running<'_>, down: &Down<'_>) -> Result<(), Refusal> {
    let running = running.iter().map(|(_, name, answer)| (*name, answer.uuid.as_str()));
    let down = down.iter().map(|(_, name, left)| (*name, left.position.uuid.as_str()));
    let all: Vec<(&str, &str)> = running.chain(down).collect();
    let Some((_, uuid)) = all.first() else {
        return refuse("no node has any data that is known".to_owned(), Way::None);
    };
    if all.iter().all(|(_, its)| its.eq_ignore_ascii_case(uuid)) {
        return Ok(());
    }
    // Neither the order of the nodes nor their number shows which of the histories is the right one.
    let each: Vec<String> = all.iter().map(|(name, its)| format!("{name} has {its}")).collect();
    refuse(
        format!(
            "the nodes have several histories, which are not of one cluster and cannot be compared: {}",
            each.join(", ")
        ),
        Way::Choose,
    )
}

/// Among stopped nodes, the one that has most; among equals, one that Galera would start as the first without a change.
/// A node that was in another cluster, or has more than each member of the writer's component without having been one, has write sets that are
/// numbered as others of the writer's are: its position cannot be compared with theirs.
fn of_the_writers(
    nodes: &[Candidate],
    running: &Running<'_>,
    down: &Down<'_>,
    known: &Component,
) -> Result<(), Refusal> {
    let running =
        running.iter().map(|(place, _, answer)| (*place, answer.last_committed, answer.uuid.as_str()));
    let down = down.iter().map(|(place, _, left)| (*place, left.position.seqno, left.position.uuid.as_str()));
    let all: Vec<(&Candidate, u64)> = running
        .chain(down)
        .filter(|(.., uuid)| uuid.eq_ignore_ascii_case(&known.cluster_uuid))
        .map(|(place, has, _)| (&nodes[place], has))
        .collect();
    let was_elsewhere = |node: &Candidate| known.elsewhere.contains(&node.address);
    let is_member = |node: &Candidate| known.has(&node.address) && !was_elsewhere(node);
    let members = || all.iter().filter(|(node, _)| is_member(node));
    let Some(most) = members().map(|(_, has)| *has).max() else { return Ok(()) };
    let mut others = all.iter().filter(|(node, _)| !is_member(node));
    let Some((node, has)) = others.find(|(node, has)| was_elsewhere(node) || *has > most) else {
        return Ok(());
    };
    let names = members().map(|(node, _)| node.name.as_str()).collect::<Vec<_>>().join(", ");
    let name = &node.name;
    refuse(
        format!(
            "{name} has {has}, and was in another cluster than {names}, which had the last acknowledged writes and {most}: the same numbers \
             are other transactions there. Before {name} is started again, remove its grastate.dat, so that it takes a full copy"
        ),
        Way::GiveUp(name.clone()),
    )
}

fn first_of(down: &Down<'_>) -> Result<Decision, Refusal> {
    let best = down.iter().max_by_key(|(place, _, left)| {
        let seqno = left.position.seqno;
        (seqno, !left.is_lower_bound, left.safe_to_bootstrap, std::cmp::Reverse(*place))
    });
    let Some((first, _, best)) = best else {
        return refuse("no node has any data that is known".to_owned(), Way::None);
    };
    let level = down
        .iter()
        .filter(|(place, _, left)| place != first && left.position.seqno == best.position.seqno)
        .map(|(place, ..)| *place)
        .collect();
    Ok(Decision::Start { first: *first, level })
}

fn survivor(running: &Running<'_>, down: &Down<'_>) -> Result<Decision, Refusal> {
    let Some((via, name, best)) =
        running.iter().max_by_key(|(place, _, answer)| (answer.last_committed, std::cmp::Reverse(*place)))
    else {
        return refuse("no node answers".to_owned(), Way::None);
    };
    for (_, other, left) in down {
        if left.position.seqno > best.last_committed {
            return refuse(
                format!(
                    "{other} is ahead of {name}: it has {} and {name} has {}; what it has may have been acknowledged to clients. Stop the \
                     server of {name}, begin the cluster anew on {other} (galera_new_cluster; with Percona XtraDB Cluster: systemctl start mysql@bootstrap), and start the rest as usual. Do not start \
                     {other} beside {name}: Galera would go on with what {name} has, and {other} would abort",
                    left.position.seqno, best.last_committed
                ),
                Way::GiveUp((*other).to_owned()),
            );
        }
        if left.is_lower_bound {
            return refuse(
                format!(
                    "{other} crashed, and was not seen to run with innodb_flush_log_at_trx_commit = 1: it has at least {}, and may have \
                     acknowledged more than {name} has ({}), although its disk does not show it. Its binlog may",
                    left.position.seqno, best.last_committed
                ),
                Way::GiveUp((*other).to_owned()),
            );
        }
        if !left.members.is_empty()
            && running.iter().all(|(_, _, answer)| !left.members.contains(&answer.gcomm_uuid))
        {
            return refuse(
                format!(
                    "the last Primary view of {other} was without {name}: it went on when {name} had been left behind"
                ),
                Way::GiveUp((*other).to_owned()),
            );
        }
    }
    Ok(Decision::Survivor { via: *via, survivors: running.iter().map(|(place, ..)| *place).collect() })
}

/// It runs and belongs to a component that is not Primary.
fn is_apart(cluster_status: &str) -> bool {
    cluster_status.eq_ignore_ascii_case("non-Primary")
}

fn members(size: u32) -> String {
    if size == 1 { "one member".to_owned() } else { format!("{size} members") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::galera::Process;

    const UUID: &str = "6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";
    const OTHER: &str = "7f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1";

    fn answers(last_committed: u64) -> Word {
        Word::Answers(Answer {
            cluster_status: "non-Primary".into(),
            uuid: UUID.into(),
            last_committed,
            recv_queue: 0,
            size: 1,
            conf_id: 4,
            gcomm_uuid: "c-3".into(),
        })
    }

    fn stopped(uuid: &str, seqno: u64, members: &[&str]) -> Word {
        let mut left = Left::at(format!("{uuid}:{seqno}").parse().unwrap());
        left.members = members.iter().map(|&member| member.to_owned()).collect();
        Word::Stopped(Disk::Read(left))
    }

    fn with(words: [Word; 3]) -> Result<Decision, Refusal> {
        let name = |place: usize| format!("db{}", place + 1);
        let address = |place: usize| format!("10.0.0.{}:3306", place + 1);
        let nodes: Vec<Candidate> = words
            .into_iter()
            .enumerate()
            .map(|(place, word)| Candidate { name: name(place), address: address(place), word })
            .collect();
        decide(&nodes, None)
    }

    fn refused(words: [Word; 3], condition: &str, way_out: &Way) {
        let refusal = with(words).unwrap_err();
        assert!(refusal.condition.contains(condition), "{refusal:?}");
        assert_eq!(&refusal.way_out, way_out, "{refusal:?}");
    }

    #[test]
    fn a_survivor_that_is_level_with_all_others() {
        let view = ["a-1", "b-2", "c-3"];
        let decision = with([stopped(UUID, 9, &view), stopped(UUID, 10, &view), answers(10)]);
        assert_eq!(decision, Ok(Decision::Survivor { via: 2, survivors: vec![2] }));
        let decision = with([Word::Stopped(Disk::GivenUp), stopped(UUID, 10, &[]), answers(10)]);
        assert_eq!(decision, Ok(Decision::Survivor { via: 2, survivors: vec![2] }));
    }

    #[test]
    fn of_two_survivors_the_one_that_is_ahead() {
        let of_two = |last_committed| match answers(last_committed) {
            Word::Answers(answer) => Word::Answers(Answer { size: 2, ..answer }),
            other => other,
        };
        let decision = with([stopped(UUID, 9, &[]), of_two(10), of_two(11)]);
        assert_eq!(decision, Ok(Decision::Survivor { via: 2, survivors: vec![1, 2] }));
        refused([stopped(UUID, 9, &[]), answers(10), answers(10)], "not all in one component", &Way::None);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let dead = || stopped(UUID, 5, &[]);
        refused(
            [dead(), Word::Silent("refused".into()), answers(10)],
            "nothing shows that its process has ended",
            &Way::Confirm("db2".into()),
        );
        refused(
            [dead(), Word::Stopped(Disk::Unread("seqno -1".into())), answers(10)],
            "not known what db2 has: seqno -1",
            &Way::Tell("db2".into()),
        );
        refused([dead(), Word::Alive("1045".into()), answers(10)], "the server of db2 runs", &Way::None);
        refused(
            [dead(), stopped(OTHER, 5, &[]), answers(10)],
            "db3 has 6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1, db1 has 6f1c1f0e-7a4b-11ee-8f5e-5a1de6c4a2d1, db2 has 7f1c1f0e",
            &Way::Choose,
        );
        // No history is named as the one to lose.
        refused([stopped(OTHER, 5, &[]), dead(), stopped(UUID, 9, &[])], "several histories", &Way::Choose);
        refused(
            [dead(), stopped(UUID, 10, &["a-1", "b-2", "x-4", "y-5"]), answers(10)],
            "the last Primary view of db2 had 4 members, and the configuration has 3 nodes",
            &Way::None,
        );
        refused(
            [dead(), stopped(UUID, 11, &[]), answers(10)],
            "db2 is ahead of db3",
            &Way::GiveUp("db2".into()),
        );
        refused(
            [dead(), stopped(UUID, 10, &["a-1", "b-2"]), answers(10)],
            "without db3",
            &Way::GiveUp("db2".into()),
        );
    }

    #[test]
    fn a_position_that_is_a_lower_bound_is_not_taken_for_all_that_was_acknowledged() {
        let bound = |seqno: u64| {
            let left = Left::at(format!("{UUID}:{seqno}").parse().unwrap());
            Word::Stopped(Disk::Read(Left { is_lower_bound: true, ..left }))
        };
        refused(
            [stopped(UUID, 10, &[]), bound(9), answers(10)],
            "db2 crashed, and was not seen to run with innodb_flush_log_at_trx_commit = 1: it has at least 9",
            &Way::GiveUp("db2".into()),
        );
        // No node has more when all are down. Of two equal ones, the one whose position is exact is preferred.
        let decision = with([bound(11), stopped(UUID, 11, &[]), stopped(UUID, 9, &[])]);
        assert_eq!(decision, Ok(Decision::Start { first: 1, level: vec![0] }));
        let decision = with([bound(12), stopped(UUID, 11, &[]), stopped(UUID, 9, &[])]);
        assert_eq!(decision, Ok(Decision::Start { first: 0, level: vec![] }));
    }

    #[test]
    fn a_running_node_that_is_not_ready_for_it_is_refused() {
        let dead = || stopped(UUID, 5, &[]);
        let change = |change: fn(&mut Answer)| match answers(10) {
            Word::Answers(mut answer) => {
                change(&mut answer);
                Word::Answers(answer)
            }
            other => other,
        };
        for (word, said, way_out) in [
            (
                change(|a| a.cluster_status = "Primary".into()),
                "Primary component of one member",
                Way::Needless,
            ),
            (change(|a| a.cluster_status = "Disconnected".into()), "connected to no group", Way::None),
            (change(|a| a.size = 2), "has members that the configuration does not have", Way::None),
            (change(|a| a.recv_queue = 3), "still 3 writesets", Way::None),
        ] {
            refused([dead(), dead(), word], said, &way_out);
        }
    }

    #[test]
    fn a_primary_component_that_is_not_the_clusters_is_told() {
        let primary = |conf_id: u64, size: u32, last_committed: u64| match answers(last_committed) {
            Word::Answers(answer) => {
                Word::Answers(Answer { cluster_status: "Primary".into(), conf_id, size, ..answer })
            }
            other => other,
        };
        let dead = |seqno: u64| stopped(UUID, seqno, &[]);
        let two = &Way::TwoClusters;
        refused([primary(4, 2, 9), primary(4, 2, 9), primary(1, 1, 5)], "not in one component", two);
        refused([primary(1, 1, 9), primary(1, 1, 9), dead(5)], "not in one component", two);
        refused([answers(9), dead(5), primary(1, 1, 5)], "db1 had 9", two);
        refused([dead(9), dead(5), primary(1, 1, 5)], "db1 had 9", two);
        refused(
            [answers(5), primary(4, 2, 4), primary(4, 2, 9)],
            "Primary component of 2 members",
            &Way::Needless,
        );
        let nodes = [
            Candidate { name: "db1".into(), address: "a1".into(), word: Word::Silent("refused".into()) },
            Candidate { name: "db3".into(), address: "a3".into(), word: primary(1, 1, 5) },
        ];
        let process = |address: &str, gcomm_uuid: &str| Process {
            address: address.into(),
            gcomm_uuid: gcomm_uuid.into(),
            ..Process::default()
        };
        let known = |cluster_uuid: &str, seqno, members: &[Process]| Component {
            cluster_uuid: cluster_uuid.into(),
            seqno,
            members: members.to_vec(),
            ..Component::default()
        };
        let both = [process("a1", "a-1"), process("a3", "c-3")];
        let restarted = [process("a1", "a-1"), process("a3", "c-2")];
        let elsewhere = Component { elsewhere: vec!["a3".into()], ..known(UUID, 5, &restarted) };
        for (known, way) in [
            (known(UUID, 5, &both), &Way::Needless),
            (known(UUID, 5, &restarted), &Way::Needless),
            (known(UUID, 6, &both), two),
            (known(OTHER, 1, &both), two),
            // As far, and none of those that had what was acknowledged.
            (known(UUID, 5, &both[..1]), two),
            (elsewhere, two),
            // Of nodes that are not configured any more.
            (known(OTHER, 9, &[process("a9", "i-9")]), &Way::Needless),
        ] {
            assert_eq!(&decide(&nodes, Some(&known)).unwrap_err().way_out, way, "{known:?}");
        }
    }

    #[test]
    fn a_node_of_another_cluster_is_not_begun_with() {
        let process = |address: &str| Process {
            address: address.to_owned(),
            gcomm_uuid: format!("of {address}"),
            ..Process::default()
        };
        let known = |members: &[&str], elsewhere: &[&str]| Component {
            cluster_uuid: UUID.into(),
            members: members.iter().copied().map(process).collect(),
            elsewhere: elsewhere.iter().map(|&address| address.to_owned()).collect(),
            ..Component::default()
        };
        let node = |name: &str, word: Word| Candidate { name: name.into(), address: name.into(), word };
        let down = |seqno: u64| stopped(UUID, seqno, &[]);
        let all_down = |third: Word| [node("db1", down(12)), node("db2", down(11)), node("db3", third)];
        let first = |nodes: &[Candidate], known: &Component| match decide(nodes, Some(known)) {
            Ok(Decision::Start { first, .. }) => Ok(first),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.way_out),
        };
        let give_up = Err(Way::GiveUp("db3".into()));
        // It is ahead by its numbers, was seen apart, or was not among the last members.
        assert_eq!(first(&all_down(down(20)), &known(&["db1", "db2"], &["db3"])), give_up);
        assert_eq!(first(&all_down(down(20)), &known(&["db1", "db2"], &[])), give_up);
        assert_eq!(first(&all_down(down(5)), &known(&["db1", "db2", "db3"], &["db3"])), give_up);
        // It was left behind before.
        assert_eq!(first(&all_down(down(5)), &known(&["db1", "db2"], &[])), Ok(0));
        assert_eq!(first(&all_down(down(20)), &known(&["db1", "db2", "db3"], &[])), Ok(2));
        let lost = all_down(Word::Stopped(Disk::GivenUp));
        assert_eq!(first(&lost, &known(&["db1", "db2"], &["db3"])), Ok(0));
        // All have joined the other one: there is nothing else to begin with.
        let all = ["db1", "db2", "db3"];
        assert_eq!(first(&all_down(down(20)), &known(&all, &all)), Ok(2));
        let survives = [node("db1", down(12)), node("db2", down(11)), node("db3", answers(20))];
        let refusal = decide(&survives, Some(&known(&["db1", "db2"], &["db3"]))).unwrap_err();
        assert!(refusal.condition.contains("was in another cluster than db1, db2"), "{}", refusal.condition);
    }

    #[test]
    fn when_all_are_down_the_most_advanced_is_first() {
        let decision = with([stopped(UUID, 9, &[]), stopped(UUID, 11, &[]), stopped(UUID, 11, &[])]);
        assert_eq!(decision, Ok(Decision::Start { first: 1, level: vec![2] }));
        let mut safe = Left::at(format!("{UUID}:11").parse().unwrap());
        safe.safe_to_bootstrap = true;
        let safe = Word::Stopped(Disk::Read(safe));
        let decision = with([stopped(UUID, 9, &[]), stopped(UUID, 11, &[]), safe]);
        assert_eq!(decision, Ok(Decision::Start { first: 2, level: vec![1] }));
        let given_up = || Word::Stopped(Disk::GivenUp);
        refused([given_up(), given_up(), given_up()], "no node has any data", &Way::None);
    }
}
