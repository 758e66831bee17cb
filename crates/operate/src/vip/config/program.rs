//! Whether the program that keepalived is told to run can be relied on to be there, and to be what it is now.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// Write permission of the group, and of everybody.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// In a directory with it, nobody removes or replaces what belongs to others.
const STICKY: u32 = 0o1000;

/// What speaks against this program, as a sentence with the way out. One that is not on this machine is not judged: the configuration may
/// be for another.
pub(super) fn doubt(program: &Path) -> Option<String> {
    let shown = program.display();
    let instead =
        "install it first (docs/install.md), or name the installed one with --program /usr/bin/understudy";
    if is_of_a_build(program) {
        return Some(format!("{shown} is the file of a build, and the next build replaces it: {instead}"));
    }
    let whole = std::fs::canonicalize(program).ok()?;
    let open = whole.ancestors().find(|path| is_open(path))?;
    Some(format!(
        "{shown} can be replaced by others than root, who may write {}; with enable_script_security keepalived does not run it: {instead}",
        open.display()
    ))
}

/// `target/debug/...`, `target/release/...` and `target/dist/...`, as cargo lays them out.
fn is_of_a_build(program: &Path) -> bool {
    let names: Vec<_> = program
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    // With --target there is a directory more between the two.
    names.iter().enumerate().any(|(at, name)| {
        *name == "target"
            && names[at + 1..].iter().take(2).any(|name| matches!(*name, "debug" | "release" | "dist"))
    })
}

/// Whether somebody other than root may write this file, or replace what is in this directory.
fn is_open(path: &Path) -> bool {
    let Ok(about) = std::fs::metadata(path) else { return false };
    let mode = about.mode();
    let is_sticky = about.is_dir() && mode & STICKY != 0;
    let by_group = mode & GROUP_WRITES != 0 && about.gid() != 0;
    about.uid() != 0 || ((by_group || mode & OTHERS_WRITE != 0) && !is_sticky)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_others_can_replace_is_told_of() {
        for build in [
            "/home/a/understudy/target/debug/understudy",
            "/x/target/x86_64-unknown-linux-gnu/release/u",
            "/x/target/x86_64-unknown-linux-musl/dist/u",
        ] {
            assert!(
                doubt(Path::new(build)).is_some_and(|why| why.contains("the file of a build")),
                "{build}"
            );
        }
        assert_eq!(doubt(Path::new("/usr/bin/env")), None);
        assert_eq!(doubt(Path::new("/nowhere/at/all/understudy")), None);
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("understudy");
        std::fs::write(&program, "").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&program, open).unwrap();
        assert!(doubt(&program).is_some_and(|why| why.contains("can be replaced by others than root")));
    }
}
