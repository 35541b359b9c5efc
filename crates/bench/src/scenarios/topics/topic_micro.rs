//! Cost of each step of a topic on its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rusm_protocol::Unit;
use rusm_runtime::topic::{
    AckId, AckStatus, Consumer, Lease, Message, Overflow, Publisher, PublisherConfig, Retention, Subscriber,
    SubscriptionConfig, Topic, TopicConfig,
};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::judge::statistics::median;
use crate::measure::allocations::counted;
use crate::measure::meter::Stamp;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::topics::RunTopic;
use crate::scenarios::topics::payload::{PAYLOAD_MIN, Payloads};

/// Longer than a turn.
const NEVER: Duration = Duration::from_mins(1);
/// Number of steps in a turn.
const STEPS: usize = 10_000;

/// Scenario that measures each step of a topic on its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicMicro;

impl Scenario for TopicMicro {
    fn card(&self) -> Card {
        Card {
            id: "topic-micro",
            family: Family::Topics,
            label: "Topic steps",
            description: "Each step of a topic alone: creating a message, publishing, receiving, acknowledging, \
                          refusing.",
            details: &[
                "One operation is one step of one case. Cases run in turn, so the rate of the whole run means nothing; \
                 compare the medians in the table. A turn is 10,000 steps in a row on one thread.",
                "The figure is the wall time of a step, as the median of the turns. No process waits or is woken.",
                "Allocations are counted in the second turn of a case, which is not timed. A new topic makes some \
                 allocations.",
                "A good result is a short time and few allocations for each step.",
            ],
            ops_label: "steps/s",
            latency_label: Some("a step, on average of its turn"),
            unit: Unit::Count,
            parameters: &[Parameter {
                name: "payload",
                description: "Bytes of a message.",
                kind: Kind::Bytes { min: PAYLOAD_MIN, max: 4096, default: 1024 },
            }],
            source_file: file!(),
            timed: "turn",
            ops_per_timed: STEPS as u64,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let payload = context.params().number("payload") as usize;
            run_in_turn(
                context,
                Steps { payload, turns: vec![Vec::new(); CASES.len()], allocations: vec![None; CASES.len()] },
            )
            .await
        })
    }
}

type Case = (&'static str, fn(&mut Bench) -> f64);

const CASES: &[Case] = &[
    ("create a message: copy the payload", |bench| bench.make()),
    ("publish without receivers", |bench| bench.publish()),
    ("publish, in batches of 10", |bench| bench.publish_batches(10)),
    ("publish, in batches of 100", |bench| bench.publish_batches(100)),
    ("publish and give to a subscriber", |bench| bench.broadcast()),
    ("take into a publisher, in batches of 100", |bench| bench.gather()),
    ("refuse: a publisher's limit is reached", |bench| bench.refuse_by_limit()),
    ("refuse: the topic is full", |bench| bench.refuse()),
    ("lease, in batches of 100", |bench| bench.lease_batches()),
    ("acknowledge", |bench| bench.end(Consumer::ack)),
    ("acknowledge, in batches of 10", |bench| bench.ack_batches(10)),
    ("acknowledge, in batches of 100", |bench| bench.ack_batches(100)),
    ("acknowledge again", |bench| bench.ack_again()),
    ("give back, and lease again", |bench| bench.nack(1)),
    ("give back 10, and lease them again", |bench| bench.nack(10)),
    ("give back 100, and lease them again", |bench| bench.nack(100)),
    ("extend a lease", |bench| bench.end(|consumer, id| consumer.subscription().extend(id, Duration::from_secs(1)))),
];

/// State of one turn that the cases work on.
struct Bench {
    topic: Topic,
    payloads: Payloads,
    quantity: Quantity,
}

/// Quantity measured in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    /// Nanoseconds.
    Time,
    /// Number of allocations; NaN if the program's allocator does not count.
    Allocations,
}

impl Quantity {
    fn of(self, work: impl FnOnce()) -> f64 {
        if self == Self::Allocations {
            return counted(work).1.map_or(f64::NAN, |allocations| allocations as f64);
        }
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64
    }

    /// Measures a step for each lease. Uses every result, so that the compiler cannot remove a step.
    fn of_each(self, leases: &[Lease], mut step: impl FnMut(&Lease) -> AckStatus) -> f64 {
        self.of(|| {
            std::hint::black_box(leases.iter().filter(|lease| step(lease) == AckStatus::Done).count());
        })
    }
}

impl Bench {
    fn message(&mut self) -> Message {
        self.payloads.next(Stamp::default())
    }

    fn fill(&mut self) {
        for _ in 0..STEPS {
            let message = self.message();
            // Cannot fail: the topic has room for a turn. Publishing to a full topic is a case of its own.
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
            Err(error) => panic!("a new topic has no subscription yet: {error}"),
        };
        self.fill();
        let leases = std::iter::from_fn(|| consumer.try_next().ok().flatten()).collect();
        (consumer, leases)
    }

    fn make(&mut self) -> f64 {
        let mut payloads = self.payloads.copying();
        self.quantity.of(|| (0..STEPS).for_each(|_| drop(std::hint::black_box(payloads.next(Stamp::default())))))
    }

    fn publish(&mut self) -> f64 {
        self.quantity.of(|| self.fill())
    }

    fn publish_batches(&mut self, size: usize) -> f64 {
        let mut batches: Vec<VecDeque<Message>> =
            (0..STEPS / size).map(|_| (0..size).map(|_| self.message()).collect()).collect();
        self.quantity.of(|| batches.iter_mut().for_each(|batch| drop(self.topic.try_publish_all(batch))))
    }

    fn broadcast(&mut self) -> f64 {
        let mut subscriber = self.subscriber();
        self.quantity.of(|| {
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

    fn gather(&mut self) -> f64 {
        let publisher = self.publisher(PublisherConfig { batch_delay: NEVER, ..PublisherConfig::default() });
        self.quantity.of(|| {
            for _ in 0..STEPS {
                drop(publisher.try_publish(self.message()));
            }
        })
    }

    fn refuse_by_limit(&mut self) -> f64 {
        let _slow = self.subscriber();
        while self.topic.try_publish(Message::new(vec![0; 1 << 20])).is_ok() {}
        let config = PublisherConfig { batch_delay: NEVER, outstanding_messages: 1, ..PublisherConfig::default() };
        let (publisher, message) = (self.publisher(config), Message::new(vec![0; 1 << 20]));
        drop(publisher.try_publish(message.clone()));
        self.quantity.of(|| {
            for _ in 0..STEPS {
                drop(publisher.try_publish(message.clone()));
            }
        })
    }

    fn refuse(&mut self) -> f64 {
        let _slow = self.subscriber();
        while self.topic.try_publish(Message::new(vec![0; 1 << 20])).is_ok() {}
        let message = Message::new(vec![0; 1 << 20]);
        self.quantity.of(|| {
            for _ in 0..STEPS {
                drop(self.topic.try_publish(message.clone()));
            }
        })
    }

    fn lease_batches(&mut self) -> f64 {
        let (mut consumer, leases) = self.leased();
        consumer.subscription().ack_all(leases.iter().map(|lease| lease.id));
        self.fill();
        let mut batch = Vec::new();
        self.quantity.of(|| while consumer.try_next_batch_into(&mut batch, 100).is_ok() && !batch.is_empty() {})
    }

    fn end(&mut self, end: impl Fn(&Consumer, AckId) -> AckStatus) -> f64 {
        let (consumer, leases) = self.leased();
        self.quantity.of_each(&leases, |lease| end(&consumer, lease.id))
    }

    fn ack_batches(&mut self, size: usize) -> f64 {
        let (consumer, leases) = self.leased();
        self.quantity.of(|| {
            for batch in leases.chunks(size) {
                consumer.subscription().ack_all(batch.iter().map(|lease| lease.id));
            }
        })
    }

    fn ack_again(&mut self) -> f64 {
        let (consumer, leases) = self.leased();
        consumer.subscription().ack_all(leases.iter().map(|lease| lease.id));
        self.quantity.of_each(&leases, |lease| consumer.ack(lease.id))
    }

    fn nack(&mut self, size: usize) -> f64 {
        let (mut consumer, leases) = self.leased();
        let mut again = Vec::new();
        self.quantity.of(|| {
            for batch in leases.chunks(size) {
                std::hint::black_box(batch.iter().filter(|lease| consumer.nack(lease.id) == AckStatus::Done).count());
                consumer.try_next_batch_into(&mut again, size).unwrap_or(());
            }
        })
    }
}

struct Steps {
    payload: usize,
    /// Nanoseconds per step, for every timed turn of every case.
    turns: Vec<Vec<f64>>,
    /// Allocations per step of every case, once counted.
    allocations: Vec<Option<f64>>,
}

impl Cases for Steps {
    fn count(&self) -> usize {
        CASES.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let config = TopicConfig { messages: 2 * STEPS, bytes: 64 << 20, retention: Retention::Forget };
        let topic = RunTopic::new(context.runtime.topics().create_with("topic-micro", config))?;
        let payloads = Payloads::new(&[], self.payload, 0, false, Instant::now(), 1);
        // Skip the first turn of a case: it may make allocations that later turns reuse.
        let counts = self.allocations[case].is_none() && !self.turns[case].is_empty();
        let quantity = if counts { Quantity::Allocations } else { Quantity::Time };
        let mut bench = Bench { topic: Topic::clone(&topic), payloads, quantity };
        let step = (CASES[case].1)(&mut bench) / STEPS as f64;
        drop(topic);
        if counts {
            self.allocations[case] = Some(step);
        } else if !context.stops() {
            let step_ns = step;
            self.turns[case].push(step_ns);
            context.recorder.latency((step_ns as u64).max(1));
            context.recorder.count(STEPS as u64);
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let columns = [
            ("step", ColumnUnit::Text),
            ("each", ColumnUnit::Ns),
            ("allocations", ColumnUnit::Amount),
            ("turns", ColumnUnit::Count),
        ];
        let mut table = Table::new("Steps of a topic", &columns);
        for (((name, _), turns), allocations) in CASES.iter().zip(&self.turns).zip(&self.allocations) {
            let allocations = allocations.unwrap_or(f64::NAN);
            table.row([(*name).into(), median(turns).into(), allocations.into(), (turns.len() as u64).into()]);
        }
        context.show(table);
    }
}
