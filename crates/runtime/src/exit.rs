//! Why a process ended.

use std::any::Any;
use std::fmt::{self, Display};
use std::sync::Arc;

use rusm_text::escaped;

use crate::panics;

/// Bytes of the words of a reason that are displayed.
const WORDS_MAX_BYTES: usize = 4096;

/// Why a process ended; carried to whoever watches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It returned.
    Normal,
    /// It was asked to stop, and did.
    Shutdown,
    /// The same, with a word about why.
    ShutdownWith(Detail),
    /// It was killed.
    Killed,
    /// There is no such process (any more).
    NoProcess,
    /// The node it lives on cannot be reached.
    NoConnection,
    /// It panicked.
    Panic(Arc<PanicInfo>),
    /// It ended by a reason of its own.
    Other(Detail),
}

/// A reason in words, with a value for programs if there is one; cheap to clone.
///
/// Two are equal when their words are.
///
/// ```
/// use rusm_runtime::{Detail, ExitReason};
///
/// let reason = ExitReason::Other(Detail::with("disk full", 28_i32));
/// let ExitReason::Other(detail) = &reason else { unreachable!() };
/// assert_eq!((detail.text(), detail.value::<i32>()), ("disk full", Some(&28)));
/// assert_eq!(reason, ExitReason::other("disk full"));
/// ```
#[derive(Clone)]
pub struct Detail(Arc<Inner>);

struct Inner {
    text: Box<str>,
    value: Option<Value>,
}

/// A value of anybody's type. Reasons end wherever the last who heard of them lets go, mostly in the runtime itself: so it
/// is here that a drop which panics is caught.
struct Value(Option<Box<dyn Any + Send + Sync>>);

impl Drop for Value {
    fn drop(&mut self) {
        let value = self.0.take();
        panics::contain(|| drop(value));
    }
}

impl Detail {
    /// Words and a value.
    pub fn with<T: Send + Sync + 'static>(text: impl Display, value: T) -> Self {
        Self(Arc::new(Inner { text: text.to_string().into(), value: Some(Value(Some(Box::new(value)))) }))
    }

    /// The words.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The value, if there is one of this type.
    pub fn value<T: 'static>(&self) -> Option<&T> {
        self.0.value.as_ref()?.0.as_deref()?.downcast_ref()
    }
}

impl<S: Into<Box<str>>> From<S> for Detail {
    fn from(text: S) -> Self {
        Self(Arc::new(Inner { text: text.into(), value: None }))
    }
}

impl PartialEq for Detail {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Detail {}

impl fmt::Debug for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(), f)
    }
}

/// What a panicking process said, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicInfo {
    /// The panic's message.
    pub message: String,
    /// `file:line:column`, if known.
    pub location: Option<String>,
}

impl ExitReason {
    /// Whether the reason is one that a restart of a transient child ignores: normal or a shutdown.
    pub const fn is_normal(&self) -> bool {
        matches!(self, Self::Normal | Self::Shutdown | Self::ShutdownWith(_))
    }

    /// A reason of the process's own.
    pub fn other(reason: impl Display) -> Self {
        Self::Other(reason.to_string().into())
    }
}

/// One line: words that came from a guest or from a panic are [escaped](rusm_text::escape) and shortened to 4 KiB.
impl Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("normal"),
            Self::Shutdown => f.write_str("shutdown"),
            Self::ShutdownWith(why) => write!(f, "shutdown: {}", escaped(why.text()).within(WORDS_MAX_BYTES)),
            Self::Killed => f.write_str("killed"),
            Self::NoProcess => f.write_str("noproc"),
            Self::NoConnection => f.write_str("noconnection"),
            Self::Panic(info) => match &info.location {
                Some(location) => write!(f, "panic at {location}: {}", escaped(&info.message).within(WORDS_MAX_BYTES)),
                None => write!(f, "panic: {}", escaped(&info.message).within(WORDS_MAX_BYTES)),
            },
            Self::Other(reason) => write!(f, "{}", escaped(reason.text()).within(WORDS_MAX_BYTES)),
        }
    }
}

/// What the body of a process may return.
///
/// ```
/// use rusm_runtime::{ExitReason, Outcome};
///
/// assert_eq!(().into_exit(), None);
/// assert_eq!(Err::<(), _>("disk full").into_exit(), Some(Box::new(ExitReason::other("disk full"))));
/// ```
pub trait Outcome {
    /// The exit reason; `None` is [`ExitReason::Normal`], and boxed because it is the rare case.
    fn into_exit(self) -> Option<Box<ExitReason>>;
}

impl Outcome for () {
    fn into_exit(self) -> Option<Box<ExitReason>> {
        None
    }
}

/// The type `!` by a name that stable Rust accepts: what a body that loops for ever returns.
type Never = <fn() -> ! as Returns>::Output;

#[doc(hidden)]
#[expect(unnameable_types, reason = "only the way to name a type that has no name")]
pub trait Returns {
    type Output;
}

impl<T> Returns for fn() -> T {
    type Output = T;
}

impl Outcome for Never {
    fn into_exit(self) -> Option<Box<ExitReason>> {
        self
    }
}

impl Outcome for ExitReason {
    fn into_exit(self) -> Option<Box<ExitReason>> {
        (self != Self::Normal).then(|| Box::new(self))
    }
}

impl<O: Outcome, E: Display> Outcome for Result<O, E> {
    fn into_exit(self) -> Option<Box<ExitReason>> {
        match self {
            Ok(outcome) => outcome.into_exit(),
            Err(error) => Some(Box::new(ExitReason::other(error))),
        }
    }
}
