//! `understudy errors`: what the proxy itself says to clients, and what to do about one of these errors.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use cli::exit::{CommandResult, Failure};

use report::table::{Lean, Table};

/// What each of them means, and what to do.
const PAGE: &str = include_str!("../../../../docs/errors.md");

/// Each error the proxy itself makes: number, SQLSTATE, name, and whether the connection ends with it.
#[derive(Args)]
pub struct Errors {
    /// Explain this one: its number, or its name
    #[arg(value_name = "CODE")]
    code: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Errors {
    /// Prints them.
    ///
    /// # Errors
    /// There is no such error.
    pub fn run(&self) -> CommandResult {
        let all = proxy::error_reply::ALL;
        let wanted = self.code.as_deref();
        let is_wanted = |error: &&proxy::error_reply::ErrorReply| {
            wanted.is_none_or(|wanted| wanted == error.code.to_string() || wanted == error.name)
        };
        let found: Vec<_> = all.iter().filter(is_wanted).collect();
        if let (Some(wanted), []) = (wanted, &*found) {
            return Err(Failure::usage(format!(
                "{wanted} is no error of the proxy's own: a server gave it (`understudy errors` lists them all)"
            )));
        }
        if self.json {
            let list: Vec<_> = found
                .iter()
                .map(|v| {
                    json!({ "code": v.code, "sqlstate": v.state, "name": v.name, "sentence": v.sentence, "closes": v.closes,
                            "explanation": explanation(v.name) })
                })
                .collect();
            println!("{:#}", json!(list));
            return Ok(ExitCode::SUCCESS);
        }
        if let (Some(_), [one]) = (wanted, &*found) {
            println!("{}", explanation(one.name));
            return Ok(ExitCode::SUCCESS);
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
        Ok(ExitCode::SUCCESS)
    }
}

/// The section of the page about the error of that name.
fn explanation(name: &str) -> &'static str {
    let mut sections = PAGE.split("\n## ").skip(1);
    sections.find(|section| section.split(' ').nth(1) == Some(name)).unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_of_errors_has_a_section_for_each() {
        let page = super::PAGE;
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
