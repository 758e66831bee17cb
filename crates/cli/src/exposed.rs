//! Files with secrets in them (passwords, keys) that every user of this machine can read: told at each start and by `serve --check`,
//! for nothing else notices them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What is wrong with how this file can be reached, as a sentence with the way out; `None` when nothing is, or when it is not there.
/// A group may read it: that is how a service's user is given a file of root's.
pub fn file(path: &Path) -> Option<String> {
    let whole = fs::canonicalize(path).ok()?;
    let mode = fs::metadata(&whole).ok()?.permissions().mode();
    let may = match (mode & 0o004 != 0, mode & 0o002 != 0) {
        (_, true) => "changed",
        (true, false) => "read",
        (false, false) => return None,
    };
    // A directory that others may not pass keeps everything below it.
    let is_reached =
        |dir: &Path| fs::metadata(dir).is_ok_and(|about| about.permissions().mode() & 0o001 != 0);
    if !whole.ancestors().skip(1).all(is_reached) {
        return None;
    }
    let shown = path.display();
    Some(format!("{shown} can be {may} by every user of this machine: run chmod o-rwx {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_can_reach_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, "x").unwrap();
        set(dir.path(), 0o755);
        for (mode, told) in
            [(0o600, None), (0o640, None), (0o644, Some("be read by")), (0o602, Some("be changed by"))]
        {
            set(&secret, mode);
            let said = file(&secret);
            assert_eq!(said.is_some(), told.is_some(), "{mode:o}: {said:?}");
            assert!(told.is_none_or(|told| said.is_some_and(|said| said.contains(told))), "{mode:o}");
        }
        set(dir.path(), 0o700);
        assert_eq!(file(&secret), None, "nobody else gets to it");
        assert_eq!(file(&dir.path().join("none")), None);
    }
}
