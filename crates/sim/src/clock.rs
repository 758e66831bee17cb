//! Time that is only counted: tasks run until nothing more can happen at a moment, then the clock goes to the next one at which
//! something can. One thread, one order: the same seed gives the same run.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// More rounds than this at one moment mean that two tasks wake each other for ever.
const ROUNDS_MAX: u32 = 100_000;

/// See the head of this file.
#[derive(Default)]
pub struct Clock {
    now: Cell<Duration>,
    /// Waits that have ended, ever: a round without one leaves nothing to do at this moment.
    ended: Cell<u64>,
    /// The earliest moment that somebody waits for.
    next: Cell<Option<Duration>>,
    born: RefCell<Vec<Task>>,
    tasks: RefCell<Vec<Task>>,
}

impl Clock {
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Since the beginning.
    pub fn now(&self) -> Duration {
        self.now.get()
    }

    /// Runs beside the others, to its end.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.born.borrow_mut().push(Box::pin(task));
    }

    /// Resolves when the condition gives something; it is looked at after each step of anybody.
    pub async fn until<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        poll_fn(|_| match condition() {
            Some(found) => self.ready(found),
            None => Poll::Pending,
        })
        .await
    }

    /// Resolves then.
    pub async fn sleep_until(&self, moment: Duration) {
        poll_fn(|_| {
            if self.now() >= moment {
                return self.ready(());
            }
            self.next.set(Some(self.next.get().map_or(moment, |next| next.min(moment))));
            Poll::Pending
        })
        .await;
    }

    /// Resolves after so long.
    pub async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now() + time).await;
    }

    /// What the future gives, or nothing when it has not within this time.
    pub async fn within<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        match race(future, self.sleep(time)).await {
            Either::First(value) => Some(value),
            Either::Second(()) => None,
        }
    }

    /// A wait has ended: there may be more to do at this moment.
    fn ready<T>(&self, value: T) -> Poll<T> {
        self.ended.set(self.ended.get() + 1);
        Poll::Ready(value)
    }

    /// Lets time pass until `end`.
    pub fn run(&self, end: Duration) {
        let mut context = Context::from_waker(Waker::noop());
        let mut rounds = 0;
        loop {
            let before = self.ended.get();
            self.next.set(None);
            let mut tasks = self.tasks.take();
            tasks.append(&mut self.born.borrow_mut());
            tasks.retain_mut(|task| {
                let is_over = task.as_mut().poll(&mut context).is_ready();
                if is_over {
                    self.ended.set(self.ended.get() + 1);
                }
                !is_over
            });
            *self.tasks.borrow_mut() = tasks;
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "at {:?} there is always something left to do", self.now());
            if self.ended.get() != before || !self.born.borrow().is_empty() {
                continue;
            }
            rounds = 0;
            match self.next.get().filter(|next| *next <= end) {
                Some(next) => self.now.set(next),
                None => {
                    self.now.set(end);
                    return;
                }
            }
        }
    }

    /// Drops every task, and with them what they hold of one another.
    pub fn stop(&self) {
        let tasks = self.tasks.take();
        drop(tasks);
        self.born.take();
    }
}

/// Which of two came first.
pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// Both at once; the first of them when both are there. The other is dropped.
pub async fn race<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Either<A, B> {
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    poll_fn(|context| {
        if let Poll::Ready(value) = first.as_mut().poll(context) {
            return Poll::Ready(Either::First(value));
        }
        second.as_mut().poll(context).map(Either::Second)
    })
    .await
}
