//! Results and files that are larger than what the program may hold of them: plain, under TLS, and compressed. `scripts/bench-memory.sh` has gigabytes.

use std::time::{Duration, Instant};

use fixture::channel;
use fixture::client::{Client, ClientOptions};
use lab::stage::Stage;
use lab::stage::account::{APP_PASSWORD, APP_SCHEMA, APP_USER};
use link::ServerTls;
use protocol::capability::Caps;
use testbed::program::LONG;

use super::memory::resident_kib;
use super::scene::Scene;

/// What memory may grow by, in KiB.
const GROWTH_KIB_MAX: u64 = 64 * 1024;
/// How often memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Each way, and how many MiB go through it: compressing takes long in a program that is not optimised.
const WAYS: [(&str, Caps, u64); 4] = [
    ("plain", Caps::NONE, 128),
    ("TLS", Caps::SSL, 128),
    ("zlib", Caps::COMPRESS, 96),
    ("TLS and zstd", Caps(Caps::SSL.0 | Caps::ZSTD.0), 96),
];

pub async fn passes_through(stage: &Stage, scene: &Scene) {
    stage.run_in("db1", &format!("CREATE TABLE {APP_SCHEMA}.bulk (n BIGINT)")).await.unwrap();
    let tls = ServerTls::trusting(scene.certificate().as_bytes()).unwrap();
    let near = channel::before(scene.mysql, tls.config().clone()).await;
    for (name, caps, mib) in WAYS {
        let plain = ClientOptions::default();
        let options = ClientOptions {
            user: APP_USER.into(),
            password: APP_PASSWORD.into(),
            database: Some(APP_SCHEMA.into()),
            caps: plain.caps | caps | Caps::LOCAL_FILES,
            patience: LONG,
            ..plain
        };
        let mut client = Client::connect_as(near, &options).await.unwrap();
        let (before_kib, began) = (resident_kib(scene), Instant::now());
        let mut most_kib = 0;
        let watches = async {
            loop {
                most_kib = most_kib.max(resident_kib(scene));
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            () = async {
                client.read_large_result(mib).await;
                client.send_large_file("bulk", mib).await;
            } => {}
            () = watches => unreachable!("it watches until all has passed"),
        }
        let growth_kib = most_kib.saturating_sub(before_kib);
        println!("{name}: {mib} MiB each way in {:?}, {growth_kib} KiB more", began.elapsed());
        assert!(growth_kib <= GROWTH_KIB_MAX, "{name}: {growth_kib} KiB more than before");
    }
}
