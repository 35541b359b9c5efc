//! Digests that guests compute through a host call: measures the cost of a call from each guest language into the node.
//!
//! ```text
//!   caller ── a chain of 256, or bytes to hash ──▶ service, a guest ── digest ──▶ node, once per digest
//!      ▲────── the digest, compared with the expected one ──┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusm_protocol::Unit;
use rusm_runtime::{Context, ExitReason, TaggedBytes};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};
use sha2::{Digest, Sha256};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::defaults;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::wasm::guests::{Guests, prebuilt};

/// Number of digests in a chain.
const CHAIN: u64 = 256;
/// Message tags that request a chain from the digest service, and the digest of the message's body.
const DIRECT_TAGS: Tags = Tags { chain: 1, bytes: 256 };
/// Message tags for the same work by `crypto.subtle`, which the service in TypeScript has.
const SUBTLE_TAGS: Tags = Tags { chain: 2, bytes: 3 };
/// Maximum number of core instances in a guest. `QuickJS` with its adapters needs thirteen.
const PARTS_MAX: u32 = 16;
/// Address space reserved for a guest's memory. At 4 GiB its code needs no bounds checks.
const MEMORY_MAX_BYTES: u64 = 4 << 30;
/// Maximum number of bytes that a node hashes in one call.
const DIGEST_MAX_BYTES: u64 = 512 << 10;
/// Timeout of one request.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The scenario `crypto-ops`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CryptoOps;

impl Scenario for CryptoOps {
    fn card(&self) -> Card {
        Card {
            id: "crypto-ops",
            family: Family::Actors,
            label: "Crypto operations",
            description: "Services in TypeScript, Rust or C that compute SHA-256 with the node's help.",
            details: &[
                "One operation is a SHA-256 digest that a guest requests from the node, of 32 bytes unless the request \
                 says otherwise.",
                "With request=chain a service computes 256 digests, each of the previous one, and the last must be \
                 right. Nearly all of the figure is then calls from the guest into the node.",
                "With request=bytes each request brings the bytes to hash, so a digest also costs a message in each \
                 direction.",
                "With api=subtle the service in TypeScript awaits a promise of `crypto.subtle.digest`, as a program for the \
                 Web does, and with api=direct it calls the node's function. Rust and C always call it.",
                "Latency is that of a request, from before the call to the answer.",
                "The services are the prebuilt guests of examples/guests; TypeScript runs in QuickJS, which is part of \
                 the guest.",
                "Errors are answers that are late or wrong.",
                "It does not measure how fast a guest itself hashes: the node does the arithmetic.",
                "Goal: 250,000 digests of 32 bytes per second and core.",
            ],
            ops_label: "digests/s",
            latency_label: Some("request to answer"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "services",
                    description: "Guests that compute digests; auto is the profile's number of workers.",
                    kind: Kind::AutoCount { min: 1, max: 256 },
                },
                Parameter {
                    name: "language",
                    description: "Language of the guests.",
                    kind: Kind::Choice { words: &["typescript", "rust", "c"] },
                },
                Parameter {
                    name: "api",
                    description: "How a service in TypeScript computes a digest.",
                    kind: Kind::Choice { words: &["subtle", "direct"] },
                },
                Parameter {
                    name: "request",
                    description: "Content of a request: a chain of 256 digests, or bytes to hash.",
                    kind: Kind::Choice { words: &["chain", "bytes"] },
                },
                Parameter {
                    name: "bytes",
                    description: "Number of bytes to hash with request=bytes; a chain always uses 32.",
                    kind: Kind::Bytes { min: 0, max: DIGEST_MAX_BYTES, default: defaults::DIGEST_BYTES },
                },
            ],
            source_file: file!(),
            timed: "request",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let services = context.workers(context.params().auto_number("services"));
            let bytes = context.params().number("bytes");
            let language = context.params().word("language");
            let is_subtle = language == "typescript" && context.params().word("api") == "subtle";
            let tags = if is_subtle { SUBTLE_TAGS } else { DIRECT_TAGS };
            let task = match context.params().word("request") {
                "chain" => Task::chain(tags.chain),
                _ => Task::bytes(tags.bytes, bytes as usize),
            };
            let code = match language {
                "typescript" => prebuilt!("ts/guests.wasm"),
                "rust" => prebuilt!("rust/digest.wasm"),
                _ => prebuilt!("c/digest.wasm"),
            };
            let config = WasmConfig {
                capacity: services.count as u32,
                parts_max: PARTS_MAX,
                memory_max_bytes: MEMORY_MAX_BYTES,
                ..WasmConfig::default()
            };
            let guests = Guests::start(context, config).await?;
            let module = guests.load(context, "digest", code).await?;
            context.prepared();
            for index in 0..services.count {
                let caller = Caller {
                    wasm: guests.wasm.clone(),
                    module: module.clone(),
                    task: task.clone(),
                    recorder: context.recorder(),
                    pace: context.pace(index, services.count, services.duty),
                };
                context.spawn_worker(|ctx| caller.run(ctx))?;
            }
            context.stopped().await?;
            context.ended().await
        })
    }
}

/// Tags of the requests to a service.
#[derive(Clone, Copy)]
struct Tags {
    chain: u64,
    bytes: u64,
}

/// The request to a service and the expected answer.
#[derive(Clone)]
enum Task {
    /// All links of a chain, indexed by the number of digests that produce them.
    Chain { tag: u64, links: Arc<[Vec<u8>]> },
    /// Bytes to hash, and their digest.
    Bytes { tag: u64, body: Bytes, digest: Arc<[u8]> },
}

impl Task {
    fn chain(tag: u64) -> Self {
        let first = Some(vec![0; 32]);
        let links = std::iter::successors(first, |link| Some(Sha256::digest(link).to_vec()));
        Self::Chain { tag, links: links.take(CHAIN as usize + 1).collect() }
    }

    fn bytes(tag: u64, bytes: usize) -> Self {
        let body: Bytes = (0..bytes).map(|place| place as u8).collect::<Vec<_>>().into();
        Self::Bytes { tag, digest: Sha256::digest(&body).to_vec().into(), body }
    }

    /// Returns the maximum number of digests in one request.
    const fn digests_max(&self) -> u64 {
        match self {
            Self::Chain { .. } => CHAIN,
            Self::Bytes { .. } => 1,
        }
    }

    /// Returns a request for this number of digests, and the expected answer.
    fn request(&self, digests: u64) -> (TaggedBytes, &[u8]) {
        match self {
            Self::Chain { tag, links } => {
                let body = Bytes::copy_from_slice(&(digests as u32).to_le_bytes());
                (TaggedBytes { tag: *tag, body }, &links[digests as usize])
            }
            Self::Bytes { tag, body, digest } => (TaggedBytes { tag: *tag, body: body.clone() }, digest),
        }
    }
}

struct Caller {
    wasm: Wasm,
    module: Module,
    task: Task,
    recorder: Recorder,
    pace: Pace,
}

impl Caller {
    async fn run(mut self, ctx: Context) -> Result<(), RunError> {
        ctx.set_label("clerk");
        // All TypeScript guests are in one component; the argument selects the digest service.
        let guest = GuestOptions::default().args(["digest"]).linked();
        let (service, _) =
            self.wasm.spawn_from(&ctx, &self.module, &guest).map_err(|error| RunError::Lacks(error.to_string()))?;
        while let Some(digests) = self.pace.next_batch(&ctx, self.task.digests_max()).await {
            let stamp = self.pace.begin_batch(&mut self.recorder, digests);
            let (request, right) = self.task.request(digests);
            let answer = ctx.call::<_, Bytes>(service, request, ANSWER_WITHIN).await;
            self.recorder.end(stamp);
            if answer.is_ok_and(|answer| answer == right) {
                self.recorder.count(digests);
            } else {
                self.recorder.fail(digests);
            }
        }
        ctx.unlink(service);
        ctx.exit(service, ExitReason::Killed);
        Ok(())
    }
}
