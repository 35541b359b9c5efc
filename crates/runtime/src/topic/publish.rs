//! Publishing: without waiting, waiting for room, from processes and from threads.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thiserror::Error;
use tokio::sync::oneshot;

use super::handle::Topic;
use super::journal::{Journal, JournalError};
use super::log::{Log, Source};
use super::message::{Message, MessageError};
use super::retention::AppendError;
use super::shared::TopicShared;
use crate::stream::ring::park;
use crate::stream::ring::turn;

/// Error returned if a message was not published; hands the message back.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::topic::{Message, Overflow, PublishError, TopicConfig};
///
/// let config = TopicConfig { messages: 1, ..TopicConfig::default() };
/// let orders = runtime.topics().create_with("orders", config)?;
/// let _slow = orders.subscribe(Overflow::Block);
/// orders.try_publish(Message::new("tea"))?;
/// match orders.try_publish(Message::new("milk")) {
///     Err(PublishError::Full { message, .. }) => assert_eq!(message.payload(), "milk"), // retry it later
///     other => unreachable!("the topic is full: {other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PublishError {
    /// The topic is full. Returned only by calls that do not wait.
    #[error("topic {topic:?} is full: it has {messages} of {messages_max} messages and {bytes} of {bytes_max} bytes")]
    Full {
        /// Name of the topic.
        topic: String,
        /// Number of messages in the topic.
        messages: u64,
        /// Number of bytes in the topic.
        bytes: usize,
        /// Maximum number of messages.
        messages_max: usize,
        /// Maximum number of bytes.
        bytes_max: usize,
        /// The message.
        message: Message,
    },
    /// The message is too large for this topic. Its ordering key accepts no more messages until it is
    /// [resumed](Topic::resume).
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A message of the key was refused, and later ones must not overtake it. Publish the refused message in another
    /// way, then [resume](Topic::resume) the key.
    #[error("ordering key {key:?} of topic {topic:?} is paused, because one of its messages was refused")]
    Paused {
        /// Name of the topic.
        topic: String,
        /// The ordering key.
        key: String,
        /// The message.
        message: Message,
    },
    /// The publisher has reached its limit of outstanding messages. Returned only by calls that do not wait.
    #[error(
        "a publisher to topic {topic:?} has {messages} of {messages_max} messages and {bytes} of {bytes_max} bytes outstanding"
    )]
    Limit {
        /// Name of the topic.
        topic: String,
        /// Number of messages that the publisher has accepted and that are not in the topic.
        messages: usize,
        /// Number of their bytes.
        bytes: usize,
        /// Maximum number of outstanding messages.
        messages_max: usize,
        /// Maximum number of outstanding bytes.
        bytes_max: usize,
        /// The message.
        message: Message,
    },
    /// The topic refused earlier messages of this publisher. Call [`take_refused`](super::Publisher::take_refused)
    /// first.
    #[error("topic {topic:?} refused {refused} messages of this publisher: take them back first")]
    Unpublished {
        /// Name of the topic.
        topic: String,
        /// Number of refused messages.
        refused: usize,
        /// The message.
        message: Message,
    },
    /// The topic is durable and accepts a message only once it is stored, which needs a wait. Use
    /// [`publish`](Topic::publish).
    #[error("topic {topic:?} is durable and accepts messages only from calls that wait")]
    Waits {
        /// Name of the topic.
        topic: String,
        /// The message.
        message: Message,
    },
    /// The store failed, or the writer process of the topic ended during the commit. If the disk was full, the message
    /// is not stored; otherwise that is known only when the topic is opened again.
    #[error("topic {topic:?} could not store the message: {error}")]
    NotStored {
        /// Name of the topic.
        topic: String,
        /// Error of the store.
        error: Arc<str>,
        /// The message.
        message: Message,
    },
    /// The topic is closed, so the message would never be read.
    #[error("topic {topic:?} is closed")]
    Closed {
        /// Name of the topic.
        topic: String,
        /// The message.
        message: Message,
    },
}

impl Topic {
    /// Publishes a message, and waits for room.
    ///
    /// Once it returns, the message will be delivered to every subscription, and to every subscriber that does not
    /// drop it by its policy. Waiting readers are woken at the end of the publishing process's turn.
    ///
    /// # Errors
    /// [`PublishError`], but never [`PublishError::Full`].
    pub async fn publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.checked(message.into())?);
        if let Some(journal) = &self.shared.journal {
            return self.store(&**journal, &mut message.into_iter().collect()).await;
        }
        let mut ticket = PublishTicket::of(&self.shared);
        poll_fn(|cx| self.poll_publish(cx, &mut message, &mut ticket, true)).await
    }

    /// Publishes messages in order, and waits for room as often as necessary. Takes the lock once for all messages
    /// that fit.
    ///
    /// # Errors
    /// [`PublishError`] for the first refused message; the messages after it stay in `messages`.
    pub async fn publish_all(&self, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        if let Some(refused) = self.first_invalid(messages) {
            // Publish the messages before the refused one.
            let rest = messages.split_off(refused);
            let restore = RestoreOnDrop { messages, rest };
            self.publish_checked(restore.messages).await?;
            drop(restore);
            let Some(message) = messages.pop_front() else { return Ok(()) };
            return self.checked(message).map(drop);
        }
        self.publish_checked(messages).await
    }

    async fn publish_checked(&self, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        if let Some(journal) = &self.shared.journal {
            return self.store(&**journal, messages).await;
        }
        let mut ticket = PublishTicket::of(&self.shared);
        poll_fn(|cx| self.poll_publish(cx, messages, &mut ticket, true)).await
    }

    /// Stores and publishes messages; those that were not stored stay in `messages`.
    async fn store(&self, journal: &dyn Journal, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        let result = StoreFuture::submit(journal, messages);
        self.finish_store(result.await, messages)
    }

    fn finish_store(
        &self,
        (mut left, outcome): StoreResult,
        messages: &mut VecDeque<Message>,
    ) -> Result<(), PublishError> {
        let first = left.pop_front();
        *messages = left;
        match (outcome, first) {
            (Err(refused), Some(message)) => Err(self.journal_error(refused, message)),
            _ => Ok(()),
        }
    }

    pub(super) fn journal_error(&self, refused: JournalError, message: Message) -> PublishError {
        match refused {
            JournalError::Closed => self.to_publish_error(AppendError::Closed, message),
            JournalError::Paused => self.to_publish_error(AppendError::Paused, message),
            JournalError::Failed(error) => PublishError::NotStored { topic: self.name().to_owned(), error, message },
        }
    }

    /// Publishes a message without waiting.
    ///
    /// # Errors
    /// [`PublishError`] hands the message back.
    #[inline]
    pub fn try_publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.checked(message.into())?);
        self.check_memory(&mut message)?;
        let (outcome, wakes) = self.shared.append(&mut message);
        if wakes {
            self.wake_at_turn_end();
        }
        match (outcome, message) {
            (Err(refused), Some(message)) => Err(self.to_publish_error(refused, message)),
            _ => Ok(()),
        }
    }

    /// Publishes, without waiting and in order, the messages that fit; the rest stays in `messages`.
    ///
    /// # Errors
    /// [`PublishError`] for the first refused message, which it hands back.
    pub fn try_publish_all(&self, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        self.check_memory(messages)?;
        let rest = self.first_invalid(messages).map(|refused| messages.split_off(refused));
        let (outcome, wakes) = self.shared.append(messages);
        if wakes {
            self.wake_at_turn_end();
        }
        messages.extend(rest.into_iter().flatten());
        match (outcome, messages.pop_front()) {
            (Err(refused), Some(message)) => Err(self.to_publish_error(refused, message)),
            // The first remaining message is too large.
            (_, Some(message)) => self.checked(message).map(drop),
            (_, None) => Ok(()),
        }
    }

    /// Publishes a message, and blocks the calling thread until there is room.
    ///
    /// # Errors
    /// [`PublishError`], but never [`PublishError::Full`].
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn blocking_publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.checked(message.into())?);
        if let Some(journal) = &self.shared.journal {
            let mut messages = message.into_iter().collect();
            let mut result = StoreFuture::submit(&**journal, &mut messages);
            let result = park::block_until(None, |cx| Pin::new(&mut result).poll(cx));
            return result.map_or(Ok(()), |result| self.finish_store(result, &mut messages));
        }
        let mut ticket = PublishTicket::of(&self.shared);
        park::block_until(None, |cx| self.poll_publish(cx, &mut message, &mut ticket, false)).unwrap_or(Ok(()))
    }

    /// Returns an error if the topic is durable: its messages cannot be published without waiting.
    #[inline]
    fn check_memory(&self, messages: &mut impl Source) -> Result<(), PublishError> {
        if self.shared.journal.is_some()
            && let Some(message) = messages.take()
        {
            return Err(PublishError::Waits { topic: self.name().to_owned(), message });
        }
        Ok(())
    }

    fn first_invalid(&self, messages: &VecDeque<Message>) -> Option<usize> {
        messages.iter().position(|message| self.check(message).is_err())
    }

    /// Checks the size of a message against the bounds of the topic.
    ///
    /// # Errors
    /// [`MessageError`] with the part that is too large.
    #[inline]
    pub fn check(&self, message: &Message) -> Result<(), MessageError> {
        message.check(self.shared.payload_max, self.shared.log.limits().bytes)
    }

    /// Returns the message if its size is valid; otherwise pauses its ordering key.
    #[inline]
    pub(super) fn checked(&self, message: Message) -> Result<Message, PublishError> {
        match self.check(&message) {
            Ok(()) => Ok(message),
            Err(error) => {
                if let Some(key) = message.shared_key().filter(|_| !matches!(error, MessageError::OrderingKey { .. })) {
                    self.shared.log.lock().pause(key);
                }
                Err(error.into())
            }
        }
    }

    fn poll_publish(
        &self,
        cx: &mut Context<'_>,
        messages: &mut impl Source,
        ticket: &mut PublishTicket<'_>,
        cooperative: bool,
    ) -> Poll<Result<(), PublishError>> {
        if cooperative && !turn::may_proceed(cx) {
            return Poll::Pending;
        }
        loop {
            let (outcome, wakes) = self.shared.append(messages);
            if wakes {
                self.wake_at_turn_end();
            }
            match outcome {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(AppendError::Full) => {
                    if messages.front().is_some_and(|message| ticket.wait(message, cx.waker())) {
                        turn::record_wait();
                        return Poll::Pending;
                    }
                }
                Err(refused) => {
                    let Some(message) = messages.take() else { return Poll::Ready(Ok(())) };
                    return Poll::Ready(Err(self.to_publish_error(refused, message)));
                }
            }
        }
    }

    /// Wakes readers that have messages: at the end of the current process's turn, or now if the caller is not a
    /// process.
    pub(super) fn wake_at_turn_end(&self) {
        if !turn::defer_turn_end(&self.shared) {
            TopicShared::wake(&self.shared);
        }
    }

    #[cold]
    pub(super) fn to_publish_error(&self, refused: AppendError, message: Message) -> PublishError {
        let topic = self.name().to_owned();
        match refused {
            AppendError::Closed => PublishError::Closed { topic, message },
            AppendError::Paused => {
                PublishError::Paused { topic, key: message.key().unwrap_or_default().to_owned(), message }
            }
            AppendError::Full => {
                let (stats, limits) = (self.shared.log.stats(), self.shared.log.limits());
                PublishError::Full {
                    topic,
                    messages: stats.messages,
                    bytes: stats.bytes,
                    messages_max: limits.messages,
                    bytes_max: limits.bytes,
                    message,
                }
            }
        }
    }
}

/// Guard that puts the messages behind a refused one back, also if the future is dropped.
struct RestoreOnDrop<'a> {
    messages: &'a mut VecDeque<Message>,
    rest: VecDeque<Message>,
}

impl Drop for RestoreOnDrop<'_> {
    fn drop(&mut self) {
        self.messages.append(&mut self.rest);
    }
}

/// Position of a publisher in the line of those that wait for room. Dropping it leaves the line.
struct PublishTicket<'a> {
    log: &'a Log,
    /// 0 until the publisher has waited.
    ticket: u64,
}

impl<'a> PublishTicket<'a> {
    fn of(topic: &'a TopicShared) -> Self {
        Self { log: &topic.log, ticket: 0 }
    }

    fn wait(&mut self, message: &Message, waker: &Waker) -> bool {
        self.log.wait(message, waker, &mut self.ticket)
    }
}

impl Drop for PublishTicket<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.ticket > 0 {
            self.log.dequeue_publisher(self.ticket);
        }
    }
}

/// Messages that were not stored, and the outcome.
type StoreResult = (VecDeque<Message>, Result<(), JournalError>);

/// Future of messages that are being stored; resolves to those that were not. Dropping it does not cancel the write.
struct StoreFuture {
    result: oneshot::Receiver<StoreResult>,
    /// First message, to hand back if the reply is lost.
    first: Option<Message>,
}

impl StoreFuture {
    fn submit(journal: &dyn Journal, messages: &mut VecDeque<Message>) -> Self {
        let (sender, result) = oneshot::channel();
        let first = messages.front().cloned();
        // The receiver may have been dropped because the publisher stopped waiting.
        let reply = move |left, outcome| drop(sender.send((left, outcome)));
        journal.submit(std::mem::take(messages), Box::new(reply));
        Self { result, first }
    }
}

impl Future for StoreFuture {
    type Output = StoreResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<StoreResult> {
        if let Poll::Ready(result) = Pin::new(&mut self.result).poll(cx) {
            // The journal always replies, also when it ends. If the reply is lost regardless, the messages count as
            // not stored.
            return Poll::Ready(
                result.unwrap_or_else(|_| (self.first.take().into_iter().collect(), Err(JournalError::Closed))),
            );
        }
        turn::record_store_wait();
        Poll::Pending
    }
}
