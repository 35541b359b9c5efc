//! Two processes send a number back and forth.
//!
//! ```text
//!   pinger ── pid of the pinger, number ──▶ ponger
//!          ◀────── number ─────────────────
//! ```
//!
//! Without arguments it starts its own ponger and runs the pinger; with the argument `pong` it runs only the ponger.

use rusm::{Message, Pid, Received, Spawn, clock};

/// Default number of round trips; the first argument overrides it.
const ROUND_TRIPS: u64 = 10_000;

fn run(args: &[String]) -> Result<(), String> {
    match args.first().map(String::as_str) {
        Some("pong") => pong(),
        Some(number) => ping(number.parse().map_err(|_| format!("{number:?} must be a number of round trips"))?),
        None => ping(ROUND_TRIPS),
    }
}

fn ping(round_trips: u64) -> Result<(), String> {
    let ponger = Spawn::myself().arg("pong").spawn_link().map_err(|error| error.to_string())?;
    let started = clock::now();

    for number in 0..round_trips {
        // A message does not carry its sender: include the pid for the reply.
        let message = [&rusm::pid().to_bytes()[..], &number.to_le_bytes()].concat();
        rusm::send(ponger, message).map_err(|error| error.to_string())?;
        let answer = next_message().body;
        if answer != number.to_le_bytes() {
            return Err(format!("number {number} came back as {answer:?}"));
        }
    }

    rusm::info!("{round_trips} round trips in {:?}", clock::now().saturating_sub(started));
    rusm::unlink(ponger);
    rusm::exit(ponger, rusm::ExitReason::Shutdown).map_err(|error| error.to_string())
}

/// Sends the bytes after the pid back to that pid.
fn pong() -> Result<(), String> {
    rusm::label("ponger");
    loop {
        let ping = next_message();
        let from = Pid::from_bytes(&ping.body).ok_or("a ping begins with the twelve bytes of a pid")?;
        rusm::send(from, &ping.body[12..]).map_err(|error| error.to_string())?;
    }
}

fn next_message() -> Message {
    loop {
        if let Received::Message(message) = rusm::receive() {
            return message;
        }
    }
}

rusm::actor!(run);
