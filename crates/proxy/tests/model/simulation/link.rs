//! A connection to a node: what is sent on it is done by the node in order, as soon as the node can; what comes back, or its end, is seen
//! as soon as the network lets it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use topology::fact::ConnectFailure;

use super::group::{Group, Life, NotDone};
use super::ledger::Ledger;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A client's statement. `forged`: it fails, with an error that a node in trouble would give.
    Statement { does: Does, forged: bool },
    /// Whether a transaction is open.
    Ping,
    /// Wait until all is applied that the group has.
    CausalRead,
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Ok {
        in_transaction: bool,
    },
    /// So much of the log was seen.
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
    group: Rc<Group>,
    ledger: Rc<Ledger>,
    pub node: usize,
    born: u32,
    requests: RefCell<VecDeque<Ask>>,
    answers: RefCell<VecDeque<Answer>>,
    /// By us.
    is_closed: Cell<bool>,
    /// By the server, without a word.
    is_ended: Cell<bool>,
}

impl Link {
    /// Connects and logs in; waits for ever where nobody answers.
    pub async fn connect(
        group: &Rc<Group>,
        ledger: &Rc<Ledger>,
        node: usize,
    ) -> Result<Rc<Self>, ConnectFailure> {
        let clock = &group.clock;
        clock.sleep(group.dice.between_us(100, 600)).await;
        clock.until(|| group.is_reachable(node).then_some(())).await;
        if group.node(node).life == Life::Down {
            return Err(ConnectFailure::Refused);
        }
        let born = group.node(node).born;
        let life = clock
            .until(|| {
                let life = group.node(node).life;
                let stays = matches!(life, Life::Frozen | Life::Stopping) && group.is_same(node, born);
                (!stays && group.is_reachable(node)).then_some(life)
            })
            .await;
        if life == Life::Down || !group.is_same(node, born) {
            return Err(ConnectFailure::Reset);
        }
        let link = Rc::new(Self {
            group: group.clone(),
            ledger: ledger.clone(),
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
        if !self.group.is_reachable(self.node) {
            None
        } else if !self.group.is_same(self.node, self.born) {
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
            .group
            .clock
            .until(|| {
                let answer = self.answers.borrow().front().copied();
                match answer.filter(|_| self.group.is_reachable(self.node)) {
                    Some(answer) => {
                        self.answers.borrow_mut().pop_front();
                        Some(Ok(answer))
                    }
                    None => self.broken().map(Err),
                }
            })
            .await;
        self.group.clock.sleep(self.group.dice.between_us(50, 300)).await;
        answer
    }

    /// Asks and waits.
    pub async fn ask(&self, ask: Ask) -> Result<Answer, ConnectFailure> {
        self.send(ask)?;
        self.answer().await
    }

    /// Resolves when the idle link has ended.
    pub async fn ended(&self) -> ConnectFailure {
        self.group.clock.until(|| self.broken()).await
    }

    /// Lets go of it. `reset`: the node need not read what is still in its socket, though it may.
    pub fn close(&self, reset: bool) {
        self.is_closed.set(true);
        if reset && self.group.dice.percent(50) {
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
            let Turn::Do(request) = self.group.clock.until(|| self.turn()).await else { break };
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
        if !self.group.is_same(self.node, self.born) || self.is_ended.get() {
            return Some(Turn::End);
        }
        if !self.group.runs(self.node) || !self.group.is_reachable(self.node) {
            return None;
        }
        match self.requests.borrow_mut().pop_front() {
            Some(request) => Some(Turn::Do(request)),
            None => self.is_closed.get().then_some(Turn::End),
        }
    }

    /// Resolves when a shutdown ends this connection, or somebody kills it.
    async fn stopped(&self) {
        let clock = &self.group.clock;
        let is_stopping = || self.group.node(self.node).life == Life::Stopping;
        clock.until(|| (is_stopping() || self.is_ended.get()).then_some(())).await;
        if !self.is_ended.get() {
            clock.sleep(self.group.dice.between_ms(30, 2000)).await;
        }
    }

    async fn perform(&self, request: Ask, transaction: &mut Option<Vec<u32>>) -> Result<Answer, NotDone> {
        let group = &self.group;
        group.work(self.node, self.born, group.dice.between_us(50, 800)).await?;
        if let Ask::Statement { does: Does::Write(row), .. } = request {
            self.ledger.is_sent(row);
        }
        let (does, forged) = match request {
            Ask::Ping => return Ok(Answer::Ok { in_transaction: transaction.is_some() }),
            Ask::CausalRead => {
                group.causal_read(self.node, self.born).await?;
                return Ok(Answer::Ok { in_transaction: false });
            }
            Ask::Statement { does, forged } => (does, forged),
        };
        group.serves(self.node).map_err(NotDone::Error)?;
        if forged {
            // Only the statement is rolled back.
            return Ok(Answer::Error { code: 1047 });
        }
        match does {
            Does::Read => {
                let seen = group.node(self.node).applied;
                return Ok(Answer::Rows { seen, in_transaction: transaction.is_some() });
            }
            Does::Begin => *transaction = Some(vec![]),
            Does::Rollback => *transaction = None,
            Does::Write(row) => match transaction {
                Some(rows) => rows.push(row),
                None => self.commit(&[row]).await?,
            },
            Does::Commit => {
                let rows = transaction.take().unwrap_or_default();
                if !rows.is_empty() {
                    self.commit(&rows).await?;
                }
            }
        }
        Ok(Answer::Ok { in_transaction: transaction.is_some() })
    }

    async fn commit(&self, rows: &[u32]) -> Result<(), NotDone> {
        self.ledger.begins(rows);
        let done = self.group.commit(self.node, self.born, rows).await;
        if matches!(done, Err(NotDone::Error(_))) {
            self.ledger.surely_not_done(rows);
        }
        done
    }
}

enum Turn {
    Do(Ask),
    End,
}
