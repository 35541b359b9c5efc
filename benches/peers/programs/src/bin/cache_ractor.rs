//! The program `examples/cache.rs` with ractor.

use std::collections::HashMap;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, call_t};
use tokio::task::AbortHandle;

struct Cache;

#[derive(Default)]
struct State {
    entries: HashMap<String, (String, AbortHandle)>,
    hits: u64,
}

#[ractor::actor(message = enum CacheMessage, state = State, arguments = (), crate_path = ::ractor)]
impl Cache {
    async fn pre_start(&self, _: ActorRef<CacheMessage>, (): ()) -> Result<State, ActorProcessingErr> {
        Ok(State::default())
    }

    #[ractor::message(Put(key, value, life))]
    fn put(&self, myself: ActorRef<CacheMessage>, key: String, value: String, life: Duration, state: &mut State) {
        let expired = key.clone();
        let timer = myself.send_after(life, move || CacheMessage::Expired(expired)).abort_handle();
        if let Some((_, older)) = state.entries.insert(key, (value, timer)) {
            older.abort();
        }
    }

    #[ractor::rpc(Get(key, reply))]
    fn get(&self, key: String, state: &mut State) -> Option<String> {
        let found = state.entries.get(&key).map(|(value, _)| value.clone());
        state.hits += u64::from(found.is_some());
        found
    }

    #[ractor::rpc(Hits)]
    fn hits(&self, state: &State) -> u64 {
        state.hits
    }

    #[ractor::message(Expired(key))]
    fn expired(&self, key: String, state: &mut State) {
        state.entries.remove(&key);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (cache, _) = Actor::spawn(None, Cache, ()).await?;
    let long = Duration::from_secs(60);
    cache.cast(CacheMessage::Put("colour".into(), "blue".into(), long))?;
    cache.cast(CacheMessage::Put("shape".into(), "round".into(), long))?;
    println!("colour: {:?}", call_t!(cache, CacheMessage::Get, 5_000, "colour".into())?);
    cache.cast(CacheMessage::Put("colour".into(), "red".into(), Duration::from_millis(50)))?;
    while call_t!(cache, CacheMessage::Get, 5_000, "colour".into())?.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("colour has expired, shape: {:?}", call_t!(cache, CacheMessage::Get, 5_000, "shape".into())?);
    println!("hits: {}", if call_t!(cache, CacheMessage::Hits, 5_000)? >= 2 { "2 or more" } else { "too few" });
    Ok(())
}
