//! What crowds take of `serve`'s memory, and that it is the system's again after they have left.

use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use lab::stage::account::{APP_PASSWORD, APP_USER};
use link::{Link, Login, Secret, ServerTls};
use protocol::packet::Head;
use testbed::program::until;

use super::scene::{Scene, crowd};

/// What `serve` may open: room for all of the clients here.
pub const FILES_MAX: u64 = 12_000;
/// Clients that log in, ask one thing, and stay.
const IDLE: u64 = 1_500;
/// Of those under TLS.
const IDLE_TLS: u64 = 800;
/// What one of them may take of the proxy's own memory, in KiB; its sockets in the kernel are not counted.
const IDLE_KIB_MAX: u64 = 16;
/// Addresses that begin logins, and how many from each.
const ADDRESSES: u8 = 8;
const LOGINS: usize = 240;
/// A login packet is said to be so long, and all but its last bytes are sent.
const LOGIN_BYTES: usize = 8_000;
/// Readers of /metrics from one address, and what each of them asks at once.
const READERS: usize = 250;
const REQUESTS: usize = 800;
/// After a crowd has left, half of what it took must be back, and memory may never differ from before by more than this.
const LEFT_KIB_MAX: u64 = 32 * 1024;
/// So much is not told apart from what the program does meanwhile.
const NOISE_KIB: u64 = 2 * 1024;
/// A statement beside a crowd is answered within this, also on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Resident memory, in KiB.
pub fn resident_kib(scene: &Scene) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", scene.serving.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Waits until memory is what it was, as far as it must be.
fn returns(scene: &Scene, what: &str, before_kib: u64, peak_kib: u64) {
    let began = Instant::now();
    let more_kib = (peak_kib.saturating_sub(before_kib) / 2).clamp(NOISE_KIB, LEFT_KIB_MAX);
    let mut now_kib = 0;
    until(&format!("{what}: memory of before ({before_kib} KiB, {more_kib} KiB more at most)"), || {
        now_kib = resident_kib(scene);
        (now_kib <= before_kib + more_kib).then_some(())
    });
    println!(
        "{what}: {before_kib} KiB before, {peak_kib} KiB at the most, {now_kib} KiB {:?} later",
        began.elapsed()
    );
}

async fn client(scene: &Scene, tls: Option<&ServerTls>) -> Link {
    let login = Login { tls: tls.cloned(), ..Login::new(APP_USER, Secret::Password(APP_PASSWORD.into())) };
    let mut link = Link::connect(&scene.mysql.to_string(), &login, ANSWERED_WITHIN).await.unwrap();
    ask(&mut link).await;
    link
}

async fn ask(link: &mut Link) {
    let rows = link.query("SELECT 1", ANSWERED_WITHIN).await.unwrap();
    assert_eq!(rows.text(0, 0), Some("1"));
}

/// Each takes little, is served when it asks again, and leaves nothing.
pub async fn idle_clients(scene: &Scene) {
    some_idle_clients(scene, "idle clients", None, IDLE).await;
}

/// The same under TLS.
pub async fn idle_clients_under_tls(scene: &Scene) {
    let tls = ServerTls::trusting(scene.certificate().as_bytes()).unwrap();
    some_idle_clients(scene, "idle clients under TLS", Some(&tls), IDLE_TLS).await;
}

async fn some_idle_clients(scene: &Scene, what: &str, tls: Option<&ServerTls>, count: u64) {
    // What is allocated once is allocated now.
    drop(client(scene, tls).await);
    scene.given_back(&format!("before {what}"));
    let before_kib = resident_kib(scene);
    let mut idle = Vec::new();
    for _ in 0..count {
        idle.push(client(scene, tls).await);
    }
    scene.watch(&format!("{count} {what}"), true).await;
    let peak_kib = resident_kib(scene);
    let each_kib = peak_kib.saturating_sub(before_kib) as f64 / count as f64;
    println!("{count} {what}: {each_kib:.1} KiB each");
    assert!(each_kib <= IDLE_KIB_MAX as f64, "one of {count} {what} takes {each_kib:.1} KiB");
    for link in &mut idle {
        ask(link).await;
    }
    drop(idle);
    scene.given_back(&format!("{what}, gone"));
    returns(scene, &format!("{what}, gone"), before_kib, peak_kib);
}

/// Most of a login packet, and nothing more.
pub async fn unfinished_logins(scene: &Scene) {
    let before_kib = resident_kib(scene);
    let mut words = Head { len: LOGIN_BYTES, seq: 1 }.to_bytes().to_vec();
    words.resize(LOGIN_BYTES, b'x');
    let held: Vec<TcpStream> = (0..ADDRESSES)
        .flat_map(|nth| crowd(Ipv4Addr::new(127, 0, 1, nth + 1), scene.mysql, LOGINS, &words))
        .collect();
    let peak_kib = resident_kib(scene);
    scene.watch(&format!("{} unfinished logins", held.len()), true).await;
    assert!(held.len() > LOGINS * usize::from(ADDRESSES) / 2, "only {} came in", held.len());
    let peak_kib = peak_kib.max(resident_kib(scene));
    drop(held);
    scene.given_back("unfinished logins, gone");
    returns(scene, "unfinished logins, gone", before_kib, peak_kib);
}

/// Answers that nobody takes wait in memory, and are given up.
pub async fn readers_that_never_read(scene: &Scene) {
    let before_kib = resident_kib(scene);
    let ask = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(REQUESTS);
    let held = crowd(Ipv4Addr::new(127, 0, 0, 6), scene.http, READERS, ask.as_bytes());
    scene.watch(&format!("{} readers of /metrics that never read", held.len()), true).await;
    let peak_kib = resident_kib(scene);
    drop(held);
    scene.given_back("readers that never read, gone");
    returns(scene, "readers that never read, gone", before_kib, peak_kib);
}
