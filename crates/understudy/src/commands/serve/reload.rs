//! Reads the configuration again while `serve` runs, and puts it in force: wholly, or not at all.

use api::Reloaded;
use topology::order::OrderRefused;

use super::{accounts, first_start};
use cli::exit::Failure;
use cli::foreground::set_level;
use settings::descriptors;
use settings::difference::{Change, changes};
use settings::table::Applies;
use settings::{Settings, table as t};
use wiring::{Accounts, Credentials, NotApplied, ReloadReply, Services};

/// Reads the file of the settings in force again, and what it names. Waits for less when `ended` returns.
pub fn reload(services: &mut Services, ended: impl Future<Output = ()>) -> ReloadReply {
    match try_reload(services, ended) {
        Ok(changes) => Ok((sentence(&changes), told(changes))),
        Err(NotApplied(code, why)) => {
            let sentence = format!("the configuration was read again, and nothing was changed: {why}");
            Err(OrderRefused { code, sentence })
        }
    }
}

/// What a reload would change: the refusals are its own, except for those that only the nodes can give.
pub fn dry_run(services: &Services) -> ReloadReply {
    let refused = |NotApplied(code, why)| OrderRefused {
        code,
        sentence: format!("dry run, nothing was changed: {why}"),
    };
    let read = read_again(services).map_err(refused)?;
    let sentences: Vec<&str> = read.changes.iter().map(|change| &*change.sentence).collect();
    let sentence = if sentences.is_empty() {
        "dry run: no setting has changed; key, certificate and passwords would be taken from their files"
            .to_owned()
    } else {
        format!("dry run, nothing was changed; this would come into force: {}", sentences.join("; "))
    };
    Ok((sentence, told(read.changes)))
}

fn try_reload(services: &mut Services, ended: impl Future<Output = ()>) -> Result<Vec<Change>, NotApplied> {
    let Read { settings, changes, accounts, credentials } = read_again(services)?;
    let (shares, too_few) = descriptors::divide(&settings);
    // Otherwise it was said before.
    let is_news = changes.iter().any(|change| change.path == t::PROXY_CLIENTS.path);
    if let Some(warning) = too_few.filter(|_| is_news) {
        tracing::warn!("{warning}");
    }
    let level = settings.get(&t::LOG_LEVEL);
    services.apply(settings, &changes, shares, accounts, credentials, ended)?;
    set_level(&level);
    Ok(changes)
}

/// What the files say now.
struct Read {
    settings: Settings,
    changes: Vec<Change>,
    accounts: Accounts,
    credentials: Credentials,
}

/// Reads the files, and looks whether all of it can be taken up.
fn read_again(services: &Services) -> Result<Read, NotApplied> {
    let wrong = |why: String| NotApplied("configuration", why);
    let settings =
        Settings::load(&services.settings().file).map_err(|problems| wrong(problems.to_string()))?;
    let changes = changes(services.settings(), &settings);
    let stuck: Vec<&Change> = changes.iter().filter(|change| change.applies == Applies::Restart).collect();
    if !stuck.is_empty() {
        let list: Vec<String> = stuck.into_iter().map(|change| at_line(&settings, change)).collect();
        let text = format!("{}: that takes a restart, or put it back", list.join("; "));
        return Err(NotApplied("restart", text));
    }
    let said = |failure: Failure| wrong(failure.text().to_owned());
    let accounts = accounts(&settings).map_err(said)?;
    let credentials = first_start::prepare_again(&settings).map_err(said)?;
    Ok(Read { settings, changes, accounts, credentials })
}

fn at_line(settings: &Settings, change: &Change) -> String {
    match change.line {
        Some(line) => format!("{}:{line}: {}", settings.file.display(), change.sentence),
        None => change.sentence.clone(),
    }
}

fn sentence(changes: &[Change]) -> String {
    let sentences: Vec<&str> = changes.iter().map(|change| &*change.sentence).collect();
    if sentences.is_empty() {
        return "the configuration was read again: no setting has changed; key, certificate and passwords are as in their files".to_owned();
    }
    format!("the configuration was read again, and is in force: {}", sentences.join("; "))
}

fn told(changes: Vec<Change>) -> Reloaded {
    let one = |Change { path, sentence, .. }| api::Change { setting: path, change: sentence };
    Reloaded { changes: changes.into_iter().map(one).collect() }
}
