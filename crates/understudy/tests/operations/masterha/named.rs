//! `--new_master_host` of a dead master names a server that has less than another one. MHA 0.58 takes it, once it has applied what the latest
//! slave has (`recover_master_gtid_internal`); whether the latest one may be a master itself makes no difference. So what was acknowledged is
//! on the named one before it is the master, whatever the way there.

use std::collections::BTreeSet;

use lab::fault::Fault;

use testbed::writers::Writers;

use super::{Site, follow};

#[tokio::test(flavor = "multi_thread")]
async fn the_named_one_gets_what_another_has_before_it_is_the_master() {
    let site = Site::of("named").await;
    std::fs::create_dir_all(site.dir.path().join("work")).unwrap();
    replaced(&site, ("db1", "db2", "db3")).await;

    // The one that has most may not be the master.
    site.scene.stage.fault("db1", Fault::Heal).await.unwrap();
    follow(&site, "db1", "db2").await;
    let conf = std::fs::read(site.conf()).unwrap();
    let block = [b"hostname=", site.ip("db3").as_bytes()].concat();
    let at = conf.windows(block.len()).position(|window| window == block).unwrap();
    std::fs::write(site.conf(), [&conf[..at], b"no_master=1\n", &conf[at..]].concat()).unwrap();
    replaced(&site, ("db2", "db1", "db3")).await;
    site.scene.stage.down().await.unwrap();
}

/// The master dies while it is written to and `named` is sent nothing; the order names that one. What was acknowledged is on `latest` alone.
async fn replaced(site: &Site, (master, named, latest): (&str, &str, &str)) {
    let Site { scene, .. } = site;
    scene.stage.run_in(named, "STOP SLAVE IO_THREAD").await.unwrap();
    let writers = Writers::at(scene.stage.node(master).unwrap().address);
    writers.more(50).await;
    scene.stage.fault(master, Fault::Kill).await.unwrap();
    let told = writers.stop().await;
    assert_eq!(scene.rows(named, &told).await, []);
    scene.stage.run_in(named, "START SLAVE IO_THREAD").await.unwrap();

    site.called();
    let (host, new) =
        (format!("--dead_master_host={}", site.ip(master)), format!("--new_master_host={}", site.ip(named)));
    let order = ["--master_state=dead", &host, &new, "--interactive=0", "--ignore_last_failover"];
    let said = site.mha("masterha_master_switch", &order).with(0);
    let (shown, ip) =
        (format!("Master failover to {0}({0}:3306) completed successfully.", site.ip(named)), site.ip(named));
    assert!(said.contains(&shown), "{said}");
    site.is_primary(named, &[latest]).await;
    scene.has_all(&told, &[named, latest]).await;
    let both: BTreeSet<_> = [scene.rows(named, &told).await, scene.rows(latest, &told).await].into();
    assert_eq!(both.len(), 1, "they are equal");
    let called = site.called();
    let starts: Vec<&str> =
        called.lines().filter(|line| line.starts_with("failover --command=start")).collect();
    assert_eq!(starts.len(), 1, "clients are led to one only: {called}");
    assert!(starts[0].contains(&format!("--new_master_host={ip} ")), "{called}");
}
