//! Crowds that mean harm at every door of `serve`, before two real Galera nodes: everybody else goes on, nobody fails over, and everything
//! is given back.
//!
//! ```text
//!   http.rs    readers of /metrics that never read ┐
//!              silent sockets at API and health    ├─ from addresses of their own ──> serve <── good client, status, /health: each in time
//!              silent sockets at the MySQL port    │                                   └─ /proc/PID: descriptors and memory as before
//!   memory.rs  idle clients, unfinished logins     │
//!   bulk.rs    large results and files             │
//!   passwords.rs  wrong passwords at once          ┘
//! ```
//!
//! Loopback only, and bounded: at most 2,000 sockets, some seconds each.

mod bulk;
mod http;
mod memory;
mod passwords;
mod scene;

use lab::stage::{Stage, StagePlan};
use scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn crowds_disturb_nobody_and_all_is_given_back() {
    let plan = StagePlan {
        name: format!("t{}-attack", std::process::id()),
        nodes: 2,
        server_options: vec!["max_connections = 2000".into()],
        ..StagePlan::default()
    };
    let stage = Stage::up(plan).await.unwrap();

    let scene = Scene::set(&stage, http::FILES_MAX).await;
    http::never_read(&scene).await;
    http::silent(&scene).await;
    http::crowd_at_the_mysql_port(&scene).await;
    scene.nobody_failed_over();
    drop(scene);

    let scene = Scene::set(&stage, memory::FILES_MAX).await;
    memory::idle_clients(&scene).await;
    memory::idle_clients_under_tls(&scene).await;
    bulk::passes_through(&stage, &scene).await;
    memory::unfinished_logins(&scene).await;
    memory::readers_that_never_read(&scene).await;
    passwords::guessed(&scene).await;
    scene.nobody_failed_over();
    drop(scene);
    stage.down().await.unwrap();
}
