//! Actors of kameo with its console: `actors N PORT` starts N that wait and 16 that get a message at each tick.

use std::io::{Read, stdin};
use std::time::Duration;

use kameo::prelude::*;

const TICKING: usize = 16;
const TICK: Duration = Duration::from_millis(10);

#[derive(Actor)]
struct Waiting;

#[derive(Actor)]
struct Ticking;

struct Tick;

impl Message<Tick> for Ticking {
    type Reply = ();

    async fn handle(&mut self, _: Tick, _: &mut Context<Self, Self::Reply>) {}
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let actors: usize = words.next().and_then(|word| word.parse().ok()).expect("a number of actors");
    let port: u16 = words.next().and_then(|word| word.parse().ok()).expect("a port");
    let _console = kameo::console::serve(("127.0.0.1", port)).await.expect("the console's port");
    for _ in 0..TICKING {
        let actor = Ticking::spawn(Ticking);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(TICK);
            loop {
                ticks.tick().await;
                actor.tell(Tick).await.expect("the actor is alive");
            }
        });
    }
    let mut alive = Vec::with_capacity(actors);
    for _ in 0..actors {
        alive.push(Waiting::spawn(Waiting));
    }
    for actor in &alive {
        actor.wait_for_startup().await;
    }
    println!("ready");
    tokio::task::spawn_blocking(|| stdin().read(&mut [0])).await.expect("a thread").expect("standard input");
}
