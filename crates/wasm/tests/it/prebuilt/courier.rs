//! The prebuilt guests of each language that use topics of the node: what the SDKs document about topics must hold.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusm_runtime::topic::{
    ACK_DEADLINE_MAX, Message, Overflow, Retention, Subscriber, Subscription, SubscriptionConfig, Topic, TopicConfig,
};
use rusm_runtime::{Config, Context, Down, ExitReason, Pid, Runtime};
use rusm_wasm::{Capability, GuestOptions, Module, ModuleError, Profiles, Wasm, WasmConfig};

const PATIENCE: Duration = Duration::from_mins(1);
const COURIERS: [&str; 3] = ["rust/courier.wasm", "c/courier.wasm", "ts/courier.wasm"];
const TOPICS: [&str; 2] = ["letters", "delivered"];

/// A node with the topics of a courier, and with all that is needed to start couriers.
struct Fixture {
    runtime: Runtime,
    wasm: Wasm,
    courier: Module,
    letters: Topic,
    work: Subscription,
    delivered: Subscriber,
}

impl Fixture {
    /// Starts a node with room for `messages` messages in the topic `delivered`.
    fn with_room(guest: &str, messages: usize) -> Self {
        let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
        let mut profiles = Profiles::default();
        profiles.set("courier", [Capability::Topics].into_iter().collect());
        profiles.set_topics("courier", TOPICS);
        let wasm = Wasm::start(WasmConfig { capacity: 4, profiles, topics: true, ..WasmConfig::default() }).unwrap();
        let courier = wasm.load_file("courier", path(guest)).unwrap();
        // Messages are kept until they are read, even while there is no subscriber.
        let bounds = TopicConfig { messages: 1024, bytes: 1 << 20, retention: Retention::KeepAll };
        let letters = runtime.topics().create_with("letters", bounds).unwrap();
        let bounds = TopicConfig { messages, bytes: 1 << 20, retention: Retention::KeepAll };
        let delivered = runtime.topics().create_with("delivered", bounds).unwrap().subscribe(Overflow::Block);
        // The longest deadline: a courier meets it even on a slow machine.
        let patient = SubscriptionConfig { ack_deadline: ACK_DEADLINE_MAX, ..SubscriptionConfig::default() };
        let work = letters.create_subscription("courier", patient).unwrap();
        Self { runtime, wasm, courier, letters, work, delivered }
    }

    fn new(guest: &str) -> Self {
        Self::with_room(guest, 1024)
    }

    fn courier(&self) -> Pid {
        self.wasm.spawn(&self.runtime, &self.courier, &GuestOptions::default().profile("courier")).unwrap()
    }

    /// Starts a courier, monitored from before its first instruction; the returned channel gets its exit reason.
    fn end_of(&self, args: &[&'static str]) -> mpsc::Receiver<ExitReason> {
        let (give, take) = mpsc::channel();
        let guest = GuestOptions::default().profile("courier").args(args.iter().copied()).monitored();
        let (wasm, courier) = (self.wasm.clone(), self.courier.clone());
        let asks = |ctx: Context| async move {
            wasm.spawn_from(&ctx, &courier, &guest).unwrap();
            drop(give.send(ctx.receive_of::<Down>().await.reason));
        };
        self.runtime.spawn(asks).unwrap();
        take
    }

    fn post(&self, letters: &[&'static str]) {
        for letter in letters {
            self.letters.blocking_publish(Message::new(*letter)).unwrap();
        }
    }

    fn arrived(&mut self, count: usize) -> Vec<Message> {
        let mut arrived = Vec::new();
        eventually("all letters have arrived", || {
            arrived.extend(self.delivered.try_next().unwrap().cloned());
            arrived.len() == count
        });
        arrived
    }
}

fn path(guest: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests/prebuilt").join(guest)
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| std::str::from_utf8(message.payload()).unwrap()).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn letters_are_carried_with_everything_that_is_on_them() {
    for guest in COURIERS {
        let mut fixture = Fixture::new(guest);
        let ended = fixture.end_of(&[]);
        let letter = Message::new("tea").with_key("ann").with_attribute("from", "bob").with_attribute("from", "eve");
        fixture.letters.blocking_publish(letter).unwrap();
        fixture.post(&["", "milk", "stop"]);

        let reason = ended.recv_timeout(PATIENCE).unwrap();
        let arrived = fixture.arrived(4);

        assert_eq!(reason, ExitReason::Normal, "{guest}");
        assert_eq!(texts(&arrived), ["tea", "", "milk", "3 carried"], "{guest}");
        assert_eq!(arrived[0].key(), Some("ann"), "{guest}");
        let on_it: Vec<_> = arrived[0].attributes().iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(on_it, [("from", "bob"), ("from", "eve"), ("carried", "1")], "{guest}");
        assert_eq!((arrived[2].key(), arrived[2].attribute("carried")), (None, Some("3")), "{guest}");
        let account = fixture.work.account();
        assert!(account.is_exact(), "{guest}: {account:?}");
        assert_eq!((account.published, account.acked), (4, 4), "{guest}: {account:?}");
    }
}

#[test]
fn a_letter_that_is_given_back_comes_again() {
    for guest in COURIERS {
        let mut fixture = Fixture::new(guest);
        fixture.courier();
        fixture.post(&["again tea", "milk"]);

        let arrived = fixture.arrived(2);

        let mut words = texts(&arrived);
        words.sort_unstable();
        assert_eq!(words, ["again tea", "milk"], "{guest}");
        eventually("both are acknowledged", || fixture.work.account().acked == 2);
    }
}

#[test]
fn letters_are_bundled_and_those_posted_before_there_was_a_courier_are_carried() {
    for guest in COURIERS {
        let mut fixture = Fixture::new(guest);
        fixture.work.delete();
        fixture.post(&["bundle", "a", "b", "c"]);
        let ended = fixture.end_of(&[]);

        assert_eq!(texts(&fixture.arrived(3)), ["a", "b", "c"], "{guest}");
        fixture.post(&["hear"]);
        assert_eq!(texts(&fixture.arrived(1)), ["listening"], "{guest}");
        fixture.post(&["psst", "stop"]);
        assert_eq!(texts(&fixture.arrived(3)), ["heard psst", "psst", "4 carried"], "{guest}");
        assert_eq!(ended.recv_timeout(PATIENCE).unwrap(), ExitReason::Normal, "{guest}");

        let account = fixture.letters.subscription("courier").unwrap().account();
        assert!(account.is_exact(), "{guest}: {account:?}");
        assert_eq!((account.published, account.acked), (7, 7), "{guest}: {account:?}");
    }
}

#[test]
fn what_a_courier_had_when_it_was_killed_is_carried_by_the_next() {
    for guest in COURIERS {
        let mut fixture = Fixture::with_room(guest, 2);
        let first = fixture.courier();
        fixture.post(&["a", "b", "c"]);
        // Two messages fill `delivered`; the courier has the third in flight and waits for room.
        eventually("two are acknowledged and one is out", || {
            let account = fixture.work.account();
            (account.acked, account.outstanding) == (2, 1)
        });
        fixture.runtime.exit(first, ExitReason::Killed);
        fixture.courier();
        fixture.post(&["d"]);

        let arrived = fixture.arrived(4);

        let mut words = texts(&arrived);
        words.sort_unstable();
        assert_eq!(words, ["a", "b", "c", "d"], "{guest}");
        eventually("all are acknowledged", || fixture.work.account().acked == 4);
        assert!(fixture.work.account().is_exact(), "{guest}");
    }
}

#[test]
fn a_topic_that_was_not_granted_or_is_not_there_is_refused_in_words() {
    for guest in COURIERS {
        let fixture = Fixture::new(guest);

        let refused = fixture.end_of(&["secrets"]).recv_timeout(PATIENCE).unwrap().to_string();

        assert!(refused.contains("denied") && refused.contains("topic \"secrets\""), "{guest}: {refused}");
        fixture.runtime.topics().find("delivered").unwrap().close();
        fixture.post(&["tea"]);

        let refused = fixture.end_of(&[]).recv_timeout(PATIENCE).unwrap().to_string();

        assert!(refused.contains("no such") && refused.contains("delivered"), "{guest}: {refused}");
        assert_eq!(fixture.work.account().acked, 0, "{guest}: it did not arrive");
    }
}

#[test]
fn a_node_without_topics_does_not_load_them_and_says_why() {
    let wasm = Wasm::start(WasmConfig { capacity: 1, ..WasmConfig::default() }).unwrap();
    for guest in COURIERS {
        let error = wasm.load_file("courier", path(guest)).unwrap_err();

        assert!(
            matches!(&error, ModuleError::Imports { why, .. } if why.contains("rusm:runtime/topics")),
            "{guest}: {error}"
        );
    }
}
