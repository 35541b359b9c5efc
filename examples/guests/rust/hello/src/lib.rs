//! A process that says hello and ends: the smallest guest.

/// Its first argument is whom to greet.
fn run(args: &[String]) {
    let whom = args.first().map_or("world", String::as_str);
    rusm::info!("hello, {whom}: I am process {}", rusm::pid());
}

rusm::actor!(run);
