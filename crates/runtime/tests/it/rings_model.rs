//! A ring behaves like a list with a cursor for each reader, for any sequence of operations.

use proptest::prelude::*;
use rusm_runtime::ring::{Builder, ChunkError, Policy, ReadError, Reader, Writer};

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    WriteAll(usize),
    Grant(usize, usize),
    Push,
    Read(usize, usize),
    Peek(usize, usize),
    Next(usize),
    Flush(usize),
    Join,
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40_usize).prop_map(Step::Write),
        2 => (0..40_usize).prop_map(Step::WriteAll),
        2 => (0..40_usize, 0..40_usize).prop_map(|(count, commit)| Step::Grant(count, commit)),
        2 => Just(Step::Push),
        6 => (0..4_usize, 1..40_usize).prop_map(|(reader, count)| Step::Read(reader, count)),
        3 => (0..4_usize, 0..40_usize).prop_map(|(reader, count)| Step::Peek(reader, count)),
        2 => (0..4_usize).prop_map(Step::Next),
        1 => (0..4_usize).prop_map(Step::Flush),
        2 => Just(Step::Join),
        1 => (0..4_usize).prop_map(Step::Leave),
    ]
}

/// The reference: the number of items written, and the readers with their positions.
struct Model {
    capacity: u64,
    lossy: bool,
    written: u64,
    readers: Vec<(Reader<u64>, u64)>,
}

const SEATS: usize = 3;

impl Model {
    fn room(&self) -> usize {
        let slowest = self.readers.iter().map(|(_, place)| *place).min().unwrap_or(self.written);
        if self.lossy { self.capacity as usize } else { (self.capacity - (self.written - slowest)) as usize }
    }

    fn items(&mut self, count: usize) -> Vec<u64> {
        (self.written..self.written + count as u64).collect()
    }

    fn wrote(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// Returns the number of items that the reader can get next, or an error if it must get a gap first.
    fn expected(&self, reader: usize) -> Result<usize, ()> {
        let (_, place) = self.readers[reader];
        if self.written - place > self.capacity { Err(()) } else { Ok((self.written - place) as usize) }
    }

    /// Checks a gap that was reported to a reader, and moves the reader past it.
    fn missed(&mut self, reader: usize, items: u64) {
        let (_, place) = &mut self.readers[reader];
        *place += items;
        assert!(self.lossy && items > 0 && self.written - *place <= self.capacity);
    }
}

fn run(capacity: usize, lossy: bool, steps: Vec<Step>) {
    let policy = if lossy { Policy::Lossy } else { Policy::Lossless };
    let (mut writer, subscriber) =
        Builder::new(capacity).readers_max(SEATS).policy(policy).build::<u64>().expect("the options are valid");
    let mut model = Model { capacity: capacity as u64, lossy, written: 0, readers: Vec::new() };
    for step in steps {
        let count = model.readers.len();
        match step {
            Step::Write(_) | Step::WriteAll(_) | Step::Grant(..) | Step::Push => write(&mut model, &mut writer, &step),
            Step::Read(reader, _) | Step::Peek(reader, _) | Step::Next(reader) | Step::Flush(reader)
                if reader < count =>
            {
                read(&mut model, &step);
            }
            Step::Join => match subscriber.join() {
                Ok(reader) => {
                    assert_eq!(reader.position(), model.written);
                    model.readers.push((reader, model.written));
                }
                Err(_) => assert_eq!(count, SEATS),
            },
            Step::Leave(reader) if reader < count => drop(model.readers.remove(reader)),
            _ => {}
        }
    }
    writer.close();
    for reader in 0..model.readers.len() {
        let mut items = [0; 7];
        loop {
            let (handle, place) = &mut model.readers[reader];
            match handle.try_read(&mut items) {
                Ok(read) => *place += read as u64,
                Err(ReadError::Missed { items }) => model.missed(reader, items),
                Err(error) => {
                    assert_eq!((error, *place), (ReadError::Ended, model.written));
                    break;
                }
            }
        }
    }
}

/// Writes as the step says, and compares the outcome with the model.
fn write(model: &mut Model, writer: &mut Writer<u64>, step: &Step) {
    let capacity = writer.capacity();
    match *step {
        Step::Write(size) => {
            // A lossy ring may have to write one part before it moves its readers out of the way of the rest.
            let wrote = writer.try_write(&model.items(size));
            assert_eq!(wrote, size.min(model.room()), "{step:?}");
            model.wrote(wrote);
        }
        Step::WriteAll(size) => {
            let outcome = writer.try_write_all(&model.items(size));
            let room = model.room();
            if size > capacity {
                assert_eq!(outcome, Err(ChunkError::TooLarge { chunk: size, capacity }));
            } else if size > room {
                assert_eq!(outcome, Err(ChunkError::Full { chunk: size, room }));
            } else {
                outcome.expect("there is room");
                model.wrote(size);
            }
        }
        Step::Grant(size, commit) => {
            let (items, room) = (model.items(size), model.room());
            match writer.try_grant(size) {
                Ok(mut grant) => {
                    assert!(size <= room);
                    let (one, other) = grant.slices();
                    for (place, item) in one.iter_mut().chain(other).zip(items) {
                        *place = item;
                    }
                    grant.commit(commit);
                    model.wrote(commit.min(size));
                }
                Err(_) => assert!(size > room),
            }
        }
        Step::Push => {
            let pushed = writer.try_push(model.written).is_ok();
            assert_eq!(pushed, model.room() > 0);
            model.wrote(usize::from(pushed));
        }
        _ => unreachable!("not a step of the writer"),
    }
}

/// Reads as the step says, and compares the outcome with the model.
fn read(model: &mut Model, step: &Step) {
    match *step {
        Step::Read(reader, size) => {
            let mut items = vec![0; size];
            let expected = model.expected(reader);
            match model.readers[reader].0.try_read(&mut items) {
                Ok(read) => {
                    assert_eq!(Ok(read), expected.map(|expected| expected.min(size)));
                    let (_, place) = &mut model.readers[reader];
                    assert!(items[..read].iter().copied().eq(*place..*place + read as u64));
                    *place += read as u64;
                }
                Err(ReadError::Missed { items }) => model.missed(reader, items),
                Err(error) => assert_eq!((error, expected), (ReadError::Empty, Ok(0))),
            }
        }
        Step::Peek(reader, size) => {
            let (handle, place) = &mut model.readers[reader];
            let outcome = handle.try_peek().map(|peek| {
                let seen = peek.len();
                let (one, other) = peek.slices();
                assert!(one.iter().chain(other).copied().eq(*place..*place + seen as u64));
                peek.release(size);
                *place += size.min(seen) as u64;
            });
            match outcome {
                Ok(()) => {}
                Err(ReadError::Missed { items }) => model.missed(reader, items),
                Err(error) => assert_eq!((error, *place), (ReadError::Empty, model.written)),
            }
        }
        Step::Next(reader) => {
            let (handle, place) = &mut model.readers[reader];
            match handle.try_next() {
                Ok(item) => {
                    assert_eq!(item, *place);
                    *place += 1;
                }
                Err(ReadError::Missed { items }) => model.missed(reader, items),
                Err(error) => assert_eq!((error, *place), (ReadError::Empty, model.written)),
            }
        }
        Step::Flush(reader) => model.readers[reader].0.flush(),
        _ => unreachable!("not a step of a reader"),
    }
}

proptest! {
    #[test]
    fn a_lossless_ring_is_a_list_with_cursors(power in 0..6_u32, steps in prop::collection::vec(step(), 0..120)) {
        run(1 << power, false, steps);
    }

    #[test]
    fn a_lossy_ring_is_a_list_that_forgets_and_says_how_much(
        power in 0..6_u32,
        steps in prop::collection::vec(step(), 0..120),
    ) {
        run(1 << power, true, steps);
    }
}
