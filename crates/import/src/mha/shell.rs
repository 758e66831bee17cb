//! Runs the commands that an MHA site has in its configuration, with a time limit. Each is a command of the shell, as with MHA: it may have
//! arguments of its own. It is ended with all that it has started when its time is over: what moves an address must not do so after the
//! failure was reported.
//!
//! A command has a process group of its own, so a terminal's Ctrl-C does not reach it by itself. Signals that mean the end are passed on to it;
//! this program ends once it has.

use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cli::foreground::Signals;
use manager::Group;
use rustix::process::Signal;
use signal_hook::flag::register_conditional_default;
use signal_hook::low_level::emulate_default_handler;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// Whether a signal that means the end ends this program, as it does before the first command is run. Listening for a signal cannot be undone, so they are
/// given their effect back by this.
static ENDS_US: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
    let ends = Arc::new(AtomicBool::new(true));
    for signal in [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP] {
        // Fails only for signals that may not be handled.
        let _ = register_conditional_default(signal.as_raw(), Arc::clone(&ends));
    }
    ends
});

/// From here on this program chooses by itself when a signal ends it. Of a command that runs, only the terminal's keys end it, as with MHA.
pub fn signals_do_not_end_us() {
    ENDS_US.store(false, Ordering::Relaxed);
}

/// Runs a command with more arguments; what it prints goes where this program's output goes.
///
/// # Errors
/// It cannot be started, or does not end in time and is killed.
pub fn run(
    script: &str,
    arguments: &[String],
    environment: &[(&str, &str)],
    within: Duration,
) -> Result<ExitStatus, String> {
    let mut command = shell(&format!("{script} \"$@\""));
    command.arg("sh").args(arguments).envs(environment.iter().copied());
    limited(script, command, within, async |child| child.wait().await.map_err(|e| format!("{script}: {e}")))
}

/// What a command prints to its standard output, whatever its exit code is.
///
/// # Errors
/// It cannot be found or started, does not end in time, or prints more than `bytes_max`; then it is killed.
pub fn printed(script: &str, within: Duration, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut command = shell(script);
    command.stdout(Stdio::piped());
    limited(script, command, within, async |child| {
        let cannot = |e: std::io::Error| format!("{script} cannot be run: {e}");
        let mut text = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(bytes_max + 1).read_to_end(&mut text).await.map_err(cannot)?;
        }
        if text.len() as u64 > bytes_max {
            return Err(format!("{script} prints more than {bytes_max} bytes"));
        }
        let status = child.wait().await.map_err(cannot)?;
        // The shell's codes for a command that is not there, or may not be run.
        match status.code() {
            Some(126 | 127) => Err(format!("{script} cannot be run: {status}")),
            _ => Ok(text),
        }
    })
}

fn shell(text: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", text]).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    command
}

/// Starts the command and does the work with it. Meanwhile no signal ends this program; afterwards, one that was passed on does.
fn limited<T>(
    script: &str,
    command: Command,
    within: Duration,
    work: impl AsyncFnOnce(&mut Child) -> Result<T, String>,
) -> Result<T, String> {
    let runtime = cli::runtime::start().map_err(|_| "cannot start the runtime's threads".to_owned())?;
    let ends_us = ENDS_US.swap(false, Ordering::Relaxed);
    let mut passed_on = None;
    let ended = runtime.block_on(async {
        let mut signals = Signals::with_terminal().map_err(|_| "cannot listen for signals".to_owned())?;
        let (mut child, group) = begin(command).map_err(|e| format!("{script} cannot be run: {e}"))?;
        let ended = {
            let work = tokio::time::timeout(within, work(&mut child));
            tokio::pin!(work);
            loop {
                tokio::select! {
                    biased;
                    name = signals.next() => if let Some(signal) = meant_for_it(name, ends_us) {
                        group.signal(signal);
                        passed_on = Some(signal);
                    },
                    ended = &mut work => break ended,
                }
            }
        };
        if child.id().is_none() {
            group.has_ended();
        }
        ended.unwrap_or_else(|_| Err(format!("{script} did not end within {} s", within.as_secs())))
    });
    if ends_us {
        // Does not return after a signal: that is the end.
        let _ = passed_on.map(|signal| emulate_default_handler(signal.as_raw()));
        ENDS_US.store(true, Ordering::Relaxed);
    }
    ended
}

fn begin(mut command: Command) -> std::io::Result<(Child, Group)> {
    let child = command.spawn()?;
    let group = Group::of(&child);
    Ok((child, group))
}

/// The signal of this name, if a command that runs is to have it: from the terminal's keys always, as with MHA.
fn meant_for_it(name: &str, ends_us: bool) -> Option<Signal> {
    match name {
        "SIGINT" => Some(Signal::INT),
        "SIGQUIT" => Some(Signal::QUIT),
        "SIGTERM" => ends_us.then_some(Signal::TERM),
        "SIGHUP" => ends_us.then_some(Signal::HUP),
        _ => None,
    }
}
#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Instant;

    use super::*;

    const SHORT: Duration = Duration::from_millis(500);

    #[test]
    fn what_does_not_end_or_says_too_much_is_ended() {
        assert_eq!(run("sleep", &["60".into()], &[], SHORT).unwrap_err(), "sleep did not end within 0 s");
        assert!(printed("sleep 60", SHORT, 10).unwrap_err().contains("did not end"));
        let within = Duration::from_secs(20);
        assert_eq!(printed("printf 'a\\nb'; exit 3", within, 3), Ok(b"a\nb".to_vec()));
        assert!(printed("yes", within, 100).unwrap_err().contains("prints more than 100 bytes"));
        assert!(printed("/no/such", within, 100).unwrap_err().contains("cannot be run: exit status: 127"));
    }

    #[test]
    fn what_a_script_has_started_is_ended_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pids");
        let file = file.display();
        let moves = format!("sleep 60 & echo $$ $! > {file}; (exec sleep 61) & echo $! >> {file}; wait; :");
        assert!(run(&moves, &[], &[], SHORT).unwrap_err().contains("did not end"));
        none_is_left(Path::new(&file.to_string()));
        assert!(printed(&moves, SHORT, 10).unwrap_err().contains("did not end"));
        none_is_left(Path::new(&file.to_string()));
        let says = format!("sleep 60 & echo $$ $! > {file}; yes");
        assert!(printed(&says, Duration::from_secs(20), 100).unwrap_err().contains("prints more"));
        none_is_left(Path::new(&file.to_string()));
    }

    /// None of the processes that the file names; one that is dead and not yet waited for does nothing any more.
    fn none_is_left(file: &Path) {
        let pids = std::fs::read_to_string(file).unwrap();
        assert!(pids.split_whitespace().count() >= 2, "{pids}");
        for pid in pids.split_whitespace() {
            let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let deadline = Instant::now() + Duration::from_secs(5);
            while !(stat().is_empty() || stat().contains(") Z ")) {
                assert!(Instant::now() < deadline, "it goes on: {}", stat());
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        std::fs::remove_file(file).unwrap();
    }
}
