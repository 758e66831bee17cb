//! One transaction on its connection: connect, send the request, read the response; the outcome is recorded.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Clock, Shared};
use crate::bench::health::answer::{AnswerClass, Seen, Trouble, see};

/// A longer response is not from a health endpoint.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Room for a response, which is a few hundred bytes.
const BUFFER_BYTES: usize = 1024;
/// How long a server may take to close a connection after a `Connection: close` request.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// At most one transaction at a time, on at most one connection.
pub(super) struct Slot {
    /// Its place among all slots, by which its group is known.
    pub(super) number: u32,
    /// When its last transaction had ended.
    pub(super) freed: Duration,
    /// Its last transaction had a valid response.
    pub(super) is_answered: bool,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

/// A whole response.
struct Response {
    outcome: AnswerClass,
    keeps: bool,
}

impl Shared {
    /// A transaction begins, now.
    fn begin(&self, clock: Clock) -> Duration {
        let mut tally = self.tally();
        tally.in_flight += 1;
        tally.in_flight_most = tally.in_flight_most.max(tally.in_flight);
        clock.now()
    }

    /// The transaction that began then has its outcome.
    fn ended(&self, clock: Clock, began: Duration) {
        let mut tally = self.tally();
        tally.in_flight -= 1;
        tally.flown += clock.now().saturating_sub(began);
    }

    /// Records the outcome of a transaction whose response time counts from `due`.
    pub(super) fn record(&self, clock: Clock, slot: u32, due: Duration, outcome: AnswerClass) {
        let now = clock.now();
        let group = (slot / u32::from(self.plan.threads).max(1)) as u16;
        let epoch_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as u32;
        self.tally().record.add(now, epoch_s, group, now.saturating_sub(due), outcome);
    }
}

impl Slot {
    pub(super) fn new(number: u32) -> Self {
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Self { number, freed: Duration::ZERO, is_answered: false, stream: None, buffer }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Runs one transaction, on the slot's connection or on a new one.
    pub(super) async fn transaction(mut self, shared: &Shared, clock: Clock, due: Duration) -> Self {
        if self.stream.is_none() {
            return self.on(connect(shared.address), shared, clock, due).await;
        }
        let began = shared.begin(clock);
        let exchange = async {
            match self.exchange(shared).await {
                // The server had closed it between two requests, which it may.
                Err(_) if self.buffer.is_empty() => {
                    shared.tally().reconnects += 1;
                    self.stream = Some(connect(shared.address).await?);
                    self.exchange(shared).await
                }
                result => result,
            }
        };
        let result = timeout(shared.timeout, exchange).await.ok();
        self.end(shared, clock, (due, began), result).await;
        self
    }

    /// Runs one transaction on a new connection.
    pub(super) async fn on(
        mut self,
        connecting: impl Future<Output = Result<TcpStream, Trouble>> + Send,
        shared: &Shared,
        clock: Clock,
        due: Duration,
    ) -> Self {
        let began = shared.begin(clock);
        let exchange = async {
            self.stream = Some(connecting.await?);
            self.exchange(shared).await
        };
        let result = timeout(shared.timeout, exchange).await.ok();
        self.end(shared, clock, (due, began), result).await;
        self
    }

    /// Records the outcome (`None`: none in time), and leaves the connection as it has to be.
    async fn end(
        &mut self,
        shared: &Shared,
        clock: Clock,
        (due, began): (Duration, Duration),
        result: Option<Result<Response, Trouble>>,
    ) {
        let (outcome, keeps) = match result {
            Some(Ok(Response { outcome, keeps })) => (outcome, keeps),
            Some(Err(trouble)) => (AnswerClass::Transport(trouble), false),
            None => (AnswerClass::Timeout, false),
        };
        shared.record(clock, self.number, due, outcome);
        shared.ended(clock, began);
        self.is_answered = outcome.is_answer();
        if !(self.is_answered && keeps && shared.plan.keep) {
            // A server that keeps the connection against the request is not waited for; otherwise it is, since the side that closes first
            // keeps the port for a minute.
            if let Some(mut stream) = self.stream.take().filter(|_| self.is_answered && !keeps) {
                let _ = timeout(CLOSE_MAX, stream.read(&mut [0; 16])).await;
            }
        }
        self.freed = clock.now();
    }

    /// Sends the request, and reads until the response is complete.
    async fn exchange(&mut self, shared: &Shared) -> Result<Response, Trouble> {
        let Some(stream) = &mut self.stream else { return Err(Trouble::Closed) };
        self.buffer.clear();
        stream.write_all(&shared.request).await.map_err(trouble)?;
        loop {
            let count = stream.read_buf(&mut self.buffer).await.map_err(trouble)?;
            if count == 0 && self.buffer.is_empty() {
                return Err(Trouble::Closed);
            }
            match see(&self.buffer, count == 0, &shared.expect) {
                Seen::Whole { outcome, keeps } => return Ok(Response { outcome, keeps }),
                Seen::Part if self.buffer.len() > ANSWER_BYTES_MAX => {
                    return Ok(Response { outcome: AnswerClass::Wrong, keeps: false });
                }
                Seen::Part => {}
            }
        }
    }
}

pub(super) async fn connect(address: SocketAddr) -> Result<TcpStream, Trouble> {
    TcpStream::connect(address).await.map_err(trouble)
}

fn trouble(error: io::Error) -> Trouble {
    match Errno::from_io_error(&error) {
        Some(Errno::CONNREFUSED) => Trouble::Refused,
        Some(Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED) => Trouble::Reset,
        Some(Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
            Trouble::Exhausted
        }
        _ => Trouble::Other,
    }
}
