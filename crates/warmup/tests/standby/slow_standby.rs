//! A standby that answers nothing for a while: no more waits than may, what is too late is left out and counted, and afterwards all goes on.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fixture::wait::within_async;
use fixture::{Server, signal};
use link::{Endpoint, Login, Secret};
use slowlog::{Command, Dialect, Event, Schema, Writer};
use tokio::io::{AsyncWriteExt, duplex};
use warmup::replay::figures::Figures;
use warmup::replay::target::Target;
use warmup::replay::{self, Sessions};

/// Longer than anything here takes on an overloaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// So far apart the statements were recorded, µs.
const APART_US: u64 = 1_000;
/// What may wait.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// A log of reads, one each millisecond.
struct Log {
    writer: Writer,
    written: u64,
}

impl Log {
    fn part(&mut self, statements: u64) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..statements {
            let sql = format!("SELECT {}", self.written);
            self.writer.write(
                &Event {
                    end_us: 1_795_348_800_000_000 + self.written * APART_US,
                    query_time_us: 100,
                    user: b"app",
                    account: b"app",
                    host: b"localhost",
                    connection: Some(self.written % 7),
                    schema: Schema::Own(b"shop"),
                    command: Command::Statement(sql.as_bytes()),
                    ..Event::default()
                },
                &mut text,
            );
            self.written += 1;
        }
        text
    }
}

async fn until(what: &str, figures: &Figures, mut holds: impl FnMut() -> bool) {
    let seen = within_async(PATIENCE, async || holds()).await;
    seen.unwrap_or_else(|()| panic!("never came: {what}: {figures:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_frozen_costs_what_is_too_late_and_no_more() {
    let standby = Server::start(&[]);
    let target = Target {
        place: Endpoint::Tcp(standby.address().to_string()),
        login: Login::new("app".to_owned(), Secret::Password("secret".into())),
        session_init: Vec::new(),
    };
    let settings = replay::Settings {
        sessions: Sessions::Pool(2),
        // Times with microseconds, so nothing is in another order.
        order_window: Duration::ZERO,
        lag_max: Some(Duration::from_millis(200)),
        waiting_bytes_max: WAITING_BYTES_MAX,
        ..replay::Settings::default()
    };
    let figures = Arc::new(Figures::default());
    let (mut source, log) = duplex(64 << 10);
    let running = tokio::spawn(replay::replay(log, Arc::new(target), settings, Arc::clone(&figures)));
    let mut written = Log { writer: Writer::new(Dialect::MySql57), written: 0 };
    let done = |figures: &Figures| figures.executed.load(Relaxed) + figures.late.load(Relaxed);

    source.write_all(&written.part(100)).await.unwrap();
    until("the standby runs what it is given", &figures, || done(&figures) == 100).await;
    assert!(figures.executed.load(Relaxed) > 0 && figures.lag().is_zero());

    standby.signal(signal::STOP);
    let (late_before, executed_before) = (figures.late.load(Relaxed), figures.executed.load(Relaxed));
    // Ten seconds of the source.
    let flood = written.part(10_000);
    let mut writing = tokio::spawn(async move {
        source.write_all(&flood).await.unwrap();
        source
    });
    until("the lag is told", &figures, || figures.lag() > Duration::from_millis(500)).await;
    // It does not end: the source is held back, since no more may wait.
    assert!(tokio::time::timeout(Duration::from_secs(2), &mut writing).await.is_err());
    let waiting = figures.waiting.load(Relaxed);
    assert!(waiting > 100 && (waiting as usize) < WAITING_BYTES_MAX / 64, "{waiting} statements wait");
    assert!(figures.executed.load(Relaxed) <= executed_before + 2, "{figures:?}");

    standby.signal(signal::CONT);
    let mut source = writing.await.unwrap();
    until("all is run or left out", &figures, || done(&figures) == 10_100).await;
    assert!(figures.late.load(Relaxed) > late_before + 100, "{figures:?}");
    assert!(figures.lag().is_zero() && figures.errors().is_empty(), "{figures:?}");

    let executed = figures.executed.load(Relaxed);
    for _ in 0..10 {
        source.write_all(&written.part(10)).await.unwrap();
        until("it goes on", &figures, || done(&figures) == written.written).await;
    }
    assert!(figures.executed.load(Relaxed) > executed, "{figures:?}");
    drop(source);
    running.await.unwrap().unwrap();
    assert_eq!(done(&figures), 10_200);
}
