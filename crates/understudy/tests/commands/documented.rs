//! What the program says, against its documentation: every command, every word of `status`, each limit of docs/waits.md with the test that reaches
//! it, and that no page names a command that is not there. Every link leads to a file and a heading, and the start page has every page.
//! Settings, errors and metrics are compared where they are made: `settings`, `errors`, monitoring/metrics.rs. The terms of ARCHITECTURE.md's glossary are
//! compared with the code, and names that were replaced by the field's terms must not come back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use testbed::program::understudy;
use topology::routes::LaneState;
use topology::view::NodeState;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and docs/, each as one text.
fn pages() -> Vec<(String, String)> {
    let mut files = vec![root().join("README.md")];
    files.extend(std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    files.retain(|path| path.extension().is_some_and(|ext| ext == "md"));
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read_to_string(path).unwrap());
    files.into_iter().map(read).collect()
}

/// A page's lines outside blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The names of a page's headings in links: lower case, dashes for spaces, no punctuation.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    let anchor = |line: &str| {
        line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>()
    };
    headings.map(|line| anchor(line).replace(' ', "-")).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut wrong = vec![];
    let others = ["ARCHITECTURE.md", "CHANGELOG.md"].map(|name| {
        let path = root().join(name);
        (path.display().to_string(), std::fs::read_to_string(path).unwrap())
    });
    for (path, page) in pages().into_iter().chain(others) {
        let here = Path::new(&path);
        let links =
            prose(&page).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("http")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { here.to_owned() } else { here.parent().unwrap().join(file) };
            let has_it =
                || std::fs::read_to_string(&target).is_ok_and(|page| anchors(&page).contains(anchor));
            if !target.exists() || !(anchor.is_empty() || has_it()) {
                wrong.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "these lead nowhere: {wrong:#?}");
}

#[test]
fn the_start_page_has_every_page() {
    let start = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    for (path, _) in pages().iter().filter(|(path, _)| !path.ends_with("README.md")) {
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        assert!(start.contains(&format!("]({name}")), "docs/README.md does not list {name}");
    }
}

/// The commands under this one, by its own help: `["recovery", "measure"]` and so on; those without others under them.
fn commands(above: &[String]) -> Vec<Vec<String>> {
    let mut args: Vec<&str> = above.iter().map(String::as_str).collect();
    args.push("--help");
    let help = understudy(&args).with(0);
    // The program's own help has several lists.
    let listed = match above {
        [] => help.split("\nOptions:\n").next(),
        _ => help.split("\nCommands:\n").nth(1).map(|rest| rest.split("\n\n").next().unwrap()),
    };
    let names = listed.into_iter().flat_map(str::lines).filter_map(|line| {
        // A line of the list is indented by two; the second line of a long description by more.
        let name =
            line.strip_prefix("  ").filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))?;
        name.split_whitespace().next().filter(|name| *name != "help").map(str::to_owned)
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return vec![above.to_vec()];
    }
    names.into_iter().flat_map(|name| commands(&[above, &[name]].concat())).collect()
}

#[test]
fn every_command_is_in_the_documentation_and_every_command_there_exists() {
    let pages = pages();
    let known = commands(&[]);
    assert!(known.len() > 30, "{known:?}");
    let text = |command: &Vec<String>| format!("understudy {}", command.join(" "));
    let is_missing = |text: &String| !pages.iter().any(|(_, page)| page.contains(text));
    let missing: Vec<String> = known.iter().map(text).filter(is_missing).collect();
    assert!(missing.is_empty(), "no page has {missing:?}");
    let first: BTreeSet<&str> = known.iter().map(|command| command[0].as_str()).collect();
    for (path, page) in &pages {
        // `understudy word`, as code or as a line of a block.
        for part in page.split("understudy ").skip(1).zip(page.split("understudy ")) {
            let (behind, before) = part;
            if !before.ends_with(['`', '\n']) {
                continue;
            }
            let word = behind.split(|c: char| !(c.is_ascii_lowercase() || "-_".contains(c))).next().unwrap();
            let is_option = word.is_empty() || word.starts_with('-');
            // Other tools' names are not listed in the help, and are commands all the same.
            let exists = || first.contains(word) || word == "help" || understudy(&[word, "--help"]).code == 0;
            assert!(is_option || exists(), "{path}: `understudy {word}` is no command");
        }
    }
}

#[test]
fn every_word_of_status_is_explained() {
    let page = std::fs::read_to_string(root().join("docs/in-front-of-an-application.md")).unwrap();
    let row = |column: &str| {
        let begin = format!("| {column} |");
        page.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no row of {column}"))
    };
    for state in NodeState::ALL.iter().copied() {
        assert!(row("STATE").contains(&format!("`{}`", state.word())), "STATE {}", state.word());
    }
    for lane in [LaneState::Open, LaneState::Draining, LaneState::Shut] {
        let word = serde_json::to_value(lane).unwrap();
        assert!(row("LANE").contains(&format!("`{}`", word.as_str().unwrap())), "LANE {word}");
    }
    for role in ["writer", "standby", "primary", "replica"] {
        assert!(row("ROLE").contains(&format!("`{role}`")), "ROLE {role}");
    }
    for column in ["FOR", "SESSIONS", "RUNNING", "LIMIT", "QUEUE", "BEHIND", "WHY"] {
        assert!(page.contains(column), "{column} is not explained");
    }
}

/// Names with a meaning that only this project knew; each has given way to a term of the field.
const RETIRED: [&str; 16] = [
    "athand",
    "board",
    "boards",
    "brisk",
    "desk",
    "guilty",
    "house",
    "keeper",
    "shaken",
    "strike",
    "strikes",
    "struck",
    "voice",
    "voices",
    "witness",
    "witnesses",
];

/// The program's source files, in every crate.
fn sources() -> Vec<(String, String)> {
    let mut directories = vec![];
    for member in std::fs::read_dir(root().join("crates")).unwrap() {
        directories.push(member.unwrap().path().join("src"));
    }
    let mut files = vec![];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.display().to_string(), text));
            }
        }
    }
    files
}

#[test]
fn every_term_of_the_glossary_is_in_use() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let glossary = page.split("\n## Glossary\n").nth(1).expect("ARCHITECTURE.md has a glossary");
    let terms: Vec<&str> =
        glossary.lines().filter_map(|line| line.strip_prefix("| **")?.split("** |").next()).collect();
    assert!(terms.len() > 15, "{terms:?}");
    // An identifier has the words of a term with "_" between them.
    let code: Vec<String> =
        sources().into_iter().map(|(_, text)| text.to_lowercase().replace('_', " ")).collect();
    for term in &terms {
        let uses = code.iter().filter(|text| text.contains(term)).count();
        assert!(uses > 0, "{term} is in the glossary, and no source file uses it");
        assert_eq!(terms.iter().filter(|other| *other == term).count(), 1, "{term} is explained twice");
    }
}

#[test]
fn names_that_gave_way_to_the_fields_terms_do_not_come_back() {
    let mut texts = sources();
    assert!(texts.len() > 300, "{} files", texts.len());
    texts.extend(pages());
    let page = root().join("ARCHITECTURE.md");
    texts.push((page.display().to_string(), std::fs::read_to_string(page).unwrap()));
    let mut found = vec![];
    for (path, text) in &texts {
        for (at, line) in text.lines().enumerate() {
            for word in line.split(|c: char| !c.is_ascii_alphabetic()) {
                if RETIRED.contains(&word.to_lowercase().as_str()) {
                    found.push(format!("{path}:{}: {word}", at + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "say it in the field's terms: {found:#?}");
}

/// "60000" ms as "60 s"; the page gives each time in the largest unit that makes it short.
fn in_words(ms: f64) -> String {
    match ms {
        ms if ms >= 3_600_000.0 => format!("{} h", ms / 3_600_000.0),
        ms => format!("{} s", ms / 1000.0),
    }
}

/// The value of a constant, or of a field's default, in a file of the source: `NAME: Duration = Duration::from_secs(5);`.
fn duration_in(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(root().join("crates").join(file)).ok()?;
    let is_its_line = |line: &&str| {
        let before = line.split(&format!("{name}:")).next().filter(|before| before.len() < line.len());
        before.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            && line.contains("Duration::from_")
    };
    let (unit, value) = text.lines().find(is_its_line)?.split("Duration::from_").nth(1)?.split_once('(')?;
    let factors = value.split(')').next()?.split('*').map(|factor| factor.trim().parse::<f64>());
    let value: f64 = factors.product::<Result<f64, _>>().ok()?;
    match unit {
        "secs" => Some(in_words(value * 1000.0)),
        "millis" => Some(in_words(value)),
        _ => None,
    }
}

/// The default of a command's option, from its help: `[default: 6h]`, or seconds where the option's name ends in `-s`.
fn default_of(command: &str, option: &str) -> Option<String> {
    let mut args: Vec<&str> = command.split(' ').skip(1).collect();
    args.push("--help");
    let help = understudy(&args).with(0);
    let default = help.split(&format!("{option} <")).nth(1)?.split("[default: ").nth(1)?.split(']').next()?;
    let number = default.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    Some(match &default[number.len()..] {
        "" if option.ends_with("-s") => format!("{number} s"),
        unit => format!("{number} {unit}"),
    })
}

#[test]
fn every_wait_has_the_limit_and_the_test_that_its_page_says() {
    let page = std::fs::read_to_string(root().join("docs/waits.md")).unwrap();
    let settings = understudy(&["settings", "--json"]).with(0);
    let settings: Vec<serde_json::Value> = serde_json::from_str(&settings).unwrap();
    let default = |path: &str| {
        let row = settings.iter().find(|row| row["path"] == path)?;
        row["default"].as_str()?.parse().ok().map(in_words)
    };
    let mut seen = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what is")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let names =
            |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        // The waits without a limit have no column for it.
        if let [what, limit, _, _] = *cells {
            let (said, from) =
                limit.split_once('`').unwrap_or_else(|| panic!("no place of the limit: {row}"));
            let found = match &*names(&format!("`{from}")) {
                [file, name] => duration_in(file, name),
                [option] if option.starts_with("--") => default_of(&names(what)[0], option),
                [setting] => default(setting),
                other => panic!("{other:?} is no place of a limit: {row}"),
            };
            assert_eq!(found.as_deref(), Some(said.trim()), "{row}");
        }
        let tests = names(cells.last().unwrap());
        let file = std::fs::read_to_string(root().join("crates").join(&tests[0]));
        let file = file.unwrap_or_else(|e| panic!("{}: {e}: {row}", tests[0]));
        let is_there = tests.get(1).is_none_or(|name| file.contains(&format!("fn {name}(")));
        assert!(is_there, "there is no such test: {row}");
        seen += 1;
    }
    assert!(seen > 60, "{seen} waits were read");
}
