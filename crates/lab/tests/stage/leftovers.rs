//! Checks that a stage leaves nothing behind.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use lab::stage::Stage;
use lab::stage::process::marked;

/// The stage's directory.
pub fn directory(stage: &Stage) -> PathBuf {
    stage.nodes()[0].datadir.ancestors().nth(2).unwrap().to_owned()
}

/// Paths of a stage's namespaces and bridge; none on loopback.
pub fn network(stage: &Stage) -> Vec<PathBuf> {
    let namespaces = stage.nodes().iter().filter_map(|node| node.namespace.as_ref());
    let mut paths: Vec<PathBuf> = namespaces.map(|name| Path::new("/run/netns").join(name)).collect();
    if let (true, IpAddr::V4(host)) = (stage.is_namespaced(), stage.host_address()) {
        paths.push(Path::new("/sys/class/net").join(format!("us-br{}", host.octets()[2])));
    }
    for path in &paths {
        assert!(path.exists(), "{}", path.display());
    }
    paths
}

/// Checks that no process, file, namespace or device is left.
pub fn nothing_left(directory: &Path, network: &[PathBuf]) {
    assert_eq!(marked(directory), [], "processes");
    assert!(!directory.exists(), "{}", directory.display());
    // A namespace has the stage's name; the numbers in the devices' names are free again, and a stage of another program
    // may have them by now.
    let root = directory.parent().unwrap();
    let is_stage = |name: std::ffi::OsString| !name.as_encoded_bytes().starts_with(b".");
    let others = || {
        std::fs::read_dir(root)
            .is_ok_and(|entries| entries.flatten().any(|entry| is_stage(entry.file_name())))
    };
    for path in network {
        let may_be_anothers = path.starts_with("/sys") && others();
        assert!(!path.exists() || may_be_anothers, "{}", path.display());
    }
}
