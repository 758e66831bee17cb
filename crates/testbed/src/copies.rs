//! A server made from a copy of another, with mariadb-backup.

use std::path::Path;
use std::process::Command;

use lab::fault::Fault;

use crate::program::{LONG, Serving};
use crate::scene::{Scene, is_well, status_when};

/// Makes `node` a copy of `from` as docs/replication.md says.
pub async fn copy(scene: &Scene, serving: &Serving, from: &str, node: &str) {
    let (source, data) = (scene.stage.node(from).unwrap(), scene.stage.node(node).unwrap().datadir.clone());
    let kept = data.with_extension("copy");
    serving.ask(&["drain", node]).with(0);
    let backup = |args: &[String]| run(Command::new("mariadb-backup").arg("--no-defaults").args(args));
    let target = format!("--target-dir={}", kept.display());
    backup(&[
        "--backup".into(),
        "--user=root".into(),
        format!("--socket={}", source.socket.display()),
        format!("--datadir={}", source.datadir.display()),
        target.clone(),
    ]);
    backup(&["--prepare".into(), target.clone()]);
    let info = std::fs::read_to_string(kept.join("xtrabackup_binlog_info")).unwrap();
    let position = info.split_whitespace().nth(2).expect("a GTID position").to_owned();
    scene.stop(node).await;
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
    }
    backup(&["--copy-back".into(), format!("--datadir={}", data.display()), target]);
    own(&data);
    std::fs::remove_dir_all(kept).unwrap();
    scene.stage.fault(node, Fault::Heal).await.unwrap();
    scene.stage.run_in(node, &format!("SET GLOBAL gtid_slave_pos = '{position}'")).await.unwrap();
    serving.ask(&["undrain", node]).with(0);
    status_when(serving, "the copy follows", |status| {
        scene.follows(status, node) == scene.address(from) && is_well(status)
    });
}

/// The server runs as the owner of its data directory.
fn own(data: &Path) {
    run(Command::new("chown").arg("-R").arg(format!("--reference={}", data.display())).arg(data));
}

fn run(command: &mut Command) {
    let ended = crate::program::run_within(command, LONG);
    assert_eq!(ended.code, 0, "{}", ended.said());
}
