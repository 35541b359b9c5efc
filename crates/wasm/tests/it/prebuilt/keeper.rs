//! The prebuilt guests of each language that use the node's store and streams: what the SDKs document about both must
//! hold.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::stream::{StreamReader, pipe};
use rusm_runtime::{Config, Context, Down, Pid, Runtime, TaggedBytes};
use rusm_store::{Store, StoreConfig};
use rusm_wasm::{GuestOptions, ModuleError, Profiles, Wasm, WasmConfig};

const PATIENCE: Duration = Duration::from_mins(1);
const KEEPERS: [&str; 3] = ["rust/keeper.wasm", "c/keeper.wasm", "ts/keeper.wasm"];

fn path(guest: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests/prebuilt").join(guest)
}

/// Runs `body` in a native process with a keeper of a new node, and returns its result. The node has a store of its
/// own, and the keeper's profile grants `buckets`.
fn of_keeper<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    guest: &'static str,
    buckets: &[&str],
    body: impl FnOnce(Context, Pid) -> F + Send + 'static,
) -> T {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("a.redb"), StoreConfig::default()).unwrap();
    let mut profiles = Profiles::default();
    profiles.set_buckets("trusted", buckets.iter().copied());
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
    let config = WasmConfig { capacity: 2, profiles, store: Some(store), ..WasmConfig::default() };
    let wasm = Wasm::start(config).unwrap();
    let module = wasm.load_file("keeper", path(guest)).unwrap();
    let (give, take) = mpsc::channel();
    let fails = give.clone();
    runtime
        .spawn(move |ctx| async move {
            let asks = move |ctx: Context| async move {
                let guest = GuestOptions::default().profile("trusted").linked();
                let (keeper, _) = wasm.spawn_from(&ctx, &module, &guest).unwrap();
                give.send(Ok(body(ctx, keeper).await)).unwrap();
            };
            ctx.spawn_monitor(asks).unwrap();
            let down = ctx.receive_of::<Down>().await;
            // Fails if the result was received: the test then drops the receiver.
            drop(fails.send(Err(down.reason)));
        })
        .unwrap();
    match take.recv_timeout(PATIENCE).unwrap() {
        Ok(given) => given,
        Err(reason) => panic!("{guest}: {reason}"),
    }
}

async fn call(ctx: &Context, keeper: Pid, tag: u64, body: &[u8]) -> Bytes {
    let request = TaggedBytes { tag, body: Bytes::copy_from_slice(body) };
    ctx.call(keeper, request, PATIENCE).await.unwrap()
}

#[test]
fn a_value_is_moved_whole_or_not_at_all() {
    for guest in KEEPERS {
        let answers = of_keeper(guest, &["keeper"], async |ctx, keeper| {
            call(&ctx, keeper, 1, b"name\0Ada").await;
            call(&ctx, keeper, 1, b"other\0Bob").await;
            [
                call(&ctx, keeper, 4, b"name\0other").await,
                call(&ctx, keeper, 4, b"name\0new").await,
                call(&ctx, keeper, 2, b"name").await,
                call(&ctx, keeper, 2, b"new").await,
                call(&ctx, keeper, 2, b"other").await,
            ]
        });

        assert_eq!(answers[..2], ["error: something has changed", "moved"], "{guest}");
        assert_eq!(answers[2..], ["error: no such key", "Ada", "Bob"], "{guest}");
    }
}

#[test]
fn values_are_kept_and_given_back() {
    for guest in KEEPERS {
        let answers = of_keeper(guest, &["keeper"], async |ctx, keeper| {
            [
                call(&ctx, keeper, 1, b"name\0Ada").await,
                call(&ctx, keeper, 2, b"name").await,
                call(&ctx, keeper, 2, b"nobody").await,
                call(&ctx, keeper, 1, b"no value").await,
            ]
        });

        assert_eq!(answers[0], "kept", "{guest}");
        assert_eq!(answers[1], "Ada", "{guest}");
        assert_eq!(answers[2], "error: no such key", "{guest}");
        assert_eq!(answers[3], "error: between key and value there is a byte 0", "{guest}");
    }
}

#[test]
fn values_come_and_go_through_streams() {
    // Several times the capacity of the streams.
    let text: Vec<u8> = (0..15_000_u32).map(|place| (place / 7) as u8).collect();
    for guest in KEEPERS {
        let given = text.clone();
        let (said, taken) = of_keeper(guest, &["keeper"], async move |ctx, keeper| {
            let (mut writer, reader) = pipe(1024).unwrap();
            ctx.send(keeper, reader).await;
            writer.write_all(&given).await.unwrap();
            writer.close();
            let own = [0, ctx.pid().slot(), ctx.pid().generation()];
            let whom: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).chain(*b"stream").collect();
            let said = call(&ctx, keeper, 3, &whom).await;
            let mut reader = ctx.receive_of::<StreamReader>().await;
            let (mut taken, mut bytes) = (Vec::new(), [0; 777]);
            while let count @ 1.. = reader.read(&mut bytes).await.unwrap() {
                taken.extend_from_slice(&bytes[..count]);
            }
            (said, taken)
        });

        assert_eq!(said, "15000", "{guest}");
        assert!(taken == text, "{guest}: {} bytes of {}", taken.len(), text.len());
    }
}

#[test]
fn a_bucket_that_was_not_granted_is_refused_in_words() {
    for guest in KEEPERS {
        let refused = of_keeper(guest, &["others"], async |ctx, keeper| call(&ctx, keeper, 1, b"name\0Ada").await);

        assert!(refused.starts_with(b"error: denied: "), "{guest}: {}", refused.escape_ascii());
    }
}

#[test]
fn a_node_without_a_store_does_not_load_them_and_says_why() {
    let wasm = Wasm::start(WasmConfig { capacity: 1, ..WasmConfig::default() }).unwrap();
    for guest in KEEPERS {
        let error = wasm.load_file("keeper", path(guest)).unwrap_err();

        assert!(
            matches!(&error, ModuleError::Imports { why, .. } if why.contains("rusm:store/kv")),
            "{guest}: {error}"
        );
    }
}
