//! Range of keys in a page that cannot be read.

use std::fmt;

use crate::escaped;

/// Keys that are greater than `after` and less than or equal to `upto`.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::KeyRange;
///
/// let lost = KeyRange { after: Some(b"ada".to_vec()), upto: Some(b"cyd".to_vec()) };
/// assert!(!lost.contains(b"ada") && lost.contains(b"bob") && lost.contains(b"cyd"));
/// assert_eq!(lost.to_string(), "keys after `ada` up to `cyd`");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    /// The greatest key before the range; `None` if it begins with the first key.
    pub after: Option<Vec<u8>>,
    /// An upper bound of the range's keys; `None` if it ends with the last key.
    pub upto: Option<Vec<u8>>,
}

impl KeyRange {
    /// Returns a range that ends with this key; its beginning is unknown.
    pub(crate) fn of(key: &[u8]) -> Self {
        Self { after: None, upto: Some(key.to_vec()) }
    }

    /// Returns true if the range contains a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| key > after) && self.upto.as_deref().is_none_or(|upto| key <= upto)
    }
}

impl fmt::Display for KeyRange {
    /// Writes the range in words; characters other than letters, digits and punctuation are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |key: &[u8]| escaped::key(key);
        match (&self.after, &self.upto) {
            (None, None) => f.write_str("all keys"),
            (Some(after), None) => write!(f, "keys after `{}`", key(after)),
            (None, Some(upto)) => write!(f, "keys up to `{}`", key(upto)),
            (Some(after), Some(upto)) => write!(f, "keys after `{}` up to `{}`", key(after), key(upto)),
        }
    }
}
