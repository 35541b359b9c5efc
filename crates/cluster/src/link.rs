//! The transport between nodes: a trait, and its implementations.

mod contract;
#[cfg(feature = "zenoh")]
mod credentials;
#[cfg(any(test, feature = "zenoh"))]
mod life;
mod memory;
#[cfg(feature = "zenoh")]
mod network;
#[cfg(any(test, feature = "zenoh"))]
mod redial;
#[cfg(feature = "zenoh")]
mod secret;
mod settings;
#[cfg(any(test, feature = "zenoh"))]
mod sightings;
#[cfg(feature = "zenoh")]
mod transport;

pub use contract::{Link, LinkError, LinkEvents, LinkStatus};
pub use memory::{MemoryLink, MemoryNetwork};
#[cfg(feature = "zenoh")]
pub use network::NetworkLink;
#[cfg(feature = "zenoh")]
pub use secret::secret_file;
#[cfg(feature = "certificates")]
pub(crate) use settings::check_key;
pub use settings::{Certificates, NetworkSettings, SECRET_PREFIX};
