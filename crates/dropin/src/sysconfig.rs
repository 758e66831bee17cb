//! Reads the tools' settings outside the command line: a file of `KEY=VALUE` lines, and the environment.
//!
//! In the originals a shell executes that file, so its values replace those of the environment. Here it is parsed and never executed:
//! quotes are removed and a leading `~` is the home directory, but a value with an expansion (`$x`, `$(...)`, backquotes) is ignored.

use std::path::PathBuf;

/// The possible paths, unless `UNDERSTUDY_SYSCONFIG` names one: Red Hat's, and Debian's.
const FILES: [&str; 2] = ["/etc/sysconfig/clustercheck", "/etc/default/clustercheck"];

/// The settings of the file, with the environment as a fallback.
#[derive(Default)]
pub struct Sysconfig {
    lines: Vec<(String, String)>,
    /// Lines that were not understood: sentences for the log.
    pub remarks: Vec<String>,
}

impl Sysconfig {
    /// Reads the first of the files that exists. None need exist.
    pub fn read() -> Self {
        let named = std::env::var_os("UNDERSTUDY_SYSCONFIG").map(PathBuf::from);
        let files = named.map_or_else(|| FILES.iter().map(PathBuf::from).collect(), |file| vec![file]);
        let Some(file) = files.iter().find(|file| file.exists()) else { return Self::default() };
        match infile::read(file) {
            Ok(bytes) => Self::parse(&String::from_utf8_lossy(&bytes), &file.display().to_string()),
            Err(e) => {
                Self { lines: vec![], remarks: vec![format!("{}: cannot be read: {e}", file.display())] }
            }
        }
    }

    fn parse(text: &str, file: &str) -> Self {
        let mut read = Self::default();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            match line.split_once('=').filter(|(name, _)| is_name(name)) {
                None => read.remarks.push(format!("{file}:{number}: not KEY=VALUE; left aside, since nothing is run here")),
                Some((name, value)) => match word(value) {
                    Some(value) => read.lines.push((name.to_owned(), value)),
                    None => read.remarks.push(format!(
                        "{file}:{number}: the value of {name} is left aside: a shell would have to work it out, and nothing is run here"
                    )),
                },
            }
        }
        read
    }

    /// The value of a setting: the last line of the file that has it, else the environment.
    pub fn get(&self, name: &str) -> Option<String> {
        let of_file = self.lines.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        of_file.or_else(|| std::env::var(name).ok())
    }
}

/// Parses one shell word: up to a blank or a comment, with quotes removed. `None` when it has an expansion or an unclosed quote.
fn word(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    let mut quote = None;
    if text == "~" || text.starts_with("~/") || text.starts_with("~\"/") {
        out.push_str(&std::env::var("HOME").ok()?);
        chars.next();
    }
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), c) => out.push(c),
            (_, '$' | '`') => return None,
            (Some(_), '\\') => match chars.next()? {
                c @ ('$' | '`' | '"' | '\\') => out.push(c),
                c => out.extend(['\\', c]),
            },
            (None, '\\') => out.push(chars.next()?),
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ' | '\t') => break,
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')') => return None,
            (_, c) => out.push(c),
        }
    }
    let rest = chars.as_str().trim_start();
    // In a shell, `A=1 command` would run the command.
    (quote.is_none() && (rest.is_empty() || rest.starts_with('#'))).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_nothing_is_run() {
        let text = "# c\n\nMYSQL_USERNAME=\"check user\"\nexport MYSQL_PASSWORD='a$b`c'  # secret\n AWD=1\nAWD=0\nERR_FILE=/var/log/x\\ y\n\
                    X=$(touch /tmp/never)\nY=`z`\n: > /tmp/never\nZ=1 ls\nQ=\"open\nMYSQL_PASSWORD2=x\"y\"'z'\n";
        let read = Sysconfig::parse(text, "f");
        for (name, value) in [
            ("MYSQL_USERNAME", Some("check user")),
            ("MYSQL_PASSWORD", Some("a$b`c")),
            ("AWD", Some("0")),
            ("ERR_FILE", Some("/var/log/x y")),
            ("MYSQL_PASSWORD2", Some("xyz")),
            ("X", None),
            ("Y", None),
            ("Z", None),
            ("Q", None),
        ] {
            assert_eq!(read.get(name).as_deref(), value, "{name}");
        }
        let lines: Vec<&str> = read.remarks.iter().filter_map(|remark| remark.split(": ").next()).collect();
        assert_eq!(lines, ["f:8", "f:9", "f:10", "f:11", "f:12"]);
        assert!(!read.remarks.concat().contains("touch"), "values may be secrets");
    }

    #[test]
    fn a_tilde_is_the_home_directory() {
        let home = std::env::var("HOME").unwrap();
        assert_eq!(word("~\"/.my.cnf\""), Some(format!("{home}/.my.cnf")));
        assert_eq!(word("~/x"), Some(format!("{home}/x")));
        assert_eq!(word("\"~/x\""), Some("~/x".into()));
    }
}
