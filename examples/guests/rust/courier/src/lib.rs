//! Carries messages from one topic of the node to another. A message is off the first one only once it is in the second, so
//! one that a courier had when it ended is carried by the next.
//!
//! ```text
//!   FROM ──next──▶ courier ──publish──▶ TO, with key and attributes, and `carried`: how many it was; then ack
//!     ▲               ├── `again` in front, at its first attempt ──▶ nack
//!     └───────────────┘
//!                     └── `stop` ──▶ ack, give up the share, and `N carried` as the last message
//! ```
//!
//! Arguments: FROM and TO, `letters` and `delivered` without them; its profile must grant both.

use rusm::Error;
use rusm::topics::{Message, Settled, Topic};

fn run(args: &[String]) -> Result<(), Error> {
    let argument = |place: usize, default| args.get(place).map_or(default, String::as_str);
    let (from, to) = (Topic(argument(0, "letters")), Topic(argument(1, "delivered")));
    rusm::label("courier");
    let mut letters = from.subscribe("courier")?;
    let mut carried = 0_u64;
    loop {
        let letter = letters.next()?;
        if letter.message.payload == b"stop" {
            said(letters.ack(letter.id)?);
            drop(letters);
            return to.publish(Message::new(format!("{carried} carried")));
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

/// A letter that was taken away meanwhile is carried by somebody else too.
fn said(settled: Settled) {
    if settled != Settled::Done {
        rusm::warn!("a letter was not settled: {settled:?}");
    }
}

rusm::actor!(run);
