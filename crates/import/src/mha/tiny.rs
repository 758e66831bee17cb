//! Lines of an INI file as Perl's Config::Tiny 2.28 reads them, of which MHA's files are made. Bytes, since comments may be in any encoding.
//!
//! | line | is |
//! |---|---|
//! | `# ...`, `; ...`, blanks | nothing |
//! | `... ; comment` | what stands before; a comment behind something needs blanks around its `;`, and a text |
//! | `[ name ]` | a block; the name may have brackets and `=` |
//! | `key = value` | a value; it may be empty, have `#`, `;` and `=`, and keeps its quotes |
//! | else | an error |

/// One line that says something.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    Block(&'a [u8]),
    Value { key: &'a [u8], value: &'a [u8] },
}

/// The lines of a file with their numbers; `None` is one that is an error. Lines end as on Unix, on Windows, or with CR alone.
pub fn lines(text: &[u8]) -> impl Iterator<Item = (usize, Option<Line<'_>>)> {
    let ended = text.split(|byte| *byte == b'\n').flat_map(|line| {
        let end = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
        line[..end].split(|byte| *byte == b'\r')
    });
    let says_something = |line: &[u8]| !matches!(trim(line).first(), None | Some(b'#' | b';'));
    ended
        .enumerate()
        .filter(move |(_, line)| says_something(line))
        .map(|(place, line)| (place + 1, read(line)))
}

fn read(line: &[u8]) -> Option<Line<'_>> {
    let is_comment = |part: &[u8]| is_blank(part[0]) && part[1] == b';' && is_blank(part[2]);
    let line = line.windows(4).position(is_comment).map_or(line, |at| &line[..at]);
    if let Some(name) = trim(line).strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"))
        && !name.is_empty()
    {
        return Some(Line::Block(trim_or_whole(name)));
    }
    let equals = line.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    Some(Line::Value { key: trim_or_whole(&line[..equals]), value: trim(&line[equals + 1..]) })
}

/// A name of blanks only is one, too.
fn trim_or_whole(text: &[u8]) -> &[u8] {
    let inner = trim(text);
    if inner.is_empty() { text } else { inner }
}

fn trim(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(begin, |last| last + 1);
    &text[begin..end]
}

/// Perl's `\s`.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}
