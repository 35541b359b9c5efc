//! Requests of guests to other servers, by HTTP/1.1.
//!
//! ```text
//!   connect ──▶ (TLS) ──▶ request ──▶ head of the response ──▶ body, chunk by chunk
//!   └ connect timeout ┘   └ first byte timeout ────────────┘   └ between bytes timeout
//! ```
//!
//! A server may send without end what needs no answer, for example interim responses. So only a few kilobytes are read
//! before other processes run. A connection counts as memory of guests, and leaves file descriptors to the node.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use rusm_serve::http::uri::{Authority, PathAndQuery, Scheme};
use rusm_serve::http::{Request, Response, Uri};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Interval, interval, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use crate::guest::shared_budget::{BudgetShare, SharedBudget};
use crate::wasi::descriptors;
use crate::wasi::name_lookups::{GuestLookups, NameLookups};

/// Timeout that the guest has not set.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Bytes that are read at once, and maximum length of the head of a response.
const READ_BYTES: usize = 16 * 1024;
/// Memory of a connection: buffers, the state of TLS, and the head of a response that the guest has not taken.
const CONNECTION_BYTES: u64 = 64 * 1024;
/// Reads without a wait after which other processes run first.
const TURN_READS: u8 = 4;

/// Result of the connection after the head of the response.
pub(crate) type Finished = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// Limits that all outgoing requests of a guest share.
#[derive(Clone)]
pub(crate) struct Bounds {
    pub(crate) lookups: Arc<NameLookups>,
    pub(crate) of_guest: Arc<GuestLookups>,
    /// `None` without a bound.
    pub(crate) memory: Option<Arc<SharedBudget>>,
}

impl Bounds {
    /// Takes the memory of a connection, until the result is dropped.
    fn hold_connection(&self) -> Result<Held, Error> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let share = memory.take(CONNECTION_BYTES).ok_or(Error::ConnectionLimitReached)?;
        Ok(Some(Arc::new(share)))
    }
}

/// Memory that counts until the connection has ended and the response was taken.
type Held = Option<Arc<BudgetShare>>;

/// Sends a request. Returns the head of the response, and the future that receives its body.
///
/// # Errors
/// The error that `wasi:http` names for the failure.
pub(crate) async fn send(
    mut request: Request<WasiBody>,
    options: Option<RequestOptions>,
    bounds: Bounds,
) -> Result<(Response<WasiBody>, Finished), Error> {
    let held = bounds.hold_connection()?;
    let or_default =
        |limit: fn(&RequestOptions) -> Option<Duration>| options.as_ref().and_then(limit).unwrap_or(TIMEOUT);
    let connect_timeout = or_default(|options| options.connect_timeout);
    let first_byte_timeout = or_default(|options| options.first_byte_timeout);
    // An interval of no length would be a panic.
    let between_bytes = or_default(|options| options.between_bytes_timeout).max(Duration::from_nanos(1));
    let stream = timeout(connect_timeout, connect(request.uri(), &bounds, held.clone()))
        .await
        .map_err(|_elapsed| Error::ConnectionTimeout)??;
    let builder = http1::Builder::new().max_buf_size(READ_BYTES).handshake(TokioIo::new(stream));
    let (mut sender, connection) = builder.await?;
    // The scheme and the authority are for proxies only.
    *request.uri_mut() = target_of(request.uri())?;

    let mut answered = pin!(timeout(first_byte_timeout, sender.send_request(request)));
    let mut connection = Some(connection);
    let answered = poll_fn(|task| {
        if let Poll::Ready(answered) = answered.as_mut().poll(task) {
            return Poll::Ready(answered);
        }
        if let Some(open) = &mut connection {
            let ended = ready!(Pin::new(open).poll(task));
            connection = None;
            if let Err(error) = ended {
                return Poll::Ready(Ok(Err(error)));
            }
        }
        // The connection has ended, and perhaps with it the response has come.
        answered.as_mut().poll(task)
    });
    let response = answered.await.map_err(|_elapsed| Error::ConnectionReadTimeout)??;
    let mut timer = interval(between_bytes);
    timer.reset();
    let response = response.map(|incoming| ResponseBody { incoming, timer, _held: held }.boxed_unsync());
    let finished = async move {
        match connection {
            Some(connection) => connection.await.map_err(of_response),
            None => Ok(()),
        }
    };
    Ok((response, Box::new(finished)))
}

/// Returns the target of a request: its path with the query. An empty path is sent as `/`.
fn target_of(uri: &Uri) -> Result<Uri, Error> {
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let parsed = if target.starts_with('?') { format!("/{target}").parse() } else { target.parse() };
    parsed.map_err(|_invalid| Error::HttpRequestUriInvalid)
}

/// Opens a connection to the server of a request.
async fn connect(uri: &Uri, bounds: &Bounds, held: Held) -> Result<Turns, Error> {
    let authority = uri.authority().ok_or(Error::HttpRequestUriInvalid)?;
    let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let host = authority.host();
    let addresses = addresses_of(host, port, bounds).await?;
    if !descriptors::has_room() {
        return Err(Error::ConnectionLimitReached);
    }
    let stream = TcpStream::connect(&*addresses).await.map_err(Error::Connect)?;
    let stream: Box<dyn Stream> = if is_tls {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() };
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Box::new(connector.connect(server_name(authority)?, stream).await.map_err(Error::Tls)?)
    } else {
        Box::new(stream)
    };
    Ok(Turns { stream, reads: 0, _held: held })
}

/// Returns the addresses of a host. A lookup may take as long as the resolver of the system lets it: it runs on a few
/// threads of its own, and is refused while too many wait for these.
async fn addresses_of(host: &str, port: u16, bounds: &Bounds) -> Result<Vec<SocketAddr>, Error> {
    if let Ok(address) = format!("{host}:{port}").parse() {
        return Ok(vec![address]);
    }
    let leave = bounds.lookups.leave(&bounds.of_guest).ok_or(Error::ConnectionLimitReached)?;
    let found = leave.run(tokio::net::lookup_host((host, port))).await.map_err(Error::Connect)?;
    Ok(found.collect())
}

/// Returns the name that the certificate of a server must have.
fn server_name(authority: &Authority) -> Result<ServerName<'static>, Error> {
    let host = authority.host();
    if let Ok(address) = format!("{host}:0").parse::<SocketAddr>() {
        return Ok(ServerName::from(address.ip()));
    }
    ServerName::try_from(host.to_owned()).map_err(|_invalid| Error::HttpRequestUriInvalid)
}

fn of_response(error: hyper::Error) -> Error {
    if error.is_timeout() { Error::HttpResponseTimeout } else { error.into() }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream that gives the scheduler back after a few reads.
struct Turns {
    stream: Box<dyn Stream>,
    /// Reads since the last wait.
    reads: u8,
    _held: Held,
}

impl AsyncRead for Turns {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.reads >= TURN_READS {
            self.reads = 0;
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.reads += 1;
        let read = Pin::new(&mut self.stream).poll_read(task, out);
        if read.is_pending() {
            self.reads = 0;
        }
        read
    }
}

impl AsyncWrite for Turns {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}

/// The body of a response, with the timeout between its chunks.
struct ResponseBody {
    incoming: Incoming,
    timer: Interval,
    _held: Held,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match Pin::new(&mut self.incoming).poll_frame(task) {
            Poll::Ready(Some(Ok(frame))) => {
                self.timer.reset();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(of_response(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(self.timer.poll_tick(task));
                Poll::Ready(Some(Err(Error::ConnectionReadTimeout)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_begins_with_a_slash_and_keeps_its_query() {
        for (path, target) in
            [("", "/"), ("/", "/"), ("?a=1", "/?a=1"), ("/a%2Fb?x=1&y", "/a%2Fb?x=1&y"), ("/ü", "/ü"), ("*", "*")]
        {
            let uri = Uri::builder().scheme("http").authority("example.org").path_and_query(path).build().unwrap();
            assert_eq!(target_of(&uri).unwrap().to_string(), target);
        }
    }
}
