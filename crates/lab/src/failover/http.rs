//! A minimal HTTP/1.1 client for Understudy's API on this machine: one request and one response per connection.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Limit of a response, bytes.
const ANSWER_MAX: u64 = 8 << 20;

/// Sends one request and returns (status, body). The key is sent as `X-Api-Key`, and is never part of an error message.
pub async fn ask(
    address: &str,
    method: &str,
    path: &str,
    key: &str,
    body: Option<&serde_json::Value>,
    within: Duration,
) -> anyhow::Result<(u16, serde_json::Value)> {
    let exchange = async {
        let mut stream =
            TcpStream::connect(address).await.with_context(|| format!("nobody answers at {address}"))?;
        let body = body.map(ToString::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nX-Api-Key: {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await?;
        parse(&answer)
    };
    tokio::time::timeout(within, exchange)
        .await
        .with_context(|| format!("{method} {path}: no answer within {} ms", within.as_millis()))?
        .with_context(|| format!("{method} http://{address}{path}"))
}

fn parse(answer: &[u8]) -> anyhow::Result<(u16, serde_json::Value)> {
    let split = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .context("the answer has no end of its head")?;
    let head = String::from_utf8_lossy(&answer[..split]);
    let status: u16 = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok())
        .context("the answer is not HTTP/1.1")?;
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        bail!("the answer is chunked, which this client does not read");
    }
    let body = &answer[split + 4..];
    let body = if body.is_empty() {
        serde_json::Value::Null
    } else {
        serde_json::from_slice(body)
            .unwrap_or_else(|_| serde_json::Value::String(String::from_utf8_lossy(body).into_owned()))
    };
    Ok((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let (status, body) =
            parse(b"HTTP/1.1 409 Conflict\r\nContent-Length: 9\r\n\r\n{\"a\": 1}\n").unwrap();
        assert_eq!((status, &body["a"]), (409, &serde_json::json!(1)));
        assert_eq!(parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), (204, serde_json::Value::Null));
        assert_eq!(parse(b"HTTP/1.1 404 Not Found\r\n\r\nno").unwrap().1, "no");
        assert!(parse(b"SSH-2.0-x\r\n\r\n").is_err());
    }
}
