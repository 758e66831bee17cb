//! The same before a Galera cluster: reads go to the synced nodes beside the writer, which could all be written.

use lab::fault::Fault;
use lab::stage::account::{APP_SCHEMA, MONITOR_PASSWORD, MONITOR_USER};
use lab::stage::{Stage, StagePlan};
use testbed::program::{Serving, directory};
use testbed::scene::{Scene, status_when};
use testbed::writers::Writers;

use super::{port, read_by, refused};
use crate::readers::Readers;

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_a_group_go_to_the_nodes_beside_the_writer() {
    let plan = StagePlan { name: format!("t{}-readg", std::process::id()), ..StagePlan::default() };
    let scene = Scene { stage: Stage::up(plan).await.unwrap() };
    let table =
        format!("CREATE TABLE {APP_SCHEMA}.w (writer BIGINT, number BIGINT, PRIMARY KEY (writer, number))");
    scene.stage.run_in("db1", &table).await.unwrap();
    let host = scene.stage.host_address();
    let mut config = "[cluster]\nname = \"shop\"\n".to_owned();
    for node in scene.stage.nodes() {
        config += &format!("[[cluster.node]]\nname = \"{}\"\naddress = \"{}\"\n", node.name, node.address);
    }
    config += &format!(
        "[cluster.monitor]\nuser = \"{MONITOR_USER}\"\npassword = \"{MONITOR_PASSWORD}\"\n\
         [listen]\nmysql = \"{host}:6033\"\nread = \"{host}:6034\"\nhttp = \"{host}:6080\"\n[state]\ndir = \"state\"\n"
    );
    let directory = directory(&config);
    let serving = Serving::start(directory.path());
    status_when(&serving, "the others take reads", |status| {
        status["writer"] == "db1" && read_by(&["db2", "db3"])(status)
    });
    refused::by_whoever_could_be_written(&scene, port(&scene)).await;

    let ids = [1, 2, 3];
    let writing = Writers::at(scene.through());
    writing.more(20).await;
    let readers =
        Readers::at(port(&scene), writing.first(), "CAST(RIGHT(@@wsrep_node_name, 1) AS UNSIGNED)").await;
    readers.settle_on(&ids[1..]).await.is_right("spread");
    serving.ask(&["drain", "db2"]).with(0);
    readers.settle_on(&ids[2..]).await.is_right("drained");
    serving.ask(&["undrain", "db2"]).with(0);
    status_when(&serving, "db2 takes reads again", read_by(&["db2", "db3"]));
    scene.stage.fault("db3", Fault::Kill).await.unwrap();
    readers.settle_on(&ids[1..2]).await.is_right("killed");
    serving.ask(&["switchover", "--to", "db2"]).with(0);
    readers.settle_on(&ids[..1]).await.is_right("switchover");
    readers.stop().await.is_right("the end");
    let written = writing.stop().await;
    assert_eq!(written.errors, Vec::<String>::new());
    drop(serving);
    scene.stage.down().await.unwrap();
}
