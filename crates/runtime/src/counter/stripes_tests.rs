//! Properties of stripes for any sequence of operations; the models check every interleaving.

use proptest::prelude::*;

use super::stripes::{CREDIT_MAX, Stripe, Stripes};

#[derive(Clone, Debug)]
enum Step {
    Update(i64),
    Spend(u64),
    Refund(u64),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        (-40_i64..40).prop_map(Step::Update),
        (0_u64..30).prop_map(Step::Spend),
        (0_u64..30).prop_map(Step::Refund),
        Just(Step::Spend(CREDIT_MAX)),
        Just(Step::Refund(u64::MAX)),
    ];
    prop::collection::vec((0..3_usize, step), 0..200)
}

fn stripe(number: usize) -> Stripe {
    if number == 2 { Stripe::Shared } else { Stripe::Own(number) }
}

proptest! {
    #[test]
    fn what_is_taken_is_what_was_granted_and_never_more_than_there_was(budget in -10_i64..200, steps in steps()) {
        let stripes = Stripes::new(2, budget);
        let (mut updates, mut granted) = (0_i64, 0_i64);

        for (number, step) in steps {
            match step {
                Step::Update(units) => {
                    stripes.update(stripe(number), units);
                    updates += units;
                }
                Step::Spend(units) => {
                    // Updates are accounted for the next time that a local credit is refilled.
                    if stripes.spend(stripe(number), units) {
                        granted += units.cast_signed();
                    } else {
                        prop_assert!(granted + units.cast_signed() > budget - updates, "refused available units");
                    }
                }
                Step::Refund(units) => {
                    let back = stripes.refund(stripe(number), units);
                    prop_assert_eq!(back, units.min(granted.cast_unsigned()));
                    granted -= back.cast_signed();
                }
            }
            prop_assert_eq!(stripes.taken(), updates + granted);
            prop_assert!(granted >= 0);
        }
        prop_assert_eq!(stripes.totals().1, updates + granted);
    }

    #[test]
    fn without_updates_nothing_is_oversold(budget in 0_i64..100, steps in steps()) {
        let stripes = Stripes::new(2, budget);
        let mut granted = 0;

        for (number, step) in steps {
            match step {
                Step::Update(_) => {}
                Step::Spend(units) => granted += i64::from(stripes.spend(stripe(number), units)) * units.cast_signed(),
                Step::Refund(units) => granted -= stripes.refund(stripe(number), units).cast_signed(),
            }
            prop_assert!(granted <= budget);
        }
    }
}

#[test]
fn more_than_a_purse_holds_can_be_spent_and_given_back() {
    let budget = 10 * CREDIT_MAX.cast_signed();
    let stripes = Stripes::new(1, budget);

    for _ in 0..10 {
        assert!(stripes.spend(Stripe::Own(0), CREDIT_MAX));
    }

    assert!(!stripes.spend(Stripe::Own(0), 1));
    assert_eq!(stripes.refund(Stripe::Own(0), u64::MAX).cast_signed(), budget);
    assert_eq!(stripes.taken(), 0);
}
