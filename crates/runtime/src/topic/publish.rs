//! Publishing: now or not at all, when there is room, from processes and from threads.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thiserror::Error;
use tokio::sync::oneshot;

use super::journal::{Journal, NotKept};
use super::log::{Log, Refused, Source};
use super::message::{Message, MessageError};
use super::{Shared, Topic};
use crate::ring::park;
use crate::ring::turn;

/// Why a message was not published; it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PublishError {
    /// There is no room just now; only those say it that do not wait.
    #[error(
        "topic {topic:?} is full with {messages} messages of {bytes} bytes in all, its bounds are {messages_max} and {bytes_max}"
    )]
    Full {
        /// The topic.
        topic: String,
        /// Messages in it.
        messages: u64,
        /// Bytes of them.
        bytes: usize,
        /// Messages that it holds at the most.
        messages_max: usize,
        /// Bytes that it holds at the most.
        bytes_max: usize,
        /// The message.
        message: Message,
    },
    /// It is too large, whatever the room. Its ordering key takes no more messages until it is
    /// [resumed](Topic::resume).
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A message of the key was refused, and those after it must not overtake it: publish it in another way, and
    /// [resume](Topic::resume) the key.
    #[error("ordering key {key:?} of topic {topic:?} is paused, because a message of it was refused")]
    Paused {
        /// The topic.
        topic: String,
        /// The key.
        key: String,
        /// The message.
        message: Message,
    },
    /// The publisher has as much on its way as agreed; only those say it that do not wait.
    #[error(
        "a publisher to topic {topic:?} has {messages} messages of {bytes} bytes on their way, its limits are {messages_max} and {bytes_max}"
    )]
    Limit {
        /// The topic.
        topic: String,
        /// Messages that it has taken and that are not in the topic.
        messages: usize,
        /// Bytes of them.
        bytes: usize,
        /// Messages that there may be.
        messages_max: usize,
        /// Bytes that there may be.
        bytes_max: usize,
        /// The message.
        message: Message,
    },
    /// The topic refused messages that this publisher had taken: [take](super::Publisher::take_refused) them first.
    #[error("topic {topic:?} refused {refused} messages of this publisher that were not taken back yet")]
    Unpublished {
        /// The topic.
        topic: String,
        /// Messages that were refused.
        refused: usize,
        /// The message.
        message: Message,
    },
    /// A message is taken only once it is kept on disk, and that takes a wait: use [`publish`](Topic::publish).
    #[error("topic {topic:?} keeps its messages on disk, and takes them only from those who wait")]
    Waits {
        /// The topic.
        topic: String,
        /// The message.
        message: Message,
    },
    /// The disk does not take it, or whoever keeps the topic ended in the middle. Whether it is kept is known only when the topic
    /// is opened again, unless the disk is full: then it is not.
    #[error("topic {topic:?} could not keep the message: {error}")]
    NotKept {
        /// The topic.
        topic: String,
        /// What the store says.
        error: Arc<str>,
        /// The message.
        message: Message,
    },
    /// Nobody will ever read it.
    #[error("topic {topic:?} is closed")]
    Closed {
        /// The topic.
        topic: String,
        /// The message.
        message: Message,
    },
}

impl Topic {
    /// Publishes a message, and waits for room.
    ///
    /// Once it returns, everybody who is to have the message will be given it. Those who wait are woken at the end of this
    /// process's turn.
    ///
    /// # Errors
    /// [`PublishError`], but never [`PublishError::Full`].
    pub async fn publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.checked(message.into())?);
        if let Some(journal) = &self.shared.journal {
            return self.keep(&**journal, &mut message.into_iter().collect()).await;
        }
        let mut place = Place::of(&self.shared);
        poll_fn(|cx| self.poll_publish(cx, &mut message, &mut place, true)).await
    }

    /// Publishes messages in order, and waits for room as often as it must; one lock for as many as there is room for.
    ///
    /// # Errors
    /// [`PublishError`] for the first message that is refused; those after it are left in `messages`.
    pub async fn publish_all(&self, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        if let Some(refused) = self.first_refused(messages) {
            // Those before it are published.
            let rest = messages.split_off(refused);
            let kept = Rest { messages, rest };
            self.publish_checked(kept.messages).await?;
            drop(kept);
            let Some(message) = messages.pop_front() else { return Ok(()) };
            return self.checked(message).map(drop);
        }
        self.publish_checked(messages).await
    }

    async fn publish_checked(&self, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        if let Some(journal) = &self.shared.journal {
            return self.keep(&**journal, messages).await;
        }
        let mut place = Place::of(&self.shared);
        poll_fn(|cx| self.poll_publish(cx, messages, &mut place, true)).await
    }

    /// Has messages kept on disk and published; what is not is left.
    async fn keep(&self, journal: &dyn Journal, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        let told = Kept::ask(journal, messages);
        self.kept(told.await, messages)
    }

    fn kept(&self, (mut left, outcome): Told, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        let first = left.pop_front();
        *messages = left;
        match (outcome, first) {
            (Err(refused), Some(message)) => Err(self.not_kept(refused, message)),
            _ => Ok(()),
        }
    }

    pub(super) fn not_kept(&self, refused: NotKept, message: Message) -> PublishError {
        match refused {
            NotKept::Closed => self.refusal(Refused::Closed, message),
            NotKept::Paused => self.refusal(Refused::Paused, message),
            NotKept::Failed(error) => PublishError::NotKept { topic: self.name().to_owned(), error, message },
        }
    }

    /// Publishes a message, now or not at all.
    ///
    /// # Errors
    /// [`PublishError`] hands the message back.
    #[inline]
    pub fn try_publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.checked(message.into())?);
        self.check_memory(&mut message)?;
        let (outcome, wakes) = self.shared.append(&mut message);
        if wakes {
            self.wake_soon();
        }
        match (outcome, message) {
            (Err(refused), Some(message)) => Err(self.refusal(refused, message)),
            _ => Ok(()),
        }
    }

    /// Publishes messages in order, as many as there is room for now; those that are refused are left in `messages`.
    ///
    /// # Errors
    /// [`PublishError`] for the first message that is refused, which it hands back.
    pub fn try_publish_all(&self, messages: &mut VecDeque<Message>) -> Result<(), PublishError> {
        self.check_memory(messages)?;
        let rest = self.first_refused(messages).map(|refused| messages.split_off(refused));
        let (outcome, wakes) = self.shared.append(messages);
        if wakes {
            self.wake_soon();
        }
        messages.extend(rest.into_iter().flatten());
        match (outcome, messages.pop_front()) {
            (Err(refused), Some(message)) => Err(self.refusal(refused, message)),
            // What is left begins with one that is too large.
            (_, Some(message)) => self.checked(message).map(drop),
            (_, None) => Ok(()),
        }
    }

    /// Publishes a message from a thread that may block.
    ///
    /// # Errors
    /// [`PublishError`], but never [`PublishError::Full`].
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn blocking_publish(&self, message: impl Into<Message>) -> Result<(), PublishError> {
        let mut message = Some(self.checked(message.into())?);
        if let Some(journal) = &self.shared.journal {
            let mut messages = message.into_iter().collect();
            let mut told = Kept::ask(&**journal, &mut messages);
            let told = park::block_until(None, |cx| Pin::new(&mut told).poll(cx));
            return told.map_or(Ok(()), |told| self.kept(told, &mut messages));
        }
        let mut place = Place::of(&self.shared);
        park::block_until(None, |cx| self.poll_publish(cx, &mut message, &mut place, false)).unwrap_or(Ok(()))
    }

    /// Refuses those who do not wait if messages are kept on disk.
    #[inline]
    fn check_memory(&self, messages: &mut impl Source) -> Result<(), PublishError> {
        if self.shared.journal.is_some()
            && let Some(message) = messages.take()
        {
            return Err(PublishError::Waits { topic: self.name().to_owned(), message });
        }
        Ok(())
    }

    fn first_refused(&self, messages: &VecDeque<Message>) -> Option<usize> {
        messages.iter().position(|message| self.check(message).is_err())
    }

    /// Whether the topic takes messages of this size.
    #[inline]
    pub(crate) fn check(&self, message: &Message) -> Result<(), MessageError> {
        message.check(self.shared.payload_max, self.shared.log.rules().bytes)
    }

    /// A message that is not too large; the key of one that is takes no more.
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
        place: &mut Place<'_>,
        in_turns: bool,
    ) -> Poll<Result<(), PublishError>> {
        if in_turns && !turn::may_go_on(cx) {
            return Poll::Pending;
        }
        loop {
            let (outcome, wakes) = self.shared.append(messages);
            if wakes {
                self.wake_soon();
            }
            match outcome {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(Refused::Full) => {
                    if messages.front().is_some_and(|message| place.wait(message, cx.waker())) {
                        turn::waits();
                        return Poll::Pending;
                    }
                }
                Err(refused) => {
                    let Some(message) = messages.take() else { return Poll::Ready(Ok(())) };
                    return Poll::Ready(Err(self.refusal(refused, message)));
                }
            }
        }
    }

    /// Wakes those for whom there is something: at the end of this process's turn, or now where there are no turns.
    pub(super) fn wake_soon(&self) {
        if !turn::wakes_later(&self.shared) {
            Shared::wake(&self.shared);
        }
    }

    #[cold]
    pub(super) fn refusal(&self, refused: Refused, message: Message) -> PublishError {
        let topic = self.name().to_owned();
        match refused {
            Refused::Closed => PublishError::Closed { topic, message },
            Refused::Paused => {
                PublishError::Paused { topic, key: message.key().unwrap_or_default().to_owned(), message }
            }
            Refused::Full => {
                let (fill, rules) = (self.shared.log.fill(), self.shared.log.rules());
                PublishError::Full {
                    topic,
                    messages: fill.messages,
                    bytes: fill.bytes,
                    messages_max: rules.messages,
                    bytes_max: rules.bytes,
                    message,
                }
            }
        }
    }
}

/// Puts back what is behind a message that is refused, also when nobody waits any more.
struct Rest<'a> {
    messages: &'a mut VecDeque<Message>,
    rest: VecDeque<Message>,
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.messages.append(&mut self.rest);
    }
}

/// The place of a publisher in the line of those who wait for room, given up with it.
struct Place<'a> {
    log: &'a Log,
    /// 0 as long as it has not waited.
    ticket: u64,
}

impl<'a> Place<'a> {
    fn of(topic: &'a Shared) -> Self {
        Self { log: &topic.log, ticket: 0 }
    }

    fn wait(&mut self, message: &Message, waker: &Waker) -> bool {
        self.log.wait(message, waker, &mut self.ticket)
    }
}

impl Drop for Place<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.ticket > 0 {
            self.log.leave_line(self.ticket);
        }
    }
}

/// What is left of messages, and why.
type Told = (VecDeque<Message>, Result<(), NotKept>);

/// Messages that are to be kept on disk; gives what is left of them. Dropped, it leaves them on their way.
struct Kept {
    told: oneshot::Receiver<Told>,
    /// The first of them, to be handed back should nobody ever answer.
    first: Option<Message>,
}

impl Kept {
    fn ask(journal: &dyn Journal, messages: &mut VecDeque<Message>) -> Self {
        let (tell, told) = oneshot::channel();
        let first = messages.front().cloned();
        // Who does not wait any more does not want to know.
        let reply = move |left, outcome| drop(tell.send((left, outcome)));
        journal.submit(std::mem::take(messages), Box::new(reply));
        Self { told, first }
    }
}

impl Future for Kept {
    type Output = Told;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Told> {
        if let Poll::Ready(told) = Pin::new(&mut self.told).poll(cx) {
            // Whoever has taken the messages answers, also when it ends; should it not, they were not kept.
            return Poll::Ready(
                told.unwrap_or_else(|_| (self.first.take().into_iter().collect(), Err(NotKept::Closed))),
            );
        }
        turn::waits();
        Poll::Pending
    }
}
