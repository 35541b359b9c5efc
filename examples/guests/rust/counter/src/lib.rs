//! A supervised server with state, called by its registered name.
//!
//! ```text
//!   run ──▶ supervisor ──▶ counter      "add 2" ──▶ "2", "add 3" ──▶ "5", "get" ──▶ "5"
//!                             ╳         "crash": it exits, is restarted, and counts from 0
//! ```
//!
//! Without arguments it demonstrates all of this; with the argument `serve` it runs only the counter.

use std::time::Duration;

use rusm::{Child, Error, ExitReason, Pid, Received, Spawn, Supervisor, Tag, names};

const NAME: &str = "counter";
const PATIENCE: Duration = Duration::from_secs(5);

fn run(args: &[String]) -> Result<(), String> {
    match args.first().map(String::as_str) {
        None => show().map_err(|error| error.to_string()),
        Some("serve") => serve(),
        Some(other) => Err(format!("{other:?} is neither \"serve\" nor nothing")),
    }
}

/// Runs the server. Its state is a local variable of its loop.
fn serve() -> Result<(), String> {
    let mut count = 0_i64;
    loop {
        let Received::Message(request) = rusm::receive() else { continue };
        match request.text().split_once(' ').unwrap_or((&*request.text(), "")) {
            ("add", amount) => match amount.parse::<i64>() {
                Ok(amount) => count = count.wrapping_add(amount),
                // Reply with an error instead of exiting: an invalid request must not affect other callers.
                Err(error) => {
                    request.reply(format!("error: {amount:?}: {error}"));
                    continue;
                }
            },
            ("get", _) => {}
            ("crash", _) => return Err(format!("told to crash at {count}")),
            (word, _) => {
                request.reply(format!("error: {word:?} must be add, get or crash"));
                continue;
            }
        }
        rusm::label(format!("counter at {count}"));
        request.reply(count.to_string());
    }
}

/// Runs a client of the server.
fn show() -> Result<(), Error> {
    let child = Child::new("counter", Spawn::myself().arg("serve").named(NAME));
    let supervisor = Supervisor::one_for_one().intensity(3, Duration::from_secs(5)).child(child).start()?;

    let counter = find()?;
    rusm::info!("add 2: {}, add 3: {}", ask(counter, "add 2")?, ask(counter, "add 3")?);

    match ask(counter, "crash") {
        Err(Error::CalleeExited(reason)) => rusm::info!("{counter} ended: {reason}"),
        other => rusm::warn!("it did not crash: {other:?}"),
    }
    let restarted = find()?;
    rusm::info!("{restarted} was started instead, at {}", ask(restarted, "get")?);

    rusm::unlink(supervisor);
    rusm::exit(supervisor, ExitReason::Shutdown)
}

fn ask(counter: Pid, request: &str) -> Result<String, Error> {
    rusm::call(counter, Tag::NONE, request, PATIENCE).map(|reply| String::from_utf8_lossy(&reply).into_owned())
}

/// Waits for the counter and returns its pid: after a crash its name is free until the supervisor has restarted it.
fn find() -> Result<Pid, Error> {
    for _ in 0..PATIENCE.as_millis() {
        if let Some(pid) = names::whereis(NAME) {
            return Ok(pid);
        }
        rusm::sleep(Duration::from_millis(1));
    }
    Err(Error::NoSuch(format!("process called {NAME}")))
}

rusm::actor!(run);
