//! Writes an import as a settings file: each setting with where it came from, and at the end what of the source is not in it.

use std::fmt::Write;

use settings::table::{Row, TABLE};
use toml::Value;

use super::draft::{Draft, Fate, Key, Node};

/// How many places are named behind a setting.
const PLACES_SHOWN: usize = 3;

/// The file's text. `head`: its first lines.
pub fn toml(draft: &Draft, head: &str) -> String {
    let mut text = String::new();
    for line in head.lines() {
        comment(&mut text, "", line);
    }
    let mut sections: Vec<&str> = TABLE.iter().map(|row| row.section()).collect();
    sections.dedup();
    for section in sections {
        let rows: Vec<&Row> = TABLE.iter().copied().filter(|row| row.section() == section).collect();
        if section == "cluster.node" {
            nodes(&mut text, draft);
        } else {
            table(&mut text, draft, section, &rows);
        }
    }
    if !draft.remarks.is_empty() {
        text.push_str("\n# Look at this:\n");
    }
    for remark in &draft.remarks {
        comment(&mut text, "", &format!("  {remark}"));
    }
    let unknown: Vec<(&Key, &str)> =
        draft.keys.iter().filter(|key| key.fate == Fate::Unknown).map(|key| (key, "")).collect();
    let nothing: Vec<(&Key, &str)> = draft
        .keys
        .iter()
        .filter_map(|key| match &key.fate {
            Fate::NoCounterpart { why } => Some((key, why.as_str())),
            _ => None,
        })
        .collect();
    let all = draft.keys.len();
    let title =
        format!("Not known to this import, and left out ({} of {all} keys); look at each:", unknown.len());
    list(&mut text, &title, &unknown);
    list(
        &mut text,
        &format!("What has no counterpart here ({} of {all} keys), and why:", nothing.len()),
        &nothing,
    );
    text
}

fn table(text: &mut String, draft: &Draft, section: &str, rows: &[&Row]) {
    let is_there = |row: &&&Row| draft.settings.contains_key(row.path) || draft.asked.contains_key(row.path);
    let there: Vec<_> = rows.iter().filter(is_there).collect();
    if there.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n[{section}]");
    for row in there {
        let asked = draft.asked.get(row.path);
        match draft.settings.get(row.path) {
            Some(said) => {
                let mut from = said.from.iter().take(PLACES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
                if said.from.len() > PLACES_SHOWN {
                    let _ = write!(from, " and {} more", said.from.len() - PLACES_SHOWN);
                }
                comment(text, &format!("{} = {}   ", row.key(), said.value), &from);
            }
            None => comment(
                text,
                "",
                &format!("{} =    # TO FILL IN: {}", row.key(), asked.map_or("", String::as_str)),
            ),
        }
    }
}

fn nodes(text: &mut String, draft: &Draft) {
    if let Some(why) = draft.asked.get("cluster.node.address") {
        text.push('\n');
        comment(text, "", &format!("TO FILL IN: {why}"));
    }
    for Node { name, address, priority, from } in &draft.nodes {
        text.push('\n');
        comment(text, "[[cluster.node]]   ", from);
        let _ = writeln!(text, "name = {}", Value::String(name.clone()));
        let _ = writeln!(text, "address = {}", Value::String(address.clone()));
        match priority {
            Some((priority, "")) => drop(writeln!(text, "priority = {priority}")),
            Some((priority, why)) => comment(text, &format!("priority = {priority}   "), why),
            None => {}
        }
    }
}

fn list(text: &mut String, title: &str, keys: &[(&Key, &str)]) {
    if keys.is_empty() {
        return;
    }
    text.push('\n');
    comment(text, "", title);
    for (Key { at, section, key, .. }, why) in keys {
        let colon = if why.is_empty() { "" } else { ": " };
        let section = if section.is_empty() { String::new() } else { format!("[{section}] ") };
        comment(text, "", &format!("  {at} {section}{key}{colon}{why}"));
    }
}

/// A line that ends with a comment, in which nothing of the source can end it.
fn comment(text: &mut String, before: &str, what: &str) {
    let shown = what.chars().map(|c| if c.is_control() { '?' } else { c });
    let _ = writeln!(text, "{before}# {}", shown.collect::<String>());
}
