//! State of durable topics after a crash: of the node, by `kill -9`, and of the whole machine, by a power cut at any
//! write.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::disk::Disk;
use proptest::prelude::*;
use rusm_runtime::topic::{AckStatus, Lease, Message, Subscription, SubscriptionConfig, Topic, TopicConfig};
use rusm_runtime::{Config, Runtime};
use rusm_store::{Store, StoreConfig};

/// Path of the child's store. The child test does nothing when it is not set.
const CHILD_PATH: &str = "RUSM_TOPIC_CHILD_PATH";
/// Number of times that the child is killed; 8 by default.
const KILLS: &str = "RUSM_TOPIC_KILLS";
/// Number of messages that the child acknowledges at once.
const BATCH: usize = 10;

struct Node {
    runtime: Runtime,
    store: Store,
}

impl Node {
    fn start(store: Store) -> Self {
        Self { runtime: Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap(), store }
    }

    fn on(disk: &Disk) -> Self {
        let disk = disk.clone();
        Self::start(Store::open_on("a disk in memory", move || Ok(disk.clone()), StoreConfig::default()).unwrap())
    }

    fn at(path: &Path) -> Self {
        Self::start(Store::open(path, StoreConfig::default()).unwrap())
    }

    fn topic(&self) -> Topic {
        self.store.open_topic(&self.runtime.topics(), "orders", TopicConfig::default()).unwrap()
    }
}

fn numbered(number: u64) -> Message {
    Message::new(number.to_be_bytes().to_vec())
}

fn number(message: &Message) -> u64 {
    u64::from_be_bytes(message.payload()[..].try_into().unwrap())
}

fn workers(topic: &Topic) -> Subscription {
    let config = SubscriptionConfig { ack_deadline: Duration::from_mins(30), ..SubscriptionConfig::default() };
    topic.create_subscription("workers", config).unwrap()
}

/// Returns the numbers that a new consumer receives.
fn left(workers: &Subscription) -> Vec<u64> {
    let mut consumer = workers.consumer();
    std::iter::from_fn(|| consumer.try_next().unwrap()).map(|lease| number(&lease.message)).collect()
}

/// Progress reported by the child: the number of published messages, and of messages acknowledged and saved.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    published: u64,
    saved: u64,
}

#[test]
fn nothing_that_was_published_is_lost_by_kill_9_and_nothing_that_was_saved_comes_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("killed.redb");
    let kills = std::env::var(KILLS).map_or(8, |text| text.parse::<u64>().unwrap());
    let mut last = 0..0;

    for round in 0..kills {
        let said = kill_after(&path, 1 + round * 17 % 60);
        let node = Node::at(&path);
        let workers = workers(&node.topic());
        let account = workers.account();
        assert!(account.is_exact(), "after kill {round}: {account:?}");
        let found = account.acked..account.published;
        check(&found, said, &last, &format!("after kill {round}"));
        let mut consumer = workers.consumer();
        for expected in found.clone().take(1000) {
            let lease = consumer.blocking_next().unwrap();
            assert_eq!((number(&lease.message), lease.position), (expected, expected), "after kill {round}");
        }
        last = found;
        // The file is released only once its writer thread has ended.
        node.store.close();
    }

    assert!(last.end > 0);
}

/// Asserts that the remaining messages are one range: everything published except what was acknowledged.
fn check(found: &Range<u64>, said: Said, last: &Range<u64>, when: &str) {
    assert!(found.end >= said.published.max(last.end), "{when}: {found:?} of {said:?}");
    assert!(found.start >= said.saved.max(last.start), "{when}: {found:?} of {said:?}");
    // At most one batch was acknowledged that the child had not reported yet.
    let most = said.saved.max(last.start) + BATCH as u64;
    assert!(found.start <= most, "{when}: {found:?} of {said:?}");
}

/// Kills a child once it has reported `lines` times; returns its last report.
fn kill_after(path: &Path, lines: u64) -> Said {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durable_topic_crash::a_child_publishes_and_acknowledges_until_it_is_killed", "--nocapture"])
        .env(CHILD_PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, mut heard) = (Said::default(), 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The last line may be incomplete.
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (Some(what), Some(count), Some(".")) = (words.next(), words.next(), words.next()) else { continue };
        match what {
            "published" => said.published = count.parse().unwrap(),
            "saved" => said.saved = count.parse().unwrap(),
            _ => continue,
        }
        heard += 1;
        if heard == lines {
            // SIGKILL. Lines that are already in the pipe still count.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(heard >= lines, "the child ended by itself after {heard} lines");
    said
}

#[test]
fn a_child_publishes_and_acknowledges_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD_PATH) else { return };
    let node = Node::at(Path::new(&path));
    let topic = node.topic();
    let workers = workers(&topic);
    workers.blocking_flush_acks().unwrap();
    // Write the line in one call, past the buffer of the test harness.
    let say = |what: &str, count: u64| {
        std::io::stdout().lock().write_all(format!("{what} {count} .\n").as_bytes()).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in topic.published().. {
                topic.blocking_publish(numbered(number)).unwrap();
                say("published", number + 1);
            }
        });
        scope.spawn(|| {
            let mut consumer = workers.consumer();
            loop {
                let mut batch = vec![consumer.blocking_next().unwrap()];
                batch.extend((1..BATCH).map_while(|_| consumer.try_next().unwrap()));
                workers.ack_all(batch.iter().map(|lease| lease.id));
                workers.blocking_flush_acks().unwrap();
                say("saved", batch[batch.len() - 1].position + 1);
            }
        });
    });
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u64),
    Take(usize),
    Ack(usize),
    Nack(usize),
    Save,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..4_u64).prop_map(Step::Publish),
        4 => (1..4_usize).prop_map(Step::Take),
        4 => (0..20_usize).prop_map(Step::Ack),
        1 => (0..20_usize).prop_map(Step::Nack),
        2 => Just(Step::Save),
    ]
}

/// Numbers of the messages known to be in each state.
#[derive(Default)]
struct Known {
    next: u64,
    published: BTreeSet<u64>,
    acked: BTreeSet<u64>,
    saved: BTreeSet<u64>,
}

/// Performs the steps until they are finished or the power is cut.
fn live(node: &Node, known: &mut Known, steps: &[Step]) {
    let Ok(topic) = node.store.open_topic(&node.runtime.topics(), "orders", TopicConfig::default()) else { return };
    let workers = workers(&topic);
    let (mut consumer, mut out, mut unsaved) = (workers.consumer(), Vec::new(), BTreeSet::new());
    if workers.blocking_flush_acks().is_err() {
        return;
    }
    for step in steps {
        match step {
            Step::Publish(count) => {
                let numbers = known.next..known.next + count;
                known.next = numbers.end;
                for number in numbers {
                    if topic.blocking_publish(numbered(number)).is_err() {
                        return;
                    }
                    known.published.insert(number);
                }
            }
            Step::Take(most) => out.extend((0..*most).filter_map(|_| consumer.try_next().unwrap())),
            Step::Ack(which) | Step::Nack(which) if !out.is_empty() => {
                let lease: Lease = out.swap_remove(which % out.len());
                let number = number(&lease.message);
                assert!(!known.saved.contains(&number), "{number} came again");
                if matches!(step, Step::Ack(_)) {
                    assert_eq!(consumer.ack(lease.id), AckStatus::Done);
                    known.acked.insert(number);
                    unsaved.insert(number);
                } else {
                    assert_eq!(consumer.nack(lease.id), AckStatus::Done);
                }
            }
            Step::Save if workers.blocking_flush_acks().is_err() => return,
            Step::Save => known.saved.append(&mut unsaved),
            Step::Ack(_) | Step::Nack(_) => {}
        }
        assert!(workers.account().is_exact(), "{:?}", workers.account());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whenever_the_power_goes_nothing_acknowledged_is_lost_and_nothing_saved_comes_again(
        lives in prop::collection::vec((prop::collection::vec(step(), 1..25), 0..120_u64), 1..4),
        seed in any::<u64>(),
    ) {
        let (mut disk, mut known, mut chance) = (Disk::default(), Known::default(), seed);
        workers(&Node::on(&disk).topic()).blocking_flush_acks().unwrap();
        for (steps, dies_after) in lives {
            let node = Node::on(&disk);
            disk.die_after(dies_after);
            live(&node, &mut known, &steps);
            disk = disk.cut(|| {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                chance >> 63 == 0
            });
        }

        let node = Node::on(&disk);
        let topic = node.topic();
        let workers = workers(&topic);
        let account = workers.account();
        prop_assert!(account.is_exact(), "{:?}", account);
        let left: BTreeSet<u64> = left(&workers).into_iter().collect();
        let lost: Vec<_> = known.published.iter().filter(|number| !left.contains(number) && !known.acked.contains(number)).collect();
        prop_assert!(lost.is_empty(), "lost: {:?}", lost);
        prop_assert!(left.is_disjoint(&known.saved), "{:?} came again of {:?}", left, known.saved);
        prop_assert_eq!(account.published, account.acked + left.len() as u64);
    }
}
