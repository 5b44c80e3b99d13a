//! A handshake that this side began.

use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::seal::{AwaitedResponse, Cookie, Purpose, write_mac2};
use byway_wire::{Epoch, SessionIndex};

use crate::limits::{
    AGENT_HANDSHAKE_RETRY, AGENT_HANDSHAKE_TRIES, HANDSHAKE_RETRY, HANDSHAKE_RETRY_MAX, HANDSHAKE_TRIES,
    HASTY_TRIES,
};
use crate::network_path::{LocalAddress, NetworkPath};

/// An initiation under way.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) awaited: AwaitedResponse,
    /// The packet. It is sent again as it is: the responder knows it by its bytes, and repeats its response.
    pub(crate) packet: Vec<u8>,
    pub(crate) index: SessionIndex,
    pub(crate) epoch: Epoch,
    pub(crate) began: Time,
    /// When the initiation was sent last.
    pub(crate) latest: Time,
    purpose: Purpose,
    tries: u8,
    next_try: Time,
}

impl Attempt {
    pub(crate) fn new(
        awaited: AwaitedResponse,
        packet: Vec<u8>,
        index: SessionIndex,
        epoch: Epoch,
        purpose: Purpose,
        now: Time,
    ) -> Self {
        Self { awaited, packet, index, epoch, began: now, latest: now, purpose, tries: 0, next_try: now }
    }

    /// When the initiation is sent next, or the attempt given up.
    pub(crate) const fn deadline(&self) -> Time {
        self.next_try
    }

    /// Whether another attempt, with a new stamp and new keys, has to follow.
    pub(crate) const fn is_exhausted(&self) -> bool {
        let tries = if self.is_between_agents() { AGENT_HANDSHAKE_TRIES } else { HANDSHAKE_TRIES };
        self.tries == tries
    }

    const fn is_between_agents(&self) -> bool {
        matches!(self.purpose, Purpose::EndToEnd)
    }

    /// Returns the time until the initiation is repeated: twice the last, up to a second; between agents, the first
    /// repetitions follow fast.
    fn wait(&self) -> Duration {
        let tries = u32::from(self.tries);
        let wait = if self.is_between_agents() {
            AGENT_HANDSHAKE_RETRY * (1 << tries.saturating_sub(HASTY_TRIES - 1))
        } else {
            HANDSHAKE_RETRY * (1 << tries)
        };
        wait.min(HANDSHAKE_RETRY_MAX)
    }

    /// Notes that the initiation is sent, and plans the next time.
    pub(crate) fn sent(&mut self, now: Time) {
        self.next_try = now + self.wait();
        self.tries += 1;
        self.latest = now;
    }

    /// Returns the path to the address in use that the latest try takes. Every other leaves by what the system chooses: the local
    /// address that the session has used may lead nowhere any more.
    pub(crate) const fn path(&self, in_use: &NetworkPath) -> NetworkPath {
        let local = if self.tries.is_multiple_of(2) { LocalAddress::ANY } else { in_use.local };
        NetworkPath { remote: in_use.remote, local }
    }

    /// Puts a cookie on the initiation, which is then due at once.
    pub(crate) fn add_cookie(&mut self, cookie: &Cookie, now: Time) {
        write_mac2(&mut self.packet, cookie);
        self.next_try = now;
    }
}
