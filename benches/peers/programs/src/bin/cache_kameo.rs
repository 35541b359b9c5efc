//! The program `examples/cache.rs` with kameo.

use std::collections::HashMap;
use std::time::Duration;

use kameo::prelude::*;
use tokio::task::AbortHandle;

#[derive(Actor, Default)]
struct Cache {
    entries: HashMap<String, (String, AbortHandle)>,
    hits: u64,
}

#[messages]
impl Cache {
    #[message(ctx)]
    fn put(&mut self, key: String, value: String, life: Duration, ctx: &mut Context<Self, ()>) {
        let (cache, expired) = (ctx.actor_ref().clone(), Expired { key: key.clone() });
        let timer = tokio::spawn(async move {
            tokio::time::sleep(life).await;
            cache.tell(expired).await
        });
        if let Some((_, older)) = self.entries.insert(key, (value, timer.abort_handle())) {
            older.abort();
        }
    }

    #[message]
    fn get(&mut self, key: String) -> Option<String> {
        let found = self.entries.get(&key).map(|(value, _)| value.clone());
        self.hits += u64::from(found.is_some());
        found
    }

    #[message]
    fn hits(&self) -> u64 {
        self.hits
    }

    #[message]
    fn expired(&mut self, key: String) {
        self.entries.remove(&key);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::spawn(Cache::default());
    let long = Duration::from_secs(60);
    cache.tell(Put { key: "colour".into(), value: "blue".into(), life: long }).await?;
    cache.tell(Put { key: "shape".into(), value: "round".into(), life: long }).await?;
    println!("colour: {:?}", cache.ask(Get { key: "colour".into() }).await?);
    cache.tell(Put { key: "colour".into(), value: "red".into(), life: Duration::from_millis(50) }).await?;
    while cache.ask(Get { key: "colour".into() }).await?.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("colour has expired, shape: {:?}", cache.ask(Get { key: "shape".into() }).await?);
    println!("hits: {}", if cache.ask(Hits).await? >= 2 { "2 or more" } else { "too few" });
    Ok(())
}
