//! A node's stop and start as shell lines, for programs that are given such lines by their users.

use std::path::Path;

use super::process::MARK;
use super::{Stage, StageNode};

impl Stage {
    /// A line that stops the node's server in good order, and returns when it has ended.
    pub fn stop_line(&self, node: &StageNode) -> String {
        format!(
            "mariadb-admin --no-defaults --user=root --socket={} shutdown",
            quoted(&node.socket.display().to_string())
        )
    }

    /// A line that starts the node's server, as a member of the group that runs, and returns at once. The server is the stage's: it ends with it.
    /// `rsync`: in the server's own view of the file system, this program stands in the place of the second one; needs namespaces.
    pub fn start_line(&self, node: &StageNode, rsync: Option<(&Path, &Path)>) -> String {
        let text = |path: &Path| quoted(&path.display().to_string());
        let server = format!(
            "exec {} --defaults-file={}",
            text(&self.tools.mariadbd),
            text(&node.directory.join("my.cnf"))
        );
        let inner = match rsync {
            Some((ours, theirs)) => format!("mount --bind {} {} && {server}", text(ours), text(theirs)),
            None => server,
        };
        let within = self
            .network
            .namespace(node.number)
            .map_or_else(String::new, |name| format!("ip netns exec {name} "));
        format!(
            "cd / && {MARK}={} setsid {within}sh -c {} >>{} 2>&1 </dev/null &",
            text(&self.directory),
            quoted(&inner),
            text(&node.directory.join("output.log"))
        )
    }
}

/// One word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        let output = std::process::Command::new("sh")
            .args(["-c", &format!("printf %s {}", quoted("a 'b' $c"))])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "a 'b' $c");
    }
}
