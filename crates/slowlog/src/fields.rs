//! Parses `Key: value` pairs in the lines of a head.

use memchr::{memchr, memrchr_iter};

/// The pairs in lines that begin with `#`, in their order. Values may be empty. Text that is not a pair is skipped.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    line: &'a [u8],
    lines: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(lines: &'a [u8]) -> Self {
        Self { line: b"", lines }
    }

    /// Those of a single line.
    pub(crate) fn of(line: &'a [u8]) -> Self {
        Self { line: line.strip_prefix(b"# ").unwrap_or_default().trim_ascii_end(), lines: b"" }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while self.line.is_empty() {
                if self.lines.is_empty() {
                    return None;
                }
                let end = memchr(b'\n', self.lines).unwrap_or(self.lines.len());
                self.line = Self::of(&self.lines[..end]).line;
                self.lines = self.lines.get(end + 1..).unwrap_or_default();
            }
            let (found, rest) = pair(self.line);
            self.line = rest;
            if found.is_some() {
                return found;
            }
        }
    }
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// The next pair of a line, and the rest of the line.
#[inline]
fn pair(line: &[u8]) -> (Option<Pair<'_>>, &[u8]) {
    let line = trim_start(line);
    let length = line.iter().position(|byte| !IS_KEY[usize::from(*byte)]).unwrap_or(line.len());
    let (key, behind) = line.split_at(length);
    let Some(behind) = behind.strip_prefix(b":").filter(|_| length > 0) else {
        // Not a key: continues with the next word, if any.
        let next = memchr(b' ', &line[length..]).map_or(line.len(), |space| length + space);
        return (None, &line[next..]);
    };
    match key {
        b"Schema" => schema(key, behind),
        b"explain" | b"Stored_routine" => (Some((key, trim_start(behind))), b""),
        _ => {
            let text = trim_start(behind);
            let length = memchr(b' ', text).unwrap_or(text.len());
            let (value, rest) = text.split_at(length);
            // The next key follows immediately, so this value is empty.
            if value.ends_with(b":") { (Some((key, b"")), text) } else { (Some((key, value)), rest) }
        }
    }
}

/// A name may contain spaces, so its end is where a key begins that servers write behind it. Other tools write one blank between fields.
fn schema<'a>(key: &'a [u8], behind: &'a [u8]) -> (Option<Pair<'a>>, &'a [u8]) {
    let text = behind.strip_prefix(b" ").unwrap_or(behind);
    let end = [&b" QC_hit: "[..], b" Last_errno: ", b" Rows_affected: "]
        .iter()
        .find_map(|next| memrchr_iter(b' ', text).find(|at| text[*at..].starts_with(next)))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (Some((key, name.trim_ascii_end())), rest)
}

/// The bytes that a key may have.
const IS_KEY: [bool; 256] = {
    let mut all = [false; 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = (byte as u8).is_ascii_alphanumeric() || byte == b'_' as usize || byte == b'@' as usize;
        byte += 1;
    }
    all
};

fn trim_start(text: &[u8]) -> &[u8] {
    let spaces = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    &text[spaces..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Fields::new(lines.as_bytes()).map(|(key, value)| (text(key), text(value))).collect()
    }

    fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
        wanted.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn values_may_be_empty_or_have_spaces_in_them() {
        assert_eq!(
            all(
                "# Thread_id: 5  Schema:   QC_hit: No\n# Stored_routine: a b.c\n#\n# explain: 1\tSIMPLE x: y\n"
            ),
            pairs(&[
                ("Thread_id", "5"),
                ("Schema", ""),
                ("QC_hit", "No"),
                ("Stored_routine", "a b.c"),
                ("explain", "1\tSIMPLE x: y")
            ])
        );
        assert_eq!(
            all("# Schema: my db  Last_errno: 0  Killed: 0\n"),
            pairs(&[("Schema", "my db"), ("Last_errno", "0"), ("Killed", "0")])
        );
        assert_eq!(
            all("# Bytes_sent: Tmp_tables: 1 Id:     8\n"),
            pairs(&[("Bytes_sent", ""), ("Tmp_tables", "1"), ("Id", "8")])
        );
        assert_eq!(all("# no pairs here\n#\n\n# : \n"), pairs(&[]));
    }
}
