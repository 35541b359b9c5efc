//! A process that allocates memory until it reaches its limit. The limit ends this process and no other.

/// Default size of an allocation in KiB; the first argument overrides it.
const STEP_KIB: usize = 1024;

fn run(args: &[String]) -> Result<(), String> {
    let step_kib = match args.first() {
        Some(text) => text.parse().map_err(|_| format!("{text:?} must be a number of KiB"))?,
        None => STEP_KIB,
    };
    let mut kept = Vec::new();
    loop {
        // Write to the memory: untouched pages are never allocated.
        kept.push(vec![0xA5_u8; step_kib * 1024]);
        rusm::label(format!("{} KiB taken", kept.len() * step_kib));
    }
}

rusm::actor!(run);
