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

use wasmtime::Linker;

use crate::bindings::store::rusm::store::kv::{Change, Error, Expected, Host, Page};
use crate::guest::state::GuestState;
use crate::kv::STEPS_MAX;
use crate::raw::status;
use crate::raw::table::{Failure, Item, Output, function};

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    function!(linker, async "kv_get"(bucket: text(bp, bn), key: key(kp, kn)) => |state| {
        Host::get(state, bucket, key).await.map(|value| value.map(Item))
    })?;
    function!(
        linker,
        async "kv_put"(bucket: text(bp, bn), key: key(kp, kn), value: bytes(p, n), ms: milliseconds(ms)) => |state| {
            Host::put(state, bucket, key, value, ms).await
        }
    )?;
    function!(linker, async "kv_delete"(bucket: text(bp, bn), key: key(kp, kn)) => |state| {
        Host::delete(state, bucket, key).await
    })?;
    function!(
        linker,
        async "kv_compare_and_set"(
            bucket: text(bp, bn),
            key: key(kp, kn),
            expected: optional_bytes(ep, en),
            value: optional_bytes(p, n)
        ) => |state| Host::compare_and_set(state, bucket, key, expected, value).await
    )?;
    function!(linker, async "kv_commit"(steps: bytes(p, n)) => |state| {
        match parse_steps(&steps) {
            Ok((expects, changes)) => Host::commit(state, expects, changes).await,
            Err(error) => Err(error),
        }
    })?;
    function!(
        linker,
        async "kv_scan"(bucket: text(bp, bn), prefix: key(pp, pn), after: key(ap, an), limit: count(limit)) => |state| {
            Host::scan(state, bucket, prefix, after, limit).await
        }
    )?;
    Ok(())
}

impl Output for Page {
    type Integer = i32;

    fn into_integer(self, state: &mut GuestState) -> i32 {
        match state.set_item(encode_page(&self), u64::from(self.next.is_some())) {
            Ok(()) => self.rows.len() as i32,
            Err(full) => status(state, full.into()),
        }
    }
}

impl Failure for Error {
    fn into_status(self, state: &mut GuestState) -> i32 {
        use crate::bindings::rusm::runtime::types::Error as Common;
        match self {
            Self::Denied(what) => status(state, Common::Denied(what)),
            Self::Invalid(what) => status(state, Common::Invalid(what)),
            Self::Limit(what) => status(state, Common::Limit(what)),
            Self::Failed(what) => {
                state.last_result.set_error(what);
                -10
            }
        }
    }
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
