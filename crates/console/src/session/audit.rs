//! Audit log of one client: one line for each command that changes the node, or that reads keys of a store.
//!
//! A client without permission for such commands could fill the log with them. Therefore a line holds at most 256 bytes
//! of the command, and refused commands are logged only a few times a second; the next line reports how many were
//! omitted.

use std::fmt::Debug;
use std::time::Instant;

use rusm_protocol::Role;
use rusm_text::escaped;

use super::peer::Peer;
use crate::rate_limit::TokenBucket;

/// Bytes of a command that a line shows.
const COMMAND_MAX_BYTES: usize = 256;
/// Log lines per second about refused commands of one client.
const REFUSALS_PER_SEC: u32 = 2;

/// Audit log of one client.
#[derive(Debug)]
pub(super) struct Audit {
    refusals: TokenBucket,
    unlogged: u64,
}

impl Audit {
    pub(super) fn new(now: Instant) -> Self {
        Self { refusals: TokenBucket::new(REFUSALS_PER_SEC, now), unlogged: 0 }
    }

    /// Logs a command; returns true if the client has permission for it.
    pub(super) fn log(
        &mut self,
        peer: &Peer,
        command: &dyn Debug,
        shared_bucket: &mut TokenBucket,
        now: Instant,
    ) -> bool {
        let Peer { name: client, role } = peer;
        let is_allowed = *role == Role::Control;
        let is_logged = is_allowed || self.refusals.take(now) && shared_bucket.take(now);
        if !is_logged {
            self.unlogged += 1;
            return is_allowed;
        }
        let command = beginning(command);
        let unlogged = Some(std::mem::take(&mut self.unlogged)).filter(|unlogged| *unlogged != 0);
        tracing::info!(
            target: "rusm::audit", client, ?role, allowed = is_allowed, %command, unlogged, "control command"
        );
        is_allowed
    }
}

/// Returns the beginning of a command as text.
fn beginning(command: &dyn Debug) -> String {
    escaped(format_args!("{command:?}")).within(COMMAND_MAX_BYTES).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rate_limit::ALL_REFUSALS_PER_SEC;

    #[test]
    fn a_line_shows_the_beginning_of_a_command() {
        assert_eq!(beginning(&"short\n"), "\"short\\n\"");
        let long = beginning(&"é\u{1b}".repeat(30_000));
        assert!(long.ends_with('…') && long.len() <= COMMAND_MAX_BYTES, "{}", long.len());
    }

    #[test]
    fn refused_commands_are_logged_a_few_times_a_second() {
        let start = Instant::now();
        let (mut audit, mut shared_bucket) = (Audit::new(start), TokenBucket::new(ALL_REFUSALS_PER_SEC, start));
        let peer = |role| Peer { name: "127.0.0.1:9".to_owned(), role };

        for _ in 0..100 {
            assert!(!audit.log(&peer(Role::Observe), &"stop", &mut shared_bucket, start));
        }
        assert_eq!(audit.unlogged, 98);
        assert!(!audit.log(&peer(Role::Observe), &"stop", &mut shared_bucket, start + Duration::from_secs(1)));
        assert_eq!(audit.unlogged, 0, "the next line says how many were not logged");
        assert!((0..100).all(|_| audit.log(&peer(Role::Control), &"stop", &mut shared_bucket, start)));
        assert_eq!(audit.unlogged, 0);
    }
}
