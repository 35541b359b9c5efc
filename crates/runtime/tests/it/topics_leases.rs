//! Subscriptions with acknowledgements: leases, deadlines, keys, credit and dead letters, on virtual time.

use std::time::{Duration, Instant};

use rusm_runtime::topic::{
    AckId, AckStatus, DeadLetter, Ended, Lease, Message, Overflow, Retention, Retry, SubscriptionConfig, Topic,
    TopicConfig,
};
use rusm_runtime::{Config, Context, ExitReason, Runtime, test};

const SECOND: Duration = Duration::from_secs(1);

fn topic(ctx: &Context, name: &str) -> Topic {
    ctx.topics().create(name).expect("a new name")
}

fn bounded(ctx: &Context, messages: usize, bytes: usize, retention: Retention) -> Topic {
    ctx.topics().create_with("bounded", TopicConfig { messages, bytes, retention }).expect("bounds in range")
}

fn numbered(number: u64) -> Message {
    Message::new(number.to_be_bytes().to_vec())
}

fn number(message: &Message) -> u64 {
    u64::from_be_bytes(message.payload()[..].try_into().expect("eight bytes"))
}

fn numbers(leases: &[Lease]) -> Vec<u64> {
    leases.iter().map(|lease| number(&lease.message)).collect()
}

async fn three_leased(ctx: &Context, config: SubscriptionConfig) -> (Topic, rusm_runtime::topic::Consumer, Vec<Lease>) {
    let topic = topic(ctx, "work");
    let mut consumer = topic.create_subscription("workers", config).expect("a new name").consumer();
    for number in 0..3 {
        topic.publish(numbered(number)).await.expect("open");
    }
    let leases = consumer.next_batch(10).await.expect("open");
    assert_eq!(numbers(&leases), [0, 1, 2]);
    (topic, consumer, leases)
}

#[test]
fn a_message_that_comes_back_or_waits_behind_its_key_is_as_old_as_it_is() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "work");
        let config = SubscriptionConfig { ordered: true, ack_deadline: 20 * SECOND, ..SubscriptionConfig::default() };
        let mut consumer = topic.create_subscription("workers", config).expect("a new name").consumer();
        ctx.sleep(SECOND).await;
        topic.publish(numbered(0).with_key("a")).await.expect("open");
        topic.publish(numbered(1).with_key("a")).await.expect("open");
        let oldest_secs = || topic.view(1).subscriptions[0].oldest_ns / 1_000_000_000;

        for age in [4, 8, 12] {
            let lease = consumer.next().await.expect("open");
            ctx.sleep(4 * SECOND).await;
            assert_eq!((number(&lease.message), oldest_secs()), (0, age));
            assert_eq!(consumer.nack(lease.id), AckStatus::Done);
        }
        let first = consumer.next().await.expect("open");
        assert_eq!(consumer.ack(first.id), AckStatus::Done);
        assert_eq!(oldest_secs(), 12, "the second was published at the same time");
        let second = consumer.next().await.expect("open");
        assert_eq!(consumer.ack(second.id), AckStatus::Done);
        assert_eq!(oldest_secs(), 0);
    });
}

#[test]
fn an_acknowledgement_counts_once_and_later_ones_say_so() {
    test::run(1, |ctx| async move {
        let (_topic, mut consumer, leases) = three_leased(&ctx, SubscriptionConfig::default()).await;

        assert_eq!(consumer.ack(leases[0].id), AckStatus::Done);
        assert_eq!(consumer.ack(leases[0].id), AckStatus::AlreadyAcked);
        assert_eq!(consumer.nack(leases[0].id), AckStatus::AlreadyAcked);
        assert_eq!(consumer.nack(leases[1].id), AckStatus::Done);
        assert_eq!(consumer.ack(leases[1].id), AckStatus::AlreadyNacked);
        assert_eq!(consumer.ack(AckId::from_u64(u64::MAX)), AckStatus::Unknown);

        let again = consumer.next().await.expect("open");
        assert_eq!((number(&again.message), again.attempt), (1, 2));
        assert_eq!(consumer.ack(leases[1].id), AckStatus::AlreadyNacked, "the old lease stays ended");
        let account = consumer.subscription().account();
        assert_eq!((account.published, account.acked, account.outstanding, account.backlog), (3, 1, 2, 0));
    });
}

#[test]
fn an_old_id_fits_no_lease_after_a_subscription_has_shrunk() {
    const MANY: usize = 1100;
    async fn round(topic: &Topic, consumer: &mut rusm_runtime::topic::Consumer) -> Vec<AckId> {
        for _ in 0..MANY {
            topic.publish(numbered(0)).await.expect("open");
        }
        let mut ids = Vec::new();
        while ids.len() < MANY {
            ids.extend(consumer.next_batch(MANY).await.expect("open").iter().map(|lease| lease.id));
        }
        ids
    }

    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "many");
        let config = SubscriptionConfig { outstanding_max: 10_000, ..SubscriptionConfig::default() };
        let mut consumer = topic.create_subscription("workers", config).expect("a new name").consumer();
        let mut seen = std::collections::BTreeSet::new();

        for _ in 0..4 {
            let ids = round(&topic, &mut consumer).await;
            assert!(ids.iter().all(|id| seen.insert(*id)), "an id came twice");
            let old = seen.iter().copied().filter(|id| !ids.contains(id));
            assert_eq!(old.filter(|id| consumer.ack(*id) == AckStatus::Done).count(), 0);
            assert_eq!(consumer.subscription().ack_all(ids), MANY);
        }
    });
}

#[test]
fn nothing_is_given_again_before_its_deadline_and_everything_after_it() {
    test::run(1, |ctx| async move {
        let config = SubscriptionConfig { ack_deadline: 10 * SECOND, ..SubscriptionConfig::default() };
        let (topic, mut consumer, leases) = three_leased(&ctx, config).await;
        let subscription = consumer.subscription().clone();
        assert_eq!(subscription.extend(leases[0].id, 10 * SECOND), AckStatus::Done);
        assert_eq!(subscription.modify_deadline(leases[2].id, 5 * SECOND), AckStatus::Done);

        let mut seen = Vec::new();
        let begun = tokio::time::Instant::now();
        for _ in 0..3 {
            let lease = consumer.next().await.expect("open");
            let number = number(&lease.message);
            seen.push((number, begun.elapsed().as_secs()));
            assert_eq!(consumer.ack(leases[number as usize].id), AckStatus::Expired);
            assert_eq!(subscription.extend(leases[number as usize].id, SECOND), AckStatus::Expired);
            assert_eq!(consumer.ack(lease.id), AckStatus::Done);
        }

        assert_eq!(seen, [(2, 5), (1, 10), (0, 20)]);
        assert_eq!(consumer.ack(leases[1].id), AckStatus::Unknown, "the id is too old to be remembered");
        let view = &topic.view(0).subscriptions[0];
        assert_eq!((view.expired_total, view.redelivered_total, view.acked_total), (3, 3, 3));
        assert_eq!(subscription.account().acked, 3);
    });
}

#[test]
fn the_leases_of_a_consumer_that_dies_are_given_to_another_at_once() {
    test::explore(0..50, |ctx| async move {
        let (topic, me) = (topic(&ctx, "work"), ctx.pid());
        let workers = topic.create_subscription("workers", SubscriptionConfig::default()).expect("a new name");
        let mut doomed = workers.consumer();
        for number in 0..5 {
            topic.publish(numbered(number)).await.expect("open");
        }
        let victim = ctx.spawn(move |ctx| async move {
            let leases = doomed.next_batch(3).await.expect("open");
            ctx.send(me, numbers(&leases)).await;
            ctx.receive().await;
        });
        assert_eq!(ctx.receive_of::<Vec<u64>>().await, [0, 1, 2]);
        let begun = tokio::time::Instant::now();
        ctx.exit(victim, ExitReason::Killed);

        let mut consumer = workers.consumer();
        let mut seen = Vec::new();
        while seen.len() < 5 {
            let leases = consumer.next_batch(10).await.expect("open");
            seen.extend(numbers(&leases));
            assert_eq!(workers.ack_all(leases.iter().map(|lease| lease.id)), leases.len());
        }

        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert!(begun.elapsed() < SECOND, "no deadline had to pass");
        assert_eq!(workers.account().acked, 5);
        assert!(workers.account().is_exact());
    });
}

#[test]
fn messages_that_rest_are_bounded_as_those_that_wait_for_their_key_are() {
    test::run(1, |ctx| async move {
        let retry = Retry { first: 4 * SECOND, longest: 4 * SECOND };
        let config = SubscriptionConfig { retry, queued_max: 3, ..SubscriptionConfig::default() };
        let (topic, mut consumer, leases) = three_leased(&ctx, config).await;
        topic.publish(numbered(3)).await.expect("open");

        for lease in leases {
            assert_eq!(consumer.nack(lease.id), AckStatus::Done);
        }

        assert!(consumer.try_next().expect("open").is_none(), "three wait for their retry: the limit");
        let again = consumer.next().await.expect("open");
        assert_eq!(again.attempt, 2, "the first message to be retried");
        let new = std::iter::from_fn(|| consumer.try_next().expect("open")).find(|lease| lease.attempt == 1);
        assert_eq!(new.map(|lease| number(&lease.message)), Some(3), "there is room for a new message now");
    });
}

#[test]
fn a_retry_rests_for_longer_each_time() {
    test::run(1, |ctx| async move {
        let retry = Retry { first: SECOND, longest: 4 * SECOND };
        let (_topic, mut consumer, leases) =
            three_leased(&ctx, SubscriptionConfig { retry, ..SubscriptionConfig::default() }).await;
        assert_eq!(consumer.subscription().ack_all([leases[1].id, leases[2].id]), 2);

        let (mut id, mut rests) = (leases[0].id, Vec::new());
        for _ in 0..4 {
            let begun = tokio::time::Instant::now();
            assert_eq!(consumer.nack(id), AckStatus::Done);
            id = consumer.next().await.expect("open").id;
            rests.push(begun.elapsed());
        }

        for (rest, longest) in rests.iter().zip([1, 2, 4, 4]) {
            let (least, most) = (longest * SECOND / 2, longest * SECOND + SECOND / 100);
            assert!(least <= *rest && *rest <= most, "{rests:?}");
        }
    });
}

#[test]
fn what_is_tried_too_often_goes_to_another_topic_with_its_cause() {
    test::run(1, |ctx| async move {
        let graveyard = topic(&ctx, "graveyard");
        let mut dead = graveyard.subscribe(Overflow::Block);
        let config = SubscriptionConfig {
            dead_letter: Some(DeadLetter { topic: "graveyard".into(), attempts_max: 2 }),
            ..SubscriptionConfig::default()
        };
        let (_topic, mut consumer, leases) = three_leased(&ctx, config).await;

        for lease in &leases {
            assert_eq!(consumer.nack(lease.id), AckStatus::Done);
        }
        let again = consumer.next_batch(10).await.expect("open");
        assert_eq!(consumer.nack(again[0].id), AckStatus::Done);
        assert_eq!(consumer.ack(again[1].id), AckStatus::Done);

        let message = dead.next().await.expect("open");
        let attribute = |name| message.attribute(name).expect("it is there");
        assert_eq!(
            (number(message), attribute("dead-letter-cause"), attribute("dead-letter-attempts")),
            (0, "nacked", "2")
        );
        assert_eq!((attribute("dead-letter-topic"), attribute("dead-letter-subscription")), ("work", "workers"));
        // The third expires, for the second time.
        assert_eq!(dead.next().await.expect("open").attribute("dead-letter-cause"), Some("expired"));
        let account = consumer.subscription().account();
        assert_eq!((account.acked, account.dead_lettered, account.backlog, account.outstanding), (1, 2, 0, 0));
        assert!(account.is_exact());
    });
}

#[test]
fn dead_letters_wait_for_room() {
    test::run(1, |ctx| async move {
        let graveyard = bounded(&ctx, 1, 64 << 20, Retention::KeepAll);
        let config = SubscriptionConfig {
            dead_letter: Some(DeadLetter { topic: "bounded".into(), attempts_max: 1 }),
            ..SubscriptionConfig::default()
        };
        let (_topic, consumer, leases) = three_leased(&ctx, config).await;
        for lease in &leases {
            assert_eq!(consumer.nack(lease.id), AckStatus::Done);
        }
        let account = consumer.subscription().account();
        assert_eq!((account.dead_lettered, account.backlog), (1, 2));
        assert!(account.is_exact());

        let mut dead = graveyard.subscribe_oldest(Overflow::Block);
        for _ in 0..3 {
            dead.next().await.expect("open");
        }
        assert_eq!(consumer.subscription().account().dead_lettered, 3);
    });
}

#[test]
fn dead_letters_for_a_topic_that_is_closed_or_too_small_are_tried_again() {
    test::run(1, |ctx| async move {
        let (dead, small) = (topic(&ctx, "dead"), bounded(&ctx, 8, 1024, Retention::KeepAll));
        for (name, goes_to) in [("work", "dead"), ("other", "bounded")] {
            let config = TopicConfig { messages: 8, bytes: 1024, retention: Retention::Forget };
            let topic = ctx.topics().create_with(name, config).expect("a new name");
            let dead_letter = Some(DeadLetter { topic: goes_to.into(), attempts_max: 1 });
            let config = SubscriptionConfig { dead_letter, ..SubscriptionConfig::default() };
            let mut consumer = topic.create_subscription("workers", config).expect("a new name").consumer();
            topic.publish(Message::new("x").with_attribute("a", "y".repeat(1000))).await.expect("open");
            let first = consumer.next().await.expect("open");
            dead.close();

            assert_eq!(consumer.nack(first.id), AckStatus::Done);

            assert_eq!(consumer.next().await.expect("open").attempt, 2);
            assert_eq!((consumer.subscription().account().dead_lettered, small.published()), (0, 0));
        }
    });
}

#[test]
fn a_key_goes_on_only_after_what_is_before_it_and_other_keys_go_on() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "ordered");
        let config = SubscriptionConfig { ordered: true, ..SubscriptionConfig::default() };
        let ordered = topic.create_subscription("all", config).expect("a new name");
        let (mut one, mut other) = (ordered.consumer(), ordered.consumer());
        for (number, key) in [(0, "a"), (1, "a"), (2, "b"), (3, "a"), (4, "b")] {
            topic.publish(numbered(number).with_key(key)).await.expect("open");
        }

        let first = one.next_batch(2).await.expect("open");
        let second = other.next_batch(10).await.expect("open");
        assert_eq!((numbers(&first), numbers(&second)), (vec![0, 1], vec![2, 4]));
        assert_eq!(other.try_next().expect("open").map(|lease| number(&lease.message)), None, "key a is leased");

        // Message 0 is returned, so message 1 is returned as well: it must not overtake.
        assert_eq!(one.nack(first[0].id), AckStatus::Done);
        assert_eq!(one.ack(first[1].id), AckStatus::Revoked);
        let again = other.next_batch(10).await.expect("open");
        assert_eq!(numbers(&again), [0, 1, 3]);
        assert_eq!(again.iter().map(|lease| lease.attempt).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(ordered.ack_all(again.iter().chain(&second).map(|lease| lease.id)), 5);
        assert!(ordered.account().is_exact());
        let view = &topic.view(0).subscriptions[0];
        assert_eq!((view.keys, view.redelivered_total), (0, 2), "settled keys are removed; 0 and 1 came twice");
    });
}

#[test]
fn a_consumer_gets_no_more_than_its_credit() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "work");
        let config = SubscriptionConfig { outstanding_max: 2, ..SubscriptionConfig::default() };
        let workers = topic.create_subscription("workers", config).expect("a new name");
        let (mut one, mut other) = (workers.consumer(), workers.consumer());
        for number in 0..5 {
            topic.publish(numbered(number)).await.expect("open");
        }

        let leases = one.next_batch(10).await.expect("open");
        assert_eq!(numbers(&leases), [0, 1]);
        assert!(one.try_next().expect("open").is_none());
        assert_eq!(numbers(&other.next_batch(10).await.expect("open")), [2, 3]);
        assert_eq!(one.ack(leases[0].id), AckStatus::Done);
        assert_eq!(number(&one.next().await.expect("open").message), 4);
    });
}

#[test]
fn a_deleted_subscription_counts_what_it_drops_and_ends_its_consumers() {
    test::run(1, |ctx| async move {
        let (topic, mut consumer, leases) = three_leased(&ctx, SubscriptionConfig::default()).await;
        let subscription = consumer.subscription().clone();
        topic.publish(numbered(3)).await.expect("open");
        assert_eq!(consumer.ack(leases[0].id), AckStatus::Done);

        subscription.delete();

        let account = subscription.account();
        assert_eq!((account.published, account.acked, account.dropped), (4, 1, 3));
        assert!(account.is_exact());
        assert_eq!(consumer.next().await.expect_err("deleted"), Ended::Deleted);
        assert_eq!(consumer.ack(leases[1].id), AckStatus::Revoked);
        assert_eq!(topic.view(0).subscriptions.len(), 0);
        assert!(topic.subscription("workers").is_err());
    });
}

#[test]
fn a_message_that_comes_while_a_consumer_looks_is_not_slept_over() {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("a runtime");
    let topic = runtime.topics().create("bursts").expect("new");
    let subscription = topic.create_subscription("s", SubscriptionConfig::default()).expect("new");
    let mut consumer = subscription.consumer();
    runtime
        .spawn(|_| async move {
            while let Ok(lease) = consumer.next().await {
                assert_eq!(consumer.ack(lease.id), AckStatus::Done);
            }
        })
        .expect("room");

    // The first message of a burst wakes the consumer; the others arrive while it takes the first.
    for burst in 1..=5_000 {
        for number in 0..4 {
            topic.blocking_publish(numbered(number)).expect("open");
        }
        let deadline = Instant::now() + 60 * SECOND;
        while subscription.account().acked < burst * 4 {
            assert!(Instant::now() < deadline, "{:?}", subscription.account());
            std::thread::yield_now();
        }
    }
    topic.close();
}
