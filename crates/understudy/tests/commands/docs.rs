//! The commands in the documentation, run as they stand.
//!
//! ```text
//!   docs/PAGE.md ──> blocks ──> one bash script, in an empty directory ──> output, cut at each block ──> compared
//! ```
//!
//! A fenced block marked `sh` is run. `sh norun REASON` is not, and has to say why. A block marked `text out` right after a
//! command block is what that command prints: line by line, where `...` stands for any text, and alone on a line for any
//! lines. A page is one script (`bash -eu`), so that what one block sets, the next one has. Pages run one after the other, each on
//! a stage that it starts itself.
//!
//! Invariant: nothing is left behind. The script ends what it started when it ends, also when it is told to because it took too
//! long, or because this test died; the directory is removed by this test.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_understudy");
/// For one page, so that one that hangs ends: the longest takes about a minute, and twice that beside other work.
const PAGE_LIMIT: Duration = Duration::from_secs(300);
/// For the script to end what it started.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Stands alone on a line before each block's output.
const CUT: &str = "\u{1}cut";
/// What the script does whatever ends it. `lab down` comes only into a script that starts a stage: a page must never end the
/// stage of somebody else.
const CLEAN_UP: &str = "ended() {\n  for job in $(jobs -p); do kill \"$job\" || true; done\n  wait || true\n  LAB_DOWN\n} >/dev/null 2>&1\n\
                        trap ended EXIT\ntrap 'exit 143' TERM INT HUP\n";

/// One thing that a page tells the reader to do.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    /// Line of its first command, counted from 1.
    line: usize,
    commands: String,
    /// What it prints, where the page says so.
    prints: Option<Vec<String>>,
}

#[test]
fn the_commands_in_the_documentation_work() {
    let mut wrong = Vec::new();
    for path in pages() {
        let blocks = blocks(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|e| panic!("{}:{e}", path.display()));
        if blocks.is_empty() {
            continue;
        }
        let began = Instant::now();
        let page = path.file_name().unwrap().to_string_lossy().into_owned();
        if let Err(what) = run(&blocks) {
            wrong.push(format!("{page}:{what}"));
        }
        println!("{page}: {} blocks, {:.1} s", blocks.len(), began.elapsed().as_secs_f64());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The README and every page of docs/, in order.
/// Every page, or the one that DOCS_PAGE names.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.sort();
    pages.insert(0, root.join("README.md"));
    if let Some(only) = std::env::var_os("DOCS_PAGE") {
        pages.retain(|page| page.file_name() == Some(&only));
        assert_eq!(pages.len(), 1, "{} is no page of docs/", only.display());
    }
    pages
}

/// The blocks of a page that are run.
///
/// # Errors
/// `LINE: what is wrong` for an info string that says neither what to do with a block nor why not.
fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().enumerate();
    // Whether nothing but blank lines came since the last block that is run.
    let mut fresh = false;
    while let Some((at, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            fresh &= line.trim().is_empty();
            continue;
        };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let words: Vec<&str> = info.split(' ').collect();
        match words[..] {
            ["sh"] => {
                blocks.push(Block { line: at + 2, commands: body.join("\n"), prints: None });
                fresh = true;
                continue;
            }
            ["sh", "norun", _, ..] => {}
            ["sh", ..] => return Err(format!("{}: say `sh`, or `sh norun` and the reason", at + 1)),
            ["text", "out"] => {
                let block = blocks.last_mut().filter(|_| fresh);
                let block =
                    block.ok_or_else(|| format!("{}: no command stands before this output", at + 1))?;
                block.prints = Some(body.iter().map(|line| (*line).to_owned()).collect());
            }
            _ => {}
        }
        fresh = false;
    }
    Ok(blocks)
}

fn script(blocks: &[Block]) -> String {
    let starts = blocks.iter().any(|block| block.commands.contains("understudy lab up"));
    let down =
        if starts { "if [ -n \"${stage_is_ours:-}\" ]; then understudy lab down || true; fi" } else { ":" };
    let mut script = CLEAN_UP.replace("LAB_DOWN", down);
    if starts {
        script += "if ! understudy lab status 2>&1 | grep -q 'no stage named lab'; then echo 'a stage named lab is up: end it by `understudy lab down` first'; exit 1; fi\n\
                   stage_is_ours=1\n";
    }
    for block in blocks {
        script += &format!("echo '{CUT}'\n{}\n", block.commands);
    }
    script
}

/// Runs a page and compares what it printed.
///
/// # Errors
/// `LINE: what was wrong`, with all of the output.
fn run(blocks: &[Block]) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    let work = dir.path().join("work");
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&work).unwrap();
    std::os::unix::fs::symlink(BIN, bin.join("understudy")).unwrap();
    std::fs::write(dir.path().join("page.sh"), script(blocks)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let output = dir.path().join("output");
    let file = File::create(&output).unwrap();
    // In a group of its own, so that all of it can be told to end; and told to by the kernel, should this test die.
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "bash", "-eu"])
        .arg(dir.path().join("page.sh"))
        .current_dir(&work)
        .env("PATH", path)
        .env_remove("UNDERSTUDY_LOG")
        .env("UNDERSTUDY_RUN_DIR", dir.path())
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .process_group(0)
        .spawn()
        .expect("setpriv (of util-linux) cannot be run");
    let ended = Script(child).wait(PAGE_LIMIT);
    let said = String::from_utf8_lossy(&std::fs::read(&output).unwrap()).into_owned();
    let parts: Vec<&str> = said.split(&format!("{CUT}\n")).collect();
    let reached = parts.len().saturating_sub(1);
    let line = blocks.get(reached.saturating_sub(1)).map_or(0, |block| block.line);
    ended.map_err(|why| format!("{line}: {why}; all that was said:\n{}", said.replace(CUT, "----")))?;
    for (block, printed) in blocks.iter().zip(&parts[1..]) {
        let Some(prints) = &block.prints else { continue };
        let printed: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
        let prints: Vec<&str> = prints.iter().map(|line| line.trim_end()).collect();
        if !lines_match(&prints, &printed) {
            return Err(format!(
                "{}: printed\n{}\nand the page says\n{}",
                block.line,
                printed.join("\n"),
                prints.join("\n")
            ));
        }
    }
    Ok(())
}

/// A page that runs.
struct Script(Child);

impl Script {
    /// Until it ends; one that takes longer than `limit` is told to end.
    fn wait(mut self, limit: Duration) -> Result<(), String> {
        match self.ends_within(limit) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the page failed here: {status}")),
            None => Err(format!("the page took longer than {} s", limit.as_secs())),
        }
    }

    fn ends_within(&mut self, limit: Duration) -> Option<std::process::ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: &str) {
        let _ = Command::new("kill")
            .args([signal, "--", &format!("-{}", self.0.id())])
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if self.ends_within(Duration::ZERO).is_none() {
            self.signal("-TERM");
            self.ends_within(END_LIMIT);
        }
        // Whatever is left of its group.
        self.signal("-KILL");
        let _ = self.0.wait();
    }
}

/// Whether the lines fit: a line of only `...` stands for any lines.
fn lines_match(prints: &[&str], printed: &[&str]) -> bool {
    match prints {
        [] => printed.is_empty(),
        ["...", rest @ ..] => (0..=printed.len()).any(|from| lines_match(rest, &printed[from..])),
        [line, rest @ ..] => {
            printed.first().is_some_and(|first| line_matches(line, first)) && lines_match(rest, &printed[1..])
        }
    }
}

/// Whether a line fits: `...` stands for any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    let Some((head, tail)) = pattern.split_once("...") else { return pattern == line };
    let Some(rest) = line.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| line_matches(tail, &rest[at..]))
}

#[test]
fn blocks_are_found_with_their_output() {
    let page = "a\n```sh\none\ntwo\n```\n\n```text out\nx\n```\n```toml\nz = 1\n```\n```sh norun as root\nthree\n```\n```sh\nfour\n```\nb\n";
    let found = blocks(page).unwrap();
    let prints = Some(vec!["x".to_owned()]);
    assert_eq!(found[0], Block { line: 3, commands: "one\ntwo".into(), prints });
    assert_eq!((found.len(), found[1].commands.as_str(), &found[1].prints), (2, "four", &None));
    assert_eq!(blocks("```sh norun\nx\n```\n").unwrap_err(), "1: say `sh`, or `sh norun` and the reason");
    let alone = "```sh\nx\n```\nwords\n```text out\ny\n```\n";
    assert_eq!(blocks(alone).unwrap_err(), "5: no command stands before this output");
}

#[test]
fn dots_stand_for_anything() {
    for (pattern, line, fits) in [
        ("a ... c", "a bb c", true),
        ("a...", "a", true),
        ("...", "", true),
        ("a ... c", "a c", false),
        ("a", "ab", false),
        ("a...é", "aéé", true),
    ] {
        assert_eq!(line_matches(pattern, line), fits, "{pattern} {line}");
    }
    assert!(lines_match(&["a", "...", "d"], &["a", "b", "c", "d"]) && lines_match(&["...", "d"], &["d"]));
    assert!(!lines_match(&["a", "..."], &["b"]) && !lines_match(&["a"], &["a", "b"]));
}

/// A page that fails half-way is told so with its line, and what it had started is gone.
#[test]
fn a_page_that_fails_leaves_nothing() {
    let mark = format!("7{:06}", std::process::id());
    let page = format!("```sh\nsleep {mark} &\necho started\n```\n```sh\nfalse\n```\n");
    let said = run(&blocks(&page).unwrap()).unwrap_err();
    assert!(said.starts_with("6: the page failed here") && said.contains("started"), "{said}");
    let list = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&list.stdout).contains(&format!("sleep {mark}")), "it still runs");
}
