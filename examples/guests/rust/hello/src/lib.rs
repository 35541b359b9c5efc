//! The smallest guest: a process that logs a greeting and exits.

/// Greets the name in the first argument.
fn run(args: &[String]) {
    let whom = args.first().map_or("world", String::as_str);
    rusm::info!("hello, {whom}: I am process {}", rusm::pid());
}

rusm::actor!(run);
