//! A handshake that this side began.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::seal::{AwaitedResponse, Cookie, write_mac2};
use byway_wire::{Epoch, SessionIndex};

use crate::limits::{HANDSHAKE_RETRY, HANDSHAKE_RETRY_MAX, HANDSHAKE_TRIES};

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
    tries: u8,
    next_try: Time,
}

impl Attempt {
    pub(crate) fn new(
        awaited: AwaitedResponse,
        packet: Vec<u8>,
        index: SessionIndex,
        epoch: Epoch,
        now: Time,
    ) -> Self {
        Self { awaited, packet, index, epoch, began: now, latest: now, tries: 0, next_try: now }
    }

    /// When the initiation is sent next, or the attempt given up.
    pub(crate) const fn deadline(&self) -> Time {
        self.next_try
    }

    /// Whether another attempt, with a new stamp and new keys, has to follow.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.tries == HANDSHAKE_TRIES
    }

    /// Notes that the initiation is sent, and plans the next time: each wait is twice the last, up to a second.
    pub(crate) fn sent(&mut self, now: Time) {
        self.next_try = now + (HANDSHAKE_RETRY * (1 << self.tries)).min(HANDSHAKE_RETRY_MAX);
        self.tries += 1;
        self.latest = now;
    }

    /// Puts a cookie on the initiation, which is then due at once.
    pub(crate) fn add_cookie(&mut self, cookie: &Cookie, now: Time) {
        write_mac2(&mut self.packet, cookie);
        self.next_try = now;
    }
}
