//! Tests of one registry beside another node that does what no node of ours does.

use std::time::Duration;

use super::grants::Refusal;
use super::message::{Content, NameMessage};
use super::{NameEvent, NamesConfig, Registry};
use crate::identity::{Address, BootId, Identity, NodeName};

/// Time of day at the start, in milliseconds since 1970.
const STARTED_MS: u64 = 1_764_000_000_000;
const LARGEST: u64 = 1 << 62;

fn node(name: &str) -> Identity {
    Identity { name: NodeName::new(name).unwrap(), boot: BootId(1) }
}

/// Returns the registry of node `a` of two, which knows node `b`, and a time at which it grants names.
fn registry() -> (Registry, Duration) {
    let config = NamesConfig::new(Duration::from_secs(2), Some(2), STARTED_MS);
    let mut registry = Registry::new(Duration::ZERO, config, node("a"));
    registry.on_up(Duration::ZERO, &node("b"));
    (registry, Duration::from_secs(10))
}

fn message(epoch: u64, content: Content) -> bytes::Bytes {
    NameMessage { name: "leader".into(), epoch, content }.encode()
}

/// Returns the messages to node `b` since the last call.
fn sent(registry: &mut Registry) -> Vec<(u64, Content)> {
    std::iter::from_fn(|| registry.poll_event())
        .filter_map(|event| match event {
            NameEvent::Send { payload, .. } => {
                let message = NameMessage::decode(payload).unwrap();
                Some((message.epoch, message.content))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn a_claim_far_ahead_of_the_time_of_day_is_refused_and_leaves_the_epochs_as_they_were() {
    let (mut registry, now) = registry();
    let b = node("b").name;

    registry.on_message(now, &b, message(LARGEST, Content::Claim)).unwrap();
    assert_eq!(sent(&mut registry), [(LARGEST, Content::Refused(Refusal::NotYet))]);

    registry.on_message(now, &b, message(STARTED_MS + 1, Content::Claim)).unwrap();
    assert_eq!(sent(&mut registry), [(STARTED_MS + 1, Content::Granted)]);
}

#[test]
fn a_node_does_not_claim_an_epoch_that_a_liar_tells_it() {
    let (mut registry, now) = registry();
    registry.register(now, "leader", Address::new(1, 1)).unwrap();
    assert_eq!(sent(&mut registry), [(STARTED_MS + 1, Content::Claim)]);

    let lie = Content::Refused(Refusal::Old { last: LARGEST });
    registry.on_message(now, &node("b").name, message(STARTED_MS + 1, lie)).unwrap();
    registry.on_tick(now + Duration::from_secs(1));

    let claims: Vec<u64> = sent(&mut registry)
        .into_iter()
        .filter(|(_, content)| *content == Content::Claim)
        .map(|(epoch, _)| epoch)
        .collect();
    assert_eq!(claims, [STARTED_MS + 2]);
}

#[test]
fn the_largest_epoch_that_is_accepted_delays_the_next_claim_and_no_more() {
    let (mut registry, now) = registry();
    let b = node("b").name;
    let largest = STARTED_MS + now.as_millis() as u64 + (1 << 40);
    registry.on_message(now, &b, message(largest, Content::Claim)).unwrap();
    registry.on_message(now, &b, message(largest, Content::Release)).unwrap();
    assert_eq!(sent(&mut registry), [(largest, Content::Granted)]);

    registry.on_message(now, &b, message(largest + 1, Content::Claim)).unwrap();
    let later = now + Duration::from_millis(1);
    registry.on_message(later, &b, message(largest + 1, Content::Claim)).unwrap();

    let answers = [Content::Refused(Refusal::NotYet), Content::Granted];
    assert_eq!(sent(&mut registry), answers.map(|answer| (largest + 1, answer)));
}

#[test]
fn a_grant_on_its_way_to_a_claim_that_was_given_back_does_not_count() {
    let config = NamesConfig::new(Duration::from_secs(2), Some(5), STARTED_MS);
    let mut registry = Registry::new(Duration::ZERO, config, node("a"));
    let now = Duration::from_secs(10);
    let answer = |registry: &mut Registry, from: &str, content| {
        registry.on_message(now, &node(from).name, message(STARTED_MS + 1, content)).unwrap();
    };
    for name in ["b", "c", "d", "e"] {
        registry.on_up(now, &node(name));
    }
    registry.register(now, "leader", Address::new(1, 1)).unwrap();

    for name in ["c", "d", "e"] {
        answer(&mut registry, name, Content::Refused(Refusal::Taken));
    }
    assert!(sent(&mut registry).contains(&(STARTED_MS + 1, Content::Release)), "given back");
    answer(&mut registry, "b", Content::Granted);
    for name in ["d", "e"] {
        registry.on_down(now, &node(name), false);
        registry.on_up(now, &node(name));
        answer(&mut registry, name, Content::Granted);
    }

    assert!(!registry.owns(now, "leader"), "two of five nodes grant it");
}

#[test]
fn a_later_life_of_a_node_gets_a_name_only_when_the_grant_of_the_earlier_one_has_expired() {
    let (mut registry, now) = registry();
    let earlier = node("b");
    let later = Identity { boot: BootId(2), ..earlier.clone() };
    let claim = |epoch| message(epoch, Content::Claim);
    registry.on_message(now, &earlier.name, claim(STARTED_MS + 1)).unwrap();

    // The earlier life may be suspended: it counts the grant until its patience is over.
    registry.on_down(now, &earlier, false);
    registry.on_up(now, &later);
    registry.on_message(now + Duration::from_secs(2), &later.name, claim(STARTED_MS + 2)).unwrap();
    registry.on_message(now + Duration::from_secs(3), &later.name, claim(STARTED_MS + 2)).unwrap();

    let answers = [Content::Granted, Content::Refused(Refusal::Taken), Content::Granted];
    let epochs = [1, 2, 2].map(|number| STARTED_MS + number);
    assert_eq!(sent(&mut registry), epochs.into_iter().zip(answers).collect::<Vec<_>>());
}
