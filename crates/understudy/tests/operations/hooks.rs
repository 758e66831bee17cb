//! Hooks on a real failover: the command and the webhook are told what the journal has, in its order, by an independent receiver's judgement.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lab::fault::Fault;
use serde_json::Value;
use testbed::program::{Serving, until, with_config};
use testbed::scene::{Scene, is_well, status_when, writer};

const SECRET: &str = "a secret of the tests";

/// The receiver of contrib; ended when it is dropped.
struct Receiver(Child);

impl Receiver {
    fn start(directory: &Path, port: u16, certificate: Option<&Path>) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/webhook-receiver.py");
        let told = std::fs::File::create(directory.join("received")).unwrap();
        let mut command = Command::new("python3");
        command.arg(program).args(["127.0.0.1", &port.to_string()]).arg(directory.join("secret"));
        let child = command.args(certificate).stdout(told).stderr(Stdio::inherit()).spawn().unwrap();
        Self(child)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn configure(directory: &Path, base: &str, command: &str, url: &str, more: &str) {
    let hooks = format!(
        "[hooks]\ncommand = '{command}'\nwebhook_url = \"{url}\"\nwebhook_secret_file = \"secret\"\n{more}"
    );
    std::fs::write(directory.join("understudy.toml"), format!("{base}\n{hooks}\n")).unwrap();
}

/// The messages in a file, without what the journal's entries have not.
fn messages(file: &Path) -> Vec<Value> {
    let lines = std::fs::read_to_string(file).unwrap_or_default();
    let message = |line: &str| {
        let mut message: Value = serde_json::from_str(line).unwrap();
        let fields = message.as_object_mut().unwrap();
        assert_eq!(fields.remove("cluster").unwrap(), "shop");
        assert!(!fields.remove("host").unwrap().as_str().unwrap().is_empty());
        assert_eq!(fields.remove("id").unwrap().as_str().unwrap().len(), 16);
        message
    };
    lines.lines().map(message).collect()
}

/// The entries of these kinds in the journal.
fn entries(serving: &Serving, kinds: &[&str]) -> Vec<Value> {
    let journal = serving.ask(&["journal", "--json"]).json();
    let is_of = |entry: &&Value| entry["about"]["kind"].as_str().is_some_and(|kind| kinds.contains(&kind));
    journal.as_array().unwrap().iter().filter(is_of).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_is_told() {
    let scene = Scene::of("hooks", true).await;
    let directory = scene.directory("");
    let directory = directory.path();
    let base = std::fs::read_to_string(directory.join("understudy.toml")).unwrap();
    std::fs::write(directory.join("secret"), format!("{SECRET}\n")).unwrap();
    let (told, received, port) = (directory.join("told"), directory.join("received"), free_port());
    let (keep, url) = (
        format!("cat >> {0}; echo >> {0}", told.display()),
        format!("http://127.0.0.1:{port}/hook?token=hidden"),
    );
    configure(directory, &base, &keep, &url, "");
    let serving = Serving::start(directory);
    let primary = writer(&status_when(&serving, "all are well", is_well));

    // The receiver is there only some time after the kill: what was told meanwhile is told again.
    scene.stage.fault(&primary, Fault::Kill).await.unwrap();
    until("the webhook was called in vain", || {
        serving.log().contains("the webhook cannot be reached").then_some(())
    });
    let receiver = Receiver::start(directory, port, None);
    let kinds = ["chosen", "writes"];
    let all = until("the receiver has the failover", || {
        let all = messages(&received);
        let is_told =
            all.iter().any(|it| it["about"]["kind"] == "writes" && it["about"]["node"] != primary.as_str());
        if is_told { Ok(all) } else { Err(all) }
    });
    let entries = entries(&serving, &kinds);
    assert_eq!(entries.len(), 4, "the start and the failover, decided and done: {entries:?}");
    assert_eq!(all, entries);
    assert_eq!(messages(&told), entries, "the command");
    drop(receiver);
    scene.stage.fault(&primary, Fault::Heal).await.unwrap();
    status_when(&serving, "all are well again", is_well);

    failures(directory, &base, &serving, &told);
    assert!(!serving.log().contains("hidden") && !serving.ask(&["journal"]).with(0).contains("hidden"));
    drop(serving);
    scene.stage.down().await.unwrap();
}

/// What does not work is said, by `hooks test` before and in the journal after; and what was mended works.
fn failures(directory: &Path, base: &str, serving: &Serving, told: &Path) {
    let config = directory.join("understudy.toml");
    let test = || with_config(&config, &["hooks", "test"]);
    let port = free_port();
    let url = format!("https://127.0.0.1:{port}/hook?token=hidden");
    let pair = directory.join("pair.pem");
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    std::fs::write(directory.join("ca.pem"), made.cert.pem()).unwrap();
    std::fs::write(&pair, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
    let receiver = Receiver::start(directory, port, Some(&pair));
    configure(
        directory,
        base,
        "echo it is broken >&2; exit 3",
        &url,
        "webhook_ca_file = \"ca.pem\"\nkinds = [\"undone\", \"chosen\"]",
    );
    let said = until("the receiver listens", || {
        let said = test().with(1);
        if said.contains("the webhook answered 204 No Content") { Ok(said) } else { Err(said) }
    });
    assert!(said.contains("hooks.command ended with exit status: 3, and said: it is broken"), "{said}");
    assert!(messages(&directory.join("received")).iter().all(|it| it["about"]["kind"] == "test"));
    serving.ask(&["reload"]).with(0);
    let before = messages(told).len();
    serving.ask(&["switchover"]).with(0);
    let journal = until("the journal says what failed", || {
        let journal = serving.ask(&["journal"]).with(0);
        journal.contains("and said: it is broken; not told: a switchover was ordered").then_some(journal)
    });
    assert!(!journal.contains("the webhook answered"), "{journal}");
    until("the receiver has the switchover", || {
        let all = messages(&directory.join("received"));
        all.last().is_some_and(|it| it["about"]["change"] == "switchover").then_some(())
    });
    assert_eq!(messages(told).len(), before, "the command of before is not run any more");
    drop(receiver);

    // A secret that the receiver does not have.
    let receiver = Receiver::start(directory, port, Some(&pair));
    until("the receiver listens again", || test().with(1).contains("answered 204").then_some(()));
    std::fs::write(directory.join("secret"), format!("{SECRET}, changed")).unwrap();
    let said = test().with(1);
    assert!(said.contains("the webhook answered 403 Forbidden"), "{said}");
    drop(receiver);
    for (wrong, why) in [
        ("kinds = [\"failover\"]", "\"failover\" is none of"),
        ("webhook_ca_file = \"none.pem\"", "hooks.webhook_ca_file"),
    ] {
        configure(directory, base, "true", &url, wrong);
        let said = test().with(2);
        assert!(said.contains(why), "{said}");
        let said = serving.ask(&["reload"]).with(1);
        assert!(said.contains(why), "{said}");
    }
}
