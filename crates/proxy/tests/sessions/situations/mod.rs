//! What a client is told about its session: the situations of `situations.txt`, each run through the proxy with every loss that can come
//! into it, and straight at a server that loses nothing. Every byte of every answer must be the server's, or a documented error after
//! which nothing is silently otherwise.
//!
//! ```text
//!   moved  ── proxy ──┬── door ── node           a door breaks a link at a given packet of an answer
//!                     └── door ── node           both nodes have the same data, or are one server: see `ground.rs`
//!   control ─────────────────────── a server of its own, which does the same
//! ```
//!
//! `SITUATION=words` runs those whose name has these words, and prints each difference in full.
mod door;
mod ground;
mod judge;
mod random;
mod run;
mod script;
mod traffic;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use door::Trap;
use fixture::Server;
use fixture::client::{Client, Part, Reply};
use ground::{Ground, Nodes};
use judge::{Course, Judgement, Known, is_last, judge, statements};
use protocol::capability::Caps;
use protocol::ok::status::IN_TRANS;
use protocol::packet::{HEADER_LEN, Head};
use run::{Bytes, Run, Told};
use script::Situation;
use traffic::{Leave, Traffic, Verdict};

use crate::steps::{Step, What};

const SITUATIONS: &str = include_str!("situations.txt");

/// On each server, once.
const THINGS: &str = include_str!("things.sql");

/// Nothing that is asked takes long, and where a node takes traffic nothing is to be waited for.
const SOON: Duration = Duration::from_secs(5);

/// What happens to the session.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Nothing,
    /// Before the step of this number.
    Between(usize, Leave),
    /// Before the step of this number, and the link is cut when the proxy has asked so many questions for what only the node knows.
    Saving(usize, Leave, usize),
    /// During the step of this number, behind so many packets of the answer.
    During(usize, usize, Verdict),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Nothing => write!(f, "no loss"),
            Loss::Between(step, Leave::HandedOver) => write!(f, "moved after step {step}"),
            Loss::Between(step, Leave::Crowded) => write!(f, "on a crowded node after step {step}"),
            Loss::Between(step, Leave::Lost) => write!(f, "lost after step {step}"),
            Loss::Saving(step, how, questions) => {
                let left = Loss::Between(*step, *how);
                write!(f, "{left}, and cut behind question {questions} for its state")
            }
            Loss::During(_, packets, Verdict::Well) => write!(f, "link cut behind packet {packets}"),
            Loss::During(_, packets, Verdict::Lost) => write!(f, "node lost behind packet {packets}"),
        }
    }
}

struct Stage {
    ground: Ground,
    traffic: Traffic,
    apart: Server,
    hand: Client,
    /// Where clients connect, if not straight to the proxy.
    channel: Option<SocketAddr>,
}

impl Stage {
    async fn set(ground: Ground) -> Stage {
        let apart = Nodes::apart(ground);
        let hand = Client::connect(apart.address()).await;
        Stage { ground, traffic: Traffic::before(ground).await, apart, hand, channel: None }
    }

    /// Whether this form of an answer is compared.
    fn has_form(&self, caps: Caps) -> bool {
        // What is told of a change has the GTID of the server where it was made.
        !(caps.has(Caps::SESSION_TRACK) && self.ground.is_circle())
    }

    /// The steps with these losses, through the proxy; and whether it came to any.
    async fn moved(
        &mut self,
        of: &Situation,
        caps: Caps,
        steps: &[Step],
        losses: &[Loss],
    ) -> (Vec<Told>, bool) {
        for sql in &of.given {
            self.traffic.given(sql).await;
        }
        let told = self.through(of, caps, steps, losses).await;
        if losses.iter().any(|loss| matches!(loss, Loss::During(..) | Loss::Between(_, Leave::Lost))) {
            self.traffic.rest().await;
        }
        for sql in &of.after {
            self.traffic.given(sql).await;
        }
        told
    }

    async fn through(
        &mut self,
        of: &Situation,
        caps: Caps,
        steps: &[Step],
        losses: &[Loss],
    ) -> (Vec<Told>, bool) {
        let mut options = of.login.clone();
        options.caps = options.caps | caps;
        let (near, server) = (self.channel.unwrap_or(self.traffic.address()), self.traffic.server());
        let mut run = match Run::through(near, server, &options).await {
            Ok(run) => run,
            Err(told) => return (vec![told], true),
        };
        let (mut told, sprung) = (vec![], Arc::new(AtomicBool::new(false)));
        for (at, step) in steps.iter().enumerate() {
            for loss in losses {
                self.lose(*loss, at, step, &sprung).await;
            }
            run.server = self.traffic.server();
            let began = Instant::now();
            let mut said = run.step(step).await;
            if began.elapsed() > SOON {
                said.reply.parts.push(Part::Lost(format!("late: after {:?}", began.elapsed())));
            }
            for door in &self.traffic.doors {
                door.set(None);
            }
            let is_over = is_last(&said);
            told.push(said);
            if is_over {
                if at + 1 < steps.len() {
                    told.push(run.say(b"SELECT 'still there'").await);
                }
                break;
            }
        }
        self.traffic.judge(Verdict::Well);
        if losses.iter().any(|loss| matches!(loss, Loss::Saving(_, Leave::Crowded, _))) {
            self.traffic.calm().await;
        }
        (told, sprung.load(SeqCst))
    }

    /// What happens before or during the step of this number, if that is where the loss is.
    async fn lose(&mut self, loss: Loss, at: usize, step: &Step, sprung: &Arc<AtomicBool>) {
        match loss {
            Loss::Between(before, how) if before == at => {
                self.traffic.leave(how).await;
                sprung.store(true, SeqCst);
            }
            Loss::Saving(before, how, spared) if before == at => {
                let trap = Trap { request: vec![3], spared, packets: 0, sprung: sprung.clone() };
                self.traffic.door().set(Some(trap));
                self.traffic.leave(how).await;
            }
            Loss::During(marked, packets, verdict) if marked == at => {
                let trap = |request| Trap { request, spared: 0, packets, sprung: sprung.clone() };
                self.traffic.judge(verdict);
                // Whichever node gets it.
                for door in &self.traffic.doors {
                    door.set(request(step).map(&trap));
                }
            }
            _ => {}
        }
    }

    /// The same steps straight at the server apart, but for what the course does in place of some.
    async fn control(&mut self, of: &Situation, caps: Caps, steps: &[Step], course: &Course) -> Vec<Told> {
        for sql in &of.given {
            self.hand.run(sql).await;
        }
        let mut options = of.login.clone();
        options.caps = options.caps | caps.without(random::CHANNEL);
        let mut told = vec![];
        match Run::straight(self.apart.address(), &options, self.ground.first()).await {
            Err(refused) => told.push(refused),
            Ok(mut run) => {
                for (at, step) in steps.iter().enumerate() {
                    let Some(instead) = course.iter().find(|instead| instead.step == at) else {
                        told.push(run.step(step).await);
                        continue;
                    };
                    let parts = statements(step);
                    if parts.is_empty() {
                        match instead.statements {
                            0 => run.skip(step),
                            _ => drop(run.step(step).await),
                        }
                    }
                    for sql in parts.iter().take(instead.statements) {
                        run.say(sql).await;
                    }
                    let ping = Step { line: String::new(), what: What::Ask(vec![14]) };
                    let is_open = run.step(&ping).await.reply.status().unwrap_or_default() & IN_TRANS != 0;
                    if instead.rolls_back && is_open {
                        run.say(b"ROLLBACK").await;
                        if self.ground != Ground::OneServer {
                            // What a row that was rolled back had of a counter is gone only on the server where it was.
                            self.hand.run("ALTER TABLE shop.t AUTO_INCREMENT = 1").await;
                        }
                    }
                    told.push(Told { reply: Reply { parts: vec![] }, bytes: vec![] });
                }
            }
        }
        for sql in &of.after {
            self.hand.run(sql).await;
        }
        told
    }

    /// One list of steps with one loss; what is wrong, if anything is. `None`: it never came to the loss.
    async fn compare(
        &mut self,
        of: &Situation,
        caps: Caps,
        steps: &[Step],
        loss: Loss,
        known: &mut Known,
    ) -> Option<Vec<String>> {
        let (told, came) = self.moved(of, caps, steps, &[loss]).await;
        if !came && !matches!(loss, Loss::Nothing) {
            return None;
        }
        let how = if caps.has(Caps::SESSION_TRACK) { Bytes::InAnyOrder } else { Bytes::InOrder };
        Some(self.judged(of, caps, steps, (&told, came, how), known).await)
    }

    /// What is wrong with what was told, if anything is; `came`: a node or a link was lost, or left.
    async fn judged(
        &mut self,
        of: &Situation,
        caps: Caps,
        steps: &[Step],
        (told, came, how): (&[Told], bool, Bytes),
        known: &mut Known,
    ) -> Vec<String> {
        loop {
            match judge(steps, told, known, how, came) {
                Judgement::Right => return vec![],
                Judgement::Wrong(what) => return what,
                Judgement::Needs(course) => {
                    let said = self.control(of, caps, steps, &course).await;
                    known.insert(course, said);
                }
            }
        }
    }

    /// Every variant of a situation; all that is wrong.
    async fn situation(&mut self, of: &Situation) -> Vec<String> {
        let mut wrong = vec![];
        for (list, steps) in lists(of).iter().enumerate() {
            for (form, caps) in FORMS {
                if !self.has_form(caps) {
                    continue;
                }
                let mut known = Known::new();
                let mut found: Vec<(Loss, Option<Vec<String>>)> = vec![];
                found.push((Loss::Nothing, self.compare(of, caps, steps, Loss::Nothing, &mut known).await));
                // With changes told along, a loss shows nothing that it does not show without.
                let losses = if caps.has(Caps::SESSION_TRACK) {
                    vec![]
                } else {
                    losses(self.ground, of, list, caps, steps, &known)
                };
                // With this leave no more questions are asked.
                let mut all_asked = None;
                for loss in losses {
                    if matches!(loss, Loss::Saving(_, how, _) if all_asked == Some(how)) {
                        continue;
                    }
                    let what = self.compare(of, caps, steps, loss, &mut known).await;
                    if let (Loss::Saving(_, how, _), None) = (loss, &what) {
                        all_asked = Some(how);
                    }
                    found.push((loss, what));
                }
                let mut seen: Vec<String> = vec![];
                for (loss, found) in found {
                    let Some(found) = found else {
                        // A statement that was never prepared is no server's concern.
                        let marked = of.lost_at.and_then(|at| known.get(&vec![])?.get(at));
                        let is_unknown = marked.is_some_and(|told| told.reply.error() == Some(1243));
                        if matches!(loss, Loss::During(_, 0, _)) && !is_unknown {
                            wrong.push(format!("{loss} ({form}): it never came to the loss"));
                        }
                        continue;
                    };
                    for what in found {
                        if !seen.contains(&what) {
                            wrong.push(format!("{loss} ({form}): {what}"));
                            seen.push(what);
                        }
                    }
                }
            }
        }
        wrong
    }
}

/// Where results end with EOF packets; where they do not; and where the answers tell what the session has changed.
const FORMS: [(&str, Caps); 3] = [
    ("EOF", Caps::NONE),
    ("no EOF", Caps::DEPRECATE_EOF),
    ("no EOF, tracked", Caps(Caps::DEPRECATE_EOF.0 | Caps::SESSION_TRACK.0)),
];

/// No session's state takes more questions.
const QUESTIONS_MAX: usize = 9;

/// All losses that this list of steps can meet.
fn losses(
    ground: Ground,
    of: &Situation,
    list: usize,
    caps: Caps,
    steps: &[Step],
    known: &Known,
) -> Vec<Loss> {
    let last = of.steps.len();
    // With a list for each question the other places were tried with the first.
    let first = if list > 0 { last } else { 1 };
    let mut losses = vec![];
    for place in first..=last.min(steps.len() - 1) {
        losses.extend([Leave::HandedOver, Leave::Lost].map(|how| Loss::Between(place, how)));
    }
    if list == 0 && caps == Caps::DEPRECATE_EOF {
        for how in ground.leaves_that_save() {
            losses.extend((0..QUESTIONS_MAX).map(|questions| Loss::Saving(last, *how, questions)));
        }
    }
    let answer = of.lost_at.and_then(|at| known.get(&vec![])?.get(at));
    for packets in answer.map(|told| boundaries(&told.bytes)).unwrap_or_default() {
        let marked = of.lost_at.unwrap_or_default();
        losses.extend([Verdict::Well, Verdict::Lost].map(|verdict| Loss::During(marked, packets, verdict)));
    }
    losses
}

/// The steps and then the questions; or one list for each question.
fn lists(of: &Situation) -> Vec<Vec<Step>> {
    let with = |questions: &[Step]| [&of.steps[..], questions].concat();
    match of.is_apart {
        true => of.questions.chunks(1).map(with).collect(),
        false => vec![with(&of.questions)],
    }
}

/// How the request of a step begins.
fn request(step: &Step) -> Option<Vec<u8>> {
    Some(match &step.what {
        What::Say(sql) => [&[3], &sql[..]].concat(),
        What::Ask(payload) => payload.clone(),
        What::Reset => vec![31],
        What::Prepare(sql) => [&[22], &sql[..]].concat(),
        What::Execute(..) | What::OpenCursor(_) => vec![23],
        What::Fetch(_) => vec![28],
        What::StmtReset(_) => vec![26],
        _ => return None,
    })
}

/// Behind which packets of this answer the link is cut: all, and of a long one the first and the last.
fn boundaries(answer: &[u8]) -> Vec<usize> {
    let (mut count, mut at) = (0, 0);
    while let Some(head) = answer.get(at..).and_then(Head::peek) {
        at += HEADER_LEN + head.len;
        count += 1;
    }
    (0..=count).filter(|packets| *packets < 6 || packets + 4 > count).collect()
}

/// What is wrong with what was found, given the marks.
fn unlike_marked(of: &Situation, found: &[String], has_all_forms: bool) -> Vec<String> {
    let mut out = vec![];
    for what in found {
        if !of.defects.iter().any(|defect| what.contains(&defect.shows)) {
            out.push(format!("{}: {what}", of.name));
        }
    }
    for defect in of.defects.iter().filter(|_| has_all_forms) {
        if !found.iter().any(|what| what.contains(&defect.shows)) {
            let (shows, sentence) = (&defect.shows, &defect.sentence);
            out.push(format!("{}: mended, and its mark is to go: \"{shows}\" {sentence}", of.name));
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_is_told_of_its_session_is_true() {
    play(Ground::OneServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_galera_as_well() {
    play(Ground::Galera).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_primary_and_its_replica_as_well() {
    play(Ground::Replication).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_reads_are_split_off_as_well() {
    play(Ground::Split).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_port_for_reads_as_well() {
    play(Ground::ReadPort).await;
}

async fn play(ground: Ground) {
    let wanted = std::env::var("SITUATION").ok();
    let situations = script::read(SITUATIONS);
    let mut stage = Stage::set(ground).await;
    let (mut wrong, mut marked, mut times) = (vec![], vec![], BTreeMap::new());
    let is_played = |of: &&Situation| {
        wanted.as_ref().is_none_or(|word| of.name.contains(word))
            && !(of.is_unlike_galera && ground == Ground::Galera)
    };
    for of in situations.iter().filter(is_played) {
        let began = Instant::now();
        let found = stage.situation(of).await;
        times.insert(began.elapsed(), &of.name);
        if began.elapsed() > SOON {
            println!("{:?}: {}", began.elapsed(), of.name);
        }
        if wanted.is_some() {
            println!("--- {}\n{}", of.name, found.join("\n"));
        }
        wrong.extend(unlike_marked(of, &found, FORMS.iter().all(|(_, caps)| stage.has_form(*caps))));
        marked.extend(of.defects.iter().map(|defect| format!("{}: {}", of.name, defect.sentence)));
    }
    if ground == Ground::Split && wanted.is_none() {
        let split = stage.traffic.proxy.stats().await.split.unwrap();
        println!("{split:?}");
        assert!(split.replicas > times.len() as u64, "hardly a read ran on a replica: {split:?}");
    }
    let slowest: Vec<_> = times.iter().rev().take(5).collect();
    println!("{} situations in {:?}; the slowest: {slowest:?}", times.len(), times.keys().sum::<Duration>());
    println!("{} marked as defects:\n{}", marked.len(), marked.join("\n"));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
