//! A node's stop and start commands as shell lines, for programs that take such lines from their users.

use std::path::Path;

use super::process::MARK;
use super::state::{Stage, StageNode};

impl Stage {
    /// A line that stops the node's server cleanly and returns when it has ended.
    pub fn stop_line(&self, node: &StageNode) -> String {
        format!(
            "mariadb-admin --no-defaults --user=root --socket={} shutdown",
            quoted(&node.socket.display().to_string())
        )
    }

    /// A line that starts the node's server as a member of the running group and returns at once. The server belongs to the stage and ends
    /// with it. `rsync`: in the server's own mount namespace, the first program replaces the second; needs namespaces.
    pub fn start_line(&self, node: &StageNode, rsync: Option<(&Path, &Path)>) -> String {
        let text = |path: &Path| quoted(&path.display().to_string());
        let server = format!(
            "exec {} --defaults-file={}",
            text(&self.tools.server),
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

/// Quotes one word for a shell.
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
