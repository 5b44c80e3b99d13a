//! Handshake that this side has begun, until its response arrives.

use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::seal::{AwaitedResponse, Cookie, Purpose, write_mac2};
use byway_wire::{Epoch, SessionIndex};

use super::handshake::Route;
use crate::limits::{
    AGENT_HANDSHAKE_RETRY, AGENT_HANDSHAKE_TRIES, HANDSHAKE_RETRY, HANDSHAKE_RETRY_MAX, HANDSHAKE_TRIES,
    HASTY_TRIES, INITIATION_DESTINATIONS_MAX, INITIATION_RESPONSE_BURST, INITIATION_RESPONSES_PER_SECOND,
};
use crate::network_path::NetworkPath;
use crate::parts::token_bucket::{Packets, TokenBucket};

/// Destination to which the initiation of a pending handshake was sent.
#[derive(Debug)]
struct Destination {
    to: Route,
    /// Cookie that the next initiation to this destination contains.
    cookie: Option<Cookie>,
    /// Number of cookies received from the destination since the last initiation to it.
    cookies_received: u32,
}

impl Destination {
    /// True if a packet of this origin comes from the destination, at any local address of the same
    /// uplink.
    fn is_at(&self, origin: Route) -> bool {
        match (self.to, origin) {
            (Route::Direct(to), Route::Direct(from)) => to.is_same_route(&from),
            (to, from) => to == from,
        }
    }
}

/// Handshake that this side has begun and the peer has not answered. The initiation is repeated
/// until its tries are used up.
#[derive(Debug)]
pub(crate) struct PendingHandshake {
    pub(crate) awaited: AwaitedResponse,
    /// Initiation packet without a cookie, which is the same in each try. The responder recognises
    /// a repetition by its `mac1`, and repeats its response.
    packet: Vec<u8>,
    pub(crate) index: SessionIndex,
    pub(crate) epoch: Epoch,
    pub(crate) began: Time,
    /// Time of the last initiation that was sent.
    pub(crate) latest: Time,
    purpose: Purpose,
    tries: u8,
    next_try: Time,
    destinations: Vec<Destination>,
    /// True if a cookie has triggered an initiation before its time.
    was_hurried: bool,
    /// Limit of the responses that are read: each costs two key agreements, and anyone who sees the
    /// initiation can forge them.
    responses: TokenBucket<Packets>,
}

impl PendingHandshake {
    pub(crate) fn new(
        awaited: AwaitedResponse,
        packet: Vec<u8>,
        index: SessionIndex,
        epoch: Epoch,
        purpose: Purpose,
        now: Time,
    ) -> Self {
        let burst = Packets::new(INITIATION_RESPONSE_BURST);
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
            responses: TokenBucket::of_packets(INITIATION_RESPONSES_PER_SECOND, burst, now),
        }
    }

    /// Returns the time of the next initiation, or after the last try the time to give up.
    pub(crate) const fn deadline(&self) -> Time {
        self.next_try
    }

    /// True if all tries are used up. Then another handshake has to follow, with a new timestamp
    /// and new keys.
    pub(crate) const fn is_exhausted(&self) -> bool {
        let tries = if self.is_between_agents() { AGENT_HANDSHAKE_TRIES } else { HANDSHAKE_TRIES };
        self.tries == tries
    }

    const fn is_between_agents(&self) -> bool {
        matches!(self.purpose, Purpose::EndToEnd)
    }

    /// Returns the time from this initiation to its repetition: twice the previous one, up to a
    /// second. Between agents, the first repetitions are faster.
    fn retry_interval(&self) -> Duration {
        let tries = u32::from(self.tries);
        let wait = if self.is_between_agents() {
            AGENT_HANDSHAKE_RETRY * (1 << tries.saturating_sub(HASTY_TRIES - 1))
        } else {
            HANDSHAKE_RETRY * (1 << tries)
        };
        wait.min(HANDSHAKE_RETRY_MAX)
    }

    /// Records that the initiation is sent now, and sets the time of the next try.
    pub(crate) fn on_sent(&mut self, now: Time) {
        self.next_try = now + self.retry_interval();
        self.tries += 1;
        self.latest = now;
    }

    /// Returns the path of this try to the address in use. Every other try leaves the local address
    /// to the system, because that of the session may be obsolete.
    pub(crate) const fn path(&self, in_use: &NetworkPath) -> NetworkPath {
        let any = NetworkPath::by(in_use.local.uplink(), in_use.remote);
        if self.tries.is_multiple_of(2) { any } else { *in_use }
    }

    /// True until the initiation was sent a second time.
    pub(crate) const fn is_first_try(&self) -> bool {
        self.tries <= 1
    }

    /// Appends to `out` the initiation for a destination, with the cookie that the destination
    /// sent, if any.
    pub(crate) fn write_to(&mut self, to: Route, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.packet);
        let known = self.destinations.iter().position(|known| known.is_at(to));
        if known.is_none() && self.destinations.len() < INITIATION_DESTINATIONS_MAX {
            self.destinations.push(Destination { to, cookie: None, cookies_received: 0 });
        }
        if let Some(destination) = known.map(|index| &mut self.destinations[index]) {
            destination.cookies_received = 0;
            if let Some(cookie) = &destination.cookie {
                write_mac2(&mut out[start..], cookie);
            }
        }
    }

    /// Returns the destination to which a cookie from this origin belongs; `None` if the initiation
    /// was not sent there. It may arrive through another relay, if it is from the same agent.
    pub(crate) fn destination_of(&self, from: Route) -> Option<Route> {
        let behind_relay = |known: &&Destination| match (known.to, from) {
            (Route::ViaRelay(to), Route::ViaRelay(from)) => to.agent == from.agent,
            _ => false,
        };
        let mut sent_to = self.destinations.iter();
        let same = sent_to.clone().find(|known| known.is_at(from));
        same.or_else(|| sent_to.find(behind_relay)).map(|known| known.to)
    }

    /// Stores a cookie for the next initiation to its sender. Returns true for the handshake's
    /// first cookie: the caller sends that initiation at once.
    ///
    /// Anyone who sees the initiation can forge cookies, and this side cannot tell them from the
    /// real one. So the time of the next try changes only once. Of all cookies since the last try,
    /// a random one is used: `random` returns random numbers.
    pub(crate) fn add_cookie(&mut self, cookie: Cookie, from: Route, random: impl FnOnce() -> u32) -> bool {
        let Some(destination) = self.destinations.iter_mut().find(|known| known.is_at(from)) else {
            return false;
        };
        destination.cookies_received = destination.cookies_received.saturating_add(1);
        if destination.cookies_received == 1 || random().is_multiple_of(destination.cookies_received) {
            destination.cookie = Some(cookie);
        }
        !core::mem::replace(&mut self.was_hurried, true)
    }

    /// True if the limit allows to read another response to the initiation, and charges for it.
    pub(crate) fn admits_response(&mut self, now: Time) -> bool {
        self.responses.try_consume(Packets::new(1), now)
    }
}
