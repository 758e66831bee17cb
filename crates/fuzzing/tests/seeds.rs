//! Each check with its seeds (`fuzz/seeds`), and with seeds that were changed at random: cut, joined, repeated, with other bytes and with words of the
//! dictionary. `FUZZING_INPUTS=N` is how many changed ones a check gets, `FUZZING_SEED=N` which. Coverage guides only the fuzzer (`scripts/fuzz.sh`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use sim::Dice;

/// As the fuzzer's limit.
const INPUT_BYTES_MAX: usize = 4096;

macro_rules! holds_for_changed_seeds {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*

        #[test]
        fn every_check_is_here() {
            let names = fuzzing::CHECKS.map(|(name, _)| name);
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

holds_for_changed_seeds!(
    binlog,
    command,
    gtid,
    handshake,
    health,
    login,
    ndb,
    packet,
    proxy_header,
    response,
    slowlog,
    statement,
    transport
);

fn holds(name: &'static str) {
    let check = fuzzing::named(name).unwrap();
    let seeds = seeds(name);
    for seed in &seeds {
        checked(name, check, seed);
    }
    // Those that open sockets take a hundred times as long.
    let of_every_day = if matches!(name, "login" | "transport") { 1_000 } else { 20_000 };
    let words = dictionary(name);
    let dice = Dice::new(number("FUZZING_SEED").unwrap_or(1));
    for _ in 0..number("FUZZING_INPUTS").unwrap_or(of_every_day) {
        checked(name, check, &changed(&dice, &seeds, &words));
    }
}

/// Shows the input that a check does not hold for, as the fuzzer's script does.
fn checked(name: &'static str, check: fuzzing::Check, input: &[u8]) {
    struct Shown<'a>(&'static str, &'a [u8]);
    impl Drop for Shown<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{} does not hold for the bytes {}", self.0, hex::encode(self.1));
            }
        }
    }
    let _shown = Shown(name, input);
    check(input);
}

/// A seed after one to eight changes.
fn changed(dice: &Dice, seeds: &[Vec<u8>], words: &[Vec<u8>]) -> Vec<u8> {
    let mut input = one_of(dice, seeds).clone();
    for _ in 0..=dice.below(8) {
        let (at, end) = range(dice, input.len());
        match dice.below(8) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = dice.below(256) as u8,
            2 => input.insert(at, dice.below(256) as u8),
            3 => drop(input.drain(at..end)),
            4 => input.truncate(at),
            5 => {
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            6 => {
                let other = one_of(dice, seeds);
                let (from, to) = range(dice, other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
            _ => {
                let word = one_of(dice, words);
                let end = if dice.percent(50) { at } else { (at + word.len()).min(input.len()) };
                input.splice(at..end, word.iter().copied());
            }
        }
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

/// A part of so many bytes: where it begins, and ends.
fn range(dice: &Dice, len: usize) -> (usize, usize) {
    let below = |len: usize| dice.below(len as u64 + 1) as usize;
    let at = below(len);
    (at, at + below(len - at))
}

fn one_of<'a>(dice: &Dice, all: &'a [Vec<u8>]) -> &'a Vec<u8> {
    &all[dice.below(all.len() as u64) as usize]
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = fuzz().join("seeds").join(name);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{name} has no seed");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// The words that the fuzzer has for this check, which are those of packets where it has none of its own: a word stands in quotes, bytes that are no text as `\xNN` (libFuzzer's format of dictionaries).
fn dictionary(name: &str) -> Vec<Vec<u8>> {
    let all = fuzz().join("dictionaries");
    let own = Some(all.join(name)).filter(|file| file.exists());
    let text = std::fs::read_to_string(own.unwrap_or_else(|| all.join("packet"))).unwrap();
    let words: Vec<Vec<u8>> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| unquoted(line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap()))
        .collect();
    assert!(!words.is_empty());
    words
}

fn unquoted(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut left = word.bytes();
    while let Some(byte) = left.next() {
        let escaped = if byte == b'\\' { left.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(b'x') => {
                let digits = [left.next().unwrap(), left.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            Some(itself) => itself,
        });
    }
    bytes
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}
