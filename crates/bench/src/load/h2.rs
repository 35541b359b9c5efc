//! HTTP/2 client for load tests: one request at a time on a kept connection.
//!
//! The connection is polled together with the request that waits for it, by the same process. A connection that the server
//! closes between two requests, such as by GOAWAY, is replaced, which is not a failure.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use ::h2::client::{self, Connection, SendRequest};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, USER_AGENT};
use http::{HeaderName, HeaderValue, Request, Uri};

use super::socket::Socket;

/// Bytes that the server may send before this side has read them, of a stream and of the connection.
const WINDOW: u32 = 1 << 20;

/// An HTTP/2 request.
#[derive(Clone, Debug)]
pub(crate) struct H2Request {
    head: Request<()>,
    body: Bytes,
}

impl H2Request {
    /// Returns a request; `None` if the URL, without its path, or another part is not valid.
    pub(super) fn new(method: &str, (base, path): (&str, &str), headers: &[String], body: &str) -> Option<Self> {
        let mut given = Vec::new();
        for header in headers {
            let (name, value) = header.split_once(':')?;
            given.push((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.trim()).ok()?));
        }
        let (scheme, host) = base.split_once("://")?;
        let authority = given.iter().find(|(name, _)| *name == HOST).map(|(_, host)| host.to_str().ok());
        let uri = Uri::try_from(format!("{scheme}://{}{path}", authority.unwrap_or(Some(host))?)).ok()?;
        let mut head = Request::builder().method(method).uri(uri).body(()).ok()?;
        let headers = head.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static("rusm"));
        if !body.is_empty() || ["POST", "PUT", "PATCH"].contains(&method) {
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
        for (name, _) in &given {
            headers.remove(name);
        }
        headers.extend(given.into_iter().filter(|(name, _)| *name != HOST).map(|(name, value)| (Some(name), value)));
        Some(Self { head, body: Bytes::from(body.to_owned()) })
    }
}

/// A connection of HTTP/2.
pub(crate) struct H2Link {
    requests: SendRequest<Bytes>,
    connection: Connection<Socket>,
}

impl H2Link {
    /// Opens HTTP/2 on a connection that speaks it from its first byte on.
    pub(super) async fn open(socket: Socket) -> Result<Self, String> {
        if let Socket::Encrypted(stream) = &socket
            && stream.get_ref().1.alpn_protocol() != Some(b"h2")
        {
            return Err("the server does not offer HTTP/2".to_owned());
        }
        let mut builder = client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).enable_push(false);
        let (requests, connection) = builder.handshake(socket).await.map_err(|error| fault(&error))?;
        Ok(Self { requests, connection })
    }

    /// Returns true if the server has closed the connection since the last answer.
    pub(super) fn is_gone(&mut self) -> bool {
        Pin::new(&mut self.connection).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Sends the request and reads the whole answer. Returns true if the connection can be used again.
    pub(super) async fn request(&mut self, request: &H2Request) -> Result<bool, String> {
        let Self { requests, connection } = self;
        let mut exchange = pin!(exchange(requests, request));
        poll_fn(|task| {
            let end = Pin::new(&mut *connection).poll(task);
            match (exchange.as_mut().poll(task), end) {
                (Poll::Ready(answered), end) => Poll::Ready(answered.map(|()| end.is_pending())),
                (Poll::Pending, Poll::Pending) => Poll::Pending,
                (Poll::Pending, Poll::Ready(Ok(()))) => Poll::Ready(Err("the server closed the connection".to_owned())),
                (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(fault(&error))),
            }
        })
        .await
    }
}

async fn exchange(requests: &SendRequest<Bytes>, request: &H2Request) -> Result<(), String> {
    let failed = |error| fault(&error);
    let mut requests = requests.clone().ready().await.map_err(failed)?;
    let is_end = request.body.is_empty();
    let (answer, mut body) = requests.send_request(request.head.clone(), is_end).map_err(failed)?;
    if !is_end {
        body.send_data(request.body.clone(), true).map_err(failed)?;
    }
    let (head, mut body) = answer.await.map_err(failed)?.into_parts();
    while let Some(part) = body.data().await {
        let bytes = part.map_err(failed)?.len();
        body.flow_control().release_capacity(bytes).map_err(failed)?;
    }
    body.trailers().await.map_err(failed)?;
    if head.status.as_u16() >= 400 { Err(format!("status {}", head.status.as_u16())) } else { Ok(()) }
}

fn fault(error: &::h2::Error) -> String {
    format!("HTTP/2: {error}")
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers one request with a status, and says GOAWAY.
    async fn answer_once(listener: &TcpListener, status: u16) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = ::h2::server::handshake(stream).await.unwrap();
        let (_, mut reply) = connection.accept().await.unwrap().unwrap();
        reply.send_response(http::Response::builder().status(status).body(()).unwrap(), true).unwrap();
        connection.graceful_shutdown();
        while connection.accept().await.is_some() {}
    }

    #[tokio::test]
    async fn a_connection_that_the_server_leaves_is_gone_and_a_status_of_400_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let request = H2Request::new("GET", (&format!("http://{address}"), "/"), &[], "").unwrap();
        for (status, expected) in [(204, Ok(())), (404, Err("status 404".to_owned()))] {
            let client = async {
                let stream = TcpStream::connect(address).await.unwrap();
                let mut link = H2Link::open(stream.into()).await.unwrap();
                let answered = link.request(&request).await;
                while answered == Ok(true) && !link.is_gone() {
                    tokio::task::yield_now().await;
                }
                answered.map(drop)
            };

            let (answered, ()) = tokio::join!(client, answer_once(&listener, status));

            assert_eq!(answered, expected);
        }
    }
}
