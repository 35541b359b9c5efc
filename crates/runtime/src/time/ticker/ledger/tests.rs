use proptest::prelude::*;

use super::*;
use crate::time::ticker::frequency::Frequency;

const US: u64 = 1_000;

/// Creates a ledger of 1 MHz, with batches of 10 firings: a tick every 10 µs.
fn ledger(policy: Overrun) -> Ledger {
    Ledger::new(Grid::new(Frequency::hz(1_000_000).unwrap(), 10), policy, 0)
}

/// Returns the ticks that are due `ns` after the epoch.
fn due(ledger: &Ledger, ns: u64) -> u64 {
    ledger.grid.due(ns.saturating_sub(ledger.slipped_ns))
}

fn take(ledger: &mut Ledger, ns: u64, waited: bool) -> Option<(u64, u64, u64, u64)> {
    let firings = ledger.take(due(ledger, ns), waited, || ns)?;
    Some((firings.first, firings.count, firings.dropped, firings.coalesced))
}

#[test]
fn a_tick_that_was_waited_for_fires_however_late_it_is() {
    let mut ledger = ledger(Overrun::Drop);

    assert_eq!(take(&mut ledger, 9 * US, false), None);
    assert_eq!(take(&mut ledger, 19 * US, true), Some((0, 10, 0, 0)));
    assert_eq!(ledger.account().overruns, 0);
}

#[test]
fn ticks_that_had_passed_are_dropped_and_told_with_the_next_batch() {
    let mut ledger = ledger(Overrun::Drop);

    assert_eq!(take(&mut ledger, 45 * US, false), None);
    assert_eq!(ledger.next_ns(), 50 * US);
    assert_eq!(take(&mut ledger, 51 * US, true), Some((40, 10, 40, 0)));
    assert_eq!(ledger.account(), TickCounts { ticks: 5, fired: 10, dropped: 40, overruns: 4, ..TickCounts::default() });
}

#[test]
fn a_burst_makes_up_for_the_newest_of_them() {
    let mut ledger = ledger(Overrun::Burst { max: 3 });

    assert_eq!(take(&mut ledger, 55 * US, false), Some((20, 30, 20, 0)));
    assert_eq!(take(&mut ledger, 75 * US, false), Some((50, 20, 0, 0)));
}

#[test]
fn a_skip_stands_for_all_of_them() {
    let mut ledger = ledger(Overrun::Skip);

    assert_eq!(take(&mut ledger, 55 * US, false), Some((40, 10, 0, 40)));
    assert_eq!(ledger.next_ns(), 60 * US);
}

#[test]
fn a_slip_moves_all_that_follow() {
    let mut ledger = ledger(Overrun::Slip);

    assert_eq!(take(&mut ledger, 55 * US, false), Some((0, 10, 0, 0)));
    assert_eq!((ledger.next_ns(), ledger.account().slipped_ns), (65 * US, 45 * US));
    assert_eq!(take(&mut ledger, 64 * US, false), None);
    assert_eq!(take(&mut ledger, 66 * US, true), Some((10, 10, 0, 0)));
    assert_eq!(ledger.next_ns(), 75 * US);
    // Only the first tick had passed before it was waited for: the following ticks moved with it.
    assert_eq!((ledger.account().ticks, ledger.account().overruns), (2, 1));
    assert_eq!(take(&mut ledger, 99 * US, true), Some((20, 10, 0, 0)));
    assert_eq!((ledger.account().ticks, ledger.account().overruns), (3, 1));
}

#[test]
fn a_machine_that_slept_for_a_day_is_one_large_overrun() {
    let day = 86_400 * 1_000_000_000;
    let account = |policy| {
        let mut ledger = ledger(policy);
        take(&mut ledger, day, false);
        ledger.account()
    };
    let due = 86_400 * 1_000_000;

    assert_eq!(account(Overrun::Drop).dropped, due);
    assert_eq!(account(Overrun::Skip).coalesced, due - 10);
    assert_eq!(account(Overrun::Burst { max: 100 }).fired, 1_000);
    assert_eq!(account(Overrun::Slip).slipped_ns, day - 10 * US);
}

#[test]
fn time_that_goes_back_is_time_that_stands_still() {
    for policy in [Overrun::Drop, Overrun::Burst { max: 2 }, Overrun::Skip, Overrun::Slip] {
        let mut ledger = ledger(policy);
        take(&mut ledger, 1_000 * US, false);
        let before = ledger.account();

        assert_eq!(take(&mut ledger, 500 * US, true), None);
        assert_eq!(take(&mut ledger, 0, false), None);
        assert_eq!(ledger.account(), before);
    }
}

fn policies() -> impl Strategy<Value = Overrun> {
    prop_oneof![
        Just(Overrun::Drop),
        (1_u32..5).prop_map(|max| Overrun::Burst { max }),
        Just(Overrun::Skip),
        Just(Overrun::Slip)
    ]
}

proptest! {
    #[test]
    fn every_firing_that_was_due_is_in_the_account(
        policy in policies(), num in 1_u64..=2_000_000, den in 1_u64..=50, batch in 1_u64..=64,
        joined in 0_u64..1_000, steps in prop::collection::vec((0_u64..8_000, any::<bool>()), 1..200),
    ) {
        let frequency = Frequency::ratio(num, den).unwrap();
        let grid = Grid::new(frequency, batch);
        let mut ledger = Ledger::new(grid, policy, joined);
        let tick_ns = grid.at_ns(1).max(1);
        let (mut now, mut fired, mut told) = (grid.at_ns(joined), 0, 0);

        for (thousandths, waits) in steps {
            now += u64::try_from(u128::from(tick_ns) * u128::from(thousandths) / 1_000).unwrap();
            let waited = waits && now < ledger.next_ns();
            if waited {
                now = ledger.next_ns() + thousandths % tick_ns.min(1_000);
            }
            // A slip takes one tick at a time, so the loop repeats it until it has caught up.
            while let Some(firings) = ledger.take(due(&ledger, now), waited, || now) {
                fired += firings.count;
                told += firings.dropped + firings.coalesced;
                prop_assert!(firings.count > 0);
            }

            let account = ledger.account();
            let elapsed = u128::from(now - account.slipped_ns);
            let due = elapsed * u128::from(num) / (u128::from(den) * 1_000_000_000);
            let whole = due / u128::from(batch) * u128::from(batch) - u128::from(joined * batch);
            prop_assert_eq!(u128::from(account.fired + account.dropped + account.coalesced), whole);
            prop_assert_eq!((account.fired, u128::from(account.ticks)), (fired, whole / u128::from(batch)));
            prop_assert!(told <= account.dropped + account.coalesced);
            prop_assert!(ledger.next_ns() > now);
        }
    }
}
