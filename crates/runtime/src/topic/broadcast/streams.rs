//! Subscribers as streams of `futures`, and subscribers that feed a mailbox.
//!
//! ```text
//!   Subscriber ─▶ Stream of Message        combinators of `futures` or `tokio-stream`
//!              └▶ forward_to ─▶ process ─▶ mailbox of an actor; the topic holds what the mailbox has no room for
//! ```

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};

use futures_core::Stream;

use super::Subscriber;
use crate::links::signal::Down;
use crate::process::context::Context;
use crate::process::error::SpawnError;
use crate::process::pid::Pid;
use crate::supervision::actor::{Address, Next, Unmatched, UnmatchedLog};
use crate::topic::message::Message;

/// The messages; the stream ends where [`next`](Self::next) returns an error.
///
/// ```
/// # use rusm_runtime as rusm;
/// use futures_util::StreamExt;
/// use rusm::topic::{Message, Overflow};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let news = runtime.topics().find_or_create("news")?;
/// let subscriber = news.subscribe(Overflow::Block);
/// for text in ["one", "two", "three"] {
///     news.blocking_publish(Message::new(text))?;
/// }
/// news.close();
/// let long = runtime.block_on(|_| async move {
///     let long = subscriber.filter(|message| std::future::ready(message.payload().len() > 3));
///     long.map(Message::into_payload).collect::<Vec<_>>().await
/// });
/// assert_eq!(long, ["three"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Stream for Subscriber {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Message>> {
        self.poll_ready(cx, true).map(|ready| ready.ok().map(|_| self.take_one().clone()))
    }
}

impl Subscriber {
    /// Starts a process, linked to this one, that sends to `to` what `make` creates from each message. It ends with the
    /// topic, or with the receiver.
    ///
    /// While the mailbox of the receiver is full, messages stay in the topic, and the
    /// [`Overflow`](crate::topic::Overflow) policy of the subscriber applies. For an actor of the attribute `actor`,
    /// `make` returns a variant of its message: `CacheMessage::Put { key, value }` for a method `put` of `Cache`.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// use rusm::actor::Address;
    /// use rusm::topic::{Message, Overflow};
    /// use rusm::{Config, Runtime};
    ///
    /// let runtime = Runtime::start(Config::default())?;
    /// let text = runtime.block_on(|ctx| async move {
    ///     let news = ctx.topics().find_or_create("news").expect("a valid name");
    ///     let me: Address<String> = Address::of(ctx.pid());
    ///     let text = |message: Message| String::from_utf8_lossy(message.payload()).into_owned();
    ///     news.subscribe(Overflow::Block).forward_to(&ctx, me, text).expect("there is room for a process");
    ///     news.publish(Message::new("hello")).await.expect("the topic is open");
    ///     ctx.receive_of::<String>().await
    /// });
    /// assert_eq!(text, "hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpawnError::Limit`] if the process limit is reached.
    pub fn forward_to<M: Send + 'static>(
        self,
        ctx: &Context,
        to: Address<M>,
        make: impl FnMut(Message) -> M + Send + 'static,
    ) -> Result<Pid, SpawnError> {
        ctx.spawn_link(move |ctx| forward(ctx, self, to, make))
    }
}

async fn forward<M: Send + 'static>(
    ctx: Context,
    mut subscriber: Subscriber,
    to: Address<M>,
    mut make: impl FnMut(Message) -> M + Send,
) {
    ctx.set_label(format!("{} for {}", subscriber.topic.name, to.pid()));
    ctx.monitor(to.pid());
    let mut unmatched = UnmatchedLog::default();
    while let Some(message) = next_while_alive(&ctx, &mut subscriber, &mut unmatched).await {
        to.send(&ctx, make(message)).await;
    }
}

/// Returns the next message; `None` after the end of the topic or of the receiver. This process handles no messages. While
/// it waits for room at the receiver it leaves them in its mailbox: a wait for both would not count as one in a cycle.
async fn next_while_alive(ctx: &Context, from: &mut Subscriber, unmatched: &mut UnmatchedLog) -> Option<Message> {
    poll_fn(|cx| {
        while let Poll::Ready(received) = pin!(Next::<Down>::of(ctx)).poll(cx) {
            let Err(message) = received else { return Poll::Ready(None) };
            unmatched.record(Unmatched::Warn, ctx, &message);
        }
        Pin::new(&mut *from).poll_next(cx)
    })
    .await
}
