//! A connection as the proxy has it: compressed packets, and TLS.
//!
//! Input: one byte that chooses, and what the peer sends before it goes away. Checked: what is read from compressed packets is what zlib and zstd
//! themselves make of them, up to the first that is wrong; bytes that are no TLS end a handshake, and give nothing.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};

use link::{Buffer, Codec, ServerConfig, Transport};
use tokio::io::AsyncReadExt;
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: RefCell<Runtime> = RefCell::new(Builder::new_current_thread().enable_io().build().unwrap());
}

static SHOWN: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
    let own = rcgen::generate_simple_self_signed(["db1.test".into()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key);
    Arc::new(config.unwrap())
});

pub(crate) fn holds(input: &[u8]) {
    let Some((&choice, bytes)) = input.split_first() else { return };
    // Some was received before it is known that the connection goes on like this.
    let (received, later) = bytes.split_at(usize::from(choice >> 2).min(bytes.len()));
    RUNTIME.with_borrow(|runtime| {
        runtime.block_on(async {
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(later).unwrap();
            far.shutdown(std::net::Shutdown::Write).unwrap();
            near.set_nonblocking(true).unwrap();
            let mut transport = Transport::from(tokio::net::UnixStream::from_std(near).unwrap());
            let mut buffer = Buffer::default();
            buffer.put(received);
            match choice % 4 {
                0 => compressed(&mut transport, Codec::Zlib, buffer, bytes).await,
                1 => compressed(&mut transport, Codec::Zstd { level: choice }, buffer, bytes).await,
                _ => assert!(transport.accept_tls(SHOWN.clone(), &mut buffer).await.is_err()),
            }
        });
    });
}

async fn compressed(transport: &mut Transport, codec: Codec, mut buffer: Buffer, bytes: &[u8]) {
    transport.compress(codec, None, &mut buffer);
    let mut read = vec![];
    let ended = transport.read_to_end(&mut read).await;
    let (plain, are_right) = unpacked(codec, bytes);
    let both = plain.len().min(read.len());
    assert_eq!(plain[..both], read[..both], "other bytes than the codec's own");
    if are_right {
        assert!(read.len() <= plain.len(), "bytes from nowhere");
    }
    if ended.is_ok() {
        assert!(are_right && read.len() == plain.len(), "what is wrong was taken for an end");
    }
}

/// What the packets hold, up to the first that is wrong, and whether none is. Of that one the codecs differ in how much they give before they see it.
fn unpacked(codec: Codec, mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let number =
        |bytes: &[u8]| usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16;
    let mut out = vec![];
    while let Some((head, rest)) = bytes.split_at_checked(7) {
        let (len, plain) = (number(head), number(&head[4..]));
        let whole = &rest[..len.min(rest.len())];
        if plain == 0 {
            out.extend_from_slice(whole);
        } else {
            let mut made = Vec::new();
            let _ = match codec {
                Codec::Zlib => {
                    flate2::read::ZlibDecoder::new(whole).take(plain as u64).read_to_end(&mut made)
                }
                Codec::Zstd { .. } => zstd::Decoder::new(whole)
                    .and_then(|decoder| decoder.take(plain as u64).read_to_end(&mut made)),
            };
            let is_right = made.len() == plain;
            out.append(&mut made);
            if !is_right {
                return (out, false);
            }
        }
        bytes = &rest[whole.len()..];
    }
    (out, true)
}
