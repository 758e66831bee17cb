//! Parses command lines like Getopt::Long: `--name=value`, `--name value`, `--name`, one dash or two, and unambiguous prefixes of names.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Value,
}

/// This program's own option, in addition to MHA's: the configuration of the running server.
const OWN: [(&str, Takes); 1] = [("understudy", Takes::Value)];

/// The given options.
#[derive(Debug)]
pub struct Options(BTreeMap<&'static str, String>);

impl Options {
    /// Parses a command line. An unknown option is an error, as in MHA.
    pub fn read(arguments: Vec<String>, known: &'static [(&'static str, Takes)]) -> Result<Self, String> {
        let mut given = BTreeMap::new();
        let mut rest = arguments.into_iter();
        while let Some(argument) = rest.next() {
            let Some(body) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
                return Err(format!("Unknown options: {argument}"));
            };
            let (name, value) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (body, None),
            };
            let (name, takes) = find(known, name)?;
            let value = match (takes, value) {
                (Takes::Nothing, None) => "1".to_owned(),
                (Takes::Nothing, Some(_)) => return Err(format!("Option {name} does not take an argument")),
                (Takes::Value, Some(value)) => value,
                (Takes::Value, None) => {
                    rest.next().ok_or_else(|| format!("Option {name} requires an argument"))?
                }
            };
            given.insert(name, value);
        }
        Ok(Self(given))
    }

    /// The text for `--help`.
    pub fn usage(program: &str, known: &[(&str, Takes)]) -> String {
        let shown = |(name, takes): &(&str, Takes)| match takes {
            Takes::Nothing => format!("[--{name}]"),
            Takes::Value => format!("[--{name}=...]"),
        };
        let is_other = |(name, _): &&(&str, Takes)| *name != "conf" && *name != "help" && *name != "version";
        let mut text = format!("Usage:\n    {program} --conf=/etc/app1.cnf");
        let mut width = text.len();
        for option in known.iter().filter(is_other).map(shown) {
            if width + option.len() > 100 {
                text.push_str("\n       ");
                width = 0;
            }
            text = text + " " + &option;
            width += option.len() + 1;
        }
        text + "\n\n    --understudy=FILE  the configuration of the running Understudy that serves these servers;\n                       none: whatever runs, the command gives the orders itself\n    \
                --help, --version\n\nMHA's options and exit codes; see docs/mha.md for what each does here.\n"
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A whole number.
    pub fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.get(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("--{name} is {text:?}, and must be a whole number"))
    }

    pub fn port(&self, name: &str) -> Result<Option<u16>, String> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("--{name} is {text:?}, which is no port"))
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }
}

fn find(known: &'static [(&'static str, Takes)], name: &str) -> Result<(&'static str, Takes), String> {
    let all = || known.iter().chain(&OWN);
    if let Some(exact) = all().find(|(full, _)| *full == name) {
        return Ok(*exact);
    }
    let mut begin = all().filter(|(full, _)| !name.is_empty() && full.starts_with(name));
    match (begin.next(), begin.next()) {
        (Some(only), None) => Ok(*only),
        (Some(_), Some(_)) => Err(format!("Option {name} is ambiguous")),
        _ => Err(format!("Unknown options: --{name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[(&str, Takes)] = &[
        ("conf", Takes::Value),
        ("interactive", Takes::Value),
        ("orig_master_is_new_slave", Takes::Nothing),
        ("new_master_host", Takes::Value),
        ("new_master_port", Takes::Value),
    ];

    fn read(line: &str) -> Result<Options, String> {
        Options::read(line.split(' ').map(str::to_owned).collect(), KNOWN)
    }

    #[test]
    fn options_are_read_as_perl_reads_them() {
        let options =
            read("--conf=/etc/a.cnf --new_master_host 10.1.1.1 --orig_master --interactive=0").unwrap();
        assert_eq!(
            (options.get("conf"), options.get("new_master_host")),
            (Some("/etc/a.cnf"), Some("10.1.1.1"))
        );
        assert!(options.has("orig_master_is_new_slave") && !options.has("new_master_port"));
        assert_eq!(options.number("interactive", 1), Ok(0));
        assert_eq!(read("--what").unwrap_err(), "Unknown options: --what");
        assert_eq!(read("--new_master=x").unwrap_err(), "Option new_master is ambiguous");
        assert_eq!(read("--conf").unwrap_err(), "Option conf requires an argument");
        assert!(read("--interactive=x").unwrap().number("interactive", 1).is_err());
    }
}
