//! Reading and writing integers, with bounds.

use bytes::{Buf, Bytes};
use thiserror::Error;

/// Error returned for bytes that are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end within a field.
    #[error("a packet ends within {0}")]
    Short(&'static str),
    /// A field has a value that no node sends.
    #[error("{0} of a packet is not valid")]
    Invalid(&'static str),
    /// A field is beyond its limit.
    #[error("{field} of a packet is {value}, over {limit}")]
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: usize,
        /// The limit.
        limit: usize,
    },
}

/// The unread rest of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    rest: Bytes,
}

impl Cursor {
    pub(crate) const fn new(rest: Bytes) -> Self {
        Self { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns everything that is left.
    pub(crate) fn into_rest(self) -> Bytes {
        self.rest
    }

    /// Takes a number of bytes without copying them.
    pub(crate) fn take(&mut self, length: usize, field: &'static str) -> Result<Bytes, WireError> {
        if self.rest.len() < length {
            return Err(WireError::Short(field));
        }
        Ok(self.rest.split_to(length))
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self, field: &'static str) -> Result<u128, WireError> {
        self.array(field).map(u128::from_le_bytes)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let (head, _) = self.rest.split_first_chunk::<N>().ok_or(WireError::Short(field))?;
        let head = *head;
        self.rest.advance(N);
        Ok(head)
    }
}
