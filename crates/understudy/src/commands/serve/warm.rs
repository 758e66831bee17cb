//! What `[warm]` needs of each node when `understudy serve --check` asks it: an account that can log in and cannot write, and a stream of
//! its slow log. Any node may be the active one tomorrow, and any a standby.

use warmup::access::Access;
use warmup::replay::target::Target;
use warmup::source;

use settings::{Settings, table as t};
use wiring::warm::{sample, target};

/// One thing that was tried: what is well, or what is not, as a sentence.
type Tried = Result<String, String>;

/// Of each node, in the configuration's order; all are asked at the same time.
pub async fn all(settings: &Settings, warm: &manager::Account, access: &Access) -> Vec<Vec<Tried>> {
    let asked: Vec<_> = settings
        .nodes
        .iter()
        .map(|node| {
            let target = target(warm)(&node.address);
            tokio::spawn(each(
                settings.clone(),
                warm.user.clone(),
                target,
                source::beside(&node.address, settings.get(&t::WARM_STREAM_PORT)),
                access.clone(),
            ))
        })
        .collect();
    let mut all = Vec::new();
    for answer in asked {
        all.push(answer.await.unwrap_or_else(|error| vec![Err(format!("could not be asked: {error}"))]));
    }
    all
}

async fn each(
    settings: Settings,
    user: String,
    target: Target,
    streamer: String,
    access: Access,
) -> Vec<Tried> {
    let account = target.check(settings.get(&t::WARM_WRITABLE)).await;
    let account = account.map(|()| format!("{user} can log in to warm it")).map_err(|e| e.to_string());
    if settings.warms_from_proxy() {
        return vec![account];
    }
    let stream = source::open(&access, &streamer, None, sample(&settings)).await;
    vec![
        account,
        stream.map(|_| format!("its slow log is streamed at {streamer}")).map_err(|e| e.to_string()),
    ]
}
