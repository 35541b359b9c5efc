//! The audit log: each command that changes the node, the client that sent it, and whether it was allowed.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use crate::support::node;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Subscriber that collects the lines of the audit log.
#[derive(Clone, Debug, Default)]
struct Audit(Arc<Mutex<Vec<String>>>);

impl Subscriber for Audit {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "rusm::audit"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

#[tokio::test]
async fn a_command_that_changes_the_node_is_logged_with_the_client_and_its_role() {
    let _alone = crate::ALONE.lock().await;
    let audit = Audit::default();
    tracing::subscriber::set_global_default(audit.clone()).unwrap();
    let node = node();
    let mut unix = node.attach().await;
    let mut tcp = node.attach_tcp(&node.observe_token()).await;

    unix.send(r#"{"type":"run","scenario":"spawn-storm","id":1}"#).await;
    unix.next_of("ack").await;
    tcp.refused(r#"{"type":"stop","id":2}"#).await;
    tcp.send(r#"{"type":"watch","frame_hz":10}"#).await;
    tcp.frame().await;

    let lines = audit.0.lock().clone();
    let us = format!("client=\"user {} process {}\"", rustix::process::getuid().as_raw(), std::process::id());
    assert_eq!(lines.len(), 2, "{lines:?}");
    for part in [&*us, "role=Control", "allowed=true", "Run { scenario: \"spawn-storm\""] {
        assert!(lines[0].contains(part), "{part} is not in {}", lines[0]);
    }
    for part in ["client=\"127.0.0.1:", "role=Observe", "allowed=false", "Stop { id: Some(2) }"] {
        assert!(lines[1].contains(part), "{part} is not in {}", lines[1]);
    }
}
