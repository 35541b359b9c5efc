//! A process that takes memory until it may not: its end is the limit's, and nobody else's.

/// How much it takes at a time, unless the first argument says otherwise.
const STEP_KIB: usize = 1024;

fn run(args: &[String]) -> Result<(), String> {
    let step_kib = match args.first() {
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no number of KiB"))?,
        None => STEP_KIB,
    };
    let mut kept = Vec::new();
    loop {
        // Written, and not only asked for: memory that nobody touches costs nothing.
        kept.push(vec![0xA5_u8; step_kib * 1024]);
        rusm::label(format!("{} KiB taken", kept.len() * step_kib));
    }
}

rusm::actor!(run);
