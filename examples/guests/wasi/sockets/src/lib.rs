//! A component of `rusm:http`, the interfaces of the node itself: requests as records, streams and WebSockets.
//!
//! ```text
//!   /          a greeting                  /socket    a WebSocket that sends each message back, and a tick after 1 s
//!   /echo      the body of the request     /events    three events
//!   /trap      fails                       /clock     an event every 100 ms, until the client leaves
//!   /status/N, /wrong
//! ```

wit_bindgen::generate!({ path: "../../../../wit/http/http.wit", world: "service" });

use std::time::Duration;

use exports::rusm::http::handler::{Guest, Request, Response};
use rusm::http::types::Message;
use rusm::http::websocket::{self, Event};
use rusm::http::streaming;

struct Sockets;

/// Time between two events of a clock.
const TICK: Duration = Duration::from_millis(100);

export!(Sockets);

impl Guest for Sockets {
    fn handle(request: Request) -> Response {
        let path = request.target.split('?').next().unwrap_or_default();
        match path {
            "/echo" => Response { status: 200, headers: Vec::new(), body: request.body },
            "/events" => events(),
            "/clock" => clock(),
            "/socket" => socket(),
            "/trap" => panic!("a trap before the response"),
            "/wrong" => Response { status: 200, headers: vec![("a b".to_owned(), "c".to_owned())], body: Vec::new() },
            path => match path.strip_prefix("/status/") {
                Some(status) => text(status.parse().unwrap_or(400), ""),
                None => text(200, &format!("{} {} from {}\n", request.method, request.target, host(&request))),
            },
        }
    }
}

fn host(request: &Request) -> &str {
    request.headers.iter().find(|(name, _)| name == "host").map_or("nowhere", |(_, host)| host)
}

fn text(status: u16, text: &str) -> Response {
    let headers = vec![("content-type".to_owned(), "text/plain; charset=utf-8".to_owned())];
    Response { status, headers, body: text.as_bytes().to_vec() }
}

/// Sends three events. The response that is returned afterwards is not sent.
fn events() -> Response {
    streaming::start(200, &[("content-type".to_owned(), "text/event-stream".to_owned())]);
    for number in 1..=3 {
        if !streaming::write(format!("id: {number}\ndata: event {number}\n\n").as_bytes()) {
            break;
        }
    }
    text(500, "")
}

/// Sends events without end.
fn clock() -> Response {
    streaming::start(200, &[("content-type".to_owned(), "text/event-stream".to_owned())]);
    let mut number = 0_u64;
    while streaming::write(format!("data: {number}\n\n").as_bytes()) {
        number += 1;
        std::thread::sleep(TICK);
    }
    text(500, "")
}

/// Sends each message back, until the client closes or says `bye`.
fn socket() -> Response {
    if let Err(why) = websocket::accept() {
        return text(400, &why);
    }
    loop {
        match websocket::receive(Some(1_000)) {
            Event::Message(Message::Text(word)) if word == "bye" => websocket::close(4_000, "goodbye"),
            Event::Message(message) => {
                websocket::send(&message);
            }
            Event::Timeout => {
                websocket::send(&Message::Text("tick".to_owned()));
            }
            Event::Closed => return text(200, ""),
        }
    }
}
