//! A process that calls keyed entities, each of which counts its calls, and checks the count in every reply.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rusm_cluster::node::{Entity, Keyed, KeyedError};
use rusm_runtime::{CallError, Context};

use super::sums::Sum;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;

/// Time within which a call has to be answered, or to fail.
const CALL_WITHIN: Duration = Duration::from_secs(10);

/// Time for the last calls of all keys; a run that ends must not take much longer.
const CHECK_WITHIN: Duration = Duration::from_secs(15);

/// Counts of calls, including those before the clock and at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) acknowledged: u64,
    /// Calls that failed with an error.
    pub(super) failed: u64,
    /// Calls without a reply and without an error in time.
    pub(super) unanswered: u64,
    /// Acknowledged calls that are missing in a later sum.
    pub(super) lost: u64,
    /// Acknowledged calls that are missing because the state of the key was in the memory of a killed node.
    pub(super) killed: u64,
    /// Calls that were carried out more than once.
    pub(super) repeated: u64,
    /// Keys that were not called once more at the end, for lack of time.
    pub(super) unchecked: u64,
}

impl Account {
    pub(super) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.unanswered += other.unanswered;
        self.lost += other.lost;
        self.killed += other.killed;
        self.repeated += other.repeated;
        self.unchecked += other.unchecked;
    }
}

/// State of a key, as its caller knows it.
#[derive(Clone, Debug, Default)]
struct Ledger {
    /// Sum in the last reply.
    sum: u64,
    /// Node of the last reply; empty before the first.
    node: String,
    /// Failed calls since the last reply; each may have been carried out.
    in_doubt: u64,
}

impl Ledger {
    /// Notes a reply, and counts what is wrong about its sum.
    fn replied(&mut self, reply: Sum, was_killed: bool, account: &mut Account) {
        account.acknowledged += 1;
        let least = self.sum + 1;
        if reply.sum < least {
            let missing = least - reply.sum;
            *(if was_killed { &mut account.killed } else { &mut account.lost }) += missing;
        } else {
            account.repeated += (reply.sum - least).saturating_sub(self.in_doubt);
        }
        *self = Self { sum: reply.sum, node: reply.node, in_doubt: 0 };
    }
}

/// Names of the nodes that were killed.
pub(super) type Killed = Arc<Mutex<BTreeSet<String>>>;

/// Message to a caller: the clock starts.
pub(super) struct Go {
    pub(super) pace: Pace,
    pub(super) recorder: Recorder,
}

/// A process that calls keys.
pub(super) struct Caller {
    pub(super) keyed: Keyed,
    /// Numbers of its keys.
    pub(super) keys: Vec<u64>,
    pub(super) killed: Killed,
    /// Told when all keys are live.
    pub(super) is_ready: Sender<()>,
    pub(super) is_over: Sender<Account>,
}

impl Caller {
    pub(super) async fn run(self, ctx: Context) {
        ctx.set_label("caller");
        let Self { keyed, keys, killed, is_ready, is_over } = self;
        let entity = |key: &u64| (keyed.entity(&key.to_string()), Ledger::default());
        let mut calls = Calls { keys: keys.iter().map(entity).collect(), killed, account: Account::default() };
        for at in 0..calls.keys.len() {
            calls.call(&ctx, at).await;
        }
        // Both receivers wait as long as the run exists.
        is_ready.send(()).ok();
        drop(is_ready);
        let Go { mut pace, mut recorder } = ctx.receive_of::<Go>().await;
        let mut at = 0;
        while pace.next_batch(&ctx, 1).await.is_some() {
            let stamp = pace.begin(&mut recorder);
            if calls.call(&ctx, at).await {
                recorder.end(stamp);
                recorder.count(1);
            } else {
                recorder.fail(1);
            }
            at = (at + 1) % calls.keys.len();
        }
        let until = Instant::now() + CHECK_WITHIN;
        for at in 0..calls.keys.len() {
            if Instant::now() > until {
                calls.account.unchecked = (calls.keys.len() - at) as u64;
                break;
            }
            calls.call(&ctx, at).await;
        }
        is_over.send(calls.account).ok();
    }
}

struct Calls {
    keys: Vec<(Entity, Ledger)>,
    killed: Killed,
    account: Account,
}

impl Calls {
    /// Calls a key. Returns false if the call failed.
    async fn call(&mut self, ctx: &Context, at: usize) -> bool {
        let (entity, ledger) = &mut self.keys[at];
        let account = &mut self.account;
        match entity.call::<Bytes, Bytes>(ctx, Bytes::new(), CALL_WITHIN).await {
            Ok(bytes) => {
                let Some(reply) = Sum::decode(&bytes) else {
                    account.failed += 1;
                    ledger.in_doubt += 1;
                    return false;
                };
                let was_killed = self.killed.lock().contains(&ledger.node);
                ledger.replied(reply, was_killed, account);
                true
            }
            Err(error) => {
                let is_told = !matches!(error, KeyedError::Call(CallError::Timeout { .. }));
                *(if is_told { &mut account.failed } else { &mut account.unanswered }) += 1;
                ledger.in_doubt += 1;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(replies: &[(u64, bool)], in_doubt: u64) -> Account {
        let (mut ledger, mut account) = (Ledger::default(), Account::default());
        for (sum, was_killed) in replies {
            ledger.in_doubt = in_doubt;
            ledger.replied(Sum { sum: *sum, node: "n1".to_owned() }, *was_killed, &mut account);
        }
        account
    }

    #[test]
    fn a_sum_that_is_too_small_is_a_lost_call_unless_its_node_was_killed() {
        assert_eq!(after(&[(1, false), (2, false), (3, false)], 0), Account { acknowledged: 3, ..Account::default() });
        assert_eq!(after(&[(1, false), (2, false), (1, false)], 0).lost, 2);
        assert_eq!(
            after(&[(1, false), (2, false), (1, true)], 0),
            Account { acknowledged: 3, killed: 2, ..Account::default() }
        );
    }

    #[test]
    fn a_sum_that_is_too_large_is_a_repeated_call_unless_a_failed_one_was_carried_out() {
        assert_eq!(after(&[(1, false), (3, false)], 0).repeated, 1);
        assert_eq!(after(&[(1, false), (3, false)], 1).repeated, 0);
        assert_eq!(after(&[(1, false), (5, false)], 1).repeated, 2);
    }
}
