//! `understudy errors`: what the proxy itself says to clients.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use report::table::{Lean, Table};

/// Each error the proxy itself makes: number, SQLSTATE, name, and whether the connection ends with it.
#[derive(Args)]
pub struct Errors {
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Errors {
    /// Prints them.
    pub fn run(&self) -> ExitCode {
        let all = proxy::error_reply::ALL;
        if self.json {
            let list: Vec<_> = all
                .iter()
                .map(|v| {
                    json!({ "code": v.code, "sqlstate": v.state, "name": v.name, "sentence": v.sentence, "closes": v.closes })
                })
                .collect();
            println!("{:#}", json!(list));
            return ExitCode::SUCCESS;
        }
        let mut table = Table::new(&[
            ("CODE", Lean::Right),
            ("STATE", Lean::Left),
            ("NAME", Lean::Left),
            ("ENDS", Lean::Left),
            ("SENTENCE", Lean::Left),
        ]);
        for error_reply in all {
            let ends = if error_reply.closes { "connection" } else { "statement" };
            table.row([
                error_reply.code.to_string(),
                error_reply.state.to_owned(),
                error_reply.name.to_owned(),
                ends.to_owned(),
                error_reply.sentence.to_owned(),
            ]);
        }
        print!("{}", table.text());
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_of_errors_has_a_section_for_each() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        let page = std::fs::read_to_string(page).unwrap();
        let sections: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let expected: Vec<_> =
            proxy::error_reply::ALL.iter().map(|v| format!("{} {} ({})", v.code, v.name, v.state)).collect();
        assert_eq!(
            sections, expected,
            "docs/errors.md needs one \"## CODE name (STATE)\" section for each error, in order"
        );
        for (error_reply, text) in proxy::error_reply::ALL.iter().zip(page.split("\n## ").skip(1)) {
            let (name, sentence) = (error_reply.name, error_reply.sentence);
            assert!(text.contains(&format!("\n> {sentence}")), "docs/errors.md does not quote: {sentence}");
            assert!(text.contains("**What to do:** "), "docs/errors.md does not say what to do about {name}");
            let ends =
                if error_reply.closes { "The connection ends." } else { "The connection stays usable." };
            assert!(
                text.trim_end().ends_with(ends),
                "docs/errors.md: the section of {name} must end: {ends}"
            );
        }
    }
}
