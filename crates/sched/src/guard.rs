//! What keeps senders from getting more by the wrong class than by the right one (the paper leaves it open: sections VI and VIII).
//!
//! Ways to cheat, and what answers them:
//! - *Flows that are made up* make a class seem larger. Only flows that last count, and some of a source ([`LastingFlows`]).
//! - *A greedy flow among modest ones* takes what the low-delay class leaves of its share. No low-delay flow gets more than its part of what a
//!   high-rate one does, as long as that class is short of something.
//! - *A sender that does not slow down* fills the low-delay queue. Who sends more than a fair share, for longer than TCP does by chance, is let in only
//!   where nothing waits, until it has paid back: the room is for those who take no more than theirs.
//! - *Flows that are used but once* have taken nothing yet. So a source is held to what its flows that last may take, and some more ([`Allowance`]).

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Rate, Time};

use crate::allowance::{Allowance, Verdict};
use crate::carried::Carried;
use crate::class::Class;
use crate::flows::FlowHash;
use crate::lasting::LastingFlows;
use crate::limits::{CAP_BURST, CAP_BURST_PACKETS, FAIR_BURST, FAIR_BURST_PACKETS};
use crate::settings::Settings;
use crate::sizing::{Counts, Weights};

/// What is known of flows: 603 KB, and 138 KB more where there is a third class.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// In the order of [`Class::ALL`]; none of a class that there is not.
    flows: Box<[LastingFlows]>,
    /// By high-rate flows, and what came of others.
    carried: [Carried; 2],
    /// What came, in this interval, of sources that had too much; in bytes.
    beyond: u64,
    fair: Allowance,
    cap: Allowance,
    /// The fair share of the last interval in which more came than there was room for; `None` where there is room for all.
    fair_rate: Option<Rate>,
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
            carried: [Carried::new(), Carried::new()],
            beyond: 0,
            fair: Allowance::new(true),
            cap: Allowance::new(false),
            fair_rate: None,
            is_short: false,
            was_idle: true,
            since: now,
        }
    }

    /// A packet came.
    #[inline]
    pub(crate) fn note(&mut self, class: Class, flow: FlowHash, source: FlowHash) {
        self.flows[class.place()].touch(flow, source);
    }

    /// A high-rate packet has room.
    #[inline]
    pub(crate) fn note_high_rate(&mut self, flow: FlowHash, bytes: u32) {
        self.carried[0].note(flow, bytes);
    }

    /// The high-rate class has nothing to send.
    pub(crate) const fn note_idle(&mut self) {
        self.was_idle = true;
    }

    /// Whether a packet of a flow and its source, which is not high-rate, is let in behind so many bytes.
    #[inline]
    pub(crate) fn admits(
        &mut self,
        class: Class,
        [flow, source]: [FlowHash; 2],
        bytes: u32,
        backlog: u64,
        now: Time,
    ) -> bool {
        if self.fair_rate.is_none() {
            self.carried[1].note(flow, bytes);
            return true;
        }
        let lasting = self.flows[class.place()].of_source(source);
        let verdict = self.fair.judge([flow, source], lasting, bytes, now);
        // What a source has too much of is not among what a fair share is found for: ever new flows would leave others next to nothing.
        if verdict == Verdict::SourceBeyond {
            self.beyond = self.beyond.saturating_add(u64::from(bytes));
        } else {
            self.carried[1].note(flow, bytes);
        }
        let is_beyond = verdict != Verdict::Within;
        let is_above =
            self.is_short && self.cap.judge([flow, source], lasting, bytes, now) != Verdict::Within;
        !is_above && (backlog == 0 || !is_beyond)
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
        self.is_short = !self.was_idle;
        let of_interval = |bytes| Rate::over(Bytes::new(bytes), interval).unwrap_or(settings.capacity);
        let [high_rate, others] = self.carried.each_mut().map(Carried::take);
        let typical = of_interval(high_rate.median());
        let least = |packets| Bytes::new(settings.packet.count() * packets);
        let [_, low_delay, low_average] = flows;
        let held = low_delay.saturating_add(low_average);
        let sent = settings.capacity.bytes_in(interval).unwrap_or(Bytes::MAX).count();
        let weights = Weights::of(settings, Counts::of(flows));
        // What every low-delay flow has, whatever is made up.
        let nominal = weights.of_flow(settings);
        let cap = u128::from(typical.bits_per_second()) * 1_000 / u128::from(settings.ratio_milli);
        let cap = Rate::from_bits_per_second(u64::try_from(cap).unwrap_or(u64::MAX));
        self.cap.set(cap.max(nominal), CAP_BURST, least(CAP_BURST_PACKETS), held);
        let share = weights.but_high_rate(sent);
        // Where the high-rate class needs less than its share, the others have the rest.
        let room = if self.is_short { share } else { share.max(sent.saturating_sub(high_rate.bytes())) };
        let fair = others.fair_share(room).map(of_interval);
        let came = others.bytes().saturating_add(core::mem::take(&mut self.beyond));
        // What was fair stays so where less came than there was room for: debts are not paid by a moment's pause of others. But where there is room for
        // all, all may use it.
        let is_crowded = self.is_short || came > room;
        self.fair_rate = fair.or(if is_crowded { self.fair_rate.or(Some(nominal)) } else { None });
        let fair = self.fair_rate.unwrap_or(settings.capacity).max(nominal);
        self.fair.set(fair, FAIR_BURST, least(FAIR_BURST_PACKETS), held);
        (self.was_idle, self.since) = (is_high_rate_idle, now);
        flows
    }
}
