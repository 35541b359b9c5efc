//! What each step of a topic costs by itself.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rusm_protocol::Unit;
use rusm_runtime::topic::{
    AckId, AckStatus, Consumer, Lease, Message, Overflow, Publisher, PublisherConfig, Subscriber, SubscriptionConfig,
    Topic, TopicConfig, Unread,
};

use crate::card::{Card, Family};
use crate::meter::Stamp;
use crate::parameter::{Kind, Parameter};
use crate::run::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::stage::Stage;
use crate::statistics::median;
use crate::table::{ColumnUnit, Table};
use crate::topic_payload::{PAYLOAD_MIN, Payloads};
use crate::turns::{Desk, Turns, in_turn};

/// Longer than a turn.
const NEVER: Duration = Duration::from_mins(1);
/// Steps of a turn.
const STEPS: usize = 10_000;

/// What each step of a topic costs by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicMicro;

impl Scenario for TopicMicro {
    fn card(&self) -> Card {
        Card {
            id: "topic-micro",
            family: Family::Topics,
            label: "Topic steps",
            description: "Each step of a topic by itself: making a message, publishing, receiving, acknowledging, refusing.",
            details: &[
                "One operation is one step of one case; the cases run in turn, on a thread of their own, and a turn is 10,000 \
                 steps one after the other.",
                "The figure is the median of the turns, wall time for each step. Nobody waits and nobody is woken.",
                "Allocations are not counted here: that takes an allocator that counts, which would be part of the figure. \
                 `cargo test -p rusm-runtime --test topics_allocations -- --nocapture` prints them step by step.",
            ],
            ops_label: "steps/s",
            latency_label: Some("a step, on average of its turn"),
            unit: Unit::Count,
            parameters: &[Parameter {
                name: "payload",
                description: "Bytes of a message.",
                kind: Kind::Bytes { min: PAYLOAD_MIN, max: 4096, default: 1024 },
            }],
            source_file: "crates/bench/src/topic_micro.rs",
            timed: "turn",
            ops_per_timed: STEPS as u64,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, stage: &'a mut Stage) -> ScenarioRun<'a> {
        Box::pin(async move {
            let payload = stage.params().number("payload") as usize;
            in_turn(stage, Steps { payload, turns: vec![Vec::new(); CASES.len()] }).await
        })
    }
}

type Case = (&'static str, fn(&mut Bench) -> Duration);

const CASES: &[Case] = &[
    ("make a message: copy the payload", |bench| bench.make()),
    ("publish, nobody receives", |bench| bench.publish()),
    ("publish, in batches of 100", |bench| bench.publish_batches()),
    ("publish and give to a subscriber", |bench| bench.broadcast()),
    ("take into a publisher, in batches of 100", |bench| bench.gather()),
    ("refuse: a publisher's limit is reached", |bench| bench.refuse_by_limit()),
    ("refuse: the topic is full", |bench| bench.refuse()),
    ("lease, in batches of 100", |bench| bench.lease_batches()),
    ("acknowledge", |bench| bench.end(Consumer::ack)),
    ("acknowledge, in batches of 100", |bench| bench.ack_batches()),
    ("acknowledge again", |bench| bench.ack_again()),
    ("give back, and lease again", |bench| bench.nack()),
    ("extend a lease", |bench| bench.end(|consumer, id| consumer.subscription().extend(id, Duration::from_secs(1)))),
];

/// What the cases work on; of one turn.
struct Bench {
    topic: Topic,
    payloads: Payloads,
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Times a step for each lease; what comes of it is looked at, so that none is left out.
fn done(leases: &[Lease], mut step: impl FnMut(&Lease) -> AckStatus) -> Duration {
    timed(|| {
        std::hint::black_box(leases.iter().filter(|lease| step(lease) == AckStatus::Done).count());
    })
}

impl Bench {
    fn message(&mut self) -> Message {
        self.payloads.next(Stamp::default())
    }

    fn fill(&mut self) {
        for _ in 0..STEPS {
            let message = self.message();
            // It has room for a turn; a case that finds it full is one of its own.
            drop(self.topic.try_publish(message));
        }
    }

    fn subscriber(&self) -> Subscriber {
        self.topic.subscribe(Overflow::Block)
    }

    fn leased(&mut self) -> (Consumer, Vec<Lease>) {
        let config = SubscriptionConfig { outstanding_max: STEPS, ..SubscriptionConfig::default() };
        let mut consumer = match self.topic.create_subscription("steps", config) {
            Ok(subscription) => subscription.consumer(),
            Err(error) => panic!("a topic of its own has no subscription yet: {error}"),
        };
        self.fill();
        let leases = std::iter::from_fn(|| consumer.try_next().ok().flatten()).collect();
        (consumer, leases)
    }

    fn make(&mut self) -> Duration {
        let mut payloads = self.payloads.copying();
        timed(|| (0..STEPS).for_each(|_| drop(std::hint::black_box(payloads.next(Stamp::default())))))
    }

    fn publish(&mut self) -> Duration {
        timed(|| self.fill())
    }

    fn publish_batches(&mut self) -> Duration {
        let mut batches: Vec<VecDeque<Message>> =
            (0..STEPS / 100).map(|_| (0..100).map(|_| self.message()).collect()).collect();
        timed(|| batches.iter_mut().for_each(|batch| drop(self.topic.try_publish_all(batch))))
    }

    fn broadcast(&mut self) -> Duration {
        let mut subscriber = self.subscriber();
        timed(|| {
            self.fill();
            while subscriber.try_next().is_ok_and(|message| message.is_some()) {}
        })
    }

    fn publisher(&self, config: PublisherConfig) -> Publisher {
        match self.topic.publisher(config) {
            Ok(publisher) => publisher,
            Err(error) => panic!("the limits are within their ranges: {error}"),
        }
    }

    fn gather(&mut self) -> Duration {
        let publisher = self.publisher(PublisherConfig { batch_delay: NEVER, ..PublisherConfig::default() });
        timed(|| {
            for _ in 0..STEPS {
                drop(publisher.try_publish(self.message()));
            }
        })
    }

    fn refuse_by_limit(&mut self) -> Duration {
        let _slow = self.subscriber();
        while self.topic.try_publish(Message::new(vec![0; 1 << 20])).is_ok() {}
        let config = PublisherConfig { batch_delay: NEVER, outstanding_messages: 1, ..PublisherConfig::default() };
        let (publisher, message) = (self.publisher(config), Message::new(vec![0; 1 << 20]));
        drop(publisher.try_publish(message.clone()));
        timed(|| {
            for _ in 0..STEPS {
                drop(publisher.try_publish(message.clone()));
            }
        })
    }

    fn refuse(&mut self) -> Duration {
        let _slow = self.subscriber();
        while self.topic.try_publish(Message::new(vec![0; 1 << 20])).is_ok() {}
        let message = Message::new(vec![0; 1 << 20]);
        timed(|| {
            for _ in 0..STEPS {
                drop(self.topic.try_publish(message.clone()));
            }
        })
    }

    fn lease_batches(&mut self) -> Duration {
        let (mut consumer, leases) = self.leased();
        consumer.subscription().ack_all(leases.iter().map(|lease| lease.id));
        self.fill();
        let mut batch = Vec::new();
        timed(|| while consumer.try_next_batch_into(&mut batch, 100).is_ok() && !batch.is_empty() {})
    }

    fn end(&mut self, end: impl Fn(&Consumer, AckId) -> AckStatus) -> Duration {
        let (consumer, leases) = self.leased();
        done(&leases, |lease| end(&consumer, lease.id))
    }

    fn ack_batches(&mut self) -> Duration {
        let (consumer, leases) = self.leased();
        timed(|| {
            for batch in leases.chunks(100) {
                consumer.subscription().ack_all(batch.iter().map(|lease| lease.id));
            }
        })
    }

    fn ack_again(&mut self) -> Duration {
        let (consumer, leases) = self.leased();
        consumer.subscription().ack_all(leases.iter().map(|lease| lease.id));
        done(&leases, |lease| consumer.ack(lease.id))
    }

    fn nack(&mut self) -> Duration {
        let (mut consumer, leases) = self.leased();
        done(&leases, |lease| {
            let status = consumer.nack(lease.id);
            drop(consumer.try_next());
            status
        })
    }
}

struct Steps {
    payload: usize,
    /// Nanoseconds for each step, of every turn of every case.
    turns: Vec<Vec<f64>>,
}

impl Turns for Steps {
    fn cases(&self) -> usize {
        CASES.len()
    }

    fn turn(&mut self, case: usize, desk: &mut Desk) -> Result<(), RunError> {
        let config = TopicConfig { messages: 2 * STEPS, bytes: 64 << 20, unread: Unread::Forget };
        let topic = desk
            .runtime
            .topics()
            .create_with("topic-micro", config)
            .map_err(|error| RunError::Lacks(format!("{error}: stop the run that uses it")))?;
        let payloads = Payloads::new(&[], self.payload, 0, false, Instant::now(), 1);
        let mut bench = Bench { topic: topic.clone(), payloads };
        let took = (CASES[case].1)(&mut bench);
        topic.close();
        if !desk.stops() {
            let step_ns = took.as_nanos() as f64 / STEPS as f64;
            self.turns[case].push(step_ns);
            desk.recorder.latency((step_ns as u64).max(1));
            desk.recorder.count(STEPS as u64);
        }
        Ok(())
    }

    fn show(&self, desk: &Desk) {
        let columns = [("step", ColumnUnit::Text), ("each", ColumnUnit::Ns), ("turns", ColumnUnit::Count)];
        let mut table = Table::new("Steps of a topic", &columns);
        for ((name, _), turns) in CASES.iter().zip(&self.turns) {
            table.row([(*name).into(), median(turns).into(), (turns.len() as u64).into()]);
        }
        desk.show(table);
    }
}
