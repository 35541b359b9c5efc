//! One life of a node on the link: from its start to its end.

use std::net::SocketAddr;

/// Maximum number of addresses of a node that others learn.
const ADDRESSES_MAX: usize = 8;

/// One life of a node on the link: the time of its start first, so that the older of two is the smaller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkLife {
    started_at_ms: u64,
    /// Id of the node at the transport.
    pub(super) id: String,
    /// Addresses at which the node listens. None from nodes that are older than this field.
    pub(super) addresses: Vec<SocketAddr>,
}

impl LinkLife {
    /// Creates a life. Loopback addresses count only if there are no others: from other machines, they lead elsewhere.
    pub(super) fn new(started_at_ms: u64, id: String, mut addresses: Vec<SocketAddr>) -> Self {
        if addresses.iter().any(|address| !address.ip().is_loopback()) {
            addresses.retain(|address| !address.ip().is_loopback());
        }
        addresses.truncate(ADDRESSES_MAX);
        Self { started_at_ms, id, addresses }
    }

    /// Parses the part of a key. Addresses that cannot be read are left out.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (started_at_ms, rest) = text.split_once('-')?;
        let (id, addresses) = rest.split_once('@').unwrap_or((rest, ""));
        let addresses = addresses.split(',').take(ADDRESSES_MAX).filter_map(|address| address.parse().ok());
        let started_at_ms = u64::from_str_radix(started_at_ms, 16).ok()?;
        Some(Self { started_at_ms, id: id.to_owned(), addresses: addresses.collect() })
    }

    /// Returns the part of a key.
    pub(super) fn key(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let at = if addresses.is_empty() { "" } else { "@" };
        format!("{:x}-{}{at}{}", self.started_at_ms, self.id, addresses.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_reads_back_from_its_key() {
        let old = LinkLife::new(0x18f, "a0c4".to_owned(), Vec::new());
        assert_eq!((old.key().as_str(), LinkLife::parse("18f-a0c4")), ("18f-a0c4", Some(old)));
        let addresses = ["10.0.0.4:7447", "[fd00::1]:7447"].map(|address| address.parse().unwrap());
        let life = LinkLife::new(1, "a0c4".to_owned(), addresses.to_vec());
        let key = "1-a0c4@10.0.0.4:7447,[fd00::1]:7447";
        assert_eq!((life.key().as_str(), LinkLife::parse(key)), (key, Some(life)));

        assert_eq!(LinkLife::parse("a0c4"), None);
        assert_eq!(LinkLife::parse("1-a@wrong,10.0.0.4:1").unwrap().addresses.len(), 1);
    }

    #[test]
    fn loopback_addresses_are_not_told_beside_others() {
        let all = ["127.0.0.1:7447", "10.0.0.4:7447"].map(|address| address.parse().unwrap());
        assert_eq!(LinkLife::new(1, "a".to_owned(), all.to_vec()).addresses, all[1..]);
        assert_eq!(LinkLife::new(1, "a".to_owned(), all[..1].to_vec()).addresses, all[..1]);
    }
}
