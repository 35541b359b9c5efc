//! A cache with entries that expire: a typed actor, its timers, and calls that each have a reply of their own.
//!
//! `cargo run -p rusm-examples --bin cache`

#![expect(clippy::print_stdout, reason = "an example that prints its steps")]

use std::collections::HashMap;
use std::time::Duration;

use rusm::TimerRef;
use rusm::prelude::*;

#[derive(Clone, Default)]
struct Cache {
    entries: HashMap<String, (String, Option<TimerRef>)>,
    hits: u64,
}

struct Expired(String);

#[actor]
impl Cache {
    fn put(&mut self, ctx: &Context, key: String, value: String, life: Duration) {
        let timer = ctx.send_after(ctx.pid(), life, Expired(key.clone()));
        if let Some((_, Some(older))) = self.entries.insert(key, (value, Some(timer))) {
            ctx.cancel(older);
        }
    }

    fn get(&mut self, key: &str) -> Option<String> {
        let found = self.entries.get(key).map(|(value, _)| value.clone());
        self.hits += u64::from(found.is_some());
        found
    }

    fn hits(&self) -> u64 {
        self.hits
    }

    #[info]
    fn expired(&mut self, Expired(key): Expired) {
        self.entries.remove(&key);
    }
}

fn main() -> Result<(), ExitReason> {
    let runtime = Runtime::start(Config::default())?;
    runtime.run(|ctx| async move {
        let cache = Cache::start_link(&ctx, Cache::default()).await?;
        cache.put(&ctx, "colour", "blue", Duration::from_mins(1)).await;
        cache.put(&ctx, "shape", "round", Duration::from_mins(1)).await;
        println!("colour: {:?}", cache.get(&ctx, "colour").await?);
        cache.put(&ctx, "colour", "red", Duration::from_millis(50)).await;
        while cache.get(&ctx, "colour").await?.is_some() {
            ctx.sleep(Duration::from_millis(10)).await;
        }
        println!("colour has expired, shape: {:?}", cache.get(&ctx, "shape").await?);
        println!("hits: {}", if cache.hits(&ctx).await? >= 2 { "2 or more" } else { "too few" });
        Ok(())
    })
}
