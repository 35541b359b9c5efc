//! The engine and the guests of scenarios that run WebAssembly guests.
//!
//! ```text
//!   RunContext ── start: one engine per run ──▶ load: text or prebuilt bytes ──▶ Module, spawned any number of times
//! ```
//!
//! The texts are in `guests/`. Texts that differ only in a number contain `{pages}` in its place. An engine belongs to
//! its run: the scenario sets its limits, and other engines on the node keep theirs.

use bytes::Bytes;
use miniz_oxide::inflate::decompress_to_vec;
use rusm_runtime::Pid;
use rusm_wasm::{Module, Wasm, WasmConfig};

use crate::context::RunContext;
use crate::run::error::RunError;

/// Size of a page of linear memory, in bytes.
pub(crate) const PAGE_BYTES: u64 = 65_536;

/// The WebAssembly engine of a run.
#[derive(Clone, Debug)]
pub(crate) struct Guests {
    pub(crate) wasm: Wasm,
}

impl Guests {
    /// Starts an engine for the guests of a run.
    pub(crate) async fn start(context: &mut RunContext, config: WasmConfig) -> Result<Self, RunError> {
        let wasm = context.blocking(move || Wasm::start(config)).await;
        wasm.map(|wasm| Self { wasm })
            .map_err(|error| RunError::Lacks(format!("cannot allocate memory for the guests: {error}")))
    }

    /// Compiles a guest.
    pub(crate) async fn load(
        &self,
        context: &mut RunContext,
        name: &'static str,
        code: Code,
    ) -> Result<Module, RunError> {
        let wasm = self.wasm.clone();
        let compiled = context.blocking(move || match code {
            Code::Text(text) => {
                let bytes = wat::parse_str(text).map_err(|error| format!("{name}: {error}"))?;
                wasm.load(name, &bytes).map_err(|error| error.to_string())
            }
            Code::Prebuilt(compressed) => {
                let bytes = decompress_to_vec(compressed).map_err(|error| format!("{name}: {error}"))?;
                wasm.load(name, &bytes).map_err(|error| error.to_string())
            }
        });
        compiled.await.map_err(|error| RunError::Lacks(format!("a guest does not compile: {error}")))
    }
}

/// Code of a guest.
pub(crate) enum Code {
    /// WebAssembly text, translated before it is loaded.
    Text(String),
    /// A prebuilt binary from the repository, compressed: see [`prebuilt!`].
    Prebuilt(&'static [u8]),
}

/// Returns the code of a guest in `examples/guests/prebuilt`, as the build script has compressed it.
macro_rules! prebuilt {
    ($file:literal) => {
        $crate::scenarios::wasm::guests::Code::Prebuilt(include_bytes!(concat!(env!("OUT_DIR"), "/", $file)))
    };
}

pub(crate) use prebuilt;

impl Code {
    /// Creates a guest from text with this number of memory pages.
    pub(crate) fn of(text: &str, pages: u64) -> Self {
        Self::Text(text.replace("{pages}", &pages.to_string()))
    }
}

/// Encodes a pid for core modules.
pub(crate) fn number(pid: Pid) -> i64 {
    (i64::from(pid.generation()) << 32) | i64::from(pid.slot())
}

/// Decodes the little-endian numbers in a message from a guest; returns `None` if the message is too short.
pub(crate) fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (index, word) in words.iter_mut().enumerate() {
        *word = u64::from_le_bytes(bytes.get(8 * index..8 * index + 8)?.try_into().ok()?);
    }
    Some(words)
}

/// Encodes numbers as a message to a guest.
pub(crate) fn message(words: &[u64]) -> Bytes {
    words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_way_to_a_guest() {
        assert_eq!(words(&message(&[1, u64::MAX])), Some([1, u64::MAX]));
        assert_eq!(words::<2>(&[0; 15]), None);
    }
}
