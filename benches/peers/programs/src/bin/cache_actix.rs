//! The program `examples/cache.rs` with actix.

use std::collections::HashMap;
use std::time::Duration;

use actix::prelude::*;

#[derive(Default)]
struct Cache {
    entries: HashMap<String, (String, SpawnHandle)>,
    hits: u64,
}

impl Actor for Cache {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Put(String, String, Duration);

impl Handler<Put> for Cache {
    type Result = ();

    fn handle(&mut self, Put(key, value, life): Put, ctx: &mut Context<Self>) {
        let expired = key.clone();
        let timer = ctx.run_later(life, move |cache, _| drop(cache.entries.remove(&expired)));
        if let Some((_, older)) = self.entries.insert(key, (value, timer)) {
            ctx.cancel_future(older);
        }
    }
}

#[derive(Message)]
#[rtype(result = "Option<String>")]
struct Get(String);

impl Handler<Get> for Cache {
    type Result = Option<String>;

    fn handle(&mut self, Get(key): Get, _: &mut Context<Self>) -> Option<String> {
        let found = self.entries.get(&key).map(|(value, _)| value.clone());
        self.hits += u64::from(found.is_some());
        found
    }
}

#[derive(Message)]
#[rtype(result = "u64")]
struct Hits;

impl Handler<Hits> for Cache {
    type Result = u64;

    fn handle(&mut self, Hits: Hits, _: &mut Context<Self>) -> u64 {
        self.hits
    }
}

#[actix::main]
async fn main() -> Result<(), MailboxError> {
    let cache = Cache::default().start();
    let long = Duration::from_secs(60);
    cache.do_send(Put("colour".into(), "blue".into(), long));
    cache.do_send(Put("shape".into(), "round".into(), long));
    println!("colour: {:?}", cache.send(Get("colour".into())).await?);
    cache.do_send(Put("colour".into(), "red".into(), Duration::from_millis(50)));
    while cache.send(Get("colour".into())).await?.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("colour has expired, shape: {:?}", cache.send(Get("shape".into())).await?);
    println!("hits: {}", if cache.send(Hits).await? >= 2 { "2 or more" } else { "too few" });
    Ok(())
}
