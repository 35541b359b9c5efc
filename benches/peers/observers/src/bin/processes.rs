//! Processes of rusm with the console for rusm-top: `processes N NAME` starts N that wait and 16 that tick.

use std::io::{Read, stdin};
use std::time::Duration;

use rusm::console::{Console, ConsoleConfig};
use rusm::{Config, Runtime};

const TICKING: usize = 16;
const TICK: Duration = Duration::from_millis(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let processes: usize = words.next().and_then(|word| word.parse().ok()).ok_or("a number of processes")?;
    let name = words.next().ok_or("a name")?;
    let runtime = Runtime::start(Config::default())?;
    let _console = Console::bind(&runtime, ConsoleConfig::named(&name))?;
    for _ in 0..TICKING {
        runtime.spawn(|ctx| async move {
            ctx.set_label("ticking");
            loop {
                ctx.sleep(TICK).await;
            }
        })?;
    }
    for _ in 0..processes {
        runtime.spawn(|ctx| async move { drop(ctx.receive().await) })?;
    }
    println!("ready");
    stdin().read(&mut [0])?;
    runtime.shutdown(Duration::from_secs(1));
    Ok(())
}
