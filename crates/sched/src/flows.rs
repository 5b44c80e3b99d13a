//! Flow counting without a table of flows: a timestamp vector (section IV-B3 of the paper, after
//! Kim and O'Hallaron).
//!
//! Each packet touches one slot, which its flow's hash chooses. A slot is active if it was touched
//! recently. If m of b slots are active, the number of flows is about -b·ln(1 - m/b) (linear
//! counting: Whang, Vander-Zanden and Taylor, 1990).

use alloc::boxed::Box;
use alloc::vec;
use core::hash::Hasher;
use core::net::{IpAddr, Ipv6Addr};

use byway_units::{Duration, Time};
use siphasher::sip::SipHasher13;

use crate::limits::{FLOW_EXPIRY, FLOW_SLOTS};

/// Header fields that identify a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTuple {
    /// Source address of the flow's packets.
    pub source: IpAddr,
    /// Destination address of the flow's packets.
    pub destination: IpAddr,
    /// Number of the protocol above IP, such as 6 for TCP.
    pub protocol: u8,
    /// Source and destination port; zeros if the protocol has none.
    pub ports: [u16; 2],
}

/// Secret key of the hashes of flows and sources. Without it, nobody can predict which flows share
/// a slot.
#[derive(Clone, Debug)]
pub struct FlowKey(SipHasher13);

impl FlowKey {
    /// Creates a key from 16 random bytes.
    #[must_use]
    pub fn new(secret: &[u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(secret))
    }

    /// Returns the hash of a packet's source: of an IPv4 address, or of the upper 64 bits of an
    /// IPv6 address, because a source chooses the lower 64 bits itself.
    #[must_use]
    pub fn hash_source(&self, source: IpAddr) -> FlowHash {
        let mut hasher = self.0;
        match source {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()[..8]),
        }
        FlowHash(hasher.finish())
    }

    /// Returns the hash of a flow by its addresses, protocol and ports.
    #[must_use]
    pub fn hash(&self, flow: &FlowTuple) -> FlowHash {
        let [source, destination] = flow.ports;
        let rest = u64::from(source) << 32 | u64::from(destination) << 8 | u64::from(flow.protocol);
        // One call for all fields takes half as long as one for each. Hashing takes most of a
        // queue's time for a packet.
        FlowHash(match (flow.source, flow.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.0.hash(&join_bytes::<16>(&[
                &source.octets(),
                &destination.octets(),
                &rest.to_le_bytes(),
            ])),
            (source, destination) => {
                let [source, destination] = [source, destination].map(|address| address_v6(address).octets());
                self.0.hash(&join_bytes::<40>(&[&source, &destination, &rest.to_le_bytes()]))
            }
        })
    }
}

/// Joins byte strings of `N` bytes in total.
fn join_bytes<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut all = [0; N];
    let mut rest = &mut all[..];
    for part in parts {
        let (target, remaining) = rest.split_at_mut(part.len());
        target.copy_from_slice(part);
        rest = remaining;
    }
    all
}

fn address_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Keyed hash of a flow or a source, uniform over all 64-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowHash(u64);

impl FlowHash {
    /// Creates a hash from a uniformly distributed number.
    #[must_use]
    pub const fn new(hash: u64) -> Self {
        Self(hash)
    }

    /// Returns the hash as a 64-bit number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns another hash of the same flow, for a second row of slots.
    pub(crate) const fn rotated(self) -> Self {
        Self(self.0.rotate_left(32))
    }

    /// Returns the index of the flow's slot in a table of `slots` slots.
    #[allow(clippy::cast_possible_truncation, reason = "it is less than the number of slots")]
    #[must_use]
    pub const fn slot(self, slots: usize) -> usize {
        ((self.0 as u128 * slots as u128) >> 64) as usize
    }
}

/// Unit of time in a slot. A slot stores the time modulo 65,535 units, plus one; zero means never.
const TICK: Duration = Duration::from_millis(1);
const TICKS: u64 = u16::MAX as u64;

/// Estimates the number of active flows by a timestamp vector, without a table of flows.
#[derive(Clone, Debug)]
pub struct FlowCounter {
    touched: Box<[u16]>,
    expiry: Duration,
}

impl FlowCounter {
    /// Creates a counter with 72,000 slots, 144 KB, for 100,000 flows and more. A flow counts as
    /// active for a second after its last packet.
    #[must_use]
    pub fn new() -> Self {
        Self::with(FLOW_SLOTS, FLOW_EXPIRY)
    }

    /// Creates a counter with `slots` slots of two bytes. A flow counts as active for `expiry`
    /// after its last packet.
    ///
    /// # Panics
    /// If there are no slots, or flows expire after more than 30 s.
    #[must_use]
    pub fn with(slots: usize, expiry: Duration) -> Self {
        assert!(slots > 0 && expiry <= Duration::from_secs(30), "{slots} slots, {expiry}");
        Self { touched: vec![0; slots].into_boxed_slice(), expiry }
    }

    /// Records a packet of a flow, which is active from now on.
    #[inline]
    pub fn touch(&mut self, flow: FlowHash, now: Time) {
        let slot = flow.slot(self.touched.len());
        self.touched[slot] = slot_time(now);
    }

    /// Sets all slots to unused: no flow counts as active.
    pub fn clear(&mut self) {
        self.touched.fill(0);
    }

    /// Returns the estimated number of active flows, and empties the slots of expired ones. Call
    /// this, or [`FlowCounter::clear`], at least every 30 s, because times wrap around after about
    /// a minute.
    pub fn count(&mut self, now: Time) -> u32 {
        let (now, expiry) = (tick(now), self.expiry.as_nanos() / TICK.as_nanos());
        let mut active = 0;
        for touched in &mut self.touched {
            let Some(at) = touched.checked_sub(1) else {
                continue;
            };
            let age = (now + TICKS - u64::from(at)) % TICKS;
            if age <= expiry {
                active += 1;
            } else {
                *touched = 0;
            }
        }
        estimated_flows(active, self.touched.len())
    }
}

impl Default for FlowCounter {
    fn default() -> Self {
        Self::new()
    }
}

const fn tick(now: Time) -> u64 {
    now.as_nanos() / TICK.as_nanos() % TICKS
}

#[allow(clippy::cast_possible_truncation, reason = "it is below 65,535")]
const fn slot_time(now: Time) -> u16 {
    tick(now) as u16 + 1
}

/// Returns the most likely number of flows if `active` of `slots` slots are active (linear
/// counting). If all are active, the estimate is as for one inactive slot.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "slots are few enough, and the estimate is below 40 times as many"
)]
pub fn estimated_flows(active: usize, slots: usize) -> u32 {
    let slots = slots as f64;
    let free = (slots - active as f64).max(1.0);
    libm::round(-slots * libm::log(free / slots)) as u32
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;

    use super::*;

    fn flow(number: u32) -> FlowHash {
        let key = FlowKey::new(&[7; 16]);
        let source = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
        let destination = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        key.hash(&FlowTuple { source, destination, protocol: 6, ports: [40_000, 443] })
    }

    const fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_hundred_thousand_flows_are_counted_to_five_percent() {
        let mut off = Vec::new();
        for trial in 0..40 {
            let mut counter = FlowCounter::new();
            for number in 0..100_000 {
                counter.touch(flow(trial * 100_000 + number), at(0));
            }
            off.push(counter.count(at(10)).abs_diff(100_000));
        }
        off.sort_unstable();
        assert!(off[37] <= 1_000, "95 of 100 counts are off by {} or less", off[37]);
    }

    #[test]
    fn few_flows_are_counted_nearly_exactly() {
        for flows in [0, 1, 2, 10, 100] {
            let mut counter = FlowCounter::new();
            (0..flows).for_each(|number| counter.touch(flow(number), at(5)));
            assert_eq!(counter.count(at(5)), flows);
        }
    }

    #[test]
    fn a_flow_expires_a_second_after_its_last_packet() {
        let mut counter = FlowCounter::new();
        for begin in [0, 1, 65_000, 65_534, 65_535, 1_000_000] {
            counter.touch(flow(1), at(begin));
            counter.touch(flow(2), at(begin + 700));
            assert_eq!(counter.count(at(begin + 1_000)), 2, "{begin}");
            assert_eq!(counter.count(at(begin + 1_001)), 1);
            assert_eq!(counter.count(at(begin + 1_701)), 0);
        }
    }

    #[test]
    fn what_a_flow_is_named_by_makes_its_hash() {
        let key = FlowKey::new(&[1; 16]);
        let v4 = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
        let one = FlowTuple { source: v4(1), destination: v4(2), protocol: 17, ports: [1, 2] };
        let others = [
            FlowTuple { source: v4(3), ..one },
            FlowTuple { destination: v4(3), ..one },
            FlowTuple { source: v4(2), destination: v4(1), ..one },
            FlowTuple { protocol: 6, ..one },
            FlowTuple { ports: [2, 1], ..one },
            FlowTuple { source: IpAddr::V6(Ipv6Addr::LOCALHOST), ..one },
        ];
        for other in others {
            assert_ne!(key.hash(&one), key.hash(&other), "{other:?}");
        }
        assert_eq!(key.hash(&one), key.hash(&one));
        assert_ne!(key.hash(&one), FlowKey::new(&[2; 16]).hash(&one));
    }

    #[test]
    fn a_flow_is_hashed_octet_by_octet_as_its_headers_have_them() {
        let secret = [7; 16];
        let [v4, other_v4] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 200)];
        let [v6, other_v6] = [v4, other_v4].map(|address| address.to_ipv6_compatible());
        let of_v4 = [v4.octets(), other_v4.octets()].concat();
        let of_v6 = [v6.octets(), other_v6.octets()].concat();
        let pairs = [([IpAddr::V4(v4), other_v4.into()], of_v4), ([v6.into(), other_v6.into()], of_v6)];
        for ([source, destination], mut octets) in pairs {
            // Protocol, destination port and source port, least significant first, and two zeros.
            octets.extend([6, 0xbb, 0x01, 0x00, 0x40, 0x9c, 0, 0]);
            let flow = FlowTuple { source, destination, protocol: 6, ports: [40_000, 443] };
            let mut hasher = SipHasher13::new_with_key(&secret);
            hasher.write(&octets);
            assert_eq!(FlowKey::new(&secret).hash(&flow).number(), hasher.finish(), "{octets:?}");
        }
    }

    #[test]
    fn a_full_vector_says_the_most_it_can() {
        let mut counter = FlowCounter::with(100, FLOW_EXPIRY);
        (0..10_000).for_each(|number| counter.touch(flow(number), at(0)));
        assert_eq!(counter.count(at(0)), 461);
    }
}
