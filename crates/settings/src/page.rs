//! The table of settings for people: `understudy settings`, and docs/settings.md, which a test keeps current.

use std::fmt::Write;

use super::document::LISTS;
use super::table::{Applies, Default, Row, TABLE, ValueKind};
use report::table::wrap;

/// docs/settings.md.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\
         \n\
         <!-- Made by `understudy settings --markdown` from crates/settings/src/table.rs. A test fails when it is not current. -->\n\
         \n\
         Understudy reads one TOML file: the one named with `--config`, else `./understudy.toml`, else\n\
         `/etc/understudy/understudy.toml`. Unknown keys are refused. Relative paths are taken from the directory of the file.\n\
         `understudy serve --check` reads it, tries everything it names, and tells each problem with its line.\n\
         \n\
         A running `understudy serve` takes up changes with a reload (SIGHUP, `systemctl reload understudy`, `understudy reload`), except\n\
         those of settings that say \"Changed by a restart only\". See [install.md](install.md#change-the-configuration).\n",
    );
    let mut section = "";
    for row in TABLE {
        if row.section() != section {
            section = row.section();
            let head = heading(section);
            let _ =
                write!(page, "\n## `{head}`\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n");
        }
        let default = default(row).replace('|', "\\|");
        let allowed = allowed(row.kind).replace('|', "\\|");
        let _ = writeln!(
            page,
            "| `{}` | {default} | {allowed} | {} |",
            row.key(),
            meaning(row).replace('|', "\\|")
        );
    }
    page
}

/// The table for programs. `default` is a value as TOML, and null where there is none.
pub fn json(part: &str) -> serde_json::Value {
    let one = |row: &&Row| {
        let (default, unset) = match row.default {
            Default::Required => (None, None),
            Default::Toml(value) => (Some(value), None),
            Default::Unset(what) => (None, Some(what)),
        };
        serde_json::json!({
            "path": row.path,
            "default": default,
            "is_required": row.default == Default::Required,
            "when_unset": unset,
            "allowed": row.kind.allowed(),
            "meaning": row.doc,
            "applies": match row.applies {
                Applies::Reload => "reload",
                Applies::Restart => "restart",
            },
        })
    };
    TABLE.iter().filter(|row| row.path.contains(part)).map(one).collect()
}

/// The table for a terminal: the rows whose name contains `part`. `None` when there is none.
pub fn text(part: &str) -> Option<String> {
    let mut page = String::new();
    let mut section = "";
    for row in TABLE.iter().filter(|row| row.path.contains(part)) {
        if row.section() != section {
            if !section.is_empty() {
                page.push('\n');
            }
            section = row.section();
            let _ = writeln!(page, "{}", heading(section));
        }
        let holds = match row.default {
            Default::Required => "required".to_owned(),
            Default::Toml(value) => format!("= {value}"),
            Default::Unset(what) => format!("unset: {what}"),
        };
        let _ = writeln!(page, "  {:<24} {holds}", row.key());
        for line in wrap(&meaning(row), 92) {
            let _ = writeln!(page, "      {line}");
        }
        let _ = writeln!(page, "      {}.", capital(&row.kind.allowed()));
    }
    (!page.is_empty()).then_some(page)
}

fn meaning(row: &Row) -> String {
    match row.applies {
        Applies::Reload => row.doc.to_owned(),
        Applies::Restart => format!("{} Changed by a restart only.", row.doc),
    }
}

fn heading(section: &str) -> String {
    if LISTS.contains(&section) { format!("[[{section}]]") } else { format!("[{section}]") }
}

fn default(row: &Row) -> String {
    match row.default {
        Default::Required => "**required**".into(),
        Default::Toml(value) => format!("`{value}`"),
        Default::Unset(what) => format!("unset: {what}"),
    }
}

fn allowed(kind: ValueKind) -> String {
    kind.allowed()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
