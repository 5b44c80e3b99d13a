//! A handshake that this side began.

use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::seal::{AwaitedResponse, Cookie, Purpose, write_mac2};
use byway_wire::{Epoch, SessionIndex};

use super::handshake::Origin;
use crate::limits::{
    AGENT_HANDSHAKE_RETRY, AGENT_HANDSHAKE_TRIES, ATTEMPT_DESTINATIONS_MAX, ATTEMPT_RESPONSE_BURST,
    ATTEMPT_RESPONSES_PER_SECOND, HANDSHAKE_RETRY, HANDSHAKE_RETRY_MAX, HANDSHAKE_TRIES, HASTY_TRIES,
};
use crate::network_path::{LocalAddress, NetworkPath};
use crate::parts::token_bucket::{Packets, TokenBucket};

/// A destination of the initiation.
#[derive(Debug)]
struct Destination {
    to: Origin,
    /// The cookie for the next initiation there.
    cookie: Option<Cookie>,
    /// Cookies that came from there since the initiation was last sent there.
    offers: u32,
}

impl Destination {
    /// True if packets of this origin come from there, whichever local address they come to.
    fn is_at(&self, origin: Origin) -> bool {
        match (self.to, origin) {
            (Origin::Address(to), Origin::Address(from)) => to.remote == from.remote,
            (to, from) => to == from,
        }
    }
}

/// An initiation under way.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) awaited: AwaitedResponse,
    /// The packet, without a cookie. The responder knows a repeated one by its `mac1`, and repeats its response.
    packet: Vec<u8>,
    pub(crate) index: SessionIndex,
    pub(crate) epoch: Epoch,
    pub(crate) began: Time,
    /// When the initiation was sent last.
    pub(crate) latest: Time,
    purpose: Purpose,
    tries: u8,
    next_try: Time,
    destinations: Vec<Destination>,
    /// True if a cookie has brought the initiation out before its time.
    was_hurried: bool,
    /// Responses that may be read: each costs two key agreements, and whoever sees the initiation can forge them.
    responses: TokenBucket<Packets>,
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
        let burst = Packets::new(ATTEMPT_RESPONSE_BURST);
        Self {
            awaited,
            packet,
            index,
            epoch,
            began: now,
            latest: now,
            purpose,
            tries: 0,
            next_try: now,
            destinations: Vec::new(),
            was_hurried: false,
            responses: TokenBucket::of_packets(ATTEMPT_RESPONSES_PER_SECOND, burst, now),
        }
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

    /// Appends the initiation as it goes to a destination: with the cookie that came from there, if one did.
    pub(crate) fn write_to(&mut self, to: Origin, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.packet);
        let known = self.destinations.iter().position(|known| known.is_at(to));
        if known.is_none() && self.destinations.len() < ATTEMPT_DESTINATIONS_MAX {
            self.destinations.push(Destination { to, cookie: None, offers: 0 });
        }
        if let Some(destination) = known.map(|place| &mut self.destinations[place]) {
            destination.offers = 0;
            if let Some(cookie) = &destination.cookie {
                write_mac2(&mut out[start..], cookie);
            }
        }
    }

    /// Returns the destination that a cookie came from. Another relay may bring it than the one that the initiation went
    /// through, if it comes from the same agent.
    pub(crate) fn destination_of(&self, from: Origin) -> Option<Origin> {
        let behind_relay = |known: &&Destination| match (known.to, from) {
            (Origin::Detour(to), Origin::Detour(from)) => to.agent == from.agent,
            _ => false,
        };
        let mut sent_to = self.destinations.iter();
        let same = sent_to.clone().find(|known| known.is_at(from));
        same.or_else(|| sent_to.find(behind_relay)).map(|known| known.to)
    }

    /// Keeps a cookie of a destination for the next initiation there; true if that leaves at once.
    ///
    /// Whoever sees the initiation can forge cookies, and nothing tells them from the true one. So the time of the next
    /// try stays as it is, but for once. Of all cookies since the last try, one is used: `draw` returns random numbers.
    pub(crate) fn add_cookie(&mut self, cookie: Cookie, from: Origin, draw: impl FnOnce() -> u32) -> bool {
        let Some(destination) = self.destinations.iter_mut().find(|known| known.is_at(from)) else {
            return false;
        };
        destination.offers = destination.offers.saturating_add(1);
        if destination.offers == 1 || draw().is_multiple_of(destination.offers) {
            destination.cookie = Some(cookie);
        }
        !core::mem::replace(&mut self.was_hurried, true)
    }

    /// Takes the cost of reading a response, if there is enough left for it.
    pub(crate) fn admits_response(&mut self, now: Time) -> bool {
        self.responses.take(Packets::new(1), now)
    }
}
