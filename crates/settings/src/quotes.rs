//! Text without quotes, the commonest slip in a TOML file: the parser calls an address "an invalid float". Here it is told for what it is.

use super::table::{TABLE, ValueKind};

/// When the value on this line (from 1) looks like text without quotes: what to write. A password is never shown.
pub(super) fn missing(text: &str, line: usize) -> Option<String> {
    let (key, value) = text.lines().nth(line.checked_sub(1)?)?.split_once('=')?;
    let (key, value) = (key.trim(), value.split('#').next().unwrap_or_default().trim());
    let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if !is_key {
        return None;
    }
    let items: Vec<&str> = match value.strip_prefix('[') {
        Some(rest) => rest.trim_end().trim_end_matches(']').split(',').map(str::trim).collect(),
        None => vec![value],
    };
    if !items.iter().any(|item| is_bare_text(item)) {
        return None;
    }
    // What stands behind a misspelled key may be a password.
    let mut rows = TABLE.iter().filter(|row| key.rsplit('.').next() == Some(row.key())).peekable();
    let is_shown = rows.peek().is_some() && rows.all(|row| row.kind != ValueKind::Secret);
    let quoted: Vec<String> = items
        .iter()
        .filter(|item| !item.is_empty())
        .map(|item| if is_bare_text(item) { format!("\"{item}\"") } else { (*item).to_owned() })
        .collect();
    let example = match (is_shown, value.starts_with('[')) {
        (false, _) => "\"...\"".to_owned(),
        (true, true) => format!("[{}]", quoted.join(", ")),
        (true, false) => quoted.concat(),
    };
    Some(format!("text must be in quotes: {key} = {example}"))
}

/// Neither in quotes, nor a number, a switch, a list or a table.
fn is_bare_text(value: &str) -> bool {
    let begins_otherwise = value.starts_with(['"', '\'', '[', '{', ']', '}']);
    // A quote further on belongs to something else that is wrong.
    !value.is_empty()
        && !begins_otherwise
        && !value.contains(['"', '\'', '\\'])
        && value.parse::<f64>().is_err()
        && !matches!(value, "true" | "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_quotes_is_told_with_its_quotes() {
        for (line, told) in [
            ("address = 10.77.0.1:3306", Some("address = \"10.77.0.1:3306\"")),
            ("name = shop # ours", Some("name = \"shop\"")),
            ("mysql = [0.0.0.0:6033, \"[::]:6033\"]", Some("mysql = [\"0.0.0.0:6033\", \"[::]:6033\"]")),
            ("pasword = hunter2", Some("pasword = \"...\"")),
            ("mysql = [0.0.0.0:6033, 10.0.0.1:6033]", Some("mysql = [\"0.0.0.0:6033\", \"10.0.0.1:6033\"]")),
            ("password = hunter2", Some("password = \"...\"")),
            ("id = [", None),
            ("id = ", None),
            ("id = 5", None),
            ("name = \"open", None),
            ("[listen", None),
        ] {
            let said = missing(&format!("# first\n{line}\n"), 2);
            assert_eq!(said, told.map(|told| format!("text must be in quotes: {told}")), "{line}");
        }
        assert_eq!(missing("", 1), None);
        assert_eq!(missing("a = b", 0), None);
    }
}
