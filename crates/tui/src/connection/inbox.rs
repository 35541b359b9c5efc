//! Messages between the socket and the model: the newest of each replaceable kind, and a short queue of all others.
//!
//! A frame that was not drawn in time is overwritten by the next one and never queued. Answers to commands are queued
//! in order. When 64 of them wait, the socket is not read until the model has taken some.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rusm_protocol::ServerMessage;
use tokio::sync::Notify;

use crate::model::message::Msg;

/// Maximum number of queued answers.
const QUEUE_MAX: usize = 64;

/// The inbox. Clones share the same contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox(Arc<InboxState>);

#[derive(Debug, Default)]
struct InboxState {
    slots: Mutex<InboxSlots>,
    ready: Arc<Notify>,
    space: Notify,
}

#[derive(Debug, Default)]
struct InboxSlots {
    queue: VecDeque<Msg>,
    frame: Option<Msg>,
    rows: Option<Msg>,
    process: Option<Msg>,
}

impl Inbox {
    /// Creates an inbox for one more connection; [`ready`](Self::ready) of either waits for both.
    pub(crate) fn beside(&self) -> Self {
        Self(Arc::new(InboxState { ready: Arc::clone(&self.0.ready), ..InboxState::default() }))
    }

    /// Adds a message, waiting while the queue is full.
    pub(crate) async fn post(&self, msg: Msg) {
        let mut msg = Some(msg);
        loop {
            let space = self.0.space.notified();
            if let Some(taken) = msg.take() {
                msg = self.try_post(taken);
            }
            if msg.is_none() {
                return;
            }
            space.await;
        }
    }

    /// Adds a message, or returns it if the queue is full.
    fn try_post(&self, msg: Msg) -> Option<Msg> {
        let mut slots = self.0.slots.lock();
        match msg {
            Msg::Server(ServerMessage::Tick { .. }) => slots.frame = Some(msg),
            Msg::Server(ServerMessage::Rows(_)) => slots.rows = Some(msg),
            Msg::Server(ServerMessage::Process { .. }) => slots.process = Some(msg),
            Msg::Link(_) => {
                // Drop messages of the previous connection, so that they are not attributed to the new one.
                *slots = InboxSlots { queue: std::mem::take(&mut slots.queue), ..InboxSlots::default() };
                slots.queue.push_back(msg);
            }
            _ if slots.queue.len() >= QUEUE_MAX => return Some(msg),
            _ => slots.queue.push_back(msg),
        }
        self.0.ready.notify_one();
        None
    }

    /// Waits until a message is available.
    pub(crate) async fn ready(&self) {
        self.0.ready.notified().await;
    }

    /// Takes all messages, answers first.
    pub(crate) fn drain(&self) -> Vec<Msg> {
        let mut slots = self.0.slots.lock();
        let mut out: Vec<Msg> = slots.queue.drain(..).collect();
        out.extend(slots.frame.take());
        out.extend(slots.rows.take());
        out.extend(slots.process.take());
        self.0.space.notify_waiters();
        out
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::Frame;

    use super::*;
    use crate::model::message::LinkEvent;

    fn tick(seq: u64) -> Msg {
        let frame = Frame { seq, ..Frame::default() };
        Msg::Server(ServerMessage::Tick { frame: Box::new(frame) })
    }

    #[tokio::test]
    async fn the_newest_frame_wins() {
        let inbox = Inbox::default();

        for seq in 0..1000 {
            inbox.post(tick(seq)).await;
        }

        assert_eq!(inbox.drain(), [tick(999)]);
    }

    #[tokio::test]
    async fn a_new_connection_forgets_the_frames_of_the_old_one() {
        let inbox = Inbox::default();
        inbox.post(tick(1)).await;

        inbox.post(Msg::Link(LinkEvent::Connected)).await;

        assert_eq!(inbox.drain(), [Msg::Link(LinkEvent::Connected)]);
    }

    #[tokio::test]
    async fn a_full_queue_holds_the_socket_back() {
        let inbox = Inbox::default();
        for id in 0..QUEUE_MAX as u64 {
            inbox.post(Msg::Server(ServerMessage::Ack { id })).await;
        }

        let refused = inbox.try_post(Msg::Server(ServerMessage::Ack { id: 999 }));

        assert!(refused.is_some());
        assert_eq!(inbox.drain().len(), QUEUE_MAX);
    }
}
