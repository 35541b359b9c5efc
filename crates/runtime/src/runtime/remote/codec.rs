//! [`Portable`] values: how messages of programs become bytes for another node. Pids are translated.
//!
//! Numbers are little-endian and of fixed width. A text or a list begins with its length, a `u32`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::mailbox::tagged::TaggedBytes;
use crate::process::exit::{Detail, ExitReason};
use crate::process::pid::Pid;
use crate::runtime::panics::PanicInfo;
use crate::runtime::remote::peers::{Identity, Peers};

/// Maximum length of the texts of exit reasons that are sent, in bytes; longer texts are truncated.
const REASON_TEXT_MAX_BYTES: usize = 64 * 1024;
/// Entries that a decoder reserves room for before it has read them.
const RESERVED_MAX: usize = 1024;

/// A value that can be sent to a process of another node.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::remote::{Decoder, Encoder, Portable};
///
/// struct Order {
///     number: u64,
///     text: String,
/// }
///
/// impl Portable for Order {
///     fn encode(&self, to: &mut Encoder<'_>) {
///         self.number.encode(to);
///         self.text.encode(to);
///     }
///
///     fn decode(from: &mut Decoder<'_>) -> Option<Self> {
///         Some(Self { number: u64::decode(from)?, text: String::decode(from)? })
///     }
/// }
/// ```
pub trait Portable: Sized {
    /// Appends the value to the bytes of a message.
    fn encode(&self, to: &mut Encoder<'_>);

    /// Reads a value that [`encode`](Self::encode) wrote; `None` if the bytes are not valid.
    fn decode(from: &mut Decoder<'_>) -> Option<Self>;
}

/// Bytes of a message that is being encoded for one node.
pub struct Encoder<'a> {
    bytes: Vec<u8>,
    peers: &'a Peers,
    /// Index of the node that will decode the bytes.
    node: u32,
}

impl std::fmt::Debug for Encoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoder({} bytes)", self.bytes.len())
    }
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(peers: &'a Peers, node: u32) -> Self {
        Self { bytes: Vec::new(), peers, node }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends bytes after their length.
    ///
    /// # Panics
    /// For 4 GiB or more.
    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.put_len(bytes.len());
        self.put(bytes);
    }

    fn put_len(&mut self, len: usize) {
        let len = u32::try_from(len).expect("a part of a message is smaller than 4 GiB");
        self.put(&len.to_le_bytes());
    }
}

/// Bytes of a message that is being decoded.
pub struct Decoder<'a> {
    bytes: Bytes,
    peers: &'a Peers,
    /// Index of the node that has encoded the bytes.
    node: u32,
}

impl std::fmt::Debug for Decoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Decoder({} bytes)", self.bytes.len())
    }
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(peers: &'a Peers, node: u32, bytes: Bytes) -> Self {
        Self { bytes, peers, node }
    }

    /// Takes the next `len` bytes, without copying them; `None` if there are fewer.
    pub fn take(&mut self, len: usize) -> Option<Bytes> {
        (len <= self.bytes.len()).then(|| self.bytes.split_to(len))
    }

    /// Takes bytes that follow their length, without copying them.
    pub fn take_slice(&mut self) -> Option<Bytes> {
        let len = u32::decode(self)?;
        self.take(usize::try_from(len).ok()?)
    }

    /// Returns all remaining bytes.
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes)
    }

    /// Returns true if all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Portable for $number {
            fn encode(&self, to: &mut Encoder<'_>) {
                to.put(&self.to_le_bytes());
            }

            fn decode(from: &mut Decoder<'_>) -> Option<Self> {
                let bytes = from.take(size_of::<Self>())?;
                Some(Self::from_le_bytes(bytes[..].try_into().ok()?))
            }
        })+
    };
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl Portable for () {
    fn encode(&self, _: &mut Encoder<'_>) {}

    fn decode(_: &mut Decoder<'_>) -> Option<Self> {
        Some(())
    }
}

impl Portable for bool {
    fn encode(&self, to: &mut Encoder<'_>) {
        u8::from(*self).encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        match u8::decode(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Portable for usize {
    fn encode(&self, to: &mut Encoder<'_>) {
        (*self as u64).encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Self::try_from(u64::decode(from)?).ok()
    }
}

impl Portable for String {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.put_slice(self.as_bytes());
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Self::from_utf8(from.take_slice()?.into()).ok()
    }
}

impl Portable for Arc<str> {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.put_slice(self.as_bytes());
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        String::decode(from).map(Into::into)
    }
}

impl Portable for Bytes {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.put_slice(self);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        from.take_slice()
    }
}

impl Portable for TaggedBytes {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.tag.encode(to);
        self.body.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Self { tag: u64::decode(from)?, body: Bytes::decode(from)? })
    }
}

impl Portable for Duration {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.as_secs().encode(to);
        self.subsec_nanos().encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let (seconds, nanos) = (u64::decode(from)?, u32::decode(from)?);
        (nanos < 1_000_000_000).then(|| Self::new(seconds, nanos))
    }
}

impl<T: Portable> Portable for Option<T> {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.is_some().encode(to);
        if let Some(value) = self {
            value.encode(to);
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        if bool::decode(from)? { T::decode(from).map(Some) } else { Some(None) }
    }
}

impl<T: Portable, E: Portable> Portable for Result<T, E> {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.is_ok().encode(to);
        match self {
            Ok(value) => value.encode(to),
            Err(error) => error.encode(to),
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        if bool::decode(from)? { T::decode(from).map(Ok) } else { E::decode(from).map(Err) }
    }
}

impl<T: Portable> Portable for Vec<T> {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.put_len(self.len());
        for value in self {
            value.encode(to);
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let len = usize::try_from(u32::decode(from)?).ok()?;
        // A list of values without bytes would be as long as its sender says.
        if size_of::<T>() == 0 && len > RESERVED_MAX {
            return None;
        }
        let mut values = Self::with_capacity(len.min(RESERVED_MAX).min(from.bytes.len()));
        for _ in 0..len {
            values.push(T::decode(from)?);
        }
        Some(values)
    }
}

impl<T: Portable> Portable for Box<T> {
    fn encode(&self, to: &mut Encoder<'_>) {
        (**self).encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        T::decode(from).map(Self::new)
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Portable),+> Portable for ($($name,)+) {
            #[expect(non_snake_case, reason = "the variables have the names of their types")]
            fn encode(&self, to: &mut Encoder<'_>) {
                let ($($name,)+) = self;
                $($name.encode(to);)+
            }

            fn decode(from: &mut Decoder<'_>) -> Option<Self> {
                Some(($($name::decode(from)?,)+))
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);

/// A pid: of no process, of the sending node, of the receiving node, or of another node by its name.
impl Portable for Pid {
    fn encode(&self, to: &mut Encoder<'_>) {
        let node = match self.node() {
            0 if *self == Self::NONE => return 0_u8.encode(to),
            0 => 1_u8,
            node if node == to.node => 2,
            _ => 3,
        };
        let identity = if node == 3 { to.peers.get(self.node()).map(|peer| peer.identity.clone()) } else { None };
        if node == 3 && identity.is_none() {
            return 0_u8.encode(to);
        }
        node.encode(to);
        self.slot().encode(to);
        self.generation().encode(to);
        if let Some(identity) = identity {
            identity.name.encode(to);
            identity.boot_id.encode(to);
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let kind = u8::decode(from)?;
        if kind == 0 {
            return Some(Self::NONE);
        }
        let (slot, generation) = (u32::decode(from)?, u32::decode(from)?);
        let node = match kind {
            1 => from.node,
            2 => 0,
            3 => {
                let identity = Identity { name: Arc::decode(from)?, boot_id: u128::decode(from)? };
                if from.peers.own() == Some(&identity) { 0 } else { from.peers.intern_mentioned(&identity)? }
            }
            _ => return None,
        };
        Some(Self::from_parts(node, slot, generation))
    }
}

/// A reason without the value of its detail, and with a text of at most 64 KiB.
impl Portable for ExitReason {
    fn encode(&self, to: &mut Encoder<'_>) {
        let mut put = |number: u8, text: &str| {
            number.encode(to);
            to.put_slice(truncated(text).as_bytes());
        };
        match self {
            Self::Normal => put(0, ""),
            Self::Shutdown => put(1, ""),
            Self::ShutdownWith(detail) => put(2, detail.text()),
            Self::Killed => put(3, ""),
            Self::NoProcess => put(4, ""),
            Self::NoConnection => put(5, ""),
            Self::Panic(info) => {
                put(6, &info.message);
                info.location.as_deref().map(|location| truncated(location).to_owned()).encode(to);
            }
            Self::Other(detail) => put(7, detail.text()),
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let (number, text) = (u8::decode(from)?, String::decode(from)?);
        Some(match number {
            0 => Self::Normal,
            1 => Self::Shutdown,
            2 => Self::ShutdownWith(Detail::from(text)),
            3 => Self::Killed,
            4 => Self::NoProcess,
            5 => Self::NoConnection,
            6 => Self::Panic(Arc::new(PanicInfo { message: text, location: Option::decode(from)? })),
            7 => Self::Other(Detail::from(text)),
            _ => return None,
        })
    }
}

fn truncated(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON_TEXT_MAX_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through<T: Portable>(value: &T) -> Option<T> {
        let peers = Peers::default();
        let node = peers.intern(&Identity { name: "b".into(), boot_id: 1 }).expect("the first life");
        let mut encoder = Encoder::new(&peers, node);
        value.encode(&mut encoder);
        let mut decoder = Decoder::new(&peers, node, encoder.into_bytes().into());
        T::decode(&mut decoder).filter(|_| decoder.is_empty())
    }

    #[test]
    fn values_read_back_as_they_were() {
        let nested = (vec![Some("a".to_owned()), None], Duration::from_millis(7), Err::<u8, bool>(true));

        assert_eq!(through(&nested), Some(nested));
        assert_eq!(through(&TaggedBytes { tag: 3, body: Bytes::from_static(b"x") }).map(|tagged| tagged.tag), Some(3));
        for reason in [
            ExitReason::Normal,
            ExitReason::Killed,
            ExitReason::NoConnection,
            ExitReason::other("disk full"),
            ExitReason::ShutdownWith("drained".into()),
            ExitReason::Panic(Arc::new(PanicInfo { message: "no".to_owned(), location: Some("a.rs:1:2".to_owned()) })),
        ] {
            assert_eq!(through(&reason), Some(reason));
        }
    }

    #[test]
    fn pids_of_unknown_nodes_leave_room_for_nodes_that_connect() {
        let peers = Peers::default();
        let a = peers.intern(&Identity { name: "a".into(), boot_id: 1 }).expect("the first life");
        let mentioned = (0..1_u128 << 17).filter(|boot_id| {
            let mut forged = Encoder::new(&peers, a);
            (3_u8, (7_u32, 1_u32)).encode(&mut forged);
            (Arc::<str>::from("forged"), *boot_id).encode(&mut forged);
            Pid::decode(&mut Decoder::new(&peers, a, forged.into_bytes().into())).is_some()
        });
        assert!(mentioned.count() < 1 << 16);
        assert!(peers.intern(&Identity { name: "b".into(), boot_id: 1 }).is_some());
    }

    #[test]
    fn a_pid_of_the_sender_becomes_one_of_its_node_and_back() {
        let (here, there) = (Peers::default(), Peers::default());
        let b = here.intern(&Identity { name: "b".into(), boot_id: 1 }).expect("the first life");
        there.intern(&Identity { name: "x".into(), boot_id: 1 }).expect("another life");
        let a = there.intern(&Identity { name: "a".into(), boot_id: 1 }).expect("the second life");
        let third = here.intern(&Identity { name: "c".into(), boot_id: 9 }).expect("the second life");
        let pids = vec![Pid::local(7, 1), Pid::from_parts(b, 8, 2), Pid::from_parts(third, 9, 3), Pid::NONE];
        let mut encoder = Encoder::new(&here, b);

        pids.encode(&mut encoder);
        let decoded = Vec::<Pid>::decode(&mut Decoder::new(&there, a, encoder.into_bytes().into()));

        let c = there.intern(&Identity { name: "c".into(), boot_id: 9 }).expect("known");
        let expected = vec![Pid::from_parts(a, 7, 1), Pid::local(8, 2), Pid::from_parts(c, 9, 3), Pid::NONE];
        assert_eq!(decoded, Some(expected));
        assert!(c != a && c != 0);
    }

    #[test]
    fn bytes_that_are_not_valid_are_refused_and_reserve_little() {
        let peers = Peers::default();
        let decode =
            |bytes: &'static [u8]| Vec::<String>::decode(&mut Decoder::new(&peers, 1, Bytes::from_static(bytes)));

        assert_eq!(decode(&[255, 255, 255, 255]), None);
        assert_eq!(decode(&[1, 0, 0, 0, 9, 0, 0, 0, b'a']), None);
        assert_eq!(decode(&[1, 0, 0, 0, 1, 0, 0, 0, 0xff]), None);
        assert_eq!(Vec::<()>::decode(&mut Decoder::new(&peers, 1, Bytes::from_static(&[255; 4]))), None);
    }
}
