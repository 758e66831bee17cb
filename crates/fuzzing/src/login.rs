//! A login to a server that says whatever it likes behind its greeting.
//!
//! Input: one byte that chooses the greeting's plugin and the secret, then packets, each behind its length in one byte. Checked: nothing but an OK lets the
//! program in; and on a plain way the password is never among what it sends.

use std::cell::RefCell;
use std::time::Duration;

use link::{Link, Login, Secret};
use protocol::auth::{caching_sha2, clear, ed25519, native, parsec};
use protocol::packet::put_packet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

const PASSWORD: &str = "a password that nobody guesses";
const PLUGINS: [&str; 6] =
    [native::PLUGIN, caching_sha2::PLUGIN, ed25519::PLUGIN, parsec::PLUGIN, clear::PLUGIN, clear::SHA256];

thread_local! {
    static SERVER: RefCell<(Runtime, TcpListener)> = RefCell::new({
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        (runtime, listener)
    });
}

pub(crate) fn holds(input: &[u8]) {
    let Some((&choice, said)) = input.split_first() else { return };
    let payloads = payloads(said);
    let login = Login::new("app", secret(choice));
    let greeting = greeting(PLUGINS[usize::from(choice) % PLUGINS.len()]);
    SERVER.with_borrow(|(runtime, listener)| {
        runtime.block_on(async {
            let address = listener.local_addr().unwrap().to_string();
            let serving = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut out = vec![];
                put_packet(&mut out, &mut 0, &greeting);
                for (number, payload) in payloads.iter().enumerate() {
                    // Between two of the server's stands one of the client's.
                    put_packet(&mut out, &mut (number as u8).wrapping_mul(2).wrapping_add(2), payload);
                }
                let _ = stream.write_all(&out).await;
                let _ = stream.shutdown().await;
                let mut heard = vec![];
                let _ = stream.read_to_end(&mut heard).await;
                heard
            };
            // The link is dropped at once, so that the server's end comes to its own.
            let logging_in = async { Link::connect(&address, &login, Duration::from_secs(5)).await.is_ok() };
            let (heard, is_in) = tokio::join!(serving, logging_in);
            assert!(
                !is_in || payloads.iter().any(|payload| payload.first() == Some(&0)),
                "let in without an OK"
            );
            let shown = heard.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
            assert!(!shown, "the password was shown");
        });
    });
}

fn secret(choice: u8) -> Secret {
    match choice / 6 % 6 {
        0 => Secret::None,
        1 => Secret::Password(PASSWORD.into()),
        2 => Secret::Signing(PASSWORD.into()),
        3 => Secret::Shown(PASSWORD.into()),
        4 => Secret::Stage1(native::stage1(PASSWORD.as_bytes())),
        _ => Secret::Sha256(caching_sha2::stage1(PASSWORD.as_bytes())),
    }
}

fn payloads(mut said: &[u8]) -> Vec<&[u8]> {
    let mut all = vec![];
    while let Some((&len, rest)) = said.split_first() {
        let (payload, rest) = rest.split_at(usize::from(len).min(rest.len()));
        all.push(payload);
        said = rest;
    }
    all
}

/// MySQL's, of which only the plugin differs.
fn greeting(plugin: &str) -> Vec<u8> {
    let template: &[u8] = include_bytes!("../../../fuzz/seeds/handshake/greeting_mysql");
    let name = template.len() - caching_sha2::PLUGIN.len() - 1;
    [&template[..name], plugin.as_bytes(), &[0]].concat()
}
