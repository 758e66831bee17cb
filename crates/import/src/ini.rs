//! Files of `[section]`s and `key = value` lines, with their lines: MaxScale's and MySQL Router's. (MHA's are Config::Tiny's: `mha::tiny`.)

use super::Source;
use super::draft::Item;

/// The values in their order; one that stands there twice comes twice. `has_long`: an indented line goes on with the value before it.
///
/// # Errors
/// A sentence with file and line, and without what stands there.
pub fn read(source: &Source, has_long: bool) -> Result<Vec<Item>, String> {
    let mut items: Vec<Item> = Vec::new();
    let (mut section, mut goes_on) = (None, false);
    for (number, line) in source.text.lines().enumerate() {
        let at = source.at(number + 1);
        let text = line.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if has_long
            && goes_on
            && line.starts_with([' ', '\t'])
            && let Some(last) = items.last_mut()
        {
            last.value.push_str(text);
            continue;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or_else(|| format!("{at}: a section ends with ]"))?;
            section = Some(name.trim().to_owned());
            goes_on = false;
            continue;
        }
        let (Some((key, value)), Some(section)) = (text.split_once('='), &section) else {
            return Err(format!("{at}: this is neither [section] nor, below one, key=value"));
        };
        goes_on = true;
        let (section, key, value) = (section.clone(), key.trim().to_owned(), value.trim().to_owned());
        items.push(Item { at, section, key, value });
    }
    Ok(items)
}

/// The value of a key of a section; of several the last.
pub fn value<'a>(items: &'a [Item], section: &str, key: &str) -> Option<&'a Item> {
    items.iter().rev().find(|item| item.section == section && item.key == key)
}
