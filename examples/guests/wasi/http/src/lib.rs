//! A component of `wasi:http/proxy`: it answers requests of HTTP, and fails in each way that a guest can.
//!
//! ```text
//!   /          a greeting                       /trap, /trap-late, /silent   fails before, during, without a response
//!   /echo      the body of the request          /spin, /sleep, /memory       never ends, waits, takes all memory
//!   /stream    five lines, with pauses          /after                       works on after its response
//!   /headers   the fields of the request        /status/N, /trailers, /fetch/AUTHORITY, /random
//!   /count     number of requests that this instance has answered
//! ```

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use wasip2::clocks::monotonic_clock;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingRequest, OutgoingBody, OutgoingRequest, OutgoingResponse, ResponseOutparam,
    Scheme,
};
use wasip2::io::streams::OutputStream;

struct Http;

/// Requests that this instance has begun to answer.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

wasip2::http::proxy::export!(Http);

impl Guest for Http {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let count = REQUESTS.fetch_add(1, Ordering::Relaxed) + 1;
        let target = request.path_with_query().unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        match path.as_str() {
            "/echo" => echo(request, out),
            "/count" => text(out, 200, &format!("{count}\n")),
            "/stream" => respond(out, 200, &[], |stream| {
                for line in 1..=5 {
                    stream.write_all(format!("line {line}\n").as_bytes()).expect("the client reads");
                    stream.flush().expect("the client reads");
                    sleep_ms(20);
                }
            }),
            "/headers" => {
                let mut lines: Vec<String> = request
                    .headers()
                    .entries()
                    .into_iter()
                    .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(&value)))
                    .collect();
                lines.sort();
                text(out, 200, &lines.concat());
            }
            "/trap" => panic!("a trap before the response"),
            "/trap-late" => respond(out, 200, &[], |stream| {
                stream.write_all(b"the beginning\n").expect("the client reads");
                sleep_ms(20);
                panic!("a trap in the body");
            }),
            "/silent" => {}
            "/refuse" => ResponseOutparam::set(out, Err(ErrorCode::InternalError(None))),
            "/spin" => loop {
                std::hint::black_box(());
            },
            "/sleep" => {
                sleep_ms(60_000);
                text(out, 200, "slept\n");
            }
            "/pause" => {
                sleep_ms(500);
                text(out, 200, "paused\n");
            }
            "/memory" => {
                let mut taken = Vec::new();
                loop {
                    taken.push(std::hint::black_box(vec![1_u8; 1 << 20]));
                }
            }
            "/after" => {
                text(out, 200, "answered\n");
                sleep_ms(50);
                println!("worked on after the response");
            }
            "/trailers" => trailers(out),
            "/random" => {
                let number = wasip2::random::random::get_random_u64();
                text(out, 200, &format!("{number}\n"));
            }
            path => match (path.strip_prefix("/status/"), path.strip_prefix("/fetch/")) {
                (Some(status), _) => respond(out, status.parse().unwrap_or(400), &[], |_| {}),
                (_, Some(authority)) => {
                    let fetched = fetch(authority);
                    text(out, 200, &fetched.unwrap_or_else(|error| format!("{error:?}\n")));
                }
                _ => text(out, 200, &format!("hello from {target}\n")),
            },
        }
    }
}

/// Answers with some text.
fn text(out: ResponseOutparam, status: u16, text: &str) {
    let length = text.len().to_string();
    respond(out, status, &[("content-type", "text/plain; charset=utf-8"), ("content-length", &length)], |stream| {
        stream.write_all(text.as_bytes()).expect("the client reads");
    });
}

/// Answers with what `write` writes.
fn respond(out: ResponseOutparam, status: u16, fields: &[(&str, &str)], write: impl FnOnce(&mut OutputStream)) {
    let headers = Fields::new();
    for (name, value) in fields {
        headers.append(name, value.as_bytes()).expect("a valid field");
    }
    let response = OutgoingResponse::new(headers);
    response.set_status_code(status).expect("a valid status");
    let body = response.body().expect("the first call");
    ResponseOutparam::set(out, Ok(response));
    let mut stream = body.write().expect("the first call");
    write(&mut stream);
    drop(stream);
    OutgoingBody::finish(body, None).expect("the declared length");
}

fn echo(request: IncomingRequest, out: ResponseOutparam) {
    let body = request.consume().expect("the first call");
    let mut input = body.stream().expect("the first call");
    respond(out, 200, &[], |stream| {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match Read::read(&mut input, &mut buffer) {
                Ok(0) => return,
                Ok(bytes) => stream.write_all(&buffer[..bytes]).expect("the client reads"),
                Err(error) => panic!("the body is cut: {error}"),
            }
        }
    });
}

fn trailers(out: ResponseOutparam) {
    let response = OutgoingResponse::new(Fields::new());
    let headers = response.headers();
    drop(headers);
    let body = response.body().expect("the first call");
    ResponseOutparam::set(out, Ok(response));
    let mut stream = body.write().expect("the first call");
    stream.write_all(b"with trailers\n").expect("the client reads");
    drop(stream);
    let trailers = Fields::new();
    trailers.append("x-sum", b"14").expect("a valid field");
    OutgoingBody::finish(body, Some(trailers)).expect("no declared length");
}

/// Sends a request to another server, and returns the body of its response.
fn fetch(authority: &str) -> Result<String, ErrorCode> {
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(&Scheme::Http)).expect("a valid scheme");
    request.set_authority(Some(authority)).map_err(|()| ErrorCode::HttpRequestUriInvalid)?;
    request.set_path_with_query(Some("/")).expect("a valid path");
    let future = outgoing_handler::handle(request, None)?;
    future.subscribe().block();
    let response = future.get().expect("it is ready").expect("the first call")?;
    let body: IncomingBody = response.consume().expect("the first call");
    let mut text = String::new();
    let mut stream = body.stream().expect("the first call");
    Read::read_to_string(&mut stream, &mut text).map_err(|error| ErrorCode::InternalError(Some(error.to_string())))?;
    Ok(text)
}

fn sleep_ms(ms: u64) {
    monotonic_clock::subscribe_duration(ms * 1_000_000).block();
}
