//! Subscribers and consumers as streams, and subscribers that feed a mailbox.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use rusm_runtime::actor::{Address, Inbox};
use rusm_runtime::topic::{AckStatus, Message, Overflow, SubscriptionConfig};
use rusm_runtime::{CallError, Config, Context, Runtime, SpawnOptions, observe};

use super::eventually::eventually;

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(message.payload()).into_owned()
}

#[test]
fn a_subscriber_is_a_stream_that_ends_with_its_topic() {
    let runtime = runtime();
    let topic = runtime.topics().find_or_create("letters").unwrap();
    let texts = runtime.block_on(|ctx| async move {
        let subscriber = topic.subscribe(Overflow::Block);
        let reader = ctx.task(|_| async move { subscriber.map(|m| text(&m)).collect::<Vec<_>>().await }).unwrap();
        for letter in ["a", "b", "c"] {
            topic.publish(Message::new(letter)).await.unwrap();
        }
        topic.close();
        reader.await
    });
    assert_eq!(texts, Ok(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
}

#[test]
fn consumers_are_streams_that_share_the_messages_of_a_subscription() {
    let runtime = runtime();
    let topic = runtime.topics().create("numbers").unwrap();
    let work = topic.find_or_create_subscription("work", SubscriptionConfig::default()).unwrap();
    let total = runtime.block_on(|ctx| async move {
        let again = topic.find_or_create_subscription("work", SubscriptionConfig::default()).unwrap();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (consumer, work) = (again.consumer(), work.clone());
                ctx.task(|_| async move {
                    let done = consumer.map(move |lease| {
                        assert_eq!(work.ack(lease.id), AckStatus::Done);
                        Ok::<_, ()>(())
                    });
                    done.try_fold(0, |count, ()| async move { Ok(count + 1) }).await
                })
                .unwrap()
            })
            .collect();
        for number in 0..1_000_u32 {
            topic.publish(Message::new(number.to_string())).await.unwrap();
        }
        topic.close();
        let mut total = 0;
        for reader in readers {
            total += reader.await.unwrap().unwrap();
        }
        assert_eq!(again.account().acked, 1_000);
        total
    });
    assert_eq!(total, 1_000);
}

#[test]
fn a_subscriber_feeds_a_mailbox_and_waits_while_it_is_full() {
    let runtime = runtime();
    let topic = runtime.topics().create("feed").unwrap();
    let (give, take) = std::sync::mpsc::channel();
    let (open, opened) = tokio::sync::oneshot::channel();
    let receiver = runtime
        .spawn_with(&SpawnOptions::default().mailbox_capacity(2), move |ctx: Context| async move {
            let mut inbox = Inbox::<String>::new();
            opened.await.unwrap();
            for _ in 0..50 {
                give.send(inbox.receive(&ctx).await).unwrap();
            }
        })
        .unwrap();
    let feeder = topic.clone();
    let parent = runtime
        .spawn(move |ctx: Context| async move {
            let forward = |message: Message| text(&message);
            feeder.subscribe(Overflow::Block).forward_to(&ctx, Address::of(receiver), forward).unwrap();
            ctx.receive_of::<()>().await;
        })
        .unwrap();
    eventually("the process that forwards subscribes", || topic.view(1).subscribers == 1);
    for number in 0..50 {
        topic.blocking_publish(Message::new(number.to_string())).unwrap();
    }
    eventually("the mailbox is full", || {
        observe::process_ref(&runtime, receiver).is_some_and(|seen| seen.mailbox_len() == 2)
    });
    // One message is with the process that forwards; the others are in the topic.
    assert!(topic.view(1).subscriptions[0].backlog >= 47, "{:?}", topic.view(1));

    runtime.try_send(parent, ()).unwrap();
    open.send(()).unwrap();
    let heard: Vec<String> =
        (0..50).map(|_| take.recv_timeout(Duration::from_mins(2)).expect("it is forwarded")).collect();
    assert_eq!(heard, (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
    // The receiver has ended, so the process that forwards ends too.
    eventually("the process that forwards ends", || topic.view(1).subscribers == 0);
}

#[test]
fn a_call_to_a_process_that_forwards_is_dropped_at_once() {
    let runtime = runtime();
    let topic = runtime.topics().create("feed").unwrap();
    let answer = runtime.block_on(move |ctx| async move {
        let to = Address::<String>::of(ctx.pid());
        let forwards = topic.subscribe(Overflow::Block).forward_to(&ctx, to, |message| text(&message)).unwrap();
        let answer = ctx.call::<u8, u8>(forwards, 1, Duration::MAX).await;
        assert_eq!(answer, Err(CallError::Dropped { to: forwards }));
        topic.publish(Message::new("on")).await.unwrap();
        ctx.receive_of::<String>().await
    });
    assert_eq!(answer, "on");
}

#[test]
fn a_topic_that_exists_is_found_with_its_bounds() {
    let runtime = runtime();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let topics = runtime.topics();
            std::thread::spawn(move || topics.find_or_create("shared").unwrap().subscribe(Overflow::Block))
        })
        .collect();
    let subscribers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(runtime.topics().find("shared").unwrap().view(0).subscribers, subscribers.len());
    let error = runtime.topics().find_or_create("").unwrap_err();
    assert_eq!(error.to_string(), "the name of a topic has 1 to 255 bytes, not 0");
}
