//! The store for core modules: functions of module `rusm`, with places in memory and statuses as all the others.
//!
//! | Function | Gives | |
//! |---|---|---|
//! | `kv_get(bucket_p, bucket_n, key_p, key_n)` | `i32` | 1 and the value is the item, 0, or a status |
//! | `kv_put(bucket_p, bucket_n, key_p, key_n, p, n, ms)` | status | expires after so many `ms`, never for a number below 0 |
//! | `kv_delete(bucket_p, bucket_n, key_p, key_n)` | `i32` | 1 if it was there, 0, or a status |
//! | `kv_compare_and_set(bucket_p, bucket_n, key_p, key_n, old_p, old_n, p, n)` | `i32` | 1 if it was set, 0, or a status; a number of bytes below 0 stands for no value |
//! | `kv_commit(p, n)` | `i32` | 1 if all steps were done, 0 if a key had not what was expected of it, or a status; the steps are as below |
//! | `kv_scan(bucket_p, bucket_n, prefix_p, prefix_n, after_p, after_n, limit)` | `i32` | how many rows, or a status; the item has each row as the lengths of key and value, four bytes each with the lowest first, and both; `item_tag()` is 1 if there is more |
//!
//! A step of a commit: one byte of what it is (0 expects no value, 1 expects this value, 2 takes away, 3 puts, 4 puts for so
//! long), the lengths of bucket, key and value, four bytes each with the lowest first, for 4 the milliseconds in eight, and
//! bucket, key and value. A step that has no value has one of 0 bytes.
//!
//! Status -10 is a disk that failed; the words about it say how.

#![expect(clippy::cast_possible_wrap, reason = "the numbers of a core module have no sign of their own")]

use wasmtime::{Caller, Linker};

use super::bindings::rusm::store::kv::{Change, Error, Expected, Host, Page};
use crate::wasm::kv::STEPS_MAX;
use crate::wasm::raw::{MODULE, status, with_bytes, with_text};
use crate::wasm::state::State;

type Guest<'a> = Caller<'a, State>;
type Place = (i32, i32);

macro_rules! or_return {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(status) => return status,
        }
    };
}

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "kv_get", |mut guest: Guest<'_>, (bp, bn, kp, kn): (i32, i32, i32, i32)| {
        Box::new(async move {
            let (bucket, key) = or_return!(named(&mut guest, (bp, bn), (kp, kn)));
            let value = Host::get(guest.data_mut(), bucket, key).await;
            let state = guest.data_mut();
            match value {
                Ok(Some(value)) => {
                    state.item.hold(value, 0);
                    1
                }
                Ok(None) => 0,
                Err(error) => failed(state, error),
            }
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "kv_put",
        |mut guest: Guest<'_>, (bp, bn, kp, kn, p, n, ms): (i32, i32, i32, i32, i32, i32, i64)| {
            Box::new(async move {
                let (bucket, key) = or_return!(named(&mut guest, (bp, bn), (kp, kn)));
                let value = or_return!(with_bytes(&mut guest, (p, n)));
                let put = Host::put(guest.data_mut(), bucket, key, value, u64::try_from(ms).ok()).await;
                put.map_or_else(|error| failed(guest.data_mut(), error), |()| 0)
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "kv_delete", |mut guest: Guest<'_>, (bp, bn, kp, kn): (i32, i32, i32, i32)| {
        Box::new(async move {
            let (bucket, key) = or_return!(named(&mut guest, (bp, bn), (kp, kn)));
            let deleted = Host::delete(guest.data_mut(), bucket, key).await;
            deleted.map_or_else(|error| failed(guest.data_mut(), error), i32::from)
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "kv_compare_and_set",
        |mut guest: Guest<'_>, (bp, bn, kp, kn, op, on, p, n): (i32, i32, i32, i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (bucket, key) = or_return!(named(&mut guest, (bp, bn), (kp, kn)));
                let expected = or_return!(maybe(&mut guest, (op, on)));
                let value = or_return!(maybe(&mut guest, (p, n)));
                let set = Host::compare_and_set(guest.data_mut(), bucket, key, expected, value).await;
                set.map_or_else(|error| failed(guest.data_mut(), error), i32::from)
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "kv_commit", |mut guest: Guest<'_>, (p, n): (i32, i32)| {
        Box::new(async move {
            let steps = or_return!(with_bytes(&mut guest, (p, n)));
            let state = guest.data_mut();
            let (expects, changes) = match parsed(&steps) {
                Ok(steps) => steps,
                Err(error) => return failed(state, error),
            };
            let committed = Host::commit(state, expects, changes).await;
            committed.map_or_else(|error| failed(guest.data_mut(), error), i32::from)
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "kv_scan",
        |mut guest: Guest<'_>, (bp, bn, pp, pn, ap, an, limit): (i32, i32, i32, i32, i32, i32, i32)| {
            Box::new(async move {
                let (bucket, prefix) = or_return!(named(&mut guest, (bp, bn), (pp, pn)));
                let after = or_return!(with_bytes(&mut guest, (ap, an)));
                let page = Host::scan(guest.data_mut(), bucket, prefix, after, limit as u32).await;
                let state = guest.data_mut();
                match page {
                    Ok(page) => {
                        state.item.hold(flat(&page), u64::from(page.next.is_some()));
                        page.rows.len() as i32
                    }
                    Err(error) => failed(state, error),
                }
            })
        },
    )?;
    Ok(())
}

/// The name of a bucket, and a key or what one begins with.
fn named(guest: &mut Guest<'_>, bucket: Place, key: Place) -> Result<(String, Vec<u8>), i32> {
    Ok((with_text(guest, bucket)?, with_bytes(guest, key)?))
}

fn maybe(guest: &mut Guest<'_>, place: Place) -> Result<Option<Vec<u8>>, i32> {
    if place.1 < 0 { Ok(None) } else { with_bytes(guest, place).map(Some) }
}

/// The steps of a commit.
fn parsed(bytes: &[u8]) -> Result<(Vec<Expected>, Vec<Change>), Error> {
    let mut left = bytes;
    let (mut expects, mut changes) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        // More of either are refused later, with their number.
        if expects.len() > STEPS_MAX || changes.len() > STEPS_MAX {
            break;
        }
        if step(&mut left, &mut expects, &mut changes).is_none() {
            return Err(Error::Invalid(format!("a step within these {} bytes is none", bytes.len())));
        }
    }
    Ok((expects, changes))
}

/// Takes in one step; `None` for what is none.
fn step(bytes: &mut &[u8], expects: &mut Vec<Expected>, changes: &mut Vec<Change>) -> Option<()> {
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

/// Rows one after the other, each with its two lengths before it.
fn flat(page: &Page) -> Vec<u8> {
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

fn failed(state: &mut State, error: Error) -> i32 {
    use crate::wasm::bindings::rusm::runtime::types::Error as Common;
    match error {
        Error::Denied(what) => status(state, Common::Denied(what)),
        Error::Invalid(what) => status(state, Common::Invalid(what)),
        Error::Limit(what) => status(state, Common::Limit(what)),
        Error::Failed(what) => {
            state.item.fail(what);
            -10
        }
    }
}
