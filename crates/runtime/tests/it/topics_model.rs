//! Subscriptions under random sequences of operations: no message is lost, none has two valid leases, and keys keep
//! their order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use rusm_runtime::topic::{
    AckStatus, Consumer, DeadLetter, Lease, Message, Overflow, Retention, Retry, Subscriber, Subscription,
    SubscriptionConfig, Topic, TopicConfig,
};
use rusm_runtime::{Context, test};

#[derive(Clone, Debug)]
enum Step {
    Publish(u8),
    Take(usize, usize),
    Ack(usize),
    Nack(usize),
    Extend(usize),
    Die(usize),
    Sleep(u64),
    Read(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_u8).prop_map(Step::Publish),
        4 => (0..CONSUMERS, 1..4_usize).prop_map(|(consumer, most)| Step::Take(consumer, most)),
        4 => (0..100_usize).prop_map(Step::Ack),
        2 => (0..100_usize).prop_map(Step::Nack),
        1 => (0..100_usize).prop_map(Step::Extend),
        1 => (0..CONSUMERS).prop_map(Step::Die),
        1 => (1..8_u64).prop_map(Step::Sleep),
        3 => (0..READERS, 1..9_usize).prop_map(|(reader, most)| Step::Read(reader, most)),
    ]
}

const CONSUMERS: usize = 3;
const READERS: usize = 4;
const MESSAGES_MAX: usize = 16;
const DEADLINE: Duration = Duration::from_secs(4);

/// A message leased to a consumer.
struct Out {
    lease: Lease,
    number: u64,
    key: u8,
    consumer: usize,
    since: tokio::time::Instant,
    extended: bool,
}

struct World {
    topic: Topic,
    graveyard: Subscriber,
    subscription: Subscription,
    consumers: Vec<Consumer>,
    readers: Vec<(Subscriber, u64)>,
    ordered: bool,
    published: u64,
    out: Vec<Out>,
    acked: BTreeSet<u64>,
    dead: BTreeSet<u64>,
    /// Highest number of each key that was delivered so far.
    highest: BTreeMap<u8, u64>,
}

impl World {
    fn new(ctx: &Context, ordered: bool, rests: bool) -> Self {
        let bounds = TopicConfig { messages: MESSAGES_MAX, bytes: 4096, retention: Retention::Forget };
        let topic = ctx.topics().create_with("topic", bounds).expect("a new name");
        let graveyard = ctx.topics().create("graveyard").expect("a new name").subscribe(Overflow::Block);
        let retry = if rests {
            Retry { first: Duration::from_millis(500), longest: Duration::from_secs(2) }
        } else {
            Retry::default()
        };
        let config = SubscriptionConfig {
            ack_deadline: DEADLINE,
            outstanding_max: 5,
            ordered,
            queued_max: 8,
            retry,
            dead_letter: Some(DeadLetter { topic: "graveyard".into(), attempts_max: 4 }),
            ..SubscriptionConfig::default()
        };
        let subscription = topic.create_subscription("subscription", config).expect("a new name");
        let consumers = (0..CONSUMERS).map(|_| subscription.consumer()).collect();
        let lossy = [
            Overflow::DropOldest { capacity: 5 },
            Overflow::DropOldest { capacity: 1000 },
            Overflow::DropNewest { capacity: 5 },
            Overflow::Disconnect { capacity: 10 },
        ];
        let readers = lossy.into_iter().map(|overflow| (topic.subscribe(overflow), 0)).collect();
        Self {
            topic,
            graveyard,
            subscription,
            consumers,
            readers,
            ordered,
            published: 0,
            out: Vec::new(),
            acked: BTreeSet::new(),
            dead: BTreeSet::new(),
            highest: BTreeMap::new(),
        }
    }

    async fn act(&mut self, ctx: &Context, step: Step) {
        match step {
            Step::Publish(key) => {
                let mut payload = vec![key];
                payload.extend(self.published.to_be_bytes());
                let message = Message::new(payload).with_key(key.to_string());
                self.published += u64::from(self.topic.try_publish(message).is_ok());
            }
            Step::Take(consumer, most) => self.take(consumer, most),
            Step::Ack(which) => {
                if let Some(out) = self.pick(which) {
                    let status = self.subscription.ack(out.lease.id);
                    if status == AckStatus::Done {
                        assert!(self.acked.insert(out.number), "{} was acknowledged twice", out.number);
                        assert_eq!(self.subscription.ack(out.lease.id), AckStatus::AlreadyAcked);
                    }
                }
            }
            Step::Nack(which) => {
                if let Some(out) = self.pick(which)
                    && self.subscription.nack(out.lease.id) == AckStatus::Done
                {
                    assert_ne!(self.subscription.nack(out.lease.id), AckStatus::Done);
                }
            }
            Step::Extend(which) => {
                if !self.out.is_empty() {
                    let which = which % self.out.len();
                    let extended = self.subscription.extend(self.out[which].lease.id, Duration::from_hours(1));
                    self.out[which].extended |= extended == AckStatus::Done;
                }
            }
            Step::Die(consumer) => {
                self.consumers[consumer] = self.subscription.consumer();
                self.out.retain(|out| out.consumer != consumer);
            }
            Step::Sleep(seconds) => ctx.sleep(Duration::from_secs(seconds)).await,
            Step::Read(reader, most) => self.read(reader, most),
        }
        self.bury();
        self.check();
    }

    fn pick(&mut self, which: usize) -> Option<Out> {
        if self.out.is_empty() { None } else { Some(self.out.swap_remove(which % self.out.len())) }
    }

    fn take(&mut self, consumer: usize, most: usize) {
        for _ in 0..most {
            let Some(lease) = self.consumers[consumer].try_next().expect("open") else { break };
            let payload = lease.message.payload();
            let (key, number) = (payload[0], u64::from_be_bytes(payload[1..].try_into().expect("eight bytes")));
            assert!(!self.acked.contains(&number) && !self.dead.contains(&number), "{number} was settled already");
            self.given_again(number, key);
            let highest = self.highest.entry(key).or_insert(number);
            if self.ordered {
                // A message delivered for the first time is the next of its key, or all messages before it were
                // settled.
                assert!(lease.attempt > 1 || number >= *highest || !self.acked.contains(&number));
            }
            *highest = number.max(*highest);
            let since = tokio::time::Instant::now();
            self.out.push(Out { lease, number, key, consumer, since, extended: false });
        }
    }

    /// Asserts that no other consumer has a valid lease on the message and, if ordered, that no other message of its
    /// key is leased.
    fn given_again(&mut self, number: u64, key: u8) {
        let mut ended = Vec::new();
        for (at, out) in self.out.iter().enumerate() {
            if out.number == number {
                let revoked = self.ordered && self.subscription.extend(out.lease.id, Duration::ZERO) != AckStatus::Done;
                let over = !out.extended && out.since.elapsed() >= DEADLINE;
                assert!(over || revoked, "{number} has two leases");
                ended.push(at);
            } else if self.ordered && out.key == key {
                let lasts = self.subscription.extend(out.lease.id, Duration::ZERO) == AckStatus::Done;
                assert!(!lasts, "{} of key {key} is leased, and {number} was delivered", out.number);
            }
        }
        for at in ended.into_iter().rev() {
            self.out.swap_remove(at);
        }
    }

    fn read(&mut self, reader: usize, most: usize) {
        let (subscriber, next) = &mut self.readers[reader];
        let Ok(batch) = subscriber.try_next_batch(most) else { return };
        for message in batch {
            let number = u64::from_be_bytes(message.payload()[1..].try_into().expect("eight bytes"));
            assert!(number >= *next, "{number} after {next}");
            *next = number + 1;
        }
    }

    fn bury(&mut self) {
        while let Some(message) = self.graveyard.try_next().expect("open") {
            let number = u64::from_be_bytes(message.payload()[1..].try_into().expect("eight bytes"));
            assert!(self.dead.insert(number) && !self.acked.contains(&number), "{number} was dead-lettered twice");
        }
    }

    fn check(&self) {
        let account = self.subscription.account();
        assert!(account.is_exact(), "{account:?}");
        assert_eq!(account.published, self.published);
        assert_eq!((account.acked, account.dead_lettered), (self.acked.len() as u64, self.dead.len() as u64));
        assert!(account.outstanding <= self.out.len() as u64, "{account:?}");
        assert!(account.outstanding <= (CONSUMERS * 5) as u64);
        assert!(self.topic.view(0).messages <= MESSAGES_MAX as u64);
        for (subscriber, _) in &self.readers {
            assert!(subscriber.account().is_exact(), "{:?}", subscriber.account());
        }
    }

    /// Settles all remaining messages.
    async fn finish(&mut self, ctx: &Context) {
        for _ in 0..200 {
            let account = self.subscription.account();
            if account.acked + account.dead_lettered == account.published {
                return;
            }
            for which in 0..self.out.len() {
                self.act(ctx, Step::Ack(which)).await;
            }
            for consumer in 0..CONSUMERS {
                self.act(ctx, Step::Take(consumer, 3)).await;
                self.act(ctx, Step::Ack(0)).await;
            }
            self.act(ctx, Step::Sleep(3)).await;
            if !self.out.is_empty() {
                self.act(ctx, Step::Ack(0)).await;
            }
        }
        panic!("messages are stuck: {:?} {:?}", self.subscription.account(), self.topic.view(9));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everything_is_accounted_for_whatever_happens(
        ordered: bool,
        rests: bool,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        test::run(1, move |ctx| async move {
            let mut world = World::new(&ctx, ordered, rests);
            for step in steps {
                world.act(&ctx, step).await;
            }
            world.finish(&ctx).await;
        });
    }
}

#[test]
fn work_is_done_once_though_workers_die_whatever_the_schedule() {
    test::explore(0..150, |ctx| async move {
        let bounds = TopicConfig { messages: 8, ..TopicConfig::default() };
        let topic = ctx.topics().create_with("work", bounds).expect("a new name");
        let config = SubscriptionConfig { outstanding_max: 3, ..SubscriptionConfig::default() };
        let subscription = topic.create_subscription("workers", config).expect("a new name");
        let me = ctx.pid();
        for worker in 0..4 {
            let mut consumer = subscription.consumer();
            ctx.spawn(move |ctx| async move {
                let mut left = 3 + worker;
                while let Ok(leases) = consumer.next_batch(2).await {
                    if worker != 0 && left == 0 {
                        // The worker ends while it holds leases.
                        return;
                    }
                    left -= i32::from(worker != 0);
                    ctx.yield_now().await;
                    for lease in leases {
                        if consumer.ack(lease.id) == AckStatus::Done {
                            ctx.send(me, lease.message).await;
                        }
                    }
                }
            });
        }
        for publisher in 0..2_u8 {
            let topic = topic.clone();
            ctx.spawn(move |_| async move {
                for number in 0..20_u8 {
                    topic.publish(Message::new(vec![publisher, number])).await.expect("open");
                }
            });
        }

        let mut seen = BTreeSet::new();
        while seen.len() < 40 {
            assert!(seen.insert(ctx.receive_of::<Message>().await.into_payload()));
        }

        assert_eq!(subscription.account().acked, 40);
        assert!(subscription.account().is_exact());
    });
}
