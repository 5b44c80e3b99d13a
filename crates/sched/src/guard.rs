//! What keeps senders from getting more by the wrong class than by the right one (the paper leaves it open: sections VI and VIII).
//!
//! Three ways to cheat, and what answers them:
//! - *Flows that are made up* make a class seem larger. Only flows that last count, and some of a source ([`LastingFlows`]).
//! - *A greedy flow among modest ones* takes what the low-delay class leaves of its share. No low-delay flow gets much more than its
//!   share, as long as the high-rate class is short of something.
//! - *A sender that does not slow down* fills the low-delay queue. Its flow gets a fair share; of what is beyond, only what fits into a quarter of
//!   the room, so that the rest is for those who take no more than theirs.

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Rate, Time};

use crate::buckets::Buckets;
use crate::class::Class;
use crate::flows::FlowHash;
use crate::lasting::LastingFlows;
use crate::limits::{
    BEYOND_INVERSE, CAP_BURST, CAP_BURST_PACKETS, FAIR_BURST, FAIR_BURST_PACKETS, FAIR_MILLI_MIN,
    WITHIN_LOSS_INVERSE,
};
use crate::settings::Settings;
use crate::typical::TypicalFlow;

/// What is known of flows: 340 KB, and 88 KB more where there is a third class.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// In the order of [`Class::ALL`]; none of a class that there is not.
    flows: Box<[LastingFlows]>,
    /// Of the high-rate class.
    typical: TypicalFlow,
    fair: Buckets,
    cap: Buckets,
    /// What of a fair share counts as such, in thousandths: less where more comes that is within it than there is room for.
    fair_milli: u64,
    /// Low-delay packets within their fair shares in this interval, and those of them that found no room.
    within: [u64; 2],
    /// Whether the high-rate class always had something to send in the last interval.
    is_short: bool,
    /// Whether it had nothing to send some time in this one.
    was_idle: bool,
    since: Time,
}

impl Guard {
    pub(crate) fn new(classes: usize, now: Time) -> Self {
        Self {
            flows: (0..classes).map(|_| LastingFlows::new()).collect(),
            typical: TypicalFlow::new(),
            fair: Buckets::new(),
            cap: Buckets::new(),
            fair_milli: 1_000,
            within: [0; 2],
            is_short: false,
            was_idle: true,
            since: now,
        }
    }

    /// A packet came.
    pub(crate) fn note(&mut self, class: Class, flow: FlowHash, source: FlowHash) {
        self.flows[class.place()].touch(flow, source);
    }

    /// A high-rate packet has room.
    pub(crate) fn note_high_rate(&mut self, flow: FlowHash, bytes: u32) {
        self.typical.note(flow, bytes);
    }

    /// The high-rate class has nothing to send.
    pub(crate) const fn note_idle(&mut self) {
        self.was_idle = true;
    }

    /// Whether a packet that is not high-rate is let in behind so many bytes, where there is this much room.
    pub(crate) fn admits(&mut self, flow: FlowHash, bytes: u32, backlog: u64, room: u64, now: Time) -> bool {
        if !self.is_short {
            return true;
        }
        if self.cap.exceeds(flow, bytes, now) {
            return false;
        }
        if self.fair.exceeds(flow, bytes, now) {
            return backlog + u64::from(bytes) <= room / BEYOND_INVERSE;
        }
        let is_lost = backlog + u64::from(bytes) > room;
        self.within[0] += 1;
        self.within[1] += u64::from(is_lost);
        !is_lost
    }

    /// Fair shares shrink by an eighth where more than one in so many packets within them is lost, and grow by a sixteenth where not.
    fn adapt(&mut self) {
        let [packets, lost] = core::mem::take(&mut self.within);
        let is_too_much = lost * WITHIN_LOSS_INVERSE > packets;
        let factor = if is_too_much { self.fair_milli * 7 / 8 } else { self.fair_milli * 17 / 16 };
        self.fair_milli = factor.clamp(FAIR_MILLI_MIN, 1_000);
    }

    /// Forgets all flows.
    pub(crate) fn clear(&mut self) {
        self.flows.iter_mut().for_each(LastingFlows::clear);
    }

    /// An interval ends: about how many flows there are in each class.
    pub(crate) fn update(
        &mut self,
        settings: &Settings,
        is_high_rate_idle: bool,
        now: Time,
    ) -> [u32; Class::COUNT] {
        let mut flows = [0; Class::COUNT];
        self.flows.iter_mut().zip(&mut flows).for_each(|(counter, flows)| *flows = counter.count());
        let interval = now.saturating_since(self.since).max(Duration::from_nanos(1));
        let typical = Rate::over(Bytes::new(self.typical.take()), interval).unwrap_or(settings.capacity);
        let least = |packets| Bytes::new(settings.packet.count() * packets);
        let [_, low_delay, low_average] = flows;
        let held = low_delay.saturating_add(low_average);
        self.adapt();
        let fair = u128::from(typical.bits_per_second()) * u128::from(self.fair_milli)
            / u128::from(settings.ratio_milli);
        let fair = Rate::from_bits_per_second(u64::try_from(fair).unwrap_or(u64::MAX));
        // A quarter of the way from what a low-delay flow gets to what a high-rate one does.
        let cap = u128::from(typical.bits_per_second()) * u128::from(settings.ratio_milli + 3_000);
        let cap = cap / u128::from(4 * settings.ratio_milli);
        let cap = Rate::from_bits_per_second(u64::try_from(cap).unwrap_or(u64::MAX));
        self.cap.set(cap, CAP_BURST, least(CAP_BURST_PACKETS), held);
        self.fair.set(fair, FAIR_BURST, least(FAIR_BURST_PACKETS), held);
        self.is_short = !self.was_idle;
        (self.was_idle, self.since) = (is_high_rate_idle, now);
        flows
    }
}
