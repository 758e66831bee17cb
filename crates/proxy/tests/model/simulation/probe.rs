//! A node's probe, doing as the program's own: a link that is kept open, a question every interval, one miss for each interval without an
//! answer.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use topology::NodeId;
use topology::fact::{ConnectFailure, Fact, LinkEnd};
use topology::galera::GaleraStatus;
use topology::routes::ServerGreeting;

use super::link::{Ask, Link};
use super::manager::Manager;

/// What the manager wants of a probe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Confirm,
    Probe,
}

impl Manager {
    pub async fn probe(self: Rc<Self>, node: usize) {
        let clock = self.group.clock.clone();
        let id = NodeId(node as u8);
        let interval = self.settings.probe_interval;
        let mut kept = Kept::Without;
        let mut trying: Option<Trying> = None;
        let mut next_ask = clock.now();
        loop {
            let wake = [
                match &kept {
                    Kept::Asking { next_miss, .. } => Some(*next_miss),
                    Kept::Without if trying.is_some() => None,
                    Kept::Idle(_) | Kept::Without => Some(next_ask),
                },
                trying.as_ref().map(|trying| trying.next_miss),
            ];
            let wake = wake.into_iter().flatten().min().unwrap_or(clock.now() + interval);
            match self.next(node, &mut kept, &mut trying, wake).await {
                Event::Wish(Wish::Confirm) => {
                    if trying.is_none() {
                        trying = Some(self.connect(node));
                    }
                }
                Event::Wish(Wish::Probe) => match kept {
                    Kept::Idle(link) => {
                        kept = self.ask(node, link);
                        next_ask = clock.now() + interval;
                    }
                    Kept::Without if trying.is_none() => trying = Some(self.connect(node)),
                    Kept::Without | Kept::Asking { .. } => {}
                },
                Event::Connected(result) => {
                    trying = None;
                    next_ask = clock.now() + interval;
                    match result {
                        Ok(link) => {
                            let greeting = ServerGreeting {
                                version: "10.11".into(),
                                capabilities: 0,
                                charset: 45,
                                status: 2,
                                plugin: "mysql_native_password".into(),
                            };
                            self.hear(Fact::LinkUp { node: id, greeting });
                            if let Kept::Idle(link) | Kept::Asking { link, .. } = &kept {
                                link.close(false);
                            }
                            kept = self.ask(node, link);
                        }
                        Err(how) => self.hear(Fact::ConnectFailed { node: id, how }),
                    }
                }
                Event::Ended => {
                    kept = Kept::Without;
                    next_ask = clock.now() + interval;
                    self.hear(Fact::LinkEnded { node: id, how: LinkEnd::Closed });
                }
                Event::Answered(answer, link, asked) => match *answer {
                    Ok(status) => {
                        kept = Kept::Idle(link);
                        self.hear(Fact::Status { node: id, status: status.into(), asked });
                    }
                    Err(_) => {
                        kept = Kept::Without;
                        next_ask = clock.now() + interval;
                        self.hear(Fact::LinkEnded { node: id, how: LinkEnd::Closed });
                    }
                },
                Event::Time => self.time(node, &mut kept, &mut trying, &mut next_ask),
            }
        }
    }

    fn hear(&self, fact: Fact) {
        self.inbox.borrow_mut().push_back(fact);
    }

    /// A moment has come that was waited for: the next question, or a miss.
    fn time(
        self: &Rc<Self>,
        node: usize,
        kept: &mut Kept,
        trying: &mut Option<Trying>,
        next_ask: &mut Duration,
    ) {
        let (now, interval, id) = (self.group.clock.now(), self.settings.probe_interval, NodeId(node as u8));
        let mut missed = None;
        if let Some(attempt) = trying
            && attempt.next_miss <= now
        {
            attempt.next_miss = now + interval;
            missed = Some(attempt.since);
        }
        match kept {
            Kept::Asking { asked, misses, next_miss, link, .. } if *next_miss <= now => {
                *misses += 1;
                *next_miss = now + interval;
                missed = Some(*asked);
                if *misses >= self.settings.misses_max {
                    link.close(false);
                    *kept = Kept::Without;
                    *next_ask = now;
                    return self.hear(Fact::LinkEnded { node: id, how: LinkEnd::Silent });
                }
            }
            Kept::Idle(_) if *next_ask <= now => {
                *next_ask = now + interval;
                if let Kept::Idle(link) = std::mem::replace(kept, Kept::Without) {
                    *kept = self.ask(node, link);
                }
            }
            Kept::Without if trying.is_none() && *next_ask <= now => {
                *next_ask = now + interval;
                *trying = Some(self.connect(node));
            }
            _ => {}
        }
        if let Some(asked) = missed {
            self.hear(Fact::ProbeMissed { node: id, asked });
        }
    }

    fn connect(self: &Rc<Self>, node: usize) -> Trying {
        let this = self.clone();
        let deadline = self.settings.probe_interval * self.settings.misses_max;
        let link = Box::pin(async move {
            let connected = this.group.clock.within(deadline, Link::connect(&this.ground, node)).await;
            connected.unwrap_or(Err(ConnectFailure::TimedOut))
        });
        let since = self.group.clock.now();
        Trying { link, since, next_miss: since + self.settings.probe_interval }
    }

    fn ask(self: &Rc<Self>, node: usize, link: Rc<Link>) -> Kept {
        let (this, asks) = (self.clone(), link.clone());
        let time = if self.group.dice.percent(1) {
            let time = self.group.dice.between_ms(100, 450);
            self.group.is_slow(node, time);
            time
        } else {
            self.group.dice.between_ms(0, 1)
        };
        let answer = Box::pin(async move {
            this.group.clock.sleep(time).await;
            asks.ask(Ask::Ping).await?;
            Ok(this.group.status(node))
        });
        let asked = self.group.clock.now();
        Kept::Asking { answer, link, asked, misses: 0, next_miss: asked + self.settings.probe_interval }
    }

    async fn next(&self, node: usize, kept: &mut Kept, trying: &mut Option<Trying>, wake: Duration) -> Event {
        let clock = &self.group.clock;
        let mut spoke: Pin<Box<dyn Future<Output = Event> + '_>> = match kept {
            Kept::Without => Box::pin(pending()),
            Kept::Idle(link) => {
                let link = link.clone();
                Box::pin(async move {
                    link.ended().await;
                    Event::Ended
                })
            }
            Kept::Asking { answer, link, asked, .. } => {
                let (link, asked) = (link.clone(), *asked);
                Box::pin(async move { Event::Answered(Box::new(answer.as_mut().await), link, asked) })
            }
        };
        let mut connected: Pin<Box<dyn Future<Output = Event> + '_>> = match trying {
            None => Box::pin(pending()),
            Some(trying) => Box::pin(async move { Event::Connected(trying.link.as_mut().await) }),
        };
        let mut wish = Box::pin(clock.until(|| self.wishes[node].borrow_mut().pop_front()));
        let mut time = Box::pin(clock.sleep_until(wake));
        poll_fn(|context| {
            if let Poll::Ready(event) = spoke.as_mut().poll(context) {
                return Poll::Ready(event);
            }
            if let Poll::Ready(event) = connected.as_mut().poll(context) {
                return Poll::Ready(event);
            }
            if let Poll::Ready(wish) = wish.as_mut().poll(context) {
                return Poll::Ready(Event::Wish(wish));
            }
            time.as_mut().poll(context).map(|()| Event::Time)
        })
        .await
    }
}

type Asked = Pin<Box<dyn Future<Output = Result<GaleraStatus, ConnectFailure>>>>;
type Connecting = Pin<Box<dyn Future<Output = Result<Rc<Link>, ConnectFailure>>>>;

enum Kept {
    Without,
    Idle(Rc<Link>),
    Asking { answer: Asked, link: Rc<Link>, asked: Duration, misses: u32, next_miss: Duration },
}

struct Trying {
    link: Connecting,
    since: Duration,
    next_miss: Duration,
}

enum Event {
    Wish(Wish),
    Connected(Result<Rc<Link>, ConnectFailure>),
    Ended,
    Answered(Box<Result<GaleraStatus, ConnectFailure>>, Rc<Link>, Duration),
    Time,
}
