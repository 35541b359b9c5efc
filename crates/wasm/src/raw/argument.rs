//! Arguments of the raw table, read from the integers of a core module; see [`function`](super::table::function).
//! Ranges of the guest's memory are copied.

use wasmtime::Caller;

use super::abi::{self, status};
use super::memory;
use crate::bindings::rusm::runtime::types::{self, Error};
use crate::guest::state::GuestState;

/// Maximum length of a key or a text, in bytes.
const TEXT_MAX_BYTES: usize = 64 * 1024;

type GuestCaller<'a> = Caller<'a, GuestState>;
/// An argument, or an error status.
type Read<T> = Result<T, i32>;

/// A pid of this node.
#[expect(clippy::unnecessary_wraps, reason = "every kind of argument may be refused")]
pub(crate) fn pid(_: &mut GuestCaller<'_>, number: i64) -> Read<types::Pid> {
    Ok(abi::pid(number))
}

/// A number of 64 bits: a tag, a reference or a handle.
#[expect(clippy::unnecessary_wraps, reason = "every kind of argument may be refused")]
pub(crate) fn number(_: &mut GuestCaller<'_>, number: i64) -> Read<u64> {
    Ok(number.cast_unsigned())
}

/// A number of 32 bits.
#[expect(clippy::unnecessary_wraps, reason = "every kind of argument may be refused")]
pub(crate) fn count(_: &mut GuestCaller<'_>, number: i32) -> Read<u32> {
    Ok(number.cast_unsigned())
}

/// A truth value: 0 is false.
#[expect(clippy::unnecessary_wraps, reason = "every kind of argument may be refused")]
pub(crate) fn flag(_: &mut GuestCaller<'_>, flag: i32) -> Read<bool> {
    Ok(flag != 0)
}

/// A time in milliseconds; a negative one means no limit.
#[expect(clippy::unnecessary_wraps, reason = "every kind of argument may be refused")]
pub(crate) fn milliseconds(_: &mut GuestCaller<'_>, ms: i64) -> Read<Option<u64>> {
    Ok(abi::timeout(ms))
}

/// The bytes of a range.
pub(crate) fn bytes(caller: &mut GuestCaller<'_>, p: i32, n: i32) -> Read<Vec<u8>> {
    if let Some((_, bytes)) = memory::find(caller, (p, n)) {
        return Ok(bytes.to_vec());
    }
    let error = memory::refused(caller, (p, n));
    Err(status(caller.data_mut(), error))
}

/// The bytes of a range that is as short as a key or a text: the node does more with them than to copy them.
pub(crate) fn key(caller: &mut GuestCaller<'_>, p: i32, n: i32) -> Read<Vec<u8>> {
    let length = n.cast_unsigned() as usize;
    if length <= TEXT_MAX_BYTES {
        return bytes(caller, p, n);
    }
    let why = format!("a key or a text of {length} bytes is too long: the limit is {TEXT_MAX_BYTES}");
    Err(status(caller.data_mut(), Error::Invalid(why)))
}

/// The bytes of a range, or nothing if its length is negative.
#[cfg(feature = "store")]
pub(crate) fn optional_bytes(caller: &mut GuestCaller<'_>, p: i32, n: i32) -> Read<Option<Vec<u8>>> {
    if n < 0 { Ok(None) } else { bytes(caller, p, n).map(Some) }
}

/// A range as text.
pub(crate) fn text(caller: &mut GuestCaller<'_>, p: i32, n: i32) -> Read<String> {
    String::from_utf8(key(caller, p, n)?).map_err(|error| {
        let why = format!("the {n} bytes at {p} are not UTF-8: {}", error.utf8_error());
        status(caller.data_mut(), Error::Invalid(why))
    })
}

/// A range as text, or nothing if its length is negative.
pub(crate) fn optional_text(caller: &mut GuestCaller<'_>, p: i32, n: i32) -> Read<Option<String>> {
    if n < 0 { Ok(None) } else { text(caller, p, n).map(Some) }
}
