//! Frames of the WebSocket protocol (RFC 6455), as a server reads and writes them.
//!
//! ```text
//!   bytes ──▶ head, up to 14 bytes ──▶ payload, unmasked ──▶ message, once its last fragment is there
//! ```
//!
//! The decoder keeps only the head and the payload received until now, so an idle socket has no buffer.

use bytes::Bytes;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Longest payload of a control frame.
pub(super) const CONTROL_MAX: usize = 125;
/// Longest head: two bytes, eight of the length and four of the mask.
const HEAD_MAX: usize = 14;
/// Bytes reserved for a payload before they have arrived.
const RESERVED_MAX: usize = 64 * 1024;
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// A message, or a control frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Text(Utf8Bytes),
    Binary(Bytes),
    Ping(Vec<u8>),
    Pong,
    /// The end of the client's messages, with its code if it has sent one.
    Close(Option<u16>),
}

/// Reason why a client is disconnected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// Close code 1002.
    Protocol(&'static str),
    /// Close code 1007.
    NotUtf8,
    /// Close code 1009.
    TooLong { limit_bytes: usize },
    /// Close code 1013: the server holds too many bytes of messages.
    Busy,
}

/// Decodes the frames of a client.
#[derive(Debug)]
pub(super) struct Decoder {
    frame_max: usize,
    message_max: usize,
    /// The start of a head that is not complete.
    head: [u8; HEAD_MAX],
    head_len: u8,
    /// Frame with a payload that is not complete.
    frame: Option<Frame>,
    /// Kind of a message that is not complete.
    fragmented: Option<Opcode>,
    /// Payload of the message, as far as it was received.
    message: Vec<u8>,
    /// Number of bytes at its start that were found to be UTF-8.
    checked: usize,
    /// Payload of a control frame, which may come between the fragments of a message.
    control: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    is_last: bool,
    opcode: Opcode,
    left: usize,
    mask: [u8; 4],
}

impl Opcode {
    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn is_control(self) -> bool {
        self as u8 >= Self::Close as u8
    }
}

impl Decoder {
    pub(super) const fn new(frame_max: usize, message_max: usize) -> Self {
        Self {
            frame_max,
            message_max,
            head: [0; HEAD_MAX],
            head_len: 0,
            frame: None,
            fragmented: None,
            message: Vec::new(),
            checked: 0,
            control: Vec::new(),
        }
    }

    /// Returns the size of the message that is not whole.
    pub(super) const fn held_bytes(&self) -> usize {
        self.message.capacity()
    }

    /// Decodes bytes up to the end of an item, and removes them from `input`. Returns `None` if more bytes are needed.
    pub(super) fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Item>, Violation> {
        loop {
            let Some(frame) = &mut self.frame else {
                match self.read_head(input)? {
                    Some(frame) => self.frame = Some(frame),
                    None => return Ok(None),
                }
                continue;
            };
            let (payload, rest) = input.split_at(frame.left.min(input.len()));
            let target = if frame.opcode.is_control() { &mut self.control } else { &mut self.message };
            if target.is_empty() {
                target.reserve_exact(frame.left.min(RESERVED_MAX));
            }
            let start = target.len();
            target.extend_from_slice(payload);
            frame.mask = unmask(&mut target[start..], frame.mask);
            frame.left -= payload.len();
            *input = rest;
            if frame.left > 0 {
                return Ok(None);
            }
            let frame = *frame;
            self.frame = None;
            if let Some(item) = self.end_frame(frame)? {
                return Ok(Some(item));
            }
        }
    }

    /// Reads a head; `None` if more bytes are needed.
    fn read_head(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, Violation> {
        loop {
            let known = usize::from(self.head_len);
            // A whole head is parsed in the input, without a copy.
            let head = if known == 0 { *input } else { &self.head[..known] };
            let needed = match head {
                [first, second, ..] => {
                    self.check_start(*first, *second)?;
                    6 + match second & !MASKED {
                        126 => 2,
                        127 => 8,
                        _ => 0,
                    }
                }
                _ => 2,
            };
            if needed > 2 && head.len() >= needed {
                let frame = self.frame_of(&head[..needed])?;
                if known == 0 {
                    *input = &input[needed..];
                }
                self.head_len = 0;
                return Ok(Some(frame));
            }
            if input.is_empty() {
                return Ok(None);
            }
            let take = (needed - known).min(input.len());
            self.head[known..known + take].copy_from_slice(&input[..take]);
            self.head_len += take as u8;
            *input = &input[take..];
        }
    }

    /// Checks the first two bytes of a frame.
    fn check_start(&self, first: u8, second: u8) -> Result<(), Violation> {
        let protocol = |why| Err(Violation::Protocol(why));
        if first & RESERVED != 0 {
            return protocol("a reserved bit is set");
        }
        let Some(opcode) = Opcode::from_bits(first & 0x0f) else { return protocol("an opcode is reserved") };
        if second & MASKED == 0 {
            return protocol("a frame is not masked");
        }
        if opcode.is_control() {
            if first & FIN == 0 {
                return protocol("a control frame is fragmented");
            }
            if usize::from(second & !MASKED) > CONTROL_MAX {
                return protocol("a control frame is too long");
            }
        } else if (opcode == Opcode::Continuation) != self.fragmented.is_some() {
            return protocol("a fragment is out of order");
        }
        Ok(())
    }

    /// Returns the frame of a whole head, after the check of its start.
    fn frame_of(&self, head: &[u8]) -> Result<Frame, Violation> {
        let (rest, mask) = head.split_at(head.len() - 4);
        let len = match rest {
            [_, len] => u64::from(len & !MASKED),
            [_, _, len @ ..] => len.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
            _ => 0,
        };
        let opcode = Opcode::from_bits(head[0] & 0x0f).unwrap_or(Opcode::Continuation);
        let left = usize::try_from(len).unwrap_or(usize::MAX);
        if !opcode.is_control() {
            if left > self.frame_max {
                return Err(Violation::TooLong { limit_bytes: self.frame_max });
            }
            if left > self.message_max - self.message.len() {
                return Err(Violation::TooLong { limit_bytes: self.message_max });
            }
        }
        Ok(Frame { is_last: head[0] & FIN != 0, opcode, left, mask: mask.try_into().unwrap_or_default() })
    }

    /// Takes a whole frame. Returns the item that it completes.
    fn end_frame(&mut self, frame: Frame) -> Result<Option<Item>, Violation> {
        if frame.opcode.is_control() {
            let payload = std::mem::take(&mut self.control);
            return Ok(Some(match frame.opcode {
                Opcode::Ping => Item::Ping(payload),
                Opcode::Close => Item::Close(close_code(&payload)?),
                _ => Item::Pong,
            }));
        }
        let kind = self.fragmented.unwrap_or(frame.opcode);
        if !frame.is_last {
            self.fragmented = Some(kind);
            if kind == Opcode::Text {
                self.check_text()?;
            }
            return Ok(None);
        }
        (self.fragmented, self.checked) = (None, 0);
        let message = Bytes::from(std::mem::take(&mut self.message));
        Ok(Some(match kind {
            Opcode::Text => Item::Text(Utf8Bytes::try_from(message).map_err(|_invalid| Violation::NotUtf8)?),
            _ => Item::Binary(message),
        }))
    }

    /// Checks the fragments of a text. The last code point may continue in the next fragment.
    fn check_text(&mut self) -> Result<(), Violation> {
        match std::str::from_utf8(&self.message[self.checked..]) {
            Ok(text) => self.checked += text.len(),
            Err(error) if error.error_len().is_some() => return Err(Violation::NotUtf8),
            Err(error) => self.checked += error.valid_up_to(),
        }
        Ok(())
    }
}

/// Returns the code of a close frame.
fn close_code(payload: &[u8]) -> Result<Option<u16>, Violation> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(Violation::Protocol("a close code has one byte")) };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Violation::Protocol("a close code is not valid"));
    }
    if std::str::from_utf8(reason).is_err() {
        return Err(Violation::NotUtf8);
    }
    Ok(Some(code))
}

/// Applies a mask, and returns the mask for the bytes that follow.
fn unmask(bytes: &mut [u8], mut mask: [u8; 4]) -> [u8; 4] {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let len = bytes.len();
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    mask.rotate_left(len % 4);
    mask
}

/// The head of a frame of a server: its bytes, and their number.
pub(super) fn head(opcode: Opcode, payload_len: usize) -> ([u8; 10], usize) {
    let mut head = [0; 10];
    head[0] = FIN | opcode as u8;
    let len = match payload_len {
        0..=125 => {
            head[1] = payload_len as u8;
            2
        }
        126..=0xffff => {
            head[1] = 126;
            head[2..4].copy_from_slice(&(payload_len as u16).to_be_bytes());
            4
        }
        _ => {
            head[1] = 127;
            head[2..].copy_from_slice(&(payload_len as u64).to_be_bytes());
            10
        }
    };
    (head, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_goes_on_where_the_bytes_before_have_ended() {
        let mask = [1, 2, 3, 4];
        let text: Vec<u8> = (0..100).collect();
        let masked: Vec<u8> = text.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        for cut in 0..100 {
            let mut bytes = masked.clone();
            let next = unmask(&mut bytes[..cut], mask);
            unmask(&mut bytes[cut..], next);
            assert_eq!(bytes, text, "cut at {cut}");
        }
    }

    #[test]
    fn a_message_is_the_same_wherever_its_bytes_are_cut() {
        let mut bytes = vec![0x01, 0x83, 0, 0, 0, 0, b'a', 0xc3, 0xa4];
        bytes.extend([0x89, 0x81, 1, 1, 1, 1, b'p' ^ 1]);
        bytes.extend([0x80, 0xfe, 0, 200, 9, 9, 9, 9]);
        bytes.extend([b'b' ^ 9; 200]);
        let text = format!("aä{}", "b".repeat(200));
        for cut in 0..bytes.len() {
            let mut decoder = Decoder::new(1 << 20, 1 << 20);
            let mut items = Vec::new();
            for mut part in [&bytes[..cut], &bytes[cut..]] {
                while let Some(item) = decoder.decode(&mut part).expect("the frames are valid") {
                    items.push(item);
                }
                assert!(part.is_empty());
            }
            assert_eq!(items, [Item::Ping(b"p".to_vec()), Item::Text(text.as_str().into())], "cut at {cut}");
        }
    }

    #[test]
    fn an_announced_length_reserves_little() {
        let mut decoder = Decoder::new(1 << 30, 1 << 30);
        let mut head: &[u8] = &[0x82, 0xff, 0, 0, 0, 0, 0x20, 0, 0, 0, 1, 2, 3, 4];

        assert_eq!(decoder.decode(&mut head), Ok(None));
        assert!(decoder.message.capacity() <= RESERVED_MAX);
    }
}
