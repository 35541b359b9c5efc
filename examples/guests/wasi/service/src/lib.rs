//! A component of `wasi:http/service` 0.3: it answers requests of HTTP, and fails in each way that a guest can.
//!
//! ```text
//!   /          a greeting                       /trap, /trap-late           fails before, during its response
//!   /echo      the body of the request          /spin, /sleep, /memory      never ends, waits, takes all memory
//!   /stream    five lines, with pauses          /after                      works on after its response
//!   /headers   the fields of the request        /status/N, /trailers, /fetch/AUTHORITY, /random
//!   /count     number of requests that this instance has answered
//! ```

use std::sync::atomic::{AtomicU32, Ordering};

use wasip3::clocks::monotonic_clock;
use wasip3::http::client;
use wasip3::http::types::{ErrorCode, Fields, Request, Response, Scheme};
use wasip3::wit_bindgen::StreamWriter;
use wasip3::{spawn_local, wit_future, wit_stream};

struct Service;

wasip3::http::service::export!(Service);

/// Requests that this instance has begun to answer.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

impl wasip3::exports::http::handler::Guest for Service {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let count = REQUESTS.fetch_add(1, Ordering::Relaxed) + 1;
        let target = request.get_path_with_query().unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        match path.as_str() {
            "/echo" => Ok(echo(request)),
            "/count" => text(200, &format!("{count}\n")),
            "/stream" => streamed(async |mut body| {
                for line in 1..=5 {
                    body.write_all(format!("line {line}\n").into_bytes()).await;
                    sleep_ms(20).await;
                }
            }),
            "/headers" => {
                let fields = request.get_headers().copy_all().into_iter();
                let mut lines: Vec<String> =
                    fields.map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(&value))).collect();
                lines.sort();
                text(200, &lines.concat())
            }
            "/trap" => panic!("a trap before the response"),
            "/trap-late" => streamed(async |mut body| {
                body.write_all(b"the beginning\n".to_vec()).await;
                sleep_ms(20).await;
                panic!("a trap in the body");
            }),
            "/refuse" => Err(ErrorCode::InternalError(None)),
            "/spin" => loop {
                std::hint::black_box(());
            },
            "/sleep" => {
                sleep_ms(60_000).await;
                text(200, "slept\n")
            }
            "/pause" => {
                sleep_ms(500).await;
                text(200, "paused\n")
            }
            "/memory" => {
                let mut taken = Vec::new();
                loop {
                    taken.push(std::hint::black_box(vec![1_u8; 1 << 20]));
                }
            }
            "/after" => {
                spawn_local(async {
                    sleep_ms(50).await;
                    println!("worked on after the response");
                });
                text(200, "answered\n")
            }
            "/trailers" => Ok(trailers()),
            "/random" => text(200, &format!("{}\n", wasip3::random::random::get_random_u64())),
            path => match (path.strip_prefix("/status/"), path.strip_prefix("/fetch/")) {
                (Some(status), _) => text(status.parse().unwrap_or(400), ""),
                (_, Some(authority)) => {
                    let fetched = fetch(authority).await;
                    text(200, &fetched.unwrap_or_else(|error| format!("{error:?}\n")))
                }
                _ => text(200, &format!("hello from {target}\n")),
            },
        }
    }
}

/// Answers with some text.
fn text(status: u16, text: &str) -> Result<Response, ErrorCode> {
    let fields = Fields::new();
    let length = text.len().to_string();
    for (name, value) in [("content-type", "text/plain; charset=utf-8"), ("content-length", &length)] {
        if status != 204 {
            fields.append(name, value.as_bytes()).expect("a valid field");
        }
    }
    let (_, no_trailers) = wit_future::new(|| Ok(None));
    let (mut body, contents) = wit_stream::new();
    let contents = if text.is_empty() { None } else { Some(contents) };
    let (response, _) = Response::new(fields, contents, no_trailers);
    response.set_status_code(status).map_err(|()| ErrorCode::InternalError(None))?;
    let bytes = text.as_bytes().to_vec();
    if !bytes.is_empty() {
        spawn_local(async move {
            body.write_all(bytes).await;
        });
    }
    Ok(response)
}

/// Answers with what `write` writes.
fn streamed<F>(write: impl FnOnce(StreamWriter<u8>) -> F + 'static) -> Result<Response, ErrorCode>
where
    F: Future<Output = ()> + 'static,
{
    let (_, no_trailers) = wit_future::new(|| Ok(None));
    let (body, contents) = wit_stream::new();
    let (response, _) = Response::new(Fields::new(), Some(contents), no_trailers);
    spawn_local(write(body));
    Ok(response)
}

/// Answers with the body of the request, which the node passes on by itself.
fn echo(request: Request) -> Response {
    let (_, is_read) = wit_future::new(|| Ok(()));
    let (contents, trailers) = Request::consume_body(request, is_read);
    Response::new(Fields::new(), Some(contents), trailers).0
}

fn trailers() -> Response {
    let (after, trailers) = wit_future::new(|| Ok(None));
    let (mut body, contents) = wit_stream::new();
    spawn_local(async move {
        body.write_all(b"with trailers\n".to_vec()).await;
        drop(body);
        let fields = Fields::new();
        fields.append("x-sum", b"14").expect("a valid field");
        // Fails if the client has gone.
        after.write(Ok(Some(fields))).await.ok();
    });
    Response::new(Fields::new(), Some(contents), trailers).0
}

/// Sends a request to another server, and returns the body of its response.
async fn fetch(authority: &str) -> Result<String, ErrorCode> {
    let (_, no_trailers) = wit_future::new(|| Ok(None));
    let (request, _) = Request::new(Fields::new(), None, no_trailers, None);
    request.set_scheme(Some(&Scheme::Http)).expect("a valid scheme");
    request.set_authority(Some(authority)).map_err(|()| ErrorCode::HttpRequestUriInvalid)?;
    request.set_path_with_query(Some("/")).expect("a valid path");
    let response = client::send(request).await?;
    let (_, is_read) = wit_future::new(|| Ok(()));
    let (body, _) = Response::consume_body(response, is_read);
    Ok(String::from_utf8_lossy(&body.collect().await).into_owned())
}

async fn sleep_ms(ms: u64) {
    monotonic_clock::wait_for(ms * 1_000_000).await;
}
