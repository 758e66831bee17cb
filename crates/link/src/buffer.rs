//! A buffer between a connection and a parser: filled at its end, consumed at its front, never larger than what it is asked to hold.

use std::fmt;

use tokio::io::{AsyncRead, AsyncReadExt};

const SMALL: usize = 8 * 1024;
const LARGE: usize = 64 * 1024;

/// See the head of this file.
#[derive(Default)]
pub struct Buffer {
    data: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// The same, to be patched in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data[self.start..self.end]
    }

    /// How much is in it.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Forgets the first `n` bytes.
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Gives memory back that a large statement or answer once needed.
    pub fn rest(&mut self) {
        if self.is_empty() && self.data.len() > SMALL {
            self.data = Vec::new();
        }
    }

    /// Makes sure that `wanted` bytes in all fit.
    pub fn reserve(&mut self, wanted: usize) {
        if self.start + wanted <= self.data.len() {
            return;
        }
        self.data.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if wanted > self.data.len() {
            self.data.resize(wanted.next_power_of_two().max(SMALL), 0);
        }
    }

    /// True when a further [`Buffer::fill`] would have to grow beyond what is used for streaming.
    pub fn is_large(&self) -> bool {
        self.len() >= LARGE
    }

    /// Reads once; 0 is the end of the stream. Cancel safe. Grows by itself up to the size used for streaming.
    pub async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<usize> {
        if self.end == self.data.len() {
            let wanted = (self.len() * 2).clamp(SMALL, LARGE.max(self.len() + SMALL));
            self.reserve(wanted);
        }
        let n = stream.read(&mut self.data[self.end..]).await?;
        self.end += n;
        Ok(n)
    }
}

impl fmt::Debug for Buffer {
    /// Its size, never its contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_survive_growth_and_consumption() {
        let input: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let mut stream = &input[..];
        let mut buffer = Buffer::default();
        let mut seen = vec![];
        while buffer.fill(&mut stream).await.unwrap() > 0 {
            if buffer.len() > 10_000 {
                seen.extend_from_slice(&buffer.bytes()[..9_999]);
                buffer.consume(9_999);
            }
        }
        seen.extend_from_slice(buffer.bytes());
        assert_eq!(seen, input);
        buffer.consume(usize::MAX - buffer.len() - 1_000_000);
        buffer.rest();
        assert_eq!(buffer.data.len(), 0);
    }
}
