//! The program, and a streamer of it, for tests on real servers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The program, also under another name.
pub fn called(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.env_remove("UNDERSTUDY_PASSWORD").env("UNDERSTUDY_LOG", "info");
    command
}

/// A process that ends with this.
pub struct Ends(pub Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A streamer.
pub struct Streamer {
    child: Ends,
    /// `http://127.0.0.1:1234/slow`.
    pub url: String,
}

impl Streamer {
    pub fn start(log: &str, listen: &str, further: &[&str]) -> Streamer {
        let mut child = called("understudy")
            .args(["slowlog", "serve", "--file", log, "--listen", listen])
            .args(further)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .find_map(|line| Some(line.unwrap().split_once("streamed at ")?.1.trim().to_owned()))
            .unwrap();
        // What it says later must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Streamer { child: Ends(child), url }
    }

    /// Sends its process a signal: "STOP", "CONT".
    pub fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").arg(format!("-{name}")).arg(self.child.0.id().to_string()).status().unwrap();
        assert!(sent.success(), "{name}");
    }

    /// `127.0.0.1:1234`.
    pub fn address(&self) -> &str {
        self.url.split("//").nth(1).unwrap().trim_end_matches("/slow")
    }

    pub fn metric(&self, name: &str) -> u64 {
        let url = self.url.replace("/slow", "/metrics");
        let text = Command::new("curl").args(["-sS", &url]).output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("understudy_slowlog_{name} ")));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {text}"))
    }
}
