//! Calls that add to the fields and bodies of a guest: each takes room for what it adds in the bound of all guests.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentNamedList, Lift, Linker, LinkerInstance, Lower, Resource};
use wasmtime_wasi_http::p2::HeaderResult;
use wasmtime_wasi_http::p2::bindings::http::types as p2;
use wasmtime_wasi_http::p3::bindings::http::types as p3;
use wasmtime_wasi_http::{FieldMap, WasiHttpCtxView, WasiHttpView};

use crate::guest::state::GuestState;
use crate::guest::state::resources::{BODY_BYTES, FIELDS_BYTES_MAX, of_field};
use crate::wasi::outcome::{Outcome, outcome};

type Fields = Resource<FieldMap>;
type Value = Vec<u8>;

/// Links a call that adds at most `bytes` bytes to the resources of the guest.
fn growing<P, R>(
    types: &mut LinkerInstance<'_, GuestState>,
    name: &str,
    bytes: fn(&P) -> u64,
    call: fn(&mut WasiHttpCtxView<'_>, P) -> wasmtime::Result<R>,
) -> wasmtime::Result<()>
where
    P: ComponentNamedList + Lift + 'static,
    R: ComponentNamedList + Lower + 'static,
{
    types.func_wrap(name, move |mut caller: StoreContextMut<'_, GuestState>, arguments: P| {
        let state = caller.data_mut();
        state.hold_resources(bytes(&arguments))?;
        call(&mut state.http(), arguments)
    })
}

fn of_append((_, name, value): &(Fields, String, Value)) -> u64 {
    of_field(name, value)
}

fn of_set((_, name, values): &(Fields, String, Vec<Value>)) -> u64 {
    of_field(name, &[]) + values.iter().map(|value| of_field("", value)).sum::<u64>()
}

fn of_list((fields,): &(Vec<(String, Value)>,)) -> u64 {
    fields.iter().map(|(name, value)| of_field(name, value)).sum()
}

/// A copy shares the content until one of the two changes.
const fn of_clone(_: &(Fields,)) -> u64 {
    FIELDS_BYTES_MAX as u64
}

/// Replaces the calls of `wasi:http` 0.2.
pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    use p2::{HostFields, HostOutgoingRequest, HostOutgoingResponse};
    let types = &mut linker.instance("wasi:http/types@0.2.12")?;
    growing(types, "[method]fields.append", of_append, |http, (fields, name, value)| {
        refused(http.append(fields, name, value))
    })?;
    growing(types, "[method]fields.set", of_set, |http, (fields, name, values)| {
        refused(http.set(fields, name, values))
    })?;
    growing(types, "[static]fields.from-list", of_list, |http, (list,)| refused(http.from_list(list)))?;
    growing(types, "[method]fields.clone", of_clone, |http, (fields,)| Ok((HostFields::clone(http, fields)?,)))?;
    growing(
        types,
        "[method]outgoing-request.body",
        |_| BODY_BYTES,
        |http, (request,)| Ok((HostOutgoingRequest::body(http, request)?,)),
    )?;
    growing(
        types,
        "[method]outgoing-response.body",
        |_| BODY_BYTES,
        |http, (response,)| Ok((HostOutgoingResponse::body(http, response)?,)),
    )
}

/// Replaces the calls of `wasi:http` 0.3.
pub(super) fn link_service(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    use p3::HostFields;
    let types = &mut linker.instance("wasi:http/types@0.3.0")?;
    growing(types, "[method]fields.append", of_append, |http, (fields, name, value)| {
        outcome(http.append(fields, name, value))
    })?;
    growing(types, "[method]fields.set", of_set, |http, (fields, name, values)| {
        outcome(http.set(fields, name, values))
    })?;
    growing(types, "[static]fields.from-list", of_list, |http, (list,)| outcome(http.from_list(list)))?;
    growing(types, "[method]fields.clone", of_clone, |http, (fields,)| Ok((HostFields::clone(http, fields)?,)))
}

/// Converts a result of `wasi:http` 0.2, which has another type of error, as [`outcome`] does.
fn refused<T>(result: HeaderResult<T>) -> Outcome<T, p2::HeaderError> {
    match result {
        Ok(value) => Ok((Ok(value),)),
        Err(error) => Ok((Err(error.downcast()?),)),
    }
}
