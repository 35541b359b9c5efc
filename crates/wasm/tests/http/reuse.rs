//! Instances that answer several requests: what they share, what ends them, and what they never share.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use rusm_serve::Limits;
use rusm_wasm::{GuestOptions, InstanceReuse, WasmConfig};

use crate::{Node, node_of};

const COMPONENTS: [&str; 2] = ["wasi/http.wasm", "wasi/service.wasm"];

fn node(file: &str, capacity: u32, reuse: InstanceReuse) -> Node {
    let config = WasmConfig { capacity, ..WasmConfig::default() };
    node_of(file, config, Limits::default(), GuestOptions::default(), reuse)
}

/// A connection that stays open.
struct Client<'a>(BufReader<TcpStream>, &'a Node);

impl<'a> Client<'a> {
    fn of(node: &'a Node) -> Self {
        Self(BufReader::new(node.connect()), node)
    }

    /// Sends a request, and returns the body of its response, whose length is declared.
    fn get(&mut self, path: &str) -> String {
        write!(self.0.get_mut(), "GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        // An instance is kept at the end of its request, which may be a little later than the response.
        self.1.until("the request has ended", |node| node.server.report(10).live.is_empty());
        String::from_utf8(body).unwrap()
    }

    /// Returns how many requests the instance has answered that answers this one.
    fn count(&mut self) -> u32 {
        self.get("/count").trim().parse().unwrap()
    }
}

#[test]
fn by_default_requests_share_nothing() {
    for file in COMPONENTS {
        let node = node(file, 4, InstanceReuse::Request);
        let mut client = Client::of(&node);

        assert_eq!([client.count(), client.count(), client.count()], [1, 1, 1], "{file}");
        node.until("each instance ends with its request", |node| node.guests() == 0);
    }
}

#[test]
fn the_requests_of_a_connection_share_an_instance_and_connections_do_not() {
    for file in COMPONENTS {
        let node = node(file, 4, InstanceReuse::Connection);
        let (mut one, mut other) = (Client::of(&node), Client::of(&node));

        assert_eq!([one.count(), other.count(), one.count(), one.count(), other.count()], [1, 1, 2, 3, 2], "{file}");
        assert_eq!(node.guests(), 2, "{file}");
        drop(one);
        node.until("an instance ends with its connection", |node| node.guests() == 1);
        assert_eq!(other.count(), 3, "{file}");
    }
}

#[test]
fn a_pool_replaces_an_instance_after_a_number_of_requests() {
    for file in COMPONENTS {
        let node = node(file, 4, InstanceReuse::Pool { idle: 1, requests: 3 });

        let counts: Vec<u32> = (0..7).map(|_| Client::of(&node).count()).collect();

        assert_eq!(counts, [1, 2, 3, 1, 2, 3, 1], "{file}");
        assert_eq!(node.wasm.stats().live, 1, "{file}");
    }
}

#[test]
fn an_instance_of_a_pool_answers_one_request_at_a_time() {
    for file in COMPONENTS {
        let node = node(file, 8, InstanceReuse::Pool { idle: 2, requests: 100 });

        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(node.get("/pause").text(), "paused\n"));
            }
            node.until("all requests are handled at once", |node| node.guests() == 4);
        });

        node.until("the pool keeps two", |node| node.guests() == 2);
    }
}

#[test]
fn an_instance_that_failed_is_never_used_again() {
    for file in COMPONENTS {
        for reuse in [InstanceReuse::Pool { idle: 4, requests: 100 }, InstanceReuse::Connection] {
            let node = node(file, 8, reuse);
            let mut client = Client::of(&node);
            assert_eq!(client.count(), 1);

            assert_eq!(client.get("/trap"), "internal error\n", "{file}");

            assert_eq!([client.count(), client.count()], [1, 2], "{file}");
        }
    }
}

#[test]
fn a_request_that_is_killed_takes_its_instance_with_it() {
    for file in COMPONENTS {
        let node = node(file, 8, InstanceReuse::Pool { idle: 4, requests: 100 });
        assert_eq!(Client::of(&node).count(), 1);

        let spinning = node.send("GET /spin HTTP/1.1", b"");
        node.until("the request runs", |node| node.server.report(10).live.iter().any(|live| &*live.path == "/spin"));
        assert_eq!(node.guests(), 1, "it uses the instance that waited");
        drop(spinning);

        node.until("its client has left", |node| node.guests() == 0);
        assert_eq!(Client::of(&node).count(), 1, "{file}");
    }
}

#[test]
fn waiting_instances_give_way_to_a_route_that_needs_one() {
    let node = node("wasi/http.wasm", 2, InstanceReuse::Connection);
    let (mut one, mut other) = (Client::of(&node), Client::of(&node));
    assert_eq!([one.count(), other.count()], [1, 1]);

    let mut third = Client::of(&node);

    assert_eq!([third.count(), third.count()], [1, 2]);
}
