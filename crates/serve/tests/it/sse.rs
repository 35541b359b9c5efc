//! Streams of events.

use std::time::Duration;

use futures_util::stream;
use rusm_serve::{Event, Limits, LiveKind, Request, Router, events};

use crate::client::Client;
use crate::serve;

#[test]
fn events_arrive_one_by_one_and_end_with_the_server() {
    let router = Router::new().route("GET /", async |_: Request| {
        let numbers = stream::unfold(0, |number| async move {
            if number == 2 {
                std::future::pending::<()>().await;
            }
            Some((Event::data(number.to_string()).id(number.to_string()), number + 1))
        });
        events(numbers)
    });
    let (_runtime, server) = serve(router.expect("valid"), Limits::default());
    let mut client = Client::connect(server.local_addr());

    client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    let head = client.head();
    assert!(head.contains("content-type: text/event-stream") && head.contains("cache-control: no-cache"), "{head}");
    assert_eq!(client.chunk().expect("an event").as_deref(), Some(&b"id: 0\ndata: 0\n\n"[..]));
    assert_eq!(client.chunk().expect("an event").as_deref(), Some(&b"id: 1\ndata: 1\n\n"[..]));
    let report = server.report(1);
    assert_eq!((report.event_streams, report.live[0].kind), (1, LiveKind::Events));

    server.begin_drain(Duration::from_millis(200));

    assert_eq!(client.chunk().expect("the stream ends as a complete body"), None);
    assert!(server.drain(Duration::from_secs(30)));
}
