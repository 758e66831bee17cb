//! Starts processes for the lab, and ends exactly those.
//!
//! Two ways to start one:
//! - owned, through a [`ProcessParent`]: it dies when this process dies, even by SIGKILL. The kernel ties that (PR_SET_PDEATHSIG) to the
//!   *thread* that started the child, so the process parent is a thread that does nothing else and lives as long as the stage;
//! - detached ([`spawn_detached`]): it outlives this process, for `lab up`.
//!
//! Invariant: nothing is ever signalled by name, and never by a process ID alone. A process is its ID *and* its start time, and
//! the signal is sent through a pidfd opened before the start time was checked, so a reused ID cannot be hit.
//! A stage's processes carry its directory in the environment variable [`MARK`], which their children (state transfer scripts)
//! inherit: that is how the children are found.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// The environment variable that marks a process (and its children) as part of a stage; its value is the stage's directory.
pub const MARK: &str = "UNDERSTUDY_LAB_STAGE";

/// Identifies a process, and distinguishes it from a later one with the same ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its process ID.
    pub pid: u32,
    /// Its start time, in clock ticks since boot.
    pub started_ticks: u64,
}

impl Identity {
    /// The process that has this ID now.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started_ticks: look(pid)?.started_ticks })
    }

    /// This process.
    pub fn own() -> anyhow::Result<Self> {
        Self::of(std::process::id()).context("cannot read /proc/self/stat: is /proc mounted?")
    }

    /// Whether it has not ended. A leader that is a zombie while its threads still hold sockets and locks counts as alive.
    pub fn is_alive(self) -> bool {
        look(self.pid).is_some_and(|seen| {
            seen.started_ticks == self.started_ticks
                && !(matches!(seen.state, 'Z' | 'X') && seen.threads <= 1)
        })
    }

    /// Whether it is stopped by SIGSTOP.
    pub fn is_frozen(self) -> bool {
        look(self.pid).is_some_and(|seen| seen.started_ticks == self.started_ticks && seen.state == 'T')
    }

    /// How long it has run.
    pub fn age(self) -> Option<Duration> {
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        let started_s = self.started_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        Duration::try_from_secs_f64(uptime_s - started_s).ok()
    }

    /// Sends a signal to exactly this process; returns when it was sent, or `None` when the process has already ended.
    pub fn signal(self, signal: Signal) -> anyhow::Result<Option<Instant>> {
        let Some(number) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let descriptor = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(anyhow!(error)).context(format!("process {}", self.pid)),
        };
        if look(self.pid).is_none_or(|seen| seen.started_ticks != self.started_ticks) {
            return Ok(None);
        }
        match pidfd_send_signal(&descriptor, signal) {
            Ok(()) => Ok(Some(Instant::now())),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(anyhow!(error)).context(format!("sending {signal:?} to process {}", self.pid)),
        }
    }
}

struct Seen {
    state: char,
    threads: u32,
    started_ticks: u64,
}

/// Reads `/proc/PID/stat`: the name is in parentheses and may contain any characters, so fields are counted after the last `)`.
fn look(pid: u32) -> Option<Seen> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Seen {
        state: fields.first()?.chars().next()?,
        threads: fields.get(17)?.parse().ok()?,
        started_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Every process that carries the mark of the stage in `directory`.
pub fn marked(directory: &Path) -> Vec<Identity> {
    let mut wanted = OsString::from(MARK);
    wanted.push("=");
    wanted.push(directory);
    let wanted = wanted.as_encoded_bytes().to_vec();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| {
            let identity = Identity::of(pid)?;
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted).then_some(identity)
        })
        .collect()
}

/// Sends SIGKILL to each and waits until all have ended. Blocking: for clean-up, when nothing else runs.
///
/// # Errors
/// When one still exists after `within`.
pub fn end_all(processes: &[Identity], within: Duration) -> anyhow::Result<()> {
    for process in processes {
        process.signal(Signal::KILL)?;
    }
    let deadline = Instant::now() + within;
    while let Some(left) = processes.iter().find(|process| process.is_alive()) {
        if Instant::now() > deadline {
            bail!("process {} does not end: SIGKILL was sent {:.0} s ago", left.pid, within.as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// The thread that is the parent of every owned process.
#[derive(Debug)]
pub struct ProcessParent {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl ProcessParent {
    /// Starts the thread.
    pub fn new() -> anyhow::Result<Self> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let thread = std::thread::Builder::new()
            .name("lab-processes".to_owned())
            .spawn(move || {
                for (mut command, answer) in inbox {
                    // If no caller waits for the result, no one would ever reap the child.
                    if let Err(mpsc::SendError(Ok(mut orphan))) = answer.send(command.spawn()) {
                        let _ = orphan.kill();
                        let _ = orphan.wait();
                    }
                }
            })
            .context("cannot start the thread that keeps child processes")?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Starts `command` (program, arguments, environment and directory are taken from it, its stdio is not): the process dies with this one,
    /// however that ends. Output is appended to `log`, or discarded.
    pub fn spawn(&self, command: &Command, log: Option<&Path>) -> anyhow::Result<Owned> {
        self.spawn_to(command, log.map_or(Output::Nowhere, Output::Log))
    }

    /// The same, with pipes for its output: see [`Owned::output`].
    pub fn spawn_piped(&self, command: &Command) -> anyhow::Result<Owned> {
        self.spawn_to(command, Output::Piped)
    }

    fn spawn_to(&self, command: &Command, output: Output<'_>) -> anyhow::Result<Owned> {
        let mut wrapped = Command::new("setpriv");
        wrapped.args(["--pdeathsig", "KILL", "--"]);
        carry_over(command, &mut wrapped);
        settle(&mut wrapped, output)?;
        let (answer, child) = mpsc::channel();
        let gone = || anyhow!("the thread that keeps child processes has ended");
        self.orders.as_ref().ok_or_else(gone)?.send((wrapped, answer)).map_err(|_| gone())?;
        let child = child.recv().map_err(|_| gone())?.with_context(|| starting(command))?;
        Ok(Owned { child })
    }
}

impl Drop for ProcessParent {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, its children have already been killed.
            let _ = thread.join();
        }
    }
}

/// A child that ends with its process parent, with this value, or with this process, whichever comes first.
#[derive(Debug)]
pub struct Owned {
    child: Child,
}

impl Owned {
    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Its standard output and error, if it was started with pipes; the first call takes them.
    pub fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits until it has ended by itself; polls every 5 ms, for processes that end soon or are not timed.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) -> anyhow::Result<()> {
        if let Some(identity) = Identity::of(self.child.id()) {
            identity.signal(Signal::TERM)?;
        }
        Ok(())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a process that outlives this one. The caller records its identity.
pub fn spawn_detached(command: &Command, log: Option<&Path>) -> anyhow::Result<Child> {
    let mut plain = Command::new(command.get_program());
    plain.args(command.get_args());
    copy_surroundings(command, &mut plain);
    settle(&mut plain, log.map_or(Output::Nowhere, Output::Log))?;
    plain.spawn().with_context(|| starting(command))
}

fn starting(command: &Command) -> String {
    format!("cannot start {}", command.get_program().display())
}

fn carry_over(from: &Command, to: &mut Command) {
    to.arg(from.get_program()).args(from.get_args());
    copy_surroundings(from, to);
}

fn copy_surroundings(from: &Command, to: &mut Command) {
    for (key, value) in from.get_envs() {
        match value {
            Some(value) => to.env(key, value),
            None => to.env_remove(key),
        };
    }
    if let Some(directory) = from.get_current_dir() {
        to.current_dir(directory);
    }
}

/// Where a process's output goes.
#[derive(Clone, Copy)]
enum Output<'a> {
    Nowhere,
    /// Appended to this file.
    Log(&'a Path),
    Piped,
}

/// Own process group, so that Ctrl-C in the terminal reaches only the lab, which then ends its children in order.
fn settle(command: &mut Command, output: Output<'_>) -> anyhow::Result<()> {
    command.process_group(0).stdin(Stdio::null());
    match output {
        Output::Log(path) => {
            let file = File::options().create(true).append(true).open(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            command.stdout(file.try_clone()?).stderr(file);
        }
        Output::Nowhere => {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        Output::Piped => {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_itself_and_not_another_with_its_number() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive());
        assert!(own.age().unwrap() < Duration::from_secs(24 * 3600));
        let impostor = Identity { started_ticks: own.started_ticks + 1, ..own };
        assert!(!impostor.is_alive());
        assert_eq!(impostor.signal(Signal::KILL).unwrap(), None, "must not be sent to us");
    }

    #[test]
    fn an_owned_child_ends_with_its_value_and_is_found_by_its_mark() {
        let process_parent = ProcessParent::new().unwrap();
        let directory = Path::new("/nowhere/mark-test");
        let mut command = Command::new("sleep");
        command.arg("60").env(MARK, directory);
        let child = process_parent.spawn(&command, None).unwrap();
        let identity = Identity::of(child.id()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while marked(directory) != [identity] {
            assert!(Instant::now() < deadline, "{:?}", marked(directory));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(child);
        assert!(!identity.is_alive());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = spawn_detached(&Command::new("no-such-program-anywhere"), None).unwrap_err();
        assert_eq!(error.to_string(), "cannot start no-such-program-anywhere");
    }
}
