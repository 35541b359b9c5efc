//! Server-sent events: a connection, a request, and a number of events.

use super::dial::dial_http;
use super::http::HttpLink;
use super::options::Target;

/// Opens a stream and reads it up to the last event required.
pub(super) async fn stream(target: &Target) -> Result<(), String> {
    let mut link = HttpLink::new(dial_http(target).await?);
    link.send(&target.request).await?;
    let mut head = link.head(&target.options.method).await?;
    if head.status >= 400 {
        return Err(format!("status {}", head.status));
    }
    if !head.is_event_stream {
        return Err("not an event stream: the content type is not text/event-stream".to_owned());
    }
    let mut events = Events::default();
    while events.count < target.options.events {
        if !link.part(&mut head.body, |bytes| events.read(bytes)).await? {
            return Err(format!("the stream ended after {} events", events.count));
        }
    }
    Ok(())
}

/// Counts events: blocks with data, each ended by an empty line.
#[derive(Debug, Default)]
struct Events {
    count: u32,
    line: Vec<u8>,
    has_data: bool,
    after_return: bool,
}

impl Events {
    fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            // A line ends with LF, CR or CRLF.
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    self.end_line();
                }
                byte => {
                    self.after_return = false;
                    // The start of a line identifies its field; the rest may be long and is not needed.
                    if self.line.len() < 8 {
                        self.line.push(*byte);
                    }
                }
            }
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            self.count += u32::from(self.has_data);
            self.has_data = false;
        } else {
            self.has_data |= self.line.starts_with(b"data:") || self.line == b"data";
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str =
        ": hello\n\ndata: one\n\nevent: x\r\ndata: two\r\ndata: more\r\n\r\nid: 3\n\ndata\r\rdata: half\n";

    proptest! {
        #[test]
        fn events_are_counted_however_the_bytes_come(cuts in prop::collection::vec(0_usize..STREAM.len(), 0..10)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let (mut events, mut start) = (Events::default(), 0);

            for cut in cuts.into_iter().chain([STREAM.len()]) {
                events.read(&STREAM.as_bytes()[start..cut]);
                start = cut;
            }

            prop_assert_eq!(events.count, 3);
        }
    }
}
