//! A service that keeps values in the node's store; large values are sent and received through streams.
//!
//! ```text
//!   call, tag 1    key, 0, value      ──▶ `kept`
//!   call, tag 2    key                ──▶ the value
//!   call, tag 3    pid, key           ──▶ the number of bytes; a stream to that process carries the value
//!   call, tag 4    key, 0, new key    ──▶ `moved`, unless the key does not exist or the new one does
//!   the end of a stream               its bytes become the value of the key `stream`
//! ```
//!
//! The values are in the bucket `keeper`, which the profile must grant.

use rusm::kv::{Bucket, Commit};
use rusm::streams::{self, READER};
use rusm::{Message, Pid, Received, Tag};

/// Bucket of the values.
const VALUES: Bucket<'_> = Bucket("keeper");
/// Capacity of a stream in bytes.
const CAPACITY: u32 = 4096;

type Failure = Box<dyn std::error::Error>;

fn run() -> Result<(), Failure> {
    rusm::label("keeper");
    loop {
        match rusm::receive() {
            Received::Message(request) => {
                if let Err(error) = answer(&request) {
                    request.reply(format!("error: {error}"));
                }
            }
            Received::Opaque(name) if name == READER => {
                let Some(mut reader) = streams::accept_reader() else { continue };
                VALUES.put("stream", reader.read_to_end()?)?;
            }
            _ => {}
        }
    }
}

fn answer(request: &Message) -> Result<(), Failure> {
    match request.tag {
        Tag(1) => {
            keep(&request.body)?;
            request.reply("kept");
        }
        Tag(2) => {
            request.reply(value_of(&request.body)?);
        }
        Tag(3) => give(request)?,
        Tag(4) => {
            rename(&request.body)?;
            request.reply("moved");
        }
        Tag(other) => return Err(format!("tag {other} must be 1, 2, 3 or 4").into()),
    }
    Ok(())
}

fn keep(row: &[u8]) -> Result<(), Failure> {
    let (key, value) = halves(row)?;
    Ok(VALUES.put(key, value)?)
}

/// Moves a value atomically: no reader sees it under both keys, or under neither.
fn rename(keys: &[u8]) -> Result<(), Failure> {
    let (from, to) = halves(keys)?;
    let value = value_of(from)?;
    let commit = Commit::new().expect(VALUES, from, Some(&value)).expect(VALUES, to, None);
    if commit.put(VALUES, to, &value).delete(VALUES, from).run()? {
        Ok(())
    } else {
        Err("something has changed".into())
    }
}

fn halves(both: &[u8]) -> Result<(&[u8], &[u8]), Failure> {
    let end = both.iter().position(|byte| *byte == 0).ok_or("between key and value there is a byte 0")?;
    Ok((&both[..end], &both[end + 1..]))
}

fn value_of(key: &[u8]) -> Result<Vec<u8>, Failure> {
    Ok(VALUES.get(key)?.ok_or("no such key")?)
}

/// Replies before it writes: the caller may start to read only after the reply.
fn give(request: &Message) -> Result<(), Failure> {
    let to = Pid::from_bytes(&request.body).ok_or("a request begins with the twelve bytes of a pid")?;
    let value = value_of(&request.body[12..])?;
    let mut writer = streams::open(to, CAPACITY)?;
    request.reply(value.len().to_string());
    Ok(writer.write(&value)?)
}

rusm::actor!(run);
