//! The byte stream of a connection: plain or encrypted, counted, and with a limit on slow readers.
//!
//! ```text
//!   socket ──▶ (TLS) ──▶ Io ──▶ hyper      bytes read before hyper is known are given to it first
//! ```

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

use crate::connection::stall::Stall;
use crate::limits::client::ClientAccount;
use crate::limits::memory::Held;
use crate::limits::{Limit, Limits};
use crate::stats::ServerStats;
use crate::stats::record::RequestRecord;

/// Reads without a wait after which other processes run first. A client may send without end what needs no answer.
const TURN_READS: u8 = 4;

/// A socket with or without encryption.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Activity of a stream, shared by hyper, which owns the stream, and the connection's process.
#[derive(Debug)]
pub(crate) struct Activity {
    start: Instant,
    client: Arc<ClientAccount>,
    /// True if requests share the stream. The bytes after the first of them may then be of any frame, and begin no request.
    is_h2: bool,
    /// Instant of the first byte that belongs to no request yet, in ns since `start`; 0 without one.
    first_byte_ns: AtomicU64,
    /// Instant at which the last request ended, in ns since `start`.
    idle_ns: AtomicU64,
    requests: AtomicU64,
    /// Current request of the stream; none for HTTP/2, where requests share it.
    current: Mutex<Option<Arc<RequestRecord>>>,
    /// True between the head of an HTTP/1.1 request and the last byte of its response: `current` has it.
    is_responding: AtomicBool,
    /// Number of bytes received that belong to the next request.
    unclaimed_in: AtomicU64,
    /// The client has closed the connection during a request.
    is_client_gone: AtomicBool,
    /// HTTP/1.1 responses that wait for the client.
    held: Arc<Held>,
    /// Streams of HTTP/2 that wait for the client, each on its own.
    held_streams: Mutex<Vec<Weak<Held>>>,
}

impl Activity {
    pub(crate) fn new(is_h2: bool, client: Arc<ClientAccount>) -> Self {
        let start = Instant::now();
        Self {
            start,
            client,
            is_h2,
            // The first bytes of HTTP/2 were read to tell its version.
            first_byte_ns: AtomicU64::new(u64::from(is_h2)),
            idle_ns: AtomicU64::new(1),
            requests: AtomicU64::new(0),
            current: Mutex::new(None),
            is_responding: AtomicBool::new(false),
            unclaimed_in: AtomicU64::new(0),
            is_client_gone: AtomicBool::new(false),
            held: Arc::new(Held::new()),
            held_streams: Mutex::new(Vec::new()),
        }
    }

    /// Returns the account of the client's address.
    pub(crate) const fn client(&self) -> &Arc<ClientAccount> {
        &self.client
    }

    fn now_ns(&self) -> u64 {
        (self.start.elapsed().as_nanos() as u64).max(1)
    }

    fn read(&self, bytes: u64) {
        match &*self.current.lock() {
            Some(record) if !record.is_complete() => record.add_in(bytes),
            _ => drop(self.unclaimed_in.fetch_add(bytes, Relaxed)),
        }
        if !self.is_h2 && self.requests.load(Relaxed) == 0 && self.first_byte_ns.load(Relaxed) == 0 {
            self.first_byte_ns.store(self.now_ns(), Relaxed);
        }
    }

    pub(crate) fn begin_request(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.first_byte_ns.store(0, Relaxed);
    }

    /// Attributes the bytes of the stream to a request, from its head on.
    pub(crate) fn set_current(&self, record: &Arc<RequestRecord>) {
        record.add_in(self.unclaimed_in.swap(0, Relaxed));
        let before = self.current.lock().replace(Arc::clone(record));
        self.is_responding.store(true, Relaxed);
        // The end of a record may write a line, which must not happen under the lock.
        drop(before);
    }

    fn written(&self, bytes: u64) {
        self.held.note_progress();
        if let Some(record) = &*self.current.lock() {
            record.add_out(bytes);
        }
    }

    /// Releases a request after its last byte was written.
    fn flushed(&self) {
        let complete = self.current.lock().take_if(|record| record.is_complete());
        if complete.is_some() {
            self.is_responding.store(false, Relaxed);
        }
        drop(complete);
    }

    pub(crate) fn end_request(&self) {
        self.idle_ns.store(self.now_ns(), Relaxed);
        self.end_request_silently();
    }

    /// Like [`end_request`](Self::end_request), if the connection notes the time of the response later.
    pub(crate) fn end_request_silently(&self) {
        self.requests.fetch_sub(1, Relaxed);
    }

    /// Notes that the head of a response is sent now.
    pub(crate) fn note_answer(&self, now: Instant) {
        self.idle_ns.store((now.saturating_duration_since(self.start).as_nanos() as u64).max(1), Relaxed);
    }

    /// Notes that the client has taken bytes of a response now.
    pub(crate) fn note_taken(&self) {
        self.idle_ns.store(self.now_ns(), Relaxed);
    }

    /// Returns the next instant at which a limit is exceeded if nothing happens, and the limit. While a response is on its
    /// way, only the limit of writes counts.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<(Instant, Limit)> {
        if self.is_busy() || self.is_responding() {
            return None;
        }
        Some(match self.first_byte_ns.load(Relaxed) {
            0 => (
                self.start + Duration::from_nanos(self.idle_ns.load(Relaxed)) + limits.idle_timeout,
                Limit::IdleTimeout,
            ),
            first => (self.start + Duration::from_nanos(first) + limits.head_timeout, Limit::HeadTimeout),
        })
    }

    /// Returns the instant of the last response, if all of it was written and no byte of a request has followed.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let is_idle = !self.is_busy()
            && self.first_byte_ns.load(Relaxed) == 0
            && self.unclaimed_in.load(Relaxed) == 0
            && !self.is_responding();
        is_idle.then(|| self.start + Duration::from_nanos(self.idle_ns.load(Relaxed)))
    }

    /// Returns the account of what one response holds until the client takes it.
    pub(crate) fn held_by_response(&self) -> Arc<Held> {
        if !self.is_h2 {
            return Arc::clone(&self.held);
        }
        let held = Arc::new(Held::new());
        let mut streams = self.held_streams.lock();
        if streams.len() == streams.capacity() {
            streams.retain(|stream| stream.strong_count() > 0);
        }
        streams.push(Arc::downgrade(&held));
        held
    }

    /// Returns false if no bytes with a share wait for the client; true if that must be looked at.
    pub(crate) fn may_hold(&self) -> bool {
        if self.is_h2 { !self.held_streams.lock().is_empty() } else { self.held.since().is_some() }
    }

    /// Returns the time since which bytes with a share wait for the client, and it has taken none; `None` if none wait.
    pub(crate) fn held_since(&self) -> Option<Instant> {
        if !self.is_h2 {
            return self.held.since();
        }
        let mut streams = self.held_streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.iter().filter_map(|stream| stream.upgrade()?.since()).min()
    }

    /// Returns true if the request that is busy was answered to its end: its process is about to say so.
    pub(crate) fn is_settling(&self) -> bool {
        !self.is_h2 && self.is_busy() && !self.is_responding()
    }

    fn is_responding(&self) -> bool {
        self.is_responding.load(Relaxed)
    }

    fn is_busy(&self) -> bool {
        self.requests.load(Relaxed) > 0
    }

    pub(crate) fn is_client_gone(&self) -> bool {
        self.is_client_gone.load(Relaxed)
    }
}

/// A place among the open connections, as small as it can be.
#[derive(Debug)]
pub(crate) struct Place(Arc<Semaphore>);

impl Place {
    pub(crate) fn of(permit: OwnedSemaphorePermit) -> Self {
        let places = Arc::clone(permit.semaphore());
        permit.forget();
        Self(places)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// The stream of a connection.
#[derive(Debug)]
pub(crate) struct Io {
    socket: Socket,
    /// Bytes that were read before the version of HTTP was known.
    prefix: Bytes,
    stats: Arc<ServerStats>,
    activity: Arc<Activity>,
    write_timeout: Duration,
    /// True if the end of the client is noticed here, and not by hyper's reads.
    notices_end: bool,
    /// True if no bytes are known to wait behind those that were read.
    may_be_at_end: bool,
    /// Reads since the last wait.
    reads: u8,
    /// Exists while a write waits for the client.
    stall: Option<Box<Stall>>,
    /// A WebSocket keeps it.
    _place: Option<Place>,
}

impl Io {
    pub(crate) fn new(
        socket: Socket,
        prefix: Bytes,
        (stats, activity): (Arc<ServerStats>, Arc<Activity>),
        write_timeout: Duration,
        is_h2: bool,
        place: Option<Place>,
    ) -> Self {
        // The bytes of TLS do not tell its end, and HTTP/2 is read all the time.
        let notices_end = !is_h2 && matches!(socket, Socket::Plain(_));
        Self {
            socket,
            prefix,
            stats,
            activity,
            write_timeout,
            notices_end,
            may_be_at_end: true,
            reads: 0,
            stall: None,
            _place: place,
        }
    }

    /// Returns the account of the client's address.
    pub(crate) fn client(&self) -> &Arc<ClientAccount> {
        self.activity.client()
    }

    /// Returns true if hyper need not read to notice that the client has gone.
    pub(crate) const fn notices_end(&self) -> bool {
        self.notices_end
    }

    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self.socket, Socket::Tls(_))
    }

    /// Gives bytes back, which are read first.
    pub(crate) fn unread(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.prefix = bytes;
        }
    }

    /// Waits for the next bytes, or for the end.
    pub(crate) async fn readable(&mut self) {
        if !self.prefix.is_empty() {
            return;
        }
        let mut first = [0; 32];
        let stream = match &mut self.socket {
            Socket::Plain(socket) => return drop(socket.readable().await),
            Socket::Tls(stream) => stream,
        };
        // Bytes that are decrypted already are not seen by the socket. The end is read again by hyper.
        if let Ok(bytes) = stream.read(&mut first).await {
            self.stats.add_in(bytes);
            self.prefix = Bytes::copy_from_slice(&first[..bytes]);
        }
    }

    /// Notices a client that has gone during a request. Other bytes belong to its body or to a later request.
    fn check_client(&mut self, task: &mut Context<'_>) {
        let Socket::Plain(socket) = &self.socket else { return };
        let mut byte = [0];
        match socket.poll_peek(task, &mut ReadBuf::new(&mut byte)) {
            Poll::Pending => {}
            Poll::Ready(Ok(1..)) => self.may_be_at_end = false,
            Poll::Ready(Ok(0) | Err(_)) => self.activity.is_client_gone.store(true, Relaxed),
        }
    }

    /// Ends the wait for the client if it is too long.
    fn check_write<T>(&mut self, task: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stall.take().is_some() {
                self.activity.note_taken();
            }
            return written;
        }
        let stall = self.stall.get_or_insert_with(|| Box::new(Stall::new(self.socket.tcp(), self.write_timeout)));
        ready!(stall.poll_over(self.socket.tcp(), task));
        self.stats.hit(Limit::WriteTimeout);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client accepts no bytes")))
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            let bytes = self.prefix.len().min(out.remaining());
            out.put_slice(&self.prefix[..bytes]);
            self.prefix.advance(bytes);
            self.activity.read(bytes as u64);
            return Poll::Ready(Ok(()));
        }
        if self.reads >= TURN_READS {
            self.reads = 0;
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.reads += 1;
        let before = out.filled().len();
        self.may_be_at_end = true;
        let read = Pin::new(&mut self.socket).poll_read(task, out);
        if read.is_pending() {
            self.reads = 0;
        }
        ready!(read)?;
        let bytes = out.filled().len() - before;
        if bytes > 0 {
            self.stats.add_in(bytes);
            self.activity.read(bytes as u64);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(task, bytes);
        self.count(&written);
        self.check_write(task, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(task, slices);
        self.count(&written);
        self.check_write(task, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(socket) => socket.is_write_vectored(),
            Socket::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.notices_end && self.may_be_at_end && self.activity.is_busy() {
            self.check_client(task);
        }
        let flushed = Pin::new(&mut self.socket).poll_flush(task);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.activity.flushed();
        }
        self.check_write(task, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.socket).poll_shutdown(task);
        self.check_write(task, shut)
    }
}

impl Io {
    fn count(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.stats.add_out(*bytes);
            self.activity.written(*bytes as u64);
        }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        let last = self.activity.current.lock().take();
        drop(last);
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, task: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(task, out),
            Self::Tls(socket) => Pin::new(socket).poll_read(task, out),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(task, bytes),
            Self::Tls(socket) => Pin::new(socket).poll_write(task, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(task, slices),
            Self::Tls(socket) => Pin::new(socket).poll_write_vectored(task, slices),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(task),
            Self::Tls(socket) => Pin::new(socket).poll_flush(task),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(task),
            Self::Tls(socket) => Pin::new(socket).poll_shutdown(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream as Client;
    use std::pin::pin;

    use rustix::net::sockopt;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::connection::stall::queued_bytes;
    use crate::limits::memory::counted;

    const LIMIT: Duration = Duration::from_secs(30);

    fn account() -> Arc<ClientAccount> {
        Limits::default().client_accounts().of([192, 0, 2, 1].into())
    }

    /// Returns a stream with a full queue, and its client.
    async fn stalled() -> (Io, Client) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        // A small window of the client: each of its reads then moves the queue.
        sockopt::set_socket_recv_buffer_size(&listener, 16 * 1024).expect("allowed");
        let client = Client::connect(listener.local_addr().expect("bound")).expect("it listens");
        client.set_read_timeout(Some(Duration::from_mins(1))).expect("it is open");
        sockopt::set_socket_recv_buffer_size(&client, 16 * 1024).expect("allowed");
        let (socket, _) = listener.accept().await.expect("a client");
        let stats = Arc::new(ServerStats::new(Vec::new()));
        let mut io = Io::new(
            Socket::Plain(socket),
            Bytes::new(),
            (stats, Arc::new(Activity::new(false, account()))),
            LIMIT,
            false,
            None,
        );
        let bytes = vec![0; 1 << 20];
        // The clock is paused, and goes on when only a timer is left: then the queue is full.
        while tokio::time::timeout(LIMIT / 100, io.write(&bytes)).await.is_ok_and(|written| written.is_ok()) {}
        (io, client)
    }
    #[tokio::test(start_paused = true)]
    async fn only_a_client_that_has_stopped_to_read_is_cut() {
        let (mut io, mut client) = stalled().await;
        let queued = |io: &Io| queued_bytes(io.socket.tcp()).expect("a socket of TCP");

        // The queue moves, but not enough of it is free for a write.
        for _ in 0..4 {
            let before = queued(&io);
            while queued(&io) == before {
                assert_ne!(client.read(&mut [0; 4096]).expect("the server writes"), 0);
            }
            let waited = tokio::time::timeout(LIMIT * 3 / 4, io.write(b"more")).await;
            assert!(!matches!(waited, Ok(Err(_))), "{waited:?}");
        }
        let stopped = Instant::now();
        let error = loop {
            if let Err(error) = io.write(b"more").await {
                break error;
            }
        };

        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(stopped.elapsed() <= LIMIT * 5 / 4, "{:?}", stopped.elapsed());
    }

    #[test]
    fn a_stream_of_http2_that_waits_is_seen_beside_one_that_is_read() {
        let activity = Activity::new(true, account());
        let response =
            |held: &Arc<Held>| counted(vec![7; 5000].into(), activity.client().try_take(5000).expect("room"), held);
        let (waits, is_read) = (activity.held_by_response(), activity.held_by_response());
        let rest = response(&waits);
        let since = activity.held_since().expect("a share is held");

        for _ in 0..3 {
            drop(response(&is_read));
            drop(response(&activity.held_by_response()));
        }

        assert_eq!(activity.held_since(), Some(since));
        waits.note_progress();
        assert!(activity.held_since().expect("a share is held") > since);
        drop((rest, waits, is_read));
        assert!(activity.held_since().is_none() && !activity.may_hold());
    }

    /// No write waits for such a client either: its bytes need no answer.
    #[tokio::test]
    async fn a_client_that_sends_without_end_gives_the_scheduler_back() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let mut client = Client::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (socket, _) = listener.accept().await.expect("a client");
        let stats = Arc::new(ServerStats::new(Vec::new()));
        let mut io = Io::new(
            Socket::Plain(socket),
            Bytes::new(),
            (stats, Arc::new(Activity::new(true, account()))),
            LIMIT,
            true,
            None,
        );
        std::io::Write::write_all(&mut client, &[0; 1000]).expect("it is open");
        io.readable().await;

        // A hundred reads of one byte each, of which none has to wait.
        let mut waits = 0;
        for _ in 0..100 {
            let mut byte = [0];
            let mut read = pin!(io.read(&mut byte));
            std::future::poll_fn(|task| {
                let polled = read.as_mut().poll(task);
                waits += u32::from(polled.is_pending());
                polled
            })
            .await
            .expect("it is open");
        }

        assert_eq!(waits, 99 / u32::from(TURN_READS));
    }
}
