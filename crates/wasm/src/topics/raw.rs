//! Topics for core modules: functions of module `rusm`, with memory ranges and statuses as in `src/raw.rs`.
//!
//! | Function | Gives | |
//! |---|---|---|
//! | `topic_publish(topic_p, topic_n, key_p, key_n, p, n)` | status | waits for room; `key_n` below 0: no key |
//! | `topic_try_publish(topic_p, topic_n, key_p, key_n, p, n)` | status | -8 if the topic is full |
//! | `topic_subscribe(topic_p, topic_n, p, n)` | `i64` | a consumer of the subscription with this name, or a status |
//! | `topic_subscribe_with(topic_p, topic_n, p, n, flags, deadline_ms, dead_p, dead_n, attempts_max)` | `i64` | as `topic_subscribe`; flag 1: ordered, flag 2: begin with the oldest message; a deadline below 0: the default; `dead_n` below 0: no dead-letter topic |
//! | `topic_listen(topic_p, topic_n, overflow, most)` | `i64` | a listener, which receives each message at most once, or a status; overflow: 0 block publishers, 1 drop the oldest, 2 drop the newest, 3 disconnect |
//! | `topic_hear(listener, timeout_ms)` | `i32` | as `topic_next`, without a lease |
//! | `topic_next(share, timeout_ms)` | `i32` | 1 and the message is the item, 0 if none arrived, or a status; a timeout below 0 waits forever. `item_tag()` is the lease, `item_ref()` the attempt, `item_reply()` the position |
//! | `topic_key(p, n)` | `i32` | copies at most `n` bytes of the key of the last message; returns the key's length, or a status |
//! | `topic_ack(share, lease)`, `topic_nack(share, lease)` | `i32` | 1 on success, 0 if the lease had ended (the error text says how), or a status |
//! | `topic_extend(share, lease, ms)` | `i32` | as `topic_ack`; extends the lease by `ms` |
//! | `topic_unsubscribe(share)` | `i32` | 1 if the consumer or listener existed |

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Linker};

use crate::bindings::rusm::runtime::types::Error;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use crate::raw::{MODULE, status, with_bytes, with_text, write_bytes};
use rusm_runtime::topic::{AckStatus, Consumer, DeadLetter, Lease, Message, Overflow, SubscriptionConfig};

type GuestCaller<'a> = Caller<'a, GuestState>;
type MemoryRange = (i32, i32);

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    type Six = (i32, i32, i32, i32, i32, i32);
    linker.func_wrap_async(MODULE, "topic_publish", |mut caller: GuestCaller<'_>, (tp, tn, kp, kn, p, n): Six| {
        Box::new(async move {
            match message(&mut caller, (tp, tn), (kp, kn), (p, n)) {
                Ok((topic, message)) => {
                    let published = caller.data_mut().publish_to(&topic, message).await;
                    or_status(caller.data_mut(), published.map(|()| 0))
                }
                Err(status) => status,
            }
        })
    })?;
    linker.func_wrap(
        MODULE,
        "topic_try_publish",
        |mut caller: GuestCaller<'_>, tp: i32, tn: i32, kp: i32, kn: i32, p: i32, n: i32| match message(
            &mut caller,
            (tp, tn),
            (kp, kn),
            (p, n),
        ) {
            Ok((topic, message)) => {
                let published = caller.data().try_publish_to(&topic, message);
                or_status(caller.data_mut(), published.map(|()| 0))
            }
            Err(status) => status,
        },
    )?;
    linker.func_wrap(MODULE, "topic_subscribe", |mut caller: GuestCaller<'_>, tp: i32, tn: i32, p: i32, n: i32| {
        let names = with_text(&mut caller, (tp, tn)).and_then(|topic| Ok((topic, with_text(&mut caller, (p, n))?)));
        let (topic, subscription) = match names {
            Ok(names) => names,
            Err(status) => return i64::from(status),
        };
        let share = caller.data_mut().subscribe_to(&topic, &subscription, SubscriptionConfig::default());
        number_or_status(caller.data_mut(), share)
    })?;
    link_kinds(linker)?;
    linker.func_wrap_async(MODULE, "topic_next", |mut caller: GuestCaller<'_>, (share, timeout_ms): (i64, i64)| {
        Box::new(async move {
            let state = caller.data_mut();
            let next = state.next_of(share as u64, u64::try_from(timeout_ms).ok()).await;
            let held = next.map(|lease| lease.map_or(0, |lease| hold(state, lease)));
            or_status(state, held)
        })
    })?;
    linker.func_wrap(MODULE, "topic_key", |mut caller: GuestCaller<'_>, p: i32, n: i32| {
        let key =
            caller.data().topic_handles.as_ref().map(|topic_handles| topic_handles.key.clone()).unwrap_or_default();
        let most = key.len().min(n.max(0) as usize);
        let written = write_bytes(&mut caller, (p, most as i32), &key.as_bytes()[..most]);
        written.map_or_else(|error| status(caller.data_mut(), error), |()| key.len() as i32)
    })?;
    linker.func_wrap(MODULE, "topic_ack", |mut caller: GuestCaller<'_>, share: i64, lease: i64| {
        settle(caller.data_mut(), HostCall::TopicAck, (share, lease), Consumer::ack)
    })?;
    linker.func_wrap(MODULE, "topic_nack", |mut caller: GuestCaller<'_>, share: i64, lease: i64| {
        settle(caller.data_mut(), HostCall::TopicNack, (share, lease), Consumer::nack)
    })?;
    linker.func_wrap(MODULE, "topic_extend", |mut caller: GuestCaller<'_>, share: i64, lease: i64, ms: i64| {
        let extended = caller.data_mut().extend_by(share as u64, lease as u64, ms.max(0) as u64);
        settle_status(caller.data_mut(), extended)
    })?;
    linker.func_wrap(MODULE, "topic_unsubscribe", |mut caller: GuestCaller<'_>, share: i64| {
        i32::from(caller.data_mut().unsubscribe_from(share as u64))
    })?;
    Ok(())
}

/// Links subscriptions with options, and listeners.
fn link_kinds(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(
        MODULE,
        "topic_subscribe_with",
        |mut caller: GuestCaller<'_>,
         tp: i32,
         tn: i32,
         p: i32,
         n: i32,
         flags: i32,
         deadline_ms: i64,
         dead_p: i32,
         dead_n: i32,
         attempts_max: i32| {
            let names = with_text(&mut caller, (tp, tn)).and_then(|topic| {
                let dead = if dead_n < 0 { None } else { Some(with_text(&mut caller, (dead_p, dead_n))?) };
                Ok((topic, with_text(&mut caller, (p, n))?, dead))
            });
            let (topic, subscription, dead) = match names {
                Ok(names) => names,
                Err(status) => return i64::from(status),
            };
            let dead = dead.map(|topic| DeadLetter { topic, attempts_max: attempts_max as u32 });
            let (deadline, state) = (u64::try_from(deadline_ms).ok(), caller.data_mut());
            let config = state.subscription_config(flags & 1 != 0, flags & 2 != 0, deadline, dead);
            let share = config.and_then(|config| state.subscribe_to(&topic, &subscription, config));
            number_or_status(state, share)
        },
    )?;
    linker.func_wrap(
        MODULE,
        "topic_listen",
        |mut caller: GuestCaller<'_>, tp: i32, tn: i32, overflow: i32, most: i32| {
            let topic = match with_text(&mut caller, (tp, tn)) {
                Ok(topic) => topic,
                Err(status) => return i64::from(status),
            };
            let capacity = most.max(0) as usize;
            let overflow = match overflow {
                0 => Ok(Overflow::Block),
                1 => Ok(Overflow::DropOldest { capacity }),
                2 => Ok(Overflow::DropNewest { capacity }),
                3 => Ok(Overflow::Disconnect { capacity }),
                other => Err(Error::Invalid(format!("overflow {other} is not between 0 and 3"))),
            };
            let state = caller.data_mut();
            let listener = overflow.and_then(|overflow| state.listen_to(&topic, overflow));
            number_or_status(state, listener)
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "topic_hear",
        |mut caller: GuestCaller<'_>, (listener, timeout_ms): (i64, i64)| {
            Box::new(async move {
                let state = caller.data_mut();
                let heard = state.next_message_of(listener as u64, u64::try_from(timeout_ms).ok()).await;
                let held = heard.map(|message| message.map_or(0, |message| hold_message(state, message)));
                or_status(state, held)
            })
        },
    )?;
    Ok(())
}

fn message(
    caller: &mut GuestCaller<'_>,
    topic: MemoryRange,
    key: MemoryRange,
    payload: MemoryRange,
) -> Result<(String, Message), i32> {
    let topic = with_text(caller, topic)?;
    let key = if key.1 < 0 { None } else { Some(with_text(caller, key)?) };
    let message = Message::new(with_bytes(caller, payload)?);
    Ok((
        topic,
        match key {
            Some(key) => message.with_key(key),
            None => message,
        },
    ))
}

fn hold(state: &mut GuestState, lease: Lease) -> i32 {
    let key = lease.message.key().unwrap_or_default().to_owned();
    state.topic_handles.get_or_insert_default().key = key;
    state.last_result.set_lease(lease);
    1
}

fn hold_message(state: &mut GuestState, message: Message) -> i32 {
    message.key().unwrap_or_default().clone_into(&mut state.topic_handles.get_or_insert_default().key);
    state.last_result.set_bytes(message.into_payload().into(), 0);
    1
}

fn number_or_status(state: &mut GuestState, number: Result<u64, Error>) -> i64 {
    number.map_or_else(|error| i64::from(status(state, error)), |number| number as i64)
}

fn settle(
    state: &mut GuestState,
    call: HostCall,
    (share, lease): (i64, i64),
    settle: impl FnOnce(&Consumer, rusm_runtime::topic::AckId) -> AckStatus,
) -> i32 {
    let settled = state.settle(call, share as u64, lease as u64, settle);
    settle_status(state, settled)
}

fn settle_status(state: &mut GuestState, settled: Result<AckStatus, Error>) -> i32 {
    let settle_status = match settled {
        Ok(AckStatus::Done) => return 1,
        Ok(AckStatus::AlreadyAcked) => "it was already acknowledged",
        Ok(AckStatus::AlreadyNacked) => "it was already returned",
        Ok(AckStatus::Expired) => "its deadline has passed",
        Ok(AckStatus::Revoked) => "its lease was revoked",
        Ok(AckStatus::Unknown) => "the lease does not exist",
        Err(error) => return status(state, error),
    };
    state.last_result.set_error(settle_status.to_owned());
    0
}

fn or_status(state: &mut GuestState, result: Result<i32, Error>) -> i32 {
    result.unwrap_or_else(|error| status(state, error))
}
