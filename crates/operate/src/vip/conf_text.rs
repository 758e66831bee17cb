//! The text of a keepalived.conf as blocks, lines and words, the way keepalived splits it (keepalived.conf(5): "Quoted strings",
//! "Parameter substitution", "include").
//!
//! Enters: any text. Leaves: entries, and a sentence for each line that cannot be followed from here: an `include`. A parameter that is
//! not defined for certain stays in its word with its `$`, so that whoever needs the word sees that it was not understood.

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

/// Each of them reads other files.
const INCLUDES: [&str; 6] = ["include", "includer", "includem", "includew", "includeb", "includea"];
/// A parameter's value may have parameters in it. More than this in one line is one that contains itself.
const REPLACEMENTS_MAX: usize = 64;
/// keepalived's own lines are shorter.
const LINE_BYTES_MAX: usize = 4096;

/// One line of a block, or a block with its head.
#[derive(Debug, Default)]
pub struct Entry {
    /// Where it stands, from 1.
    pub line: usize,
    /// Never empty.
    pub words: Vec<String>,
    /// What stands between its braces.
    pub inside: Vec<Entry>,
}

impl Entry {
    /// The first word.
    pub fn key(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The second one.
    pub fn value(&self) -> &str {
        self.words.get(1).map_or("", String::as_str)
    }

    /// The first line of that key.
    pub fn line_of(&self, key: &str) -> Option<&Entry> {
        self.inside.iter().find(|entry| entry.key() == key)
    }

    /// All lines of all blocks of that name.
    pub fn block(&self, key: &str) -> impl Iterator<Item = &Entry> {
        self.inside.iter().filter(move |entry| entry.key() == key).flat_map(|entry| &entry.inside)
    }
}

/// Everything on the outer level.
pub fn entries(text: &str, unread: &mut Vec<String>) -> Vec<Entry> {
    let mut parameters = HashMap::new();
    // Within a definition of several lines.
    let mut goes_on = false;
    // The blocks that are open, the outermost first; it is never empty.
    let mut open = vec![Entry::default()];
    for (at, line) in text.lines().enumerate() {
        let at = at + 1;
        let line = without_comment(line).trim();
        if goes_on {
            goes_on = line.ends_with('\\');
            continue;
        }
        if line.split_whitespace().next().is_some_and(|word| INCLUDES.contains(&word)) {
            unread.push(format!("line {at}: `{line}`: included files are not read"));
            continue;
        }
        let (condition, rest) = match line.split_once(char::is_whitespace) {
            Some((word, rest)) if word.starts_with('@') => (true, rest.trim_start()),
            _ => (false, line),
        };
        if let Some((name, value)) = definition(rest) {
            goes_on = value.ends_with('\\');
            if condition || goes_on {
                // Which value it has is not known here.
                parameters.remove(name);
            } else {
                parameters.insert(name.to_owned(), value.to_owned());
            }
            continue;
        }
        let mut words = Vec::new();
        for token in tokens(&replaced(line, &parameters)) {
            match token {
                Token::Word(word) => words.push(word),
                Token::Open => {
                    open.push(Entry { line: at, words: std::mem::take(&mut words), inside: Vec::new() });
                }
                Token::Close => {
                    put(&mut open, at, &mut words);
                    if open.len() > 1
                        && let Some(closed) = open.pop()
                        && let Some(outer) = open.last_mut()
                    {
                        outer.inside.push(closed);
                    }
                }
            }
        }
        put(&mut open, at, &mut words);
    }
    open.swap_remove(0).inside
}

fn put(open: &mut [Entry], line: usize, words: &mut Vec<String>) {
    if let Some(block) = open.last_mut()
        && !words.is_empty()
    {
        block.inside.push(Entry { line, words: std::mem::take(words), inside: Vec::new() });
    }
}

/// `#` or `!` begins a comment, unless it is quoted.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (at, sign) in line.char_indices() {
        match sign {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' | '\'' if quote == Some(sign) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(sign),
            '#' | '!' if quote.is_none() => return &line[..at],
            _ => {}
        }
    }
    line
}

fn is_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

/// `$NAME=value`.
fn definition(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix('$')?.split_once('=')?;
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, value.trim()))
}

/// With the values of parameters in the place of `${NAME}`, and of `$NAME` before a space or the end.
fn replaced(line: &str, parameters: &HashMap<String, String>) -> String {
    let mut line = line.to_owned();
    let mut from = 0;
    for _ in 0..REPLACEMENTS_MAX {
        // Where the next `$` stands, and the name and the length of what it begins.
        let Some(at) = line[from..].find('$').map(|at| from + at) else { break };
        let rest = &line[at + 1..];
        let (name, bytes) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((name, _)) => (name, name.len() + 3),
            None => {
                let name = &rest[..rest.find(|sign| !is_name(sign)).unwrap_or(rest.len())];
                let ends = rest[name.len()..].chars().next().is_none_or(char::is_whitespace);
                (if ends { name } else { "" }, name.len() + 1)
            }
        };
        match parameters.get(name) {
            Some(value) if line.len() + value.len() <= LINE_BYTES_MAX => {
                line.replace_range(at..at + bytes, value);
                from = at;
            }
            _ => from = at + 1,
        }
    }
    line
}

enum Token {
    Word(String),
    Open,
    Close,
}

/// Quotes hold a word together, `\` takes away a sign's meaning, and a brace is a token of its own.
fn tokens(line: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    // `None` between words: quotes can make an empty one.
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => word.get_or_insert_default().push(unescaped(&mut signs)),
            '"' | '\'' if quote == Some(sign) => quote = None,
            '"' | '\'' if quote.is_none() => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            _ if quote.is_some() => word.get_or_insert_default().push(sign),
            // A parameter that nobody defined.
            '$' if signs.peek() == Some(&'{') => {
                let word = word.get_or_insert_default();
                word.push(sign);
                for sign in signs.by_ref() {
                    word.push(sign);
                    if sign == '}' {
                        break;
                    }
                }
            }
            _ if sign.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            '{' | '}' => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(if sign == '{' { Token::Open } else { Token::Close });
            }
            _ => word.get_or_insert_default().push(sign),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens
}

/// What a `\` and the signs after it mean.
fn unescaped(signs: &mut Peekable<Chars<'_>>) -> char {
    let number = |signs: &mut Peekable<Chars<'_>>, radix: u32, digits: usize| {
        let mut value = 0_u8;
        for _ in 0..digits {
            let Some(digit) = signs.peek().and_then(|sign| sign.to_digit(radix)) else { break };
            signs.next();
            // As in C, what does not fit into a byte falls out of it.
            value = value.wrapping_mul(radix as u8).wrapping_add(digit as u8);
        }
        char::from(value)
    };
    if signs.peek().is_some_and(|sign| sign.is_digit(8)) {
        return number(signs, 8, 3);
    }
    match signs.next() {
        None => '\\',
        Some('a') => '\u{7}',
        Some('b') => '\u{8}',
        Some('E') => '\u{1b}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('v') => '\u{b}',
        Some('x') if signs.peek().is_some_and(char::is_ascii_hexdigit) => number(signs, 16, usize::MAX),
        Some('c') if signs.peek().is_some_and(char::is_ascii) => {
            signs.next().map_or('c', |sign| char::from(sign as u8 & 0x1f))
        }
        Some(sign) => sign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line's words, joined by `|`.
    fn lines(text: &str) -> Vec<String> {
        let mut unread = Vec::new();
        let lines = entries(text, &mut unread).iter().map(|entry| entry.words.join("|")).collect();
        assert!(unread.is_empty(), "{unread:?}");
        lines
    }

    #[test]
    fn words_are_split_as_the_manual_says() {
        for (line, words) in [
            (r#"abcd" efg h jkl "mnop"#, "abcd efg h jkl mnop"),
            (r#"abcd "efg h jkl" mnop"#, "abcd|efg h jkl|mnop"),
            (r#"script '/bin/a "b c"' # why"#, r#"script|/bin/a "b c""#),
            (r#"script "/bin/a 'b c' #d !e {f}""#, "script|/bin/a 'b c' #d !e {f}"),
            (r#"a "b\"c" '\'' \# \x41\x4a \101 \\"#, r#"a|b"c|'|#|AJ|A|\"#),
            (r#""" x"#, "|x"),
        ] {
            assert_eq!(lines(line), [words], "{line}");
        }
    }

    #[test]
    fn parameters_are_replaced_as_the_manual_says() {
        let manual = "$ADDRESS_BASE=10.2.${ADDRESS_BASE_SUB}\n$ADDRESS_BASE_SUB=0\n${ADDRESS_BASE}.100/32\n\
                      $ADDRESS_BASE_SUB=10\n${ADDRESS_BASE}.100/32\n";
        assert_eq!(lines(manual), ["10.2.0.100/32", "10.2.10.100/32"]);
        assert_eq!(lines("$V=1\na $V b$V ${V}c $Vd $V/2"), ["a|1|b1|1c|$Vd|$V/2"]);
        // What is not known for certain is not replaced.
        assert_eq!(lines("$V=1\n@main $V=2\na $V ${W}"), ["a|$V|${W}"]);
        assert_eq!(lines("$V= \\\n  one \\\n  two\na $V"), ["a|$V"]);
        // One that contains itself ends, too.
        assert!(lines("$V=$V $V\na $V")[0].len() <= LINE_BYTES_MAX);
    }

    #[test]
    fn an_included_file_is_told_of() {
        let mut unread = Vec::new();
        assert_eq!(entries("a\n include /etc/keepalived/conf.d/*.conf\nincluded", &mut unread).len(), 2);
        assert_eq!(unread, ["line 2: `include /etc/keepalived/conf.d/*.conf`: included files are not read"]);
    }
}
