//! Bounds on what a guest writes into its own requests: the node keeps those texts, not the memory of the guest.

use wasmtime::StoreContextMut;
use wasmtime::component::{Lift, Linker, LinkerInstance, Resource};
use wasmtime_wasi_http::p2::bindings::http::types as p2;
use wasmtime_wasi_http::p3::bindings::http::types as p3;
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::guest::state::GuestState;

/// Maximum length of a method or a scheme, in bytes.
const WORD_BYTES_MAX: usize = 64;
/// Maximum length of an authority, in bytes: a name of 253, a port, and credentials.
const AUTHORITY_BYTES_MAX: usize = 1024;
/// Maximum length of a path with its query, in bytes: as long as servers accept it.
const PATH_BYTES_MAX: usize = 8 * 1024;

/// Result of a setter, as `wasi:http` defines it.
type Done = wasmtime::Result<Result<(), ()>>;

/// Links a setter of a request, which refuses a value of more bytes.
fn bound<R: 'static, V: Lift + 'static>(
    types: &mut LinkerInstance<'_, GuestState>,
    name: &str,
    (bytes, bytes_max): (fn(&V) -> usize, usize),
    set: fn(&mut WasiHttpCtxView<'_>, Resource<R>, V) -> Done,
) -> wasmtime::Result<()> {
    types.func_wrap(name, move |mut caller: StoreContextMut<'_, GuestState>, (request, value): (Resource<R>, V)| {
        if bytes(&value) > bytes_max {
            return Ok((Err(()),));
        }
        Ok((set(&mut caller.data_mut().http(), request, value)?,))
    })
}

/// Replaces the setters of `wasi:http` 0.2.
pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    use p2::HostOutgoingRequest as Host;
    let method = |method: &p2::Method| if let p2::Method::Other(name) = method { name.len() } else { 0 };
    let scheme = |scheme: &Option<p2::Scheme>| if let Some(p2::Scheme::Other(name)) = scheme { name.len() } else { 0 };
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let types = &mut linker.instance("wasi:http/types@0.2.12")?;
    let name = |setter: &str| format!("[method]outgoing-request.{setter}");
    bound(types, &name("set-method"), (method, WORD_BYTES_MAX), |http, it, to| Host::set_method(http, it, to))?;
    bound(types, &name("set-scheme"), (scheme, WORD_BYTES_MAX), |http, it, to| Host::set_scheme(http, it, to))?;
    bound(types, &name("set-authority"), (text, AUTHORITY_BYTES_MAX), |http, it, to| {
        Host::set_authority(http, it, to)
    })?;
    bound(types, &name("set-path-with-query"), (text, PATH_BYTES_MAX), |http, it, to| {
        Host::set_path_with_query(http, it, to)
    })
}

/// Replaces the setters of `wasi:http` 0.3.
pub(super) fn link_service(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    use p3::HostRequest as Host;
    let method = |method: &p3::Method| if let p3::Method::Other(name) = method { name.len() } else { 0 };
    let scheme = |scheme: &Option<p3::Scheme>| if let Some(p3::Scheme::Other(name)) = scheme { name.len() } else { 0 };
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let types = &mut linker.instance("wasi:http/types@0.3.0")?;
    let name = |setter: &str| format!("[method]request.{setter}");
    bound(types, &name("set-method"), (method, WORD_BYTES_MAX), |http, it, to| Host::set_method(http, it, to))?;
    bound(types, &name("set-scheme"), (scheme, WORD_BYTES_MAX), |http, it, to| Host::set_scheme(http, it, to))?;
    bound(types, &name("set-authority"), (text, AUTHORITY_BYTES_MAX), |http, it, to| {
        Host::set_authority(http, it, to)
    })?;
    bound(types, &name("set-path-with-query"), (text, PATH_BYTES_MAX), |http, it, to| {
        Host::set_path_with_query(http, it, to)
    })
}
