//! Memory of a component's resources: fields of HTTP, bodies that wait for a reader, and handles such as pollables.
//!
//! The node keeps them, not the linear memory of the guest. Counting all of them takes time, so between two counts the
//! figure is an upper bound: the last count, and what calls may have added since.

use std::any::Any;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::p2::ReaddirIterator;
#[cfg(feature = "http")]
use wasmtime_wasi_http::{FieldMap, p2::types as p2, p3};

/// Bytes of a resource without its content, and of a name in a folder.
pub(crate) const RESOURCE_BYTES: u64 = 256;
/// Bytes that calls may add before the first count.
const UNCOUNTED_BYTES: u64 = 64 * 1024;
/// Maximum size of the fields of one resource, in bytes: room for the largest head that a server accepts.
#[cfg(feature = "http")]
pub(crate) const FIELDS_BYTES_MAX: usize = 32 * 1024;
/// Bytes of a field besides its name and its value.
#[cfg(feature = "http")]
const FIELD_BYTES: u64 = 64;
/// Maximum number of bytes that a guest of `wasi:http` 0.2 writes to a body at once.
#[cfg(feature = "http")]
pub(crate) const BODY_CHUNK_BYTES: usize = 32 * 1024;
/// Bytes of an unread body of `wasi:http` 0.2: two chunks in its queue, one before it, and the trailers.
#[cfg(feature = "http")]
pub(crate) const BODY_BYTES: u64 = (3 * BODY_CHUNK_BYTES + FIELDS_BYTES_MAX) as u64;

/// An upper bound of the memory of a component's resources.
#[derive(Default)]
pub(crate) struct ResourceMemory {
    counted: u64,
    added: u64,
    /// Bytes of the names in folders that are being listed.
    listed: u64,
}

impl ResourceMemory {
    pub(crate) const fn bytes(&self) -> u64 {
        self.counted + self.added + self.listed
    }

    /// Adds what a call may need. Returns true if a count is due.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) -> bool {
        self.added += bytes;
        self.added > UNCOUNTED_BYTES && self.added > self.counted / 2
    }

    /// Adds the names in a folder, until no folder is listed any more.
    pub(crate) const fn list(&mut self, names: u64) {
        self.listed += names * RESOURCE_BYTES;
    }

    /// Removes the names of a list that was not made.
    pub(crate) const fn forget_list(&mut self, names: u64) {
        self.listed = self.listed.saturating_sub(names * RESOURCE_BYTES);
    }

    /// Counts the resources in a table.
    pub(crate) fn count(&mut self, table: &mut ResourceTable) {
        let (mut counted, mut lists) = (0, false);
        for resource in table.iter_mut() {
            counted += bytes_of(resource);
            lists |= resource.is::<ReaddirIterator>();
        }
        (self.counted, self.added) = (counted, 0);
        self.listed = if lists { self.listed } else { 0 };
    }
}

#[cfg(feature = "http")]
fn bytes_of(resource: &dyn Any) -> u64 {
    let content = if let Some(fields) = resource.downcast_ref::<FieldMap>() {
        of_fields(fields)
    } else if let Some(request) = resource.downcast_ref::<p2::HostOutgoingRequest>() {
        of_fields(&request.headers) + of_body(request.body.is_some())
    } else if let Some(response) = resource.downcast_ref::<p2::HostOutgoingResponse>() {
        of_fields(&response.headers) + of_body(response.body.is_some())
    } else if let Some(response) = resource.downcast_ref::<p2::HostIncomingResponse>() {
        of_fields(&response.headers)
    } else if let Some(request) = resource.downcast_ref::<p3::Request>() {
        of_fields(&request.headers)
    } else if let Some(response) = resource.downcast_ref::<p3::Response>() {
        of_fields(&response.headers)
    } else {
        0
    };
    RESOURCE_BYTES + content
}

#[cfg(not(feature = "http"))]
fn bytes_of(_: &dyn Any) -> u64 {
    RESOURCE_BYTES
}

#[cfg(feature = "http")]
const fn of_body(is_made: bool) -> u64 {
    if is_made { BODY_BYTES } else { 0 }
}

#[cfg(feature = "http")]
fn of_fields(fields: &FieldMap) -> u64 {
    fields.iter().map(|(name, value)| of_field(name.as_str(), value.as_bytes())).sum()
}

/// Returns the memory of a field.
#[cfg(feature = "http")]
pub(crate) fn of_field(name: &str, value: &[u8]) -> u64 {
    FIELD_BYTES + (name.len() + value.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_due_when_half_of_the_last_one_may_have_come() {
        let mut table = ResourceTable::new();
        let mut memory = ResourceMemory::default();
        assert!(!memory.add(UNCOUNTED_BYTES) && memory.add(1));
        let resources: Vec<_> = (0..1_000).map(|number: u32| table.push(number).unwrap()).collect();
        memory.count(&mut table);
        assert_eq!(memory.bytes(), 1_000 * RESOURCE_BYTES);

        assert!(!memory.add(500 * RESOURCE_BYTES) && memory.add(1));
        for resource in resources {
            table.delete(resource).unwrap();
        }
        memory.count(&mut table);
        assert_eq!(memory.bytes(), 0);
    }

    #[cfg(feature = "http")]
    #[test]
    fn fields_and_bodies_count_with_their_content() {
        let mut table = ResourceTable::new();
        let mut fields = FieldMap::new_mutable(FIELDS_BYTES_MAX);
        let name = rusm_serve::http::HeaderName::from_static("x-a");
        fields.append_raw(name, rusm_serve::http::HeaderValue::from_bytes(&[b'a'; 1_000]).unwrap()).unwrap();
        table.push(fields.clone()).unwrap();
        let (_, body) = wasmtime_wasi_http::p2::body::HostOutgoingBody::new(
            wasmtime_wasi_http::p2::body::StreamContext::Response,
            None,
            1,
            BODY_CHUNK_BYTES,
        );
        let status = rusm_serve::http::StatusCode::OK;
        table.push(p2::HostOutgoingResponse { status, headers: fields, body: Some(body) }).unwrap();

        let mut memory = ResourceMemory::default();
        memory.count(&mut table);
        assert_eq!(memory.bytes(), 2 * (RESOURCE_BYTES + FIELD_BYTES + 1_003) + BODY_BYTES);
    }
}
