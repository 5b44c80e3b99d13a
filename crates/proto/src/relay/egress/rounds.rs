//! Cooperative rounds: completing a batch with the packets of other receivers.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::SOURCE_PACKETS_MAX;
use byway_units::{Duration, Time};

use super::batches::Entries;
use super::flow::BatchRef;
use crate::limits::ROUNDS_MAX;
use crate::parts::packet_log::Handle;

/// Which round, among those under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(crate) batch: BatchRef,
    pub(crate) entries: Entries,
    /// The packets that receivers miss.
    pub(crate) wanted: Places,
    /// The packets at hand.
    pub(crate) have: Places,
    /// The packets whose receivers said that they lost them too.
    pub(crate) lost: Places,
    /// The packets whose receivers are not to be asked.
    pub(crate) withheld: Places,
    /// When each packet's receiver was asked last.
    pub(crate) asked: [Option<Time>; SOURCE_PACKETS_MAX],
    pub(crate) answers: ArrayVec<(usize, Handle), SOURCE_PACKETS_MAX>,
    /// After this nobody has a use for the result.
    pub(crate) until: Time,
}

impl Round {
    pub(crate) fn new(batch: BatchRef, entries: Entries) -> Self {
        Self {
            batch,
            entries,
            wanted: Places::default(),
            have: Places::default(),
            lost: Places::default(),
            withheld: Places::default(),
            asked: [None; SOURCE_PACKETS_MAX],
            answers: ArrayVec::new(),
            until: Time::START,
        }
    }

    /// How many packets are not at hand.
    pub(crate) fn short(&self) -> usize {
        self.entries.len() - self.have.count()
    }

    /// Whether more packets are lost than there are repair packets, so that waiting for answers is not enough.
    pub(crate) const fn is_stuck(&self, repairs: usize) -> bool {
        Places(self.wanted.0 | self.lost.0).without(self.have).count() > repairs
    }

    /// The packets that receivers miss and that are not at hand.
    pub(crate) const fn missed(&self) -> Places {
        self.wanted.without(self.have)
    }

    /// How many packets no receiver will give.
    pub(crate) const fn gone(&self) -> usize {
        Places(self.wanted.0 | self.lost.0 | self.withheld.0).without(self.have).count()
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
    rounds: Vec<Option<Round>>,
    free: Vec<RoundSlot>,
}

impl Rounds {
    /// Begins a round; `None` if too many are under way.
    pub(crate) fn begin(&mut self, round: Round) -> Option<RoundSlot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.rounds.len() == ROUNDS_MAX => return None,
            None => {
                self.rounds.push(None);
                RoundSlot(u16::try_from(self.rounds.len() - 1).expect("ROUNDS_MAX fits in 16 bits"))
            }
        };
        self.rounds[usize::from(slot.0)] = Some(round);
        Some(slot)
    }

    pub(crate) fn get(&self, slot: RoundSlot) -> &Round {
        self.rounds[usize::from(slot.0)].as_ref().expect("a batch names its round while it is under way")
    }

    pub(crate) fn get_mut(&mut self, slot: RoundSlot) -> &mut Round {
        self.rounds[usize::from(slot.0)].as_mut().expect("a batch names its round while it is under way")
    }

    pub(crate) fn end(&mut self, slot: RoundSlot) -> Round {
        self.free.push(slot);
        self.rounds[usize::from(slot.0)].take().expect("a round ends once")
    }

    pub(crate) fn under_way(&self) -> usize {
        self.rounds.len() - self.free.len()
    }

    /// The rounds that nobody waits for any more.
    pub(crate) fn expired(&self, now: Time) -> Option<RoundSlot> {
        let position =
            self.rounds.iter().position(|round| round.as_ref().is_some_and(|round| round.until <= now));
        position.map(|position| RoundSlot(u16::try_from(position).expect("ROUNDS_MAX fits in 16 bits")))
    }
}
