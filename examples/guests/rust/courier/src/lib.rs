//! Forwards messages from one topic of the node to another. A message is acknowledged in the first topic only after it
//! was published to the second, so another courier forwards what a courier had leased when it ended.
//!
//! ```text
//!   FROM ──next──▶ courier ──publish──▶ TO, with key and attributes, and its number as `carried`; then ack
//!     ▲               ├── begins with `again`, first attempt ──▶ nack
//!     └───────────────┘
//!                     ├── `bundle` ──▶ forwards all waiting messages as one batch
//!                     ├── `hear` ──▶ publishes `listening`, then the next message published to FROM, as `heard …`
//!                     └── `stop` ──▶ ack, unsubscribe, and publish `N carried` as the last message
//! ```
//!
//! Arguments: FROM and TO, by default `letters` and `delivered`. The profile must grant both topics.

use rusm::Error;
use std::time::Duration;

use rusm::topics::{Message, Options, Overflow, Settled, Topic};

/// Acknowledgement deadline, long enough that a slow courier keeps its lease.
const PATIENCE: Duration = Duration::from_secs(600);

fn run(args: &[String]) -> Result<(), Error> {
    let argument = |place: usize, default| args.get(place).map_or(default, String::as_str);
    let (from, to) = (Topic(argument(0, "letters")), Topic(argument(1, "delivered")));
    rusm::label("courier");
    // Also forward messages published before the first courier started, and keep the order within a key.
    let options = Options { ordered: true, oldest: true, ack_deadline: Some(PATIENCE), dead_letter: None };
    let mut letters = from.subscribe_with("courier", options)?;
    let mut carried = 0_u64;
    loop {
        let letter = letters.next()?;
        if letter.message.payload == b"stop" {
            said(letters.ack(letter.id)?);
            drop(letters);
            return to.publish(Message::new(format!("{carried} carried")));
        }
        if letter.message.payload == b"bundle" {
            said(letters.extend(letter.id, Duration::from_secs(1))?);
            let bundle = letters.next_batch(100)?;
            let ids: Vec<_> = bundle.iter().map(|one| one.id).collect();
            carried += bundle.len() as u64;
            to.publish_all(bundle.into_iter().map(|one| one.message))?;
            letters.ack_all(ids)?;
            said(letters.ack(letter.id)?);
            continue;
        }
        if letter.message.payload == b"hear" {
            let mut listener = from.listen(Overflow::DropOldest(8))?;
            to.publish(Message::new("listening"))?;
            let heard = listener.hear()?;
            to.publish(Message::new([b"heard ", &heard.payload[..]].concat()))?;
            said(letters.ack(letter.id)?);
            continue;
        }
        if letter.attempt == 1 && letter.message.payload.starts_with(b"again") {
            said(letters.nack(letter.id)?);
            continue;
        }
        carried += 1;
        to.publish(letter.message.attribute("carried", carried.to_string()))?;
        said(letters.ack(letter.id)?);
    }
}

/// Logs a message that this courier no longer had leased: another courier forwards it again.
fn said(settled: Settled) {
    if settled != Settled::Done {
        rusm::warn!("a letter was not settled: {settled:?}");
    }
}

rusm::actor!(run);
