//! A command of `wasi:cli` 0.3: greets the name in the variable `WHO`, and copies the greeting to a file if it may.
//!
//! ```text
//!   /letters/greeting ──▶ "…, WHO" ──▶ its output, and /letters/sent
//! ```

use std::{env, fs};

use wasip3::clocks::monotonic_clock;

struct Greeter;

wasip3::cli::command::export!(Greeter);

impl wasip3::exports::cli::run::Guest for Greeter {
    async fn run() -> Result<(), ()> {
        let greeting = fs::read_to_string("/letters/greeting").unwrap_or_else(|error| format!("no letter: {error}"));
        let line = format!("{}, {}", greeting.trim(), env::var("WHO").unwrap_or_else(|_| "world".to_owned()));
        println!("{line}");
        if let Err(error) = fs::write("/letters/sent", &line) {
            println!("not sent: {error}");
        }
        let outside = fs::read_to_string("/letters/../secret").is_err();
        println!("outside is {}", if outside { "refused" } else { "open" });
        // A call that is only asynchronous.
        monotonic_clock::wait_for(1_000_000).await;
        if env::args().nth(1).as_deref() == Some("fail") { Err(()) } else { Ok(()) }
    }
}
