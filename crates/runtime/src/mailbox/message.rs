//! A message: any `Send` value; a small value needs no allocation.

#![expect(unsafe_code, reason = "stores a value of any type in five words; each block states why that is sound")]

use std::any::{TypeId, type_name};
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::ptr;

use bytes::Bytes;

use crate::links::signal::{Down, Exit};
use crate::mailbox::request::Request;
use crate::mailbox::tagged::{ChargedBytes, TaggedBytes};

const WORDS: usize = 5;

/// Maximum size of a value that is sent without an allocation, in bytes.
pub const INLINE_MESSAGE_BYTES: usize = WORDS * 8;

const _: () = assert!(size_of::<ChargedBytes>() <= INLINE_MESSAGE_BYTES, "must fit without a box");

/// A value sent to a process.
///
/// Values of up to [`INLINE_MESSAGE_BYTES`] are stored in the message itself, larger values in a box. [`Bytes`] are
/// sent by reference: sending the same bytes to many processes does not copy them.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::Message;
///
/// let message = Message::new(7_u32);
/// assert!(message.is::<u32>());
/// assert_eq!(message.downcast::<String>().unwrap_err().downcast::<u32>().unwrap(), 7);
/// ```
pub struct Message {
    vtable: &'static ValueVtable,
    words: [MaybeUninit<u64>; WORDS],
}

/// Description of the erased type.
struct ValueVtable {
    id: TypeId,
    name: fn() -> &'static str,
    /// Drops the value (or its box) in `words`.
    drop: unsafe fn(*mut u64),
    /// Bytes on the heap that the value in `words` keeps alive.
    heap: unsafe fn(*const u64) -> usize,
}

struct VtableOf<T>(T);

impl<T: 'static> VtableOf<T> {
    const INLINE: bool = size_of::<T>() <= INLINE_MESSAGE_BYTES && align_of::<T>() <= align_of::<u64>();

    const VTABLE: ValueVtable =
        ValueVtable { id: TypeId::of::<T>(), name: type_name::<T>, drop: Self::drop_words, heap: Self::heap_bytes };

    unsafe fn drop_words(words: *mut u64) {
        if Self::INLINE {
            // SAFETY: the caller passes the words of a live message of this kind, which hold a `T`.
            unsafe { words.cast::<T>().drop_in_place() }
        } else {
            // SAFETY: as above, and a `T` that is not inline is held by a box.
            drop(unsafe { words.cast::<Box<T>>().read() });
        }
    }

    unsafe fn heap_bytes(words: *const u64) -> usize {
        let boxed = if Self::INLINE { 0 } else { size_of::<T>() };
        let value: *const T = if Self::INLINE {
            words.cast()
        } else {
            // SAFETY: the words of a live message of this kind hold a box of `T`.
            unsafe { &raw const **words.cast::<Box<T>>() }
        };
        // SAFETY: `value` points to a live `T`, and the type was just compared.
        boxed
            + unsafe {
                if TypeId::of::<T>() == TypeId::of::<Bytes>() {
                    (*value.cast::<Bytes>()).len()
                } else if TypeId::of::<T>() == TypeId::of::<TaggedBytes>() {
                    (*value.cast::<TaggedBytes>()).body.len()
                } else if TypeId::of::<T>() == TypeId::of::<Request<Bytes, Bytes>>() {
                    (*value.cast::<Request<Bytes, Bytes>>()).request.len()
                } else if TypeId::of::<T>() == TypeId::of::<Request<TaggedBytes, Bytes>>() {
                    (*value.cast::<Request<TaggedBytes, Bytes>>()).request.body.len()
                } else if TypeId::of::<T>() == TypeId::of::<Exit>() {
                    (*value.cast::<Exit>()).reason.text_bytes()
                } else if TypeId::of::<T>() == TypeId::of::<Down>() {
                    (*value.cast::<Down>()).reason.text_bytes()
                } else if let Some(bytes) = charged_bytes(value) {
                    bytes
                } else if TypeId::of::<T>() == TypeId::of::<Vec<u8>>() {
                    (*value.cast::<Vec<u8>>()).capacity()
                } else if TypeId::of::<T>() == TypeId::of::<String>() {
                    (*value.cast::<String>()).capacity()
                } else {
                    0
                }
            }
    }
}

/// Returns the number of bytes of a message from guest to guest; `None` for other types.
unsafe fn charged_bytes<T: 'static>(value: *const T) -> Option<usize> {
    // SAFETY: the caller passes a live `T`, and the type was just compared.
    (TypeId::of::<T>() == TypeId::of::<ChargedBytes>())
        .then(|| unsafe { (*value.cast::<ChargedBytes>()).as_ref().len() })
}

// SAFETY: the only constructor takes values that are `Send`.
unsafe impl Send for Message {}

impl Message {
    /// Creates a message that carries `value`.
    #[inline]
    pub fn new<T: Send + 'static>(value: T) -> Self {
        let mut message = MaybeUninit::uninit();
        // SAFETY: the memory has the size and alignment of a message, and the write initialises it.
        unsafe {
            Self::write_to(message.as_mut_ptr(), value);
            message.assume_init()
        }
    }

    /// Writes a message to its final place. Moving a value that was just written would stall the processor, which
    /// cannot forward several narrow stores to one wide load.
    ///
    /// # Safety
    /// `place` is writable and aligned for a message; its previous content is not dropped.
    #[inline]
    pub(crate) unsafe fn write_to<T: Send + 'static>(place: *mut Self, value: T) {
        // SAFETY: an inline `T` fits into the words and needs no more than their alignment; a box is one word.
        unsafe {
            (&raw mut (*place).vtable).write(&VtableOf::<T>::VTABLE);
            let words = &raw mut (*place).words;
            if VtableOf::<T>::INLINE {
                words.cast::<T>().write(value);
            } else {
                words.cast::<Box<T>>().write(Box::new(value));
            }
        }
    }

    /// Returns true if the value is a `T`.
    #[inline]
    pub fn is<T: 'static>(&self) -> bool {
        // Mostly both are the same static: comparing addresses is faster than comparing type ids.
        ptr::eq(self.vtable, &VtableOf::<T>::VTABLE) || self.vtable.id == TypeId::of::<T>()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Returns the message if the value is not a `T`.
    #[inline]
    pub fn downcast<T: 'static>(self) -> Result<T, Self> {
        if !self.is::<T>() {
            return Err(self);
        }
        // SAFETY: the value is a `T`, and `ManuallyDrop` prevents a second drop.
        Ok(unsafe { Self::read_from(&raw const *ManuallyDrop::new(self)) })
    }

    /// Reads the value out of the message at `place`, which must not be used afterwards.
    ///
    /// # Safety
    /// `place` points to a live message with a `T`, which is not dropped or read again.
    #[inline]
    pub(crate) unsafe fn read_from<T: 'static>(place: *const Self) -> T {
        // SAFETY: the words hold a `T`, inline or in a box as its kind says.
        unsafe {
            let words = &raw const (*place).words;
            if VtableOf::<T>::INLINE { words.cast::<T>().read() } else { *words.cast::<Box<T>>().read() }
        }
    }

    /// Returns a reference to the value, if it is a `T`.
    #[inline]
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        // SAFETY: as in `read_from`; the borrow of the message keeps the value in place.
        self.is::<T>().then(|| unsafe {
            let words = self.words.as_ptr();
            if VtableOf::<T>::INLINE { &*words.cast::<T>() } else { &**words.cast::<Box<T>>() }
        })
    }

    /// Returns the type of the value.
    pub(crate) fn type_id(&self) -> TypeId {
        self.vtable.id
    }

    /// Returns the name of the value's type, for display.
    pub fn type_name(&self) -> &'static str {
        (self.vtable.name)()
    }

    /// Returns the start of the value as text, for observers; `None` if its type has no text.
    pub(crate) fn preview(&self) -> Option<String> {
        /// Maximum number of bytes that are shown.
        const SHOWN: usize = 64;
        let bytes = |bytes: &[u8]| {
            let shown = &bytes[..bytes.len().min(SHOWN)];
            match std::str::from_utf8(shown) {
                Ok(text) => format!("{text:?}"),
                Err(_) => shown.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
            }
        };
        macro_rules! debug {
            ($($kind:ty),+) => {
                $(if let Some(value) = self.downcast_ref::<$kind>() {
                    return Some(format!("{value:?}"));
                })+
            };
        }
        debug!((), bool, char, u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);
        if let Some(text) = self.downcast_ref::<String>() {
            return Some(bytes(text.as_bytes()));
        }
        if let Some(text) = self.downcast_ref::<&'static str>() {
            return Some(bytes(text.as_bytes()));
        }
        if let Some(value) = self.downcast_ref::<Vec<u8>>() {
            return Some(bytes(value));
        }
        if let Some(value) = self.downcast_ref::<Bytes>() {
            return Some(bytes(value));
        }
        self.downcast_ref::<TaggedBytes>().map(|tagged| bytes(&tagged.body))
    }

    /// Returns the heap bytes that the value keeps alive: its box, and the contents of `Bytes`, [`TaggedBytes`],
    /// requests of either, `Vec<u8>`, `String`, and the reason of an [`Exit`] or a [`Down`].
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        // SAFETY: these are the words of a live message of this kind.
        unsafe { (self.vtable.heap)(self.words.as_ptr().cast()) }
    }
}

impl Drop for Message {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the words are live until here; `downcast` does not drop a message after taking its value.
        unsafe { (self.vtable.drop)(self.words.as_mut_ptr().cast()) }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({})", self.type_name())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::process::exit::ExitReason;
    use crate::process::pid::Pid;

    #[test]
    fn values_of_any_size_and_alignment_come_out_as_they_went_in() {
        #[repr(align(128))]
        #[derive(Debug, PartialEq)]
        struct Wide(u8);

        assert_eq!(Message::new(()).downcast::<()>().ok(), Some(()));
        assert_eq!(Message::new([7_u64; 5]).downcast::<[u64; 5]>().ok(), Some([7; 5]));
        assert_eq!(Message::new([7_u64; 50]).downcast::<[u64; 50]>().ok(), Some([7; 50]));
        assert_eq!(Message::new(Wide(3)).downcast_ref::<Wide>(), Some(&Wide(3)));
        assert_eq!(Message::new(Wide(3)).downcast::<Wide>().ok(), Some(Wide(3)));
    }

    #[test]
    fn every_value_is_dropped_once_whoever_ends_up_with_it() {
        let small = Arc::new(());
        let large = (Arc::clone(&small), [0_u64; 20]);

        drop(Message::new(Arc::clone(&small)));
        drop(Message::new(large));
        drop(Message::new(Arc::clone(&small)).downcast::<u8>());
        drop(Message::new((Arc::clone(&small), [0_u64; 20])).downcast::<(Arc<()>, [u64; 20])>());

        assert_eq!(Arc::strong_count(&small), 1);
    }

    #[test]
    fn heap_bytes_count_the_box_and_the_payload() {
        assert_eq!(Message::new(1_u64).heap_bytes(), 0);
        assert_eq!(Message::new([0_u64; 20]).heap_bytes(), 160);
        assert_eq!(Message::new(Bytes::from_static(b"hello")).heap_bytes(), 5);
        assert!(Message::new(vec![0_u8; 100]).heap_bytes() >= 100);
        let end = |reason| Message::new(Exit { from: Pid::NONE, reason }).heap_bytes();
        assert_eq!(end(ExitReason::other("no paper")), end(ExitReason::Shutdown) + 8);
    }
}
