//! A buffer between a connection and a parser: filled at its end, consumed at its front, and never larger than the caller asked for.
//!
//! A connection that waits for bytes holds no memory for them: an empty buffer of the usual size is returned to a pool of the thread, and
//! the next read takes one from there. So ten thousand idle connections need no buffers, and a busy connection needs no allocation for a
//! statement, only a push and a pop.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// As much as a server collects before it sends (`net_buffer_length`): most answers are read, and passed on, in one piece.
const SMALL: usize = 16 * 1024;
const LARGE: usize = 64 * 1024;
/// Spare buffers of [`SMALL`] bytes that each thread keeps: more than statements that it serves between two waits, and 512 KiB at the most.
const SPARE_MAX: usize = 32;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of [`SMALL`] bytes with arbitrary content.
fn take_spare() -> Vec<u8> {
    // The pool of a thread that is ending is gone.
    let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
    spare.ok().flatten().unwrap_or_else(|| vec![0; SMALL])
}

fn give_spare(data: Vec<u8>) {
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(data);
        }
    });
}

/// See the head of this file.
#[derive(Default)]
pub struct Buffer {
    data: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// The content.
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// The content, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data[self.start..self.end]
    }

    /// The length of the content, in bytes.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether it has no content.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Drops the first `n` bytes.
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Puts bytes behind the content.
    pub fn put(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.reserve(self.len() + bytes.len());
            self.data[self.end..][..bytes.len()].copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Drops `n` bytes in the middle, `at` bytes behind the first.
    pub fn remove(&mut self, at: usize, n: usize) {
        let from = self.start + at;
        self.data.copy_within(from + n..self.end, from);
        self.end -= n;
    }

    /// Releases its memory if it is empty. To be called when a connection becomes idle.
    pub fn rest(&mut self) {
        if self.is_empty() && !self.data.is_empty() {
            let data = std::mem::take(&mut self.data);
            if data.len() == SMALL {
                give_spare(data);
            }
        }
    }

    /// Makes room for `wanted` bytes in total.
    pub fn reserve(&mut self, wanted: usize) {
        if self.start + wanted <= self.data.len() {
            return;
        }
        if self.data.is_empty() && wanted <= SMALL {
            self.data = take_spare();
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

    /// Reads once; 0 is the end of the stream. Cancel safe. Grows by itself up to the size used for streaming. While there is nothing to read,
    /// an empty buffer of the usual size holds no memory; a larger one belongs to a large packet in progress, and keeps its memory.
    pub async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<usize> {
        poll_fn(|context| {
            self.poll_fill(context, |context, room| Pin::new(&mut *stream).poll_read(context, room))
        })
        .await
    }

    /// [`Buffer::fill`] from wherever `read` reads.
    pub(crate) fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        read: impl FnOnce(&mut Context<'_>, &mut ReadBuf<'_>) -> Poll<std::io::Result<()>>,
    ) -> Poll<std::io::Result<usize>> {
        if self.end == self.data.len() {
            let wanted = (self.len() * 2).clamp(SMALL, LARGE.max(self.len() + SMALL));
            self.reserve(wanted);
        }
        let mut room = ReadBuf::new(&mut self.data[self.end..]);
        let read = read(context, &mut room);
        let n = room.filled().len();
        if read.is_pending() && self.data.len() == SMALL {
            self.rest();
        }
        ready!(read)?;
        self.end += n;
        Poll::Ready(Ok(n))
    }
}

impl fmt::Debug for Buffer {
    /// Shows the length, never the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

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

    #[test]
    fn what_is_removed_closes_up() {
        let mut buffer = Buffer { data: b"..abcdef..".to_vec(), start: 2, end: 8 };
        buffer.remove(1, 2);
        assert_eq!(buffer.bytes(), b"adef");
        buffer.remove(2, 2);
        assert_eq!(buffer.bytes(), b"ad");
    }

    #[tokio::test]
    async fn who_waits_for_bytes_holds_no_memory_and_takes_what_is_spare() {
        let (mut near, mut far) = tokio::io::duplex(100);
        let mut buffer = Buffer::default();
        let mut fill = Box::pin(buffer.fill(&mut near));
        assert!(poll_once(fill.as_mut()).is_pending());
        drop(fill);
        assert_eq!(buffer.data.capacity(), 0);
        let spare = || SPARE.with_borrow(Vec::len);
        assert_eq!(spare(), 1);
        far.write_all(b"SELECT 1").await.unwrap();
        assert_eq!(buffer.fill(&mut near).await.unwrap(), 8);
        assert_eq!((buffer.bytes(), spare()), (&b"SELECT 1"[..], 0));
        buffer.rest();
        assert_eq!(buffer.data.len(), SMALL, "what is in it stays");
        buffer.consume(8);
        buffer.rest();
        assert_eq!((buffer.data.capacity(), spare()), (0, 1));
        let mut many: Vec<Buffer> = (0..2 * SPARE_MAX).map(|_| Buffer::default()).collect();
        for buffer in &mut many {
            buffer.reserve(1);
        }
        for buffer in &mut many {
            buffer.rest();
        }
        assert_eq!(spare(), SPARE_MAX, "bounded");
    }

    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(std::task::Waker::noop()))
    }
}
