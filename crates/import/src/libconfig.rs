//! Files in libconfig's format, which ProxySQL's are: `name = value` or `name : value`, with groups `{}`, lists `()` and arrays `[]`.
//!
//! Source: libconfig's manual, "Configuration Files" and "Configuration File Grammar". Left out: `@include`, which is refused.

use super::Source;
use super::draft::Item;

/// Deeper than any configuration, and shallow enough for a thread's stack.
const DEPTH_MAX: usize = 32;

struct Reader<'a> {
    source: &'a Source<'a>,
    rest: &'a str,
    items: Vec<Item>,
    depth: usize,
}

/// The values in their order; the section of one in a list is `mysql_servers[2]`. A group or list with nothing in it is an item, too.
///
/// # Errors
/// A sentence with file and line, and without what stands there.
pub fn read(source: &Source) -> Result<Vec<Item>, String> {
    let mut reader = Reader { source, rest: source.text, items: Vec::new(), depth: 0 };
    reader.settings("")?;
    if reader.rest.is_empty() { Ok(reader.items) } else { Err(reader.wrong("a name is expected")) }
}

impl Reader<'_> {
    fn at(&self) -> String {
        self.source.at_byte(self.source.text.len() - self.rest.len())
    }

    fn wrong(&self, what: &str) -> String {
        format!("{}: {what}", self.at())
    }

    /// Blanks and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let end = if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.rest.find('\n')
            } else if self.rest.starts_with("/*") {
                self.rest.find("*/").map(|at| at + 2)
            } else {
                return;
            };
            self.rest = end.map_or("", |end| &self.rest[end..]);
        }
    }

    /// Whether one of these comes next, which is passed then.
    fn takes(&mut self, wanted: &[char]) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// What goes on as long as `fits`.
    fn word(&mut self, fits: impl Fn(char) -> bool) -> String {
        self.skip();
        let (word, rest) = self.rest.split_at(self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        word.to_owned()
    }

    fn settings(&mut self, section: &str) -> Result<(), String> {
        loop {
            self.skip();
            let at = self.at();
            let name = self.word(|c| c.is_ascii_alphanumeric() || "_-*".contains(c));
            if name.is_empty() {
                return Ok(());
            }
            if !self.takes(&['=', ':']) {
                return Err(self.wrong("= is expected"));
            }
            self.value(section, &name, at)?;
            self.takes(&[';', ',']);
        }
    }

    fn value(&mut self, section: &str, key: &str, at: String) -> Result<(), String> {
        let whole = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
        let before = self.items.len();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong("groups are in one another too deep"));
        }
        self.skip();
        let value = if self.takes(&['{']) {
            self.settings(&whole)?;
            if !self.takes(&['}']) {
                return Err(self.wrong("a name or } is expected"));
            }
            String::new()
        } else if self.takes(&['(', '[']) {
            self.list(section, key)?;
            String::new()
        } else {
            self.scalar()?
        };
        self.depth -= 1;
        if self.items.len() == before {
            self.items.push(Item { at, section: section.into(), key: key.into(), value });
        }
        Ok(())
    }

    fn list(&mut self, section: &str, key: &str) -> Result<(), String> {
        for place in 0.. {
            if self.takes(&[')', ']']) {
                break;
            }
            let at = self.at();
            self.value(section, &format!("{key}[{place}]"), at)?;
            if !self.takes(&[',']) && !self.rest.starts_with([')', ']']) {
                return Err(self.wrong("a comma or the end of the list is expected"));
            }
        }
        Ok(())
    }

    /// A word or number as it is, or strings one behind the other.
    fn scalar(&mut self) -> Result<String, String> {
        if !self.rest.starts_with('"') {
            let word = self.word(|c| c.is_ascii_alphanumeric() || "+-._".contains(c));
            return if word.is_empty() { Err(self.wrong("a value is expected")) } else { Ok(word) };
        }
        let mut text = String::new();
        while self.rest.starts_with('"') {
            let mut chars = self.rest[1..].char_indices();
            loop {
                match chars.next() {
                    Some((at, '"')) => {
                        self.rest = &self.rest[at + 2..];
                        break;
                    }
                    Some((_, '\\')) => text.extend(chars.next().map(|(_, c)| match c {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        other => other,
                    })),
                    Some((_, c)) => text.push(c),
                    None => return Err(self.wrong("a string is not closed")),
                }
            }
            self.skip();
        }
        Ok(text)
    }
}
