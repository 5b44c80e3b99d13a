//! Cooperative rounds: completing a batch with the packets of other receivers.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::SOURCE_PACKETS_MAX;
use byway_units::{Duration, Time};

use super::Holder;
use super::batches::Entries;
use super::flow::BatchRef;
use super::sweep::swept_at;
use crate::limits::{ROUNDS_MAX, SOLVES_PER_INPUT_MAX, SPARE_ROUNDS_MAX};
use crate::parts::packet_log::Handle;

/// Which round, among those under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoundSlot(u16);

/// A set of places in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(u32);

impl Places {
    pub(crate) fn add(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    pub(crate) const fn contains(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The places, in rising order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..SOURCE_PACKETS_MAX).filter(move |place| self.contains(*place))
    }

    /// Those of which something is true.
    pub(crate) fn only(self, is_true: impl Fn(usize) -> bool) -> Self {
        let mut only = Self::default();
        self.iter().filter(|place| is_true(*place)).for_each(|place| only.add(place));
        only
    }

    const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) const fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// A batch being completed.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// Holder whose memory it takes.
    pub(super) holder: Holder,
    pub(crate) batch: BatchRef,
    pub(crate) entries: Entries,
    /// The packets that receivers miss.
    pub(crate) wanted: Places,
    /// The packets at hand.
    pub(crate) have: Places,
    /// The packets whose receivers said that they lost them too.
    pub(crate) lost: Places,
    /// The packets whose receivers had not answered when they should have, whatever they did since.
    pub(crate) late: Places,
    /// Those of them that were asked once more.
    pub(crate) asked_again: Places,
    /// The packets whose receivers are not to be asked.
    pub(crate) withheld: Places,
    /// When each packet's receiver was asked last.
    pub(crate) asked: [Option<Time>; SOURCE_PACKETS_MAX],
    pub(crate) answers: ArrayVec<(usize, Handle), SOURCE_PACKETS_MAX>,
    /// Digest of the equations that were solved last around it, and restored nothing.
    pub(super) unsolved: Option<u64>,
    /// After this nobody has a use for the result.
    pub(crate) until: Time,
    /// When it is looked at again, unless something comes of it before.
    review_at: Option<Time>,
    /// When it is given up, unless somebody has a use for it then.
    expires_at: Option<Time>,
}

impl Round {
    /// Memory of one round, with its places in the tables of rounds.
    pub(super) const BYTES: u64 = size_of::<Self>() as u64 + 64;

    pub(crate) fn new(holder: Holder, batch: BatchRef, entries: Entries) -> Self {
        Self {
            holder,
            batch,
            entries,
            wanted: Places::default(),
            have: Places::default(),
            lost: Places::default(),
            late: Places::default(),
            asked_again: Places::default(),
            withheld: Places::default(),
            asked: [None; SOURCE_PACKETS_MAX],
            answers: ArrayVec::new(),
            unsolved: None,
            until: Time::START,
            review_at: None,
            expires_at: None,
        }
    }

    /// How many packets are not at hand.
    pub(crate) fn short(&self) -> usize {
        self.entries.len() - self.have.count()
    }

    /// Whether more packets are lost than there are repair packets, so that waiting for answers is not enough.
    pub(crate) const fn is_stuck(&self, repairs: usize) -> bool {
        self.wanted.with(self.lost).without(self.have).count() > repairs
    }

    /// The packets that receivers miss and that are not at hand.
    pub(crate) const fn missed(&self) -> Places {
        self.wanted.without(self.have)
    }

    /// How many packets no receiver will give.
    pub(crate) const fn gone(&self) -> usize {
        self.wanted.with(self.lost).with(self.withheld).without(self.have).count()
    }

    /// How many packets no receiver will give in time, as far as can be told.
    pub(crate) const fn gone_or_late(&self) -> usize {
        self.wanted.with(self.lost).with(self.late).with(self.withheld).without(self.have).count()
    }

    /// The packets whose receivers are late and may be asked once more.
    pub(crate) const fn to_ask_again(&self) -> Places {
        self.late.without(self.have).without(self.lost).without(self.wanted).without(self.asked_again)
    }

    /// Whether somebody was asked for the packet at this place and has not answered, one way or the other.
    pub(crate) const fn is_awaited(&self, place: usize) -> bool {
        self.asked[place].is_some()
            && !self.have.with(self.wanted).with(self.lost).with(self.late).contains(place)
    }

    /// The packet at this place, if it is at hand.
    pub(crate) fn answer(&self, place: usize) -> Option<Handle> {
        self.answers.iter().find(|(answered, _)| *answered == place).map(|(_, packet)| *packet)
    }

    /// Takes a packet of the batch; `false` if it is here already.
    pub(crate) fn take(&mut self, place: usize, packet: Handle) -> bool {
        if self.have.contains(place) {
            return false;
        }
        self.have.add(place);
        self.answers.push((place, packet));
        true
    }

    /// Whether the receiver at this place should be asked (again) now.
    pub(crate) fn may_ask(&self, place: usize, again_after: Duration, now: Time) -> bool {
        let answered = self.have.contains(place) || self.wanted.contains(place);
        let asked_lately = self.asked[place].is_some_and(|asked| asked + again_after > now);
        !answered && !asked_lately
    }
}

/// The rounds under way.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Each in memory of its own: a table of rounds as a whole is more than one datagram may make a relay allocate.
    slots: Vec<Option<Box<Round>>>,
    free: Vec<RoundSlot>,
    /// Memory of rounds that ended, for the next ones.
    spare: ArrayVec<Box<Round>, SPARE_ROUNDS_MAX>,
    /// When each of them is looked at again that is to be.
    reviews: BTreeSet<(Time, RoundSlot)>,
    /// When each of them is given up, at the soonest.
    expiries: BTreeSet<(Time, RoundSlot)>,
    /// Attempts to solve several batches together since the start.
    attempts: u64,
    /// Number of them at which the present input has had its share.
    attempts_max: u64,
}

impl Rounds {
    /// None, and no limit before the first input.
    pub(crate) fn new() -> Self {
        Self { attempts_max: u64::MAX, ..Self::default() }
    }

    /// Lets one input have its share of attempts to solve several batches together.
    pub(crate) const fn allow_attempts(&mut self) {
        self.attempts_max = self.attempts + SOLVES_PER_INPUT_MAX;
    }

    /// Counts an attempt to solve several batches together; `false` if the present input has had its share.
    pub(crate) const fn begin_attempt(&mut self) -> bool {
        let may_begin = self.attempts < self.attempts_max;
        if may_begin {
            self.attempts += 1;
        }
        may_begin
    }

    /// Begins a round; `None` if too many are under way.
    pub(crate) fn begin(&mut self, round: Round) -> Option<RoundSlot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() == ROUNDS_MAX => return None,
            None => {
                self.slots.push(None);
                RoundSlot(u16::try_from(self.slots.len() - 1).expect("ROUNDS_MAX fits in 16 bits"))
            }
        };
        let round = match self.spare.pop() {
            Some(mut spare) => {
                *spare = round;
                spare
            }
            None => Box::new(round),
        };
        self.slots[usize::from(slot.0)] = Some(round);
        Some(slot)
    }

    pub(crate) fn get(&self, slot: RoundSlot) -> &Round {
        self.slots[usize::from(slot.0)].as_deref().expect("a batch names its round while it is under way")
    }

    pub(crate) fn get_mut(&mut self, slot: RoundSlot) -> &mut Round {
        self.slots[usize::from(slot.0)].as_deref_mut().expect("a batch names its round while it is under way")
    }

    pub(crate) fn end(&mut self, slot: RoundSlot) -> Box<Round> {
        self.free.push(slot);
        let round = self.slots[usize::from(slot.0)].take().expect("a round ends once");
        if let Some(at) = round.review_at {
            self.reviews.remove(&(at, slot));
        }
        if let Some(at) = round.expires_at {
            self.expiries.remove(&(at, slot));
        }
        round
    }

    /// Keeps the memory of a round that ended, if little is kept.
    pub(crate) fn recycle(&mut self, round: Box<Round>) {
        if !self.spare.is_full() {
            self.spare.push(round);
        }
    }

    /// Notes that somebody has a use for the result of a round until then.
    pub(crate) fn extend(&mut self, slot: RoundSlot, until: Time) {
        let round = self.get_mut(slot);
        round.until = round.until.max(until);
        if round.expires_at.is_none() {
            let at = swept_at(round.until);
            round.expires_at = Some(at);
            self.expiries.insert((at, slot));
        }
    }

    /// When a round may have to be given up.
    pub(crate) fn expires_at(&self) -> Option<Time> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// A round that nobody waits for any more.
    pub(crate) fn next_expired(&mut self, now: Time) -> Option<RoundSlot> {
        while let Some((_, slot)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            self.expiries.pop_first();
            let round = self.get_mut(slot);
            round.expires_at = None;
            if round.until <= now {
                return Some(slot);
            }
            self.extend(slot, now);
        }
        None
    }

    /// Has a round looked at again, at that time at the latest.
    pub(crate) fn review(&mut self, slot: RoundSlot, at: Time) {
        let planned = self.get(slot).review_at;
        if planned.is_some_and(|planned| planned <= at) {
            return;
        }
        if let Some(planned) = planned {
            self.reviews.remove(&(planned, slot));
        }
        self.get_mut(slot).review_at = Some(at);
        self.reviews.insert((at, slot));
    }

    /// When the next round is to be looked at again.
    pub(crate) fn review_at(&self) -> Option<Time> {
        self.reviews.first().map(|(at, _)| *at)
    }

    /// A round that is to be looked at now.
    pub(crate) fn next_to_review(&mut self, now: Time) -> Option<RoundSlot> {
        self.review_at().filter(|at| *at <= now)?;
        let (_, slot) = self.reviews.pop_first()?;
        self.get_mut(slot).review_at = None;
        Some(slot)
    }

    pub(crate) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LOG_BLOCK_BYTES_MAX;

    #[test]
    fn no_round_makes_the_table_allocate_more_than_a_datagram_may() {
        let mut rounds = Rounds::default();
        let batch = BatchRef { ingress: 0, number: 1 };
        for nth in 0..=ROUNDS_MAX {
            let mut begun = None;
            let cost = allocation_counter::measure(|| {
                begun = rounds.begin(Round::new(Holder::default(), batch, Entries::new()));
            });
            assert!(cost.bytes_max <= LOG_BLOCK_BYTES_MAX as u64, "round {nth}: {} bytes", cost.bytes_max);
            assert_eq!(begun.is_some(), nth < ROUNDS_MAX);
        }
    }
}
