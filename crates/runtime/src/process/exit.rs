//! Exit reasons of processes, and the values that a process body may return.

use std::any::Any;
use std::fmt::{self, Display};
use std::sync::Arc;

use rusm_text::escaped;

use crate::runtime::panics::{self, PanicInfo};

/// Maximum number of bytes of a reason's text that are displayed.
const TEXT_MAX_BYTES: usize = 4096;

/// Reason why a process ended, sent to the processes that are linked to it or monitor it.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ExitReason;
///
/// # let runtime = rusm::Runtime::start(rusm::Config { log_crashes: false, ..Default::default() })?;
/// let (_, fine) = runtime.spawn_monitored(|_| async {})?;
/// let (_, failed) = runtime.spawn_monitored(|_| async { "seven".parse::<u32>().map(drop) })?;
/// let (_, panicked) = runtime.spawn_monitored(|_| async { if true { panic!("no paper") } })?;
///
/// assert_eq!(fine.wait(), ExitReason::Normal);
/// assert_eq!(failed.wait().to_string(), "invalid digit found in string");
/// assert!(matches!(panicked.wait(), ExitReason::Panic(info) if info.message == "no paper"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum ExitReason {
    /// The body of the process returned.
    Normal,
    /// The process stopped on request.
    Shutdown,
    /// The process stopped on request; the detail says why.
    ShutdownWith(Detail),
    /// The process was killed.
    Killed,
    /// The process does not exist or has already ended.
    NoProcess,
    /// The node of the process cannot be reached.
    NoConnection,
    /// The process panicked.
    Panic(Arc<PanicInfo>),
    /// The process ended for a reason that the program defines.
    Other(Detail),
}

/// Text of a reason, with an optional value for programs; cheap to clone.
///
/// Two details are equal if their texts are equal; the values are not compared.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Detail, ExitReason};
///
/// let reason = ExitReason::Other(Detail::with("disk full", 28_i32));
/// let ExitReason::Other(detail) = &reason else { unreachable!() };
/// assert_eq!((detail.text(), detail.value::<i32>()), ("disk full", Some(&28)));
/// assert_eq!(reason, ExitReason::other("disk full"));
///
/// let planned = ExitReason::ShutdownWith("the shop has moved".into());
/// assert_eq!(planned.to_string(), "shutdown: the shop has moved");
/// ```
#[derive(Clone)]
pub struct Detail(Arc<Inner>);

struct Inner {
    text: Box<str>,
    value: Option<Value>,
}

/// A value of any type. The last clone of a reason is dropped mostly inside the runtime, so a panic in the value's
/// destructor is caught here.
struct Value(Option<Box<dyn Any + Send + Sync>>);

impl Drop for Value {
    fn drop(&mut self) {
        let value = self.0.take();
        panics::contain(|| drop(value));
    }
}

impl Detail {
    /// Creates a detail with a text and a value.
    pub fn with<T: Send + Sync + 'static>(text: impl Display, value: T) -> Self {
        Self(Arc::new(Inner { text: text.to_string().into(), value: Some(Value(Some(Box::new(value)))) }))
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    fn without_value(&self) -> Self {
        if self.0.value.is_some() { self.text().into() } else { self.clone() }
    }

    /// Returns the value, if the detail has one and its type is `T`.
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

impl ExitReason {
    /// Returns true for a normal end or a shutdown: a supervisor does not restart a transient child after it.
    pub const fn is_normal(&self) -> bool {
        matches!(self, Self::Normal | Self::Shutdown | Self::ShutdownWith(_))
    }

    /// Returns the reason without the value of its detail, for a memory that must not keep values of programs alive.
    pub(crate) fn without_value(&self) -> Self {
        match self {
            Self::Other(detail) => Self::Other(detail.without_value()),
            Self::ShutdownWith(detail) => Self::ShutdownWith(detail.without_value()),
            other => other.clone(),
        }
    }

    /// Returns the number of bytes of the text.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Other(detail) | Self::ShutdownWith(detail) => detail.text().len(),
            _ => 0,
        }
    }

    /// Creates an [`Other`](Self::Other) reason from a text.
    pub fn other(reason: impl Display) -> Self {
        Self::Other(reason.to_string().into())
    }
}

/// Writes one line. Text from a guest or from a panic is [escaped](rusm_text::escape) and truncated to 4 KiB.
impl Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("normal"),
            Self::Shutdown => f.write_str("shutdown"),
            Self::ShutdownWith(why) => write!(f, "shutdown: {}", escaped(why.text()).within(TEXT_MAX_BYTES)),
            Self::Killed => f.write_str("killed"),
            Self::NoProcess => f.write_str("noproc"),
            Self::NoConnection => f.write_str("noconnection"),
            Self::Panic(info) => info.write(f),
            Self::Other(reason) => write!(f, "{}", escaped(reason.text()).within(TEXT_MAX_BYTES)),
        }
    }
}

/// Writes the same line as [`Display`]: `main` returns a reason, and Rust prints that by `Debug`.
impl fmt::Debug for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// Turns any error into an exit reason, so that `?` works in `init`. The text has the error and its sources, and the
/// error is the value of the [`Detail`](crate::Detail).
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ExitReason;
///
/// fn port(text: &str) -> Result<u16, ExitReason> {
///     Ok(text.parse::<u16>()?)
/// }
/// assert_eq!(port("http"), Err(ExitReason::other("invalid digit found in string")));
/// ```
impl<E: std::error::Error + Send + Sync + 'static> From<E> for ExitReason {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors repeat their source in their own text.
            if !text.ends_with(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self::Other(Detail::with(text, error))
    }
}

/// Returns the exit reason for a caught panic of this thread.
#[cold]
pub fn panic_reason(payload: Box<dyn Any + Send>) -> ExitReason {
    ExitReason::Panic(Arc::new(PanicInfo::of(payload)))
}

/// A value that the body of a process may return, and that becomes its exit reason.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{ExitReason, Outcome};
///
/// assert_eq!(().into_exit(), None);
/// assert_eq!(Err::<(), _>("disk full").into_exit(), Some(Box::new(ExitReason::other("disk full"))));
/// assert_eq!(Err::<(), _>(ExitReason::Shutdown).into_exit(), Some(Box::new(ExitReason::Shutdown)));
/// ```
pub trait Outcome {
    /// Returns the exit reason; `None` means [`ExitReason::Normal`]. It is boxed because other reasons are rare.
    fn into_exit(self) -> Option<Box<ExitReason>>;
}

impl Outcome for () {
    fn into_exit(self) -> Option<Box<ExitReason>> {
        None
    }
}

/// The type `!` under a name that stable Rust accepts: the return type of a body that loops forever.
type Never = <fn() -> ! as Returns>::Output;

#[doc(hidden)]
#[expect(unnameable_types, reason = "needed only to name the type `!` in stable Rust")]
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

/// An error that is an [`ExitReason`] is the reason as it is.
impl<O: Outcome, E: Display + 'static> Outcome for Result<O, E> {
    fn into_exit(self) -> Option<Box<ExitReason>> {
        let error = match self {
            Ok(outcome) => return outcome.into_exit(),
            Err(error) => error,
        };
        match (&error as &dyn Any).downcast_ref::<ExitReason>() {
            Some(reason) => reason.clone().into_exit(),
            None => Some(Box::new(ExitReason::other(error))),
        }
    }
}
