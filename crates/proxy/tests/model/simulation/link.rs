//! A connection to a node: what is sent on it is done by the node in order, as soon as the node can; what comes back, or its end, is seen
//! as soon as the network lets it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use std::time::Duration;

use protocol::ok::status;
use topology::fact::ConnectFailure;

use super::ground::{Ground, Life, NotDone};
use sim::clock::{Either, race};

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    Read,
    /// Inserts a row of this number.
    Write(u32),
    Begin,
    Commit,
    Rollback,
}

/// What is asked of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A client's statement. `forged`: it fails, with an error that a node in trouble would give.
    Statement { does: Does, forged: bool },
    /// Whether a transaction is open.
    Ping,
    /// Wait until all is applied that the group has.
    CausalRead,
    /// All that it has.
    Position,
    /// Wait until it has applied everything up to there, not longer than this.
    WaitFor { position: Rc<str>, within: Duration },
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ok {
        in_transaction: bool,
        /// Of what the statement has committed, where the server reports it.
        gtid: Option<Rc<str>>,
    },
    Position(Rc<str>),
    /// It has not applied that in time.
    Late,
    /// What was seen, as the nodes count it.
    Rows {
        seen: usize,
        in_transaction: bool,
    },
    Error {
        code: u16,
    },
}

/// See the head of this file.
pub struct Link {
    ground: Rc<Ground>,
    pub node: usize,
    born: u64,
    requests: RefCell<VecDeque<Ask>>,
    answers: RefCell<VecDeque<Answer>>,
    /// By us.
    is_closed: Cell<bool>,
    /// By the server, without a word.
    is_ended: Cell<bool>,
}

impl Link {
    /// Connects and logs in; waits for ever where nobody answers.
    pub async fn connect(ground: &Rc<Ground>, node: usize) -> Result<Rc<Self>, ConnectFailure> {
        let (clock, nodes) = (&ground.clock, &ground.nodes);
        clock.sleep(ground.dice.between_us(100, 600)).await;
        clock.until(|| nodes.is_reachable(node).then_some(())).await;
        if nodes.life(node) == Life::Down {
            return Err(ConnectFailure::Refused);
        }
        let born = nodes.born(node);
        let life = clock
            .until(|| {
                let life = nodes.life(node);
                let stays = matches!(life, Life::Frozen | Life::Stopping) && nodes.is_same(node, born);
                (!stays && nodes.is_reachable(node)).then_some(life)
            })
            .await;
        if life == Life::Down || !nodes.is_same(node, born) {
            return Err(ConnectFailure::Reset);
        }
        let link = Rc::new(Self {
            ground: ground.clone(),
            node,
            born,
            requests: RefCell::default(),
            answers: RefCell::default(),
            is_closed: Cell::new(false),
            is_ended: Cell::new(false),
        });
        clock.spawn(link.clone().serve());
        Ok(link)
    }

    // ---- our end

    /// What the network shows of its end.
    pub fn broken(&self) -> Option<ConnectFailure> {
        if !self.ground.nodes.is_reachable(self.node) {
            None
        } else if !self.ground.nodes.is_same(self.node, self.born) {
            Some(ConnectFailure::Reset)
        } else {
            self.is_ended.get().then_some(ConnectFailure::Closed)
        }
    }

    /// Gives it to the kernel.
    pub fn send(&self, ask: Ask) -> Result<(), ConnectFailure> {
        match self.broken() {
            Some(how) => Err(how),
            None => {
                self.requests.borrow_mut().push_back(ask);
                Ok(())
            }
        }
    }

    /// The next answer, or the link's end.
    pub async fn answer(&self) -> Result<Answer, ConnectFailure> {
        let answer = self
            .ground
            .clock
            .until(|| {
                let answer = self.answers.borrow().front().cloned();
                match answer.filter(|_| self.ground.nodes.is_reachable(self.node)) {
                    Some(answer) => {
                        self.answers.borrow_mut().pop_front();
                        Some(Ok(answer))
                    }
                    None => self.broken().map(Err),
                }
            })
            .await;
        self.ground.clock.sleep(self.ground.dice.between_us(50, 300)).await;
        answer
    }

    /// Asks and waits.
    pub async fn ask(&self, ask: Ask) -> Result<Answer, ConnectFailure> {
        self.send(ask)?;
        self.answer().await
    }

    /// Resolves when the idle link has ended.
    pub async fn ended(&self) -> ConnectFailure {
        self.ground.clock.until(|| self.broken()).await
    }

    /// Lets go of it. `reset`: the node need not read what is still in its socket, though it may.
    pub fn close(&self, reset: bool) {
        self.is_closed.set(true);
        if reset && self.ground.dice.percent(50) {
            self.requests.borrow_mut().clear();
        }
    }

    /// The server ends it: an operator's KILL, or a shutdown.
    pub fn end(&self) {
        self.is_ended.set(true);
    }

    // ---- the node's end

    async fn serve(self: Rc<Self>) {
        let mut transaction: Option<Vec<u32>> = None;
        loop {
            let Turn::Do(request) = self.ground.clock.until(|| self.turn()).await else { break };
            let done = match race(self.perform(request, &mut transaction), self.stopped()).await {
                Either::First(done) => done,
                Either::Second(()) => break,
            };
            match done {
                Ok(answer) => self.answers.borrow_mut().push_back(answer),
                Err(NotDone::Error(code)) => {
                    // Galera rolls the transaction back.
                    transaction = None;
                    self.answers.borrow_mut().push_back(Answer::Error { code });
                }
                Err(NotDone::Died) => break,
            }
        }
        self.is_ended.set(true);
    }

    /// What the server's thread does next; nothing while it waits for its client, or cannot run.
    fn turn(&self) -> Option<Turn> {
        if !self.ground.nodes.is_same(self.node, self.born) || self.is_ended.get() {
            return Some(Turn::End);
        }
        if !self.ground.nodes.runs(self.node) || !self.ground.nodes.is_reachable(self.node) {
            return None;
        }
        match self.requests.borrow_mut().pop_front() {
            Some(request) => Some(Turn::Do(request)),
            None => self.is_closed.get().then_some(Turn::End),
        }
    }

    /// Resolves when a shutdown ends this connection, or somebody kills it.
    async fn stopped(&self) {
        let clock = &self.ground.clock;
        let is_stopping = || self.ground.nodes.life(self.node) == Life::Stopping;
        clock.until(|| (is_stopping() || self.is_ended.get()).then_some(())).await;
        if !self.is_ended.get() {
            clock.sleep(self.ground.dice.between_ms(30, 2000)).await;
        }
    }

    async fn perform(&self, request: Ask, transaction: &mut Option<Vec<u32>>) -> Result<Answer, NotDone> {
        let nodes = &self.ground.nodes;
        self.ground.work(self.node, self.born, self.ground.dice.between_us(50, 800)).await?;
        if let Ask::Statement { does: Does::Write(row), .. } = request {
            self.ground.ledger.is_sent(row);
        }
        let (does, forged) = match request {
            Ask::Ping => return Ok(Answer::Ok { in_transaction: transaction.is_some(), gtid: None }),
            Ask::Position => return Ok(Answer::Position(nodes.position(self.node).into())),
            Ask::WaitFor { position, within } => return self.wait_for(&position, within).await,
            Ask::CausalRead => {
                nodes.causal_read(self.node, self.born).await?;
                return Ok(Answer::Ok { in_transaction: false, gtid: None });
            }
            Ask::Statement { does, forged } => (does, forged),
        };
        nodes.serves(self.node).map_err(NotDone::Error)?;
        if forged {
            // Only the statement is rolled back.
            return Ok(Answer::Error { code: 1047 });
        }
        let mut gtid = None;
        match does {
            Does::Read => {
                let seen = nodes.read(self.node);
                return Ok(Answer::Rows { seen, in_transaction: transaction.is_some() });
            }
            Does::Begin => *transaction = Some(vec![]),
            Does::Rollback => *transaction = None,
            Does::Write(row) => match transaction {
                Some(rows) => rows.push(row),
                None => gtid = self.commit(&[row]).await?,
            },
            Does::Commit => {
                let rows = transaction.take().unwrap_or_default();
                if !rows.is_empty() {
                    gtid = self.commit(&rows).await?;
                }
            }
        }
        Ok(Answer::Ok { in_transaction: transaction.is_some(), gtid: gtid.map(Into::into) })
    }

    async fn wait_for(&self, position: &str, within: Duration) -> Result<Answer, NotDone> {
        let (clock, nodes) = (&self.ground.clock, &self.ground.nodes);
        let applied = clock.until(|| {
            let is_there = nodes.runs(self.node) && nodes.has_applied(self.node, position);
            (is_there || !nodes.is_same(self.node, self.born)).then_some(())
        });
        let is_there = clock.within(within, applied).await.is_some();
        self.ground.work(self.node, self.born, Duration::ZERO).await?;
        Ok(if is_there { Answer::Ok { in_transaction: false, gtid: None } } else { Answer::Late })
    }

    async fn commit(&self, rows: &[u32]) -> Result<Option<String>, NotDone> {
        self.ground.ledger.begins(rows);
        let done = self.ground.nodes.commit(self.node, self.born, rows).await;
        if matches!(done, Err(NotDone::Error(_))) {
            self.ground.ledger.surely_not_done(rows);
        }
        done
    }
}

enum Turn {
    Do(Ask),
    End,
}

/// The flags of a server's answer.
pub fn status_of(in_transaction: bool) -> u16 {
    status::AUTOCOMMIT | if in_transaction { status::IN_TRANS } else { 0 }
}
