//! Texts that are almost messages: each decodes to a message, or to an error of one line.

use std::path::Path;

use rusm_fuzz::Fuzz;
use rusm_protocol::{command_id, decode_client, decode_server, encode};

fn target(name: &'static str) -> Fuzz {
    let words =
        ["\"type\":\"view\"", "\"id\":7", "null", "[[[[", "{\"a\":", "\\u001b", "\u{202e}", "\"\\ud800\"", "true"];
    Fuzz::new(name).seeds_of(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")).words(&words)
}

fn check_line(error: &impl std::fmt::Display) {
    let line = error.to_string();
    assert!(line.chars().all(|character| !character.is_control()), "{line:?}");
    assert!(line.len() < 2_000, "{} bytes", line.len());
}

#[test]
fn fuzz_messages_of_clients() {
    target("wire-client").run(|input| {
        let text = String::from_utf8_lossy(input);
        _ = command_id(&text);
        match decode_client(&text) {
            Ok(message) => assert_eq!(decode_client(&encode(&message)).as_ref(), Ok(&message)),
            Err(error) => check_line(&error),
        }
    });
}

#[test]
fn fuzz_messages_of_nodes() {
    target("wire-server").run(|input| match decode_server(&String::from_utf8_lossy(input)) {
        Ok(message) => assert!(!encode(&message).is_empty()),
        Err(error) => check_line(&error),
    });
}
