//! Rate limits per client: a token bucket, and a stream with rate-limited reads.
//!
//! ```text
//!   take(now) ──▶ true: takes one from the bucket      the bucket holds one second's worth
//!            └──▶ false: the bucket is empty
//! ```
//!
//! They bound the work that clients can cause: new connections, commands, bytes to read, and log lines about refused
//! commands. A [`TokenBucket`] never reads a clock: `now` is an argument.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Log lines per second about refused commands of all clients together: a client that reconnects gets a new budget.
pub(crate) const ALL_REFUSALS_PER_SEC: u32 = 20;

/// A bucket that fills at a constant rate up to a second's worth.
#[derive(Debug)]
pub(super) struct TokenBucket {
    per_sec: f64,
    left: f64,
    refilled_at: Instant,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(super) fn new(per_sec: u32, now: Instant) -> Self {
        Self { per_sec: f64::from(per_sec), left: f64::from(per_sec), refilled_at: now }
    }

    /// Takes one; returns false if the bucket is empty.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let some = self.left(now) >= 1.0;
        if some {
            self.left -= 1.0;
        }
        some
    }

    /// Returns the amount left at `now`.
    fn left(&mut self, now: Instant) -> f64 {
        let added = now.saturating_duration_since(self.refilled_at).as_secs_f64() * self.per_sec;
        self.left = (self.left + added).min(self.per_sec);
        self.refilled_at = now;
        self.left
    }

    /// Returns the time until `amount` is available.
    pub(super) fn wait(&mut self, amount: f64, now: Instant) -> Duration {
        let missing = amount.min(self.per_sec) - self.left(now);
        Duration::from_secs_f64((missing / self.per_sec).max(0.0))
    }
}

/// A stream that is read at no more than a given number of bytes per second; further data stays with the sender.
#[derive(Debug)]
pub(super) struct Throttled<S> {
    stream: S,
    bytes: TokenBucket,
    pause: Option<Pin<Box<Sleep>>>,
}

/// Smallest amount worth reading: with an empty bucket, the stream waits until this much is available.
const READ_MIN_BYTES: f64 = 4096.0;

impl<S> Throttled<S> {
    pub(super) fn new(stream: S, bytes_per_sec: u32) -> Self {
        Self { stream, bytes: TokenBucket::new(bytes_per_sec, Instant::now()), pause: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Throttled<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(pause) = &mut this.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            this.pause = None;
        }
        let now = Instant::now();
        let left = this.bytes.left(now);
        if left < 1.0 {
            let mut pause = Box::pin(tokio::time::sleep(this.bytes.wait(READ_MIN_BYTES, now)));
            // A new sleep wakes this task only after it has been polled once.
            if pause.as_mut().poll(cx).is_pending() {
                this.pause = Some(pause);
                return Poll::Pending;
            }
        }
        let before = into.filled().len();
        std::task::ready!(Pin::new(&mut this.stream).poll_read(cx, into))?;
        // A large read leaves a negative balance, which the next read waits for.
        this.bytes.left -= (into.filled().len() - before) as f64;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Throttled<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_gives_a_seconds_worth_at_once_and_then_its_rate() {
        let start = Instant::now();
        let mut commands = TokenBucket::new(20, start);

        assert_eq!((0..30).filter(|_| commands.take(start)).count(), 20);
        assert_eq!(commands.wait(1.0, start), Duration::from_millis(50));
        let later = start + Duration::from_millis(500);
        assert_eq!((0..30).filter(|_| commands.take(later)).count(), 10);
        let much_later = start + Duration::from_mins(1);
        assert_eq!((0..30).filter(|_| commands.take(much_later)).count(), 20);
    }

    #[tokio::test]
    async fn a_throttled_stream_gives_everything_but_no_faster_than_its_rate() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut far, near) = tokio::io::duplex(64 * 1024);
        let mut near = Throttled::new(near, 32 * 1024);
        let start = Instant::now();

        far.write_all(&vec![7; 40 * 1024]).await.unwrap();
        let mut read = Vec::new();
        while read.len() < 40 * 1024 {
            let mut part = [0; 1024];
            let len = near.read(&mut part).await.unwrap();
            read.extend_from_slice(&part[..len]);
        }

        assert_eq!(read, vec![7; 40 * 1024]);
        assert!(start.elapsed() > Duration::from_millis(100), "{:?}", start.elapsed());
    }
}
