//! The store for core modules: functions of module `rusm`, with memory ranges and statuses as in `src/raw.rs`.
//!
//! | Function | Gives | |
//! |---|---|---|
//! | `kv_get(bucket_p, bucket_n, key_p, key_n)` | `i32` | 1 and the value is the item, 0 if the key does not exist, or a status |
//! | `kv_put(bucket_p, bucket_n, key_p, key_n, p, n, ms)` | status | expires after `ms` milliseconds; below 0 never |
//! | `kv_delete(bucket_p, bucket_n, key_p, key_n)` | `i32` | 1 if the key existed, 0, or a status |
//! | `kv_compare_and_set(bucket_p, bucket_n, key_p, key_n, old_p, old_n, p, n)` | `i32` | 1 if it was set, 0, or a status; a length below 0 stands for no value |
//! | `kv_commit(p, n)` | `i32` | 1 if all steps were done, 0 if an expectation failed, or a status; the format of steps is below |
//! | `kv_scan(bucket_p, bucket_n, prefix_p, prefix_n, after_p, after_n, limit)` | `i32` | number of rows, or a status; the item holds for each row the lengths of key and value, four bytes each, little-endian, then both; `item_tag()` is 1 if there are more rows |
//!
//! Format of a step of a commit: one byte for its kind (0 expects no value, 1 expects this value, 2 deletes, 3 puts, 4
//! puts with an expiry); the lengths of bucket, key and value, four bytes each, little-endian; for kind 4 the
//! milliseconds in eight bytes; then bucket, key and value. A step without a value has one of 0 bytes.
//!
//! Status -10 is a failure of the store; its error text gives the reason.

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Linker};

use super::bindings::rusm::store::kv::{Change, Error, Expected, Host, Page};
use crate::guest::state::GuestState;
use crate::kv::STEPS_MAX;
use crate::raw::{MODULE, status, with_bytes, with_text};

type GuestCaller<'a> = Caller<'a, GuestState>;
type MemoryRange = (i32, i32);

macro_rules! or_return {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(status) => return status,
        }
    };
}

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "kv_get",
        |mut caller: GuestCaller<'_>, (bp, bn, kp, kn): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (bucket, key) = or_return!(bucket_and_key(&mut caller, (bp, bn), (kp, kn)));
                let value = Host::get(caller.data_mut(), bucket, key).await;
                let state = caller.data_mut();
                match value {
                    Ok(Some(value)) => {
                        state.last_result.set_bytes(value, 0);
                        1
                    }
                    Ok(None) => 0,
                    Err(error) => failed(state, error),
                }
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "kv_put",
        |mut caller: GuestCaller<'_>, (bp, bn, kp, kn, p, n, ms): (i32, i32, i32, i32, i32, i32, i64)| {
            Box::new(async move {
                let (bucket, key) = or_return!(bucket_and_key(&mut caller, (bp, bn), (kp, kn)));
                let value = or_return!(with_bytes(&mut caller, (p, n)));
                let put = Host::put(caller.data_mut(), bucket, key, value, u64::try_from(ms).ok()).await;
                put.map_or_else(|error| failed(caller.data_mut(), error), |()| 0)
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "kv_delete",
        |mut caller: GuestCaller<'_>, (bp, bn, kp, kn): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (bucket, key) = or_return!(bucket_and_key(&mut caller, (bp, bn), (kp, kn)));
                let deleted = Host::delete(caller.data_mut(), bucket, key).await;
                deleted.map_or_else(|error| failed(caller.data_mut(), error), i32::from)
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "kv_compare_and_set",
        |mut caller: GuestCaller<'_>, (bp, bn, kp, kn, op, on, p, n): (i32, i32, i32, i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (bucket, key) = or_return!(bucket_and_key(&mut caller, (bp, bn), (kp, kn)));
                let expected = or_return!(optional_bytes(&mut caller, (op, on)));
                let value = or_return!(optional_bytes(&mut caller, (p, n)));
                let set = Host::compare_and_set(caller.data_mut(), bucket, key, expected, value).await;
                set.map_or_else(|error| failed(caller.data_mut(), error), i32::from)
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "kv_commit", |mut caller: GuestCaller<'_>, (p, n): (i32, i32)| {
        Box::new(async move {
            let steps = or_return!(with_bytes(&mut caller, (p, n)));
            let state = caller.data_mut();
            let (expects, changes) = match parse_steps(&steps) {
                Ok(steps) => steps,
                Err(error) => return failed(state, error),
            };
            let committed = Host::commit(state, expects, changes).await;
            committed.map_or_else(|error| failed(caller.data_mut(), error), i32::from)
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "kv_scan",
        |mut caller: GuestCaller<'_>, (bp, bn, pp, pn, ap, an, limit): (i32, i32, i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (bucket, prefix) = or_return!(bucket_and_key(&mut caller, (bp, bn), (pp, pn)));
                let after = or_return!(with_bytes(&mut caller, (ap, an)));
                let page = Host::scan(caller.data_mut(), bucket, prefix, after, limit as u32).await;
                let state = caller.data_mut();
                match page {
                    Ok(page) => {
                        state.last_result.set_bytes(encode_page(&page), u64::from(page.next.is_some()));
                        page.rows.len() as i32
                    }
                    Err(error) => failed(state, error),
                }
            })
        },
    )?;
    Ok(())
}

/// Reads the name of a bucket, and a key or a prefix.
fn bucket_and_key(
    caller: &mut GuestCaller<'_>,
    bucket: MemoryRange,
    key: MemoryRange,
) -> Result<(String, Vec<u8>), i32> {
    Ok((with_text(caller, bucket)?, with_bytes(caller, key)?))
}

fn optional_bytes(caller: &mut GuestCaller<'_>, range: MemoryRange) -> Result<Option<Vec<u8>>, i32> {
    if range.1 < 0 { Ok(None) } else { with_bytes(caller, range).map(Some) }
}

/// Parses the steps of a commit.
fn parse_steps(bytes: &[u8]) -> Result<(Vec<Expected>, Vec<Change>), Error> {
    let mut left = bytes;
    let (mut expects, mut changes) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        // Stop early: the limit is checked later, and its error gives the number.
        if expects.len() > STEPS_MAX || changes.len() > STEPS_MAX {
            break;
        }
        if parse_step(&mut left, &mut expects, &mut changes).is_none() {
            return Err(Error::Invalid(format!("these {} bytes contain a step that is not valid", bytes.len())));
        }
    }
    Ok((expects, changes))
}

/// Parses one step; `None` if it is malformed.
fn parse_step(bytes: &mut &[u8], expects: &mut Vec<Expected>, changes: &mut Vec<Change>) -> Option<()> {
    fn number<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*number)
    }

    let [kind] = number(bytes)?;
    let mut length = || number(bytes).map(|length| u32::from_le_bytes(length) as usize);
    let lengths = [length()?, length()?, length()?];
    let expires_in_ms = if kind == 4 { Some(u64::from_le_bytes(number(bytes)?)) } else { None };
    let mut part = |length: usize| {
        let (part, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(part.to_vec())
    };
    let bucket = String::from_utf8(part(lengths[0])?).ok()?;
    let (key, value) = (part(lengths[1])?, part(lengths[2])?);
    let value = matches!(kind, 1 | 3 | 4).then_some(value);
    match kind {
        0 | 1 => expects.push(Expected { bucket, key, value }),
        2..=4 => changes.push(Change { bucket, key, value, expires_in_ms }),
        _ => return None,
    }
    Some(())
}

/// Serialises rows, each preceded by its two lengths.
fn encode_page(page: &Page) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in &page.rows {
        for length in [row.key.len(), row.value.len()] {
            bytes.extend_from_slice(&(length as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&row.key);
        bytes.extend_from_slice(&row.value);
    }
    bytes
}

fn failed(state: &mut GuestState, error: Error) -> i32 {
    use crate::bindings::rusm::runtime::types::Error as Common;
    match error {
        Error::Denied(what) => status(state, Common::Denied(what)),
        Error::Invalid(what) => status(state, Common::Invalid(what)),
        Error::Limit(what) => status(state, Common::Limit(what)),
        Error::Failed(what) => {
            state.last_result.set_error(what);
            -10
        }
    }
}
