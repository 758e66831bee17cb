//! Reads the configuration of another proxy or failover manager, and says it in Understudy's settings: `understudy import`.
//!
//! ```text
//!   FILE ──> reader of its format ──> items (place, section, key, value)
//!              ──> rules of its product ──> draft (settings; each key's fate) ──> a settings file, or JSON
//! ```
//!
//! Values may be secrets: they go into settings only, and no error has one.

mod draft;
mod haproxy;
mod ini;
mod libconfig;
pub mod masterha;
mod maxscale;
pub mod mha;
mod mysqlrouter;
mod orchestrator;
mod proxysql;
mod write;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use cli::exit::{CommandResult, Failure};
use serde::Serialize;

use draft::{Draft, Fate, Item, Key};
use mha::conf::Conf;

/// Print the settings that do what another product's configuration does, its passwords included, and what of it has no counterpart
#[derive(Args)]
pub struct Import {
    /// The product's configuration
    file: PathBuf,
    /// The product [default: found from the file]
    #[arg(long)]
    from: Option<Product>,
    /// What the servers are, where the file does not say
    #[arg(long)]
    kind: Option<Kind>,
    /// MHA's global configuration [default: /etc/masterha_default.cnf, if it exists]
    #[arg(long, value_name = "FILE")]
    mha_global: Option<PathBuf>,
    /// Write the settings here, for the owner only; never over a file that exists
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// As JSON: the settings, and what became of each key
    #[arg(long)]
    json: bool,
}

/// Whose configurations are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    Haproxy,
    Maxscale,
    Proxysql,
    Masterha,
    Orchestrator,
    Mysqlrouter,
}

/// What the nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Galera,
    Replication,
}

/// A file that is imported.
pub struct Source<'a> {
    pub file: &'a Path,
    pub bytes: &'a [u8],
    /// Of the bytes; what is not UTF-8 is replaced by U+FFFD.
    pub text: &'a str,
    pub mha_global: Option<&'a Path>,
}

/// What an import comes to.
#[derive(Debug, Serialize)]
struct Imported {
    from: Product,
    settings: String,
    keys: Vec<Key>,
    to_fill_in: Vec<Asked>,
    remarks: Vec<String>,
}

/// A setting that somebody has to write.
#[derive(Debug, Serialize)]
struct Asked {
    setting: &'static str,
    why: String,
}

impl Source<'_> {
    /// `haproxy.cfg:12`
    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.file.display())
    }

    /// The same of a byte of the text.
    fn at_byte(&self, byte: usize) -> String {
        self.at(1 + self.text.get(..byte).unwrap_or(self.text).matches('\n').count())
    }
}

impl Import {
    /// Prints it, or writes it to its file.
    pub fn run(&self) -> CommandResult {
        let bytes = infile::read(&self.file)
            .map_err(|error| Failure::Usage(format!("{} cannot be read: {error}", self.file.display())))?;
        let text = String::from_utf8_lossy(&bytes);
        let mha_global = self.mha_global.as_deref();
        let source = Source { file: &self.file, bytes: &bytes, text: &text, mha_global };
        let mut imported = import(&source, self.from, self.kind).map_err(Failure::Usage)?;
        for remark in &imported.remarks {
            eprintln!("warning: {remark}");
        }
        if let Some(out) = &self.out {
            web::private_file::create(out, imported.settings.as_bytes())
                .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", out.display())))?;
            let count = |is: &dyn Fn(&Fate) -> bool| imported.keys.iter().filter(|key| is(&key.fate)).count();
            eprintln!(
                "{}: of {} keys, {} have no counterpart and {} are not known; {} settings are to be filled in: see the comments",
                out.display(),
                imported.keys.len(),
                count(&|fate| matches!(fate, Fate::NoCounterpart { .. })),
                count(&|fate| *fate == Fate::Unknown),
                imported.to_fill_in.len()
            );
            imported.settings.clear();
        }
        if self.json {
            let text = serde_json::to_string_pretty(&imported)
                .map_err(|error| Failure::Failed(error.to_string()))?;
            println!("{text}");
        } else {
            print!("{}", imported.settings);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// # Errors
/// A sentence, with file and line where there is one.
fn import(source: &Source, from: Option<Product>, kind: Option<Kind>) -> Result<Imported, String> {
    let from = from.map_or_else(|| found(source), Ok)?;
    let mut draft = Draft::default();
    if from == Product::Masterha {
        masterha::translate(&Conf::of(source.file, source.bytes, source.mha_global)?, &mut draft);
    } else {
        let items = read(source, from)?;
        let translated = match from {
            Product::Haproxy => haproxy::translate(&items, &mut draft, kind),
            Product::Maxscale => maxscale::translate(&items, &mut draft, kind),
            Product::Proxysql => proxysql::translate(&items, &mut draft, kind),
            Product::Mysqlrouter => mysqlrouter::translate(&items, &mut draft, kind),
            Product::Orchestrator | Product::Masterha => {
                orchestrator::translate(&items, &mut draft);
                Ok(())
            }
        };
        translated.map_err(|why| format!("{}: {why}", source.file.display()))?;
    }
    draft.complete();
    let head = format!(
        "Made by `understudy import` from {}. It holds passwords: let only its owner read it (mode 0600).\n\
         Try it with `understudy serve --check --config FILE` before `understudy serve`.",
        source.file.display()
    );
    let settings = write::toml(&draft, &head);
    let to_fill_in = draft.asked.into_iter().map(|(setting, why)| Asked { setting, why }).collect();
    Ok(Imported { from, settings, keys: draft.keys, to_fill_in, remarks: draft.remarks })
}

/// All keys of a file, in its order.
fn read(source: &Source, product: Product) -> Result<Vec<Item>, String> {
    if product != Product::Masterha
        && let Some(line) = source.text.lines().position(|line| line.contains('\u{fffd}'))
    {
        return Err(format!("{}: this is not text in UTF-8", source.at(line + 1)));
    }
    match product {
        Product::Haproxy => haproxy::read(source),
        Product::Maxscale => ini::read(source, true),
        Product::Mysqlrouter => ini::read(source, false),
        Product::Proxysql => libconfig::read(source),
        Product::Orchestrator => orchestrator::read(source),
        Product::Masterha => Conf::of(source.file, source.bytes, source.mha_global).map(|conf| conf.given),
    }
}

/// Whose configuration a file is.
///
/// # Errors
/// It could be nobody's, or several.
fn found(source: &Source) -> Result<Product, String> {
    let lines = || source.text.lines().map(str::trim);
    let begins = |words: &[&str]| lines().any(|line| words.iter().any(|word| line.starts_with(word)));
    let is_typed = |line: &str| {
        let types = ["server", "monitor", "service", "listener"];
        line.split_once('=').is_some_and(|(key, value)| key.trim() == "type" && types.contains(&value.trim()))
    };
    let is_json = source.text.trim_start().starts_with('{');
    let signs = [
        (Product::Haproxy, begins(&["listen ", "backend ", "frontend ", "defaults"]) && begins(&["server "])),
        (Product::Maxscale, lines().any(is_typed)),
        (Product::Proxysql, begins(&["mysql_servers", "mysql_variables", "admin_variables"])),
        (Product::Masterha, begins(&["[server"]) && begins(&["hostname"])),
        (Product::Orchestrator, is_json && source.text.contains("\"MySQLTopology")),
        (Product::Mysqlrouter, begins(&["[routing"])),
    ];
    let fitting: Vec<Product> =
        signs.iter().filter(|(_, is_so)| *is_so).map(|(product, _)| *product).collect();
    match fitting[..] {
        [product] => Ok(product),
        _ => Err(format!(
            "{}: it is not clear whose configuration this is: say it with --from",
            source.file.display()
        )),
    }
}

#[cfg(test)]
mod tests;
