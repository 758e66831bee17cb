//! Telling systemd how far we are (Type=notify), and that we are well (WatchdogSec=): one datagram to the socket it names, and silence
//! when it names none. The protocol is sd_notify(3)'s.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// All listeners stand.
pub fn ready() {
    say("READY=1");
}

/// The configuration is read again; [`ready`] says that this is over. systemd wants the time of its own clock with it (sd_notify(3)).
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let us = now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1000;
    say(&format!("RELOADING=1\nMONOTONIC_USEC={us}"));
}

/// The end has begun.
pub fn stopping() {
    say("STOPPING=1");
}

/// Tells systemd's watchdog that we are well, until this is dropped.
#[derive(Debug)]
pub struct Watchdog {
    /// Dropped with it, which is the thread's sign to end.
    _stop: Sender<()>,
}

/// Tells it each half of the period that systemd asked for, and only when `is_well` says so. `None`: nobody asked.
pub fn watchdog(mut is_well: impl FnMut() -> bool + Send + 'static) -> Option<Watchdog> {
    let asked = |name: &str| std::env::var(name).ok();
    let pause = period(asked("WATCHDOG_USEC")?, asked("WATCHDOG_PID"), std::process::id())? / 2;
    let (stop, stopped) = channel();
    let beat = move || {
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            if is_well() {
                say("WATCHDOG=1");
            }
        }
    };
    match std::thread::Builder::new().name("watchdog".into()).spawn(beat) {
        Ok(_) => Some(Watchdog { _stop: stop }),
        Err(e) => {
            tracing::error!(
                "systemd's watchdog cannot be told that we are well, and will end us: no thread: {e}"
            );
            None
        }
    }
}

/// The period, if it is meant for us: the variables are inherited by children.
fn period(microseconds: String, pid: Option<String>, ours: u32) -> Option<Duration> {
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(ours));
    let microseconds: u64 = microseconds.parse().ok().filter(|&count| is_ours && count > 1)?;
    Some(Duration::from_micros(microseconds))
}

fn say(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(e) = sent {
        tracing::warn!("could not tell {state} to NOTIFY_SOCKET: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdogs_period_is_only_for_whom_it_is_meant() {
        let of = |count: &str, pid: Option<&str>| period(count.into(), pid.map(str::to_owned), 7);
        assert_eq!(of("3000000", None), Some(Duration::from_secs(3)));
        assert_eq!(of("3000000", Some("7")), Some(Duration::from_secs(3)));
        for (count, pid) in
            [("3000000", Some("8")), ("0", None), ("1", None), ("soon", None), ("9", Some(""))]
        {
            assert_eq!(of(count, pid), None, "{count} {pid:?}");
        }
    }
}
