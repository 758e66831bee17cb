//! What is done to a Galera group that has lost a member, on a real cluster: who is evicted and who is not, how long commits stand still,
//! and that every member gets its own settings back.
//!
//! ```text
//!   Understudy killed between two settings ─> a firewall that resets ─> kill -9 ─> a moment ─> frozen, vanished ─> only slow ─> Understudy killed meanwhile ─> half done
//!      └── a writer on each node that the part needs: its commits, and the longest time without one
//! ```
//! Beside it, on a cluster of its own: two nodes and an arbitrator.

mod arbitrator;
mod brief;
mod door;
mod proven;
pub mod scene;
mod silence;

use std::time::Instant;

use scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_lost_a_member_is_helped_and_nobody_else_is_hurt() {
    let begin = Instant::now();
    let told = |what: &str| println!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    let scene = Scene::set().await;
    told("three nodes are up");
    brief::killed_in_between(&scene).await;
    brief::left_by_nobody_known(&scene).await;
    told(
        "Understudy was killed between changing an option and putting it back, and gave it back at its next start",
    );
    proven::behind_resets(&scene).await;
    told("a living node behind a firewall that resets was not evicted");
    proven::killed(&scene).await;
    told("kill -9 of the writer and of another node");
    silence::blink(&scene).await;
    told("with the default settings nothing was done for a moment's standstill");
    silence::silent(&scene).await;
    told("frozen and vanished, the writer and another node");
    silence::slow(&scene).await;
    told("slow nodes, and a busy machine: nobody was shut out");
    silence::killed_meanwhile(&scene).await;
    told("Understudy was killed while timers were short, and gave them back at its next start");
    silence::half_done(&scene).await;
    told("what could not be done on all was undone on all");
    scene.stage.down().await.unwrap();
}
