//! Guests on other nodes, by the hash of their code.
//!
//! ```text
//!   process ── start (hash, arguments) ──▶ starter on the other node ── known code ──▶ guest
//!      │◀── the code is not here ─────────────┘
//!      └── start (hash, arguments, code) ──▶ hash of the code checked, compiled, kept ──▶ guest
//! ```
//!
//! The code travels once to each node. The other node decides what the guest may do: the profile and the limits are its
//! own, whatever the starting node says.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rusm_runtime::remote::{AskError, Decoder, Encoder, Exports, Portable};
use rusm_runtime::{CallError, Context, Pid, Request};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::engine::inner::Wasm;
use crate::guest::capability::SANDBOXED;
use crate::guest::spawn::GuestOptions;
use crate::module::Module;

/// Name under which nodes start the process that starts guests.
const STARTER: &str = "rusm/guest";
/// Maximum length of code that another node may send, in bytes.
pub const REMOTE_CODE_BYTES_MAX: usize = 32 << 20;
/// Maximum number of modules that other nodes may load.
const MODULES_MAX: usize = 1_024;
/// Time within which a starter waits for a request.
const REQUEST_WITHIN: Duration = Duration::from_mins(1);
/// Time between two looks at code that another starter loads.
const LOADING_CHECK: Duration = Duration::from_millis(2);

/// Code of a guest that is to run on other nodes. Clones share the bytes.
#[derive(Clone)]
pub struct GuestCode {
    bytes: Bytes,
    hash: [u8; 32],
}

impl fmt::Debug for GuestCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestCode({})", module_name(&self.hash))
    }
}

impl GuestCode {
    /// Creates the code from the bytes of a module or component.
    ///
    /// # Errors
    /// [`RemoteGuestError::Length`] above [`REMOTE_CODE_BYTES_MAX`].
    pub fn new(bytes: Bytes) -> Result<Self, RemoteGuestError> {
        if bytes.len() > REMOTE_CODE_BYTES_MAX {
            return Err(RemoteGuestError::Length { bytes: bytes.len() });
        }
        Ok(Self { hash: Sha256::digest(&bytes).into(), bytes })
    }

    /// Returns the SHA-256 of the code.
    pub const fn sha256(&self) -> &[u8; 32] {
        &self.hash
    }
}

/// Error returned if a guest was not started on another node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RemoteGuestError {
    /// The code is too long.
    #[error("code of {bytes} bytes is longer than {REMOTE_CODE_BYTES_MAX}")]
    Length {
        /// Length of the code, in bytes.
        bytes: usize,
    },
    /// The node is not connected, does not start guests for others, or accepts no more processes.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The request failed. The guest may have been started.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The node refused to start the guest; the text says why.
    #[error("the node does not start the guest: {0}")]
    Refused(String),
}

/// The part of a node that starts guests for other nodes, and on them. Clones are the same.
#[derive(Clone, Debug)]
pub struct RemoteGuests(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Profile of guests that other nodes start here.
    profile: Arc<str>,
    wasm: OnceLock<Wasm>,
    /// Hashes of code that other nodes have sent, and of the code that is being compiled.
    loaded: Mutex<Loaded>,
    received: AtomicU64,
}

#[derive(Debug, Default)]
struct Loaded {
    known: HashSet<[u8; 32]>,
    loading: HashSet<[u8; 32]>,
}

impl Default for RemoteGuests {
    fn default() -> Self {
        Self::with_profile(SANDBOXED)
    }
}

impl RemoteGuests {
    /// Creates it with the profile that guests of other nodes get here. The default is `sandboxed`.
    pub fn with_profile(profile: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(Inner {
            profile: profile.into(),
            wasm: OnceLock::new(),
            loaded: Mutex::default(),
            received: AtomicU64::new(0),
        }))
    }

    /// Adds what other nodes need to start guests here. Call it before the runtime starts.
    #[must_use]
    pub fn export(&self, exports: Exports) -> Exports {
        let guests = self.clone();
        exports
            .call::<StartGuest, Started>(STARTER)
            .spawnable(STARTER, move |ctx, _: Bytes| starter(ctx, guests.clone()))
    }

    /// Sets the engine that runs the guests, once. Until then, requests are refused.
    pub fn attach(&self, wasm: &Wasm) {
        drop(self.0.wasm.set(wasm.clone()));
    }

    /// Returns how often another node has sent code to this one.
    pub fn received_total(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    /// Starts a guest on another node, and returns its pid there. The code is sent if the node does not have it. The guest is
    /// not linked: link or monitor its pid.
    ///
    /// # Errors
    /// [`RemoteGuestError`] if the node is not reached in time, or refuses.
    pub async fn spawn_on<S: Into<String>>(
        &self,
        ctx: &Context,
        node: &str,
        code: &GuestCode,
        args: impl IntoIterator<Item = S>,
        timeout: Duration,
    ) -> Result<Pid, RemoteGuestError> {
        let args: Vec<String> = args.into_iter().map(Into::into).collect();
        let start = Instant::now();
        let asked = tokio::time::timeout(timeout, ctx.spawn_on(node, STARTER, Bytes::new())).await;
        let starter = asked.unwrap_or_else(|_late| Err(AskError::NoConnection { node: node.into() }))?;
        let mut request = StartGuest { hash: Bytes::copy_from_slice(&code.hash), args, code: None };
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            match ctx.call::<StartGuest, Started>(starter, request.clone(), left).await? {
                Started::Pid(pid) => return Ok(pid),
                Started::NoCode if request.code.is_none() => request.code = Some(code.bytes.clone()),
                Started::NoCode => return Err(RemoteGuestError::Refused("it does not keep the code".to_owned())),
                Started::Refused(why) => return Err(RemoteGuestError::Refused(why)),
            }
        }
    }
}

/// A request to a starter.
#[derive(Clone, Debug)]
struct StartGuest {
    hash: Bytes,
    args: Vec<String>,
    code: Option<Bytes>,
}

impl Portable for StartGuest {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.hash.encode(to);
        self.args.encode(to);
        self.code.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Self { hash: Portable::decode(from)?, args: Portable::decode(from)?, code: Portable::decode(from)? })
    }
}

/// The answer of a starter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Started {
    Pid(Pid),
    /// The node does not have the code.
    NoCode,
    Refused(String),
}

impl Portable for Started {
    fn encode(&self, to: &mut Encoder<'_>) {
        match self {
            Self::Pid(pid) => (1_u8, *pid).encode(to),
            Self::NoCode => 2_u8.encode(to),
            Self::Refused(why) => (3_u8, why.clone()).encode(to),
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        match u8::decode(from)? {
            1 => Pid::decode(from).map(Self::Pid),
            2 => Some(Self::NoCode),
            3 => String::decode(from).map(Self::Refused),
            _ => None,
        }
    }
}

/// Starts one guest for a process of another node.
async fn starter(ctx: Context, guests: RemoteGuests) {
    ctx.set_label("starter of guests");
    loop {
        let Some(message) = ctx.receive_timeout(REQUEST_WITHIN).await else { return };
        let Ok(Request { request, reply }) = message.downcast::<Request<StartGuest, Started>>() else { continue };
        let started = guests.start(&ctx, request).await.unwrap_or_else(Started::Refused);
        let goes_on = started == Started::NoCode;
        // The caller may have ended.
        drop(reply.send(&ctx, started));
        if !goes_on {
            return;
        }
    }
}

impl RemoteGuests {
    async fn start(&self, ctx: &Context, request: StartGuest) -> Result<Started, String> {
        let StartGuest { hash, args, code } = request;
        let wasm = self.0.wasm.get().ok_or("it has no engine for guests")?;
        let hash: [u8; 32] = hash.as_ref().try_into().map_err(|_length| "the hash is not one of SHA-256".to_owned())?;
        let Some(module) = self.module(ctx, wasm, hash, code).await? else { return Ok(Started::NoCode) };
        let options = GuestOptions::default().args(args).profile(Arc::clone(&self.0.profile));
        wasm.spawn(&ctx.runtime(), &module, &options).map(Started::Pid).map_err(|error| error.to_string())
    }

    /// Returns the module with this hash, and loads it if its code was sent; `None` without its code.
    async fn module(
        &self,
        ctx: &Context,
        wasm: &Wasm,
        hash: [u8; 32],
        code: Option<Bytes>,
    ) -> Result<Option<Module>, String> {
        let name = module_name(&hash);
        let Some(code) = &code else { return Ok(self.loaded(ctx, wasm, &hash, &name).await) };
        self.0.received.fetch_add(1, Ordering::Relaxed);
        if code.len() > REMOTE_CODE_BYTES_MAX {
            return Err(format!("code of {} bytes is longer than {REMOTE_CODE_BYTES_MAX}", code.len()));
        }
        loop {
            if let Some(module) = self.loaded(ctx, wasm, &hash, &name).await {
                return Ok(Some(module));
            }
            // Otherwise another starter has begun just now.
            let Some(loading) = self.begin_loading(hash)? else { continue };
            let (engine, code, name) = (wasm.clone(), code.clone(), name.clone());
            let permit = Arc::clone(&wasm.0.loads).acquire_owned().await;
            let load = move || {
                let _permit = permit;
                if <[u8; 32]>::from(Sha256::digest(&code)) != hash {
                    return Err("the code does not have the hash that was announced".to_owned());
                }
                let module = engine.load(name, &code).map_err(|error| error.to_string())?;
                // Here, because loading goes on if the starter ends.
                loading.is_known();
                Ok(module)
            };
            return ctx.spawn_blocking(load).await.map(Some);
        }
    }

    /// Returns the module with this hash, if it is loaded; waits while it is being loaded.
    async fn loaded(&self, ctx: &Context, wasm: &Wasm, hash: &[u8; 32], name: &str) -> Option<Module> {
        while self.0.loaded.lock().loading.contains(hash) {
            ctx.sleep(LOADING_CHECK).await;
        }
        wasm.module(name)
    }

    /// Notes that code is being loaded; `None` if another starter does it.
    fn begin_loading(&self, hash: [u8; 32]) -> Result<Option<Loading>, String> {
        let mut loaded = self.0.loaded.lock();
        if loaded.loading.contains(&hash) {
            return Ok(None);
        }
        if loaded.known.len() + loaded.loading.len() >= MODULES_MAX {
            return Err(format!("other nodes have loaded {MODULES_MAX} modules already"));
        }
        loaded.loading.insert(hash);
        Ok(Some(Loading { inner: Arc::clone(&self.0), hash }))
    }
}

/// Code that is being loaded, until this is dropped.
struct Loading {
    inner: Arc<Inner>,
    hash: [u8; 32],
}

impl Loading {
    fn is_known(&self) {
        self.inner.loaded.lock().known.insert(self.hash);
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.inner.loaded.lock().loading.remove(&self.hash);
    }
}

/// Returns the name under which the module with a hash is loaded.
fn module_name(hash: &[u8; 32]) -> String {
    hash.iter().fold("sha256:".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}
