//! Answers requests of HTTP: `rusm build` makes a component of it, and `rusm serve --watch` runs it.
//!
//! Each request has an instance of its own: nothing here is shared between requests, and a panic answers 500 to one.

use std::io::Write;

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

struct App;

wasip2::http::proxy::export!(App);

impl Guest for App {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let target = request.path_with_query().unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        match path.strip_prefix("/hello/") {
            Some(name) => respond(out, 200, &format!("hello, {name}\n")),
            None if path == "/" => respond(out, 200, "it works: try /hello/you\n"),
            None => respond(out, 404, "not found\n"),
        }
    }
}

/// Sends a response of text.
fn respond(out: ResponseOutparam, status: u16, text: &str) {
    let headers = Fields::new();
    headers.append("content-type", b"text/plain; charset=utf-8").expect("a valid field");
    headers.append("content-length", text.len().to_string().as_bytes()).expect("a valid field");
    let response = OutgoingResponse::new(headers);
    response.set_status_code(status).expect("a valid status");
    let body = response.body().expect("the first call");
    ResponseOutparam::set(out, Ok(response));
    let mut stream = body.write().expect("the first call");
    // Fails if the client has gone; that is of no consequence.
    stream.write_all(text.as_bytes()).ok();
    drop(stream);
    OutgoingBody::finish(body, None).ok();
}
