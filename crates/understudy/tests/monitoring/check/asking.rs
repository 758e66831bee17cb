//! Questions from outside, and what comes back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use testbed::program::LONG;

/// Says something, and reads until the other side closes.
pub fn say(address: SocketAddr, words: &[u8]) -> String {
    try_say(address, words).unwrap()
}

pub fn try_say(address: SocketAddr, words: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LONG)?;
    stream.set_read_timeout(Some(LONG))?;
    stream.write_all(words)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub fn get(address: SocketAddr, target: &str) -> String {
    say(address, format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
}

/// The status code of the plain answer.
pub fn code(address: SocketAddr) -> String {
    get(address, "/")[9..12].to_owned()
}

/// Reads one response of a connection that is kept.
pub fn response(stream: &mut TcpStream) -> String {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let length =
        head.split("Content-Length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

pub fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
