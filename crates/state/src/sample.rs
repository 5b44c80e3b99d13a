//! Samples of a link's counters, and the states that follow from them.

use core::error::Error;
use core::fmt;

use byway_units::{Bytes, Duration, Rate, Time};

use crate::entry::{EntryError, LinkEntry};
use crate::least::Least;
use crate::limits::{ENTRY_LIFETIME, LEAST_RTT_PERIOD};
use crate::link_state::{FlowCounts, LinkId, LinkState};

/// Sample of a link's counters, as the link sends it. Counters instead of differences: the next
/// sample makes up for a lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSample {
    /// Run of the link's program: numbers, clock and counters begin anew with each one.
    pub incarnation: u64,
    /// Number of the sample, which grows with each one.
    pub number: u64,
    /// Time of the sample on the link's clock.
    pub clock: Time,
    /// Bytes of IP packets that have left the interactive queue so far.
    pub sent: Bytes,
    /// Bytes that wait in it, without the packet being sent.
    pub backlog: Bytes,
    /// Rate that interactive flows may count on.
    pub shown: Rate,
    /// Guaranteed rate of the interactive queue.
    pub guaranteed: Rate,
    /// Propagation delay, and a full packet's time if the link stores and forwards.
    pub delay: Duration,
    /// Bytes of each flow that wait at the link if it is the bottleneck.
    pub target: Bytes,
    /// Active flows in each queue.
    pub flows: FlowCounts,
}

/// Receiver of one link's samples.
#[derive(Clone, Debug)]
pub struct LinkMeter {
    link: LinkId,
    /// Last good sample, and the time of its arrival.
    last: Option<(LinkSample, Time)>,
    /// Least difference between this node's clock and the link's, in nanoseconds: that of the
    /// samples that arrived fastest.
    offset: Least<i64>,
}

impl LinkMeter {
    /// Creates the receiver of a link's samples.
    #[must_use]
    pub const fn new(link: LinkId) -> Self {
        Self { link, last: None, offset: Least::new(LEAST_RTT_PERIOD) }
    }

    /// Returns the link.
    #[must_use]
    pub const fn link(&self) -> LinkId {
        self.link
    }

    /// Returns the state of the link since the last good sample.
    ///
    /// `transit` is the least time that a sample takes, such as half of the connection's round
    /// trip. With it and the link's clock, the age of a sample is known although clocks differ.
    ///
    /// Returns `None` for a first sample: of an incarnation, or after 5 s without a good one.
    ///
    /// # Errors
    /// If the sample is not newer than the last good one, if its clock or its counter went
    /// backwards, or if a value is out of range. The last good sample stays.
    pub fn on_sample(
        &mut self,
        sample: LinkSample,
        transit: Duration,
        now: Time,
    ) -> Result<Option<LinkState>, SampleError> {
        // A first sample is checked with an interval that any bytes fit in.
        let first = entry_of(&sample, Duration::ZERO, Bytes::ZERO)?;
        let state = self.state_of(&sample, first)?;
        let Some(before) = self.predecessor(&sample, now) else {
            self.accept(sample, now, true);
            return Ok(None);
        };
        if sample.number <= before.number {
            return Err(SampleError::NotNewer);
        }
        let interval = sample.clock.checked_since(before.clock).filter(|interval| !interval.is_zero());
        let interval = interval.ok_or(SampleError::ClockBackwards)?;
        let sent = sample.sent.checked_sub(before.sent).ok_or(SampleError::CounterBackwards)?;
        if interval > ENTRY_LIFETIME {
            self.accept(sample, now, false);
            return Ok(None);
        }
        let entry = entry_of(&sample, interval, sent)?;
        self.accept(sample, now, false);
        Ok(Some(state.with_entry(entry, transit.saturating_add(self.delay_of(&sample, now)))))
    }

    /// Returns the last good sample, if `sample` continues it.
    fn predecessor(&self, sample: &LinkSample, now: Time) -> Option<LinkSample> {
        let (last, received_at) = self.last?;
        // Whatever was wrong with it then, a later sample must have its chance.
        let is_forgotten = now.saturating_since(received_at) > ENTRY_LIFETIME;
        (last.incarnation == sample.incarnation && !is_forgotten).then_some(last)
    }

    fn accept(&mut self, sample: LinkSample, now: Time, is_first: bool) {
        if is_first {
            self.offset = Least::new(LEAST_RTT_PERIOD);
        }
        self.offset.add(difference(now, sample.clock), now);
        self.last = Some((sample, now));
    }

    /// Returns the time by which a sample arrived later than the fastest of the last 10 s.
    fn delay_of(&self, sample: &LinkSample, now: Time) -> Duration {
        let least = self.offset.least(now).unwrap_or(i64::MAX);
        let excess = difference(now, sample.clock).saturating_sub(least);
        Duration::from_nanos(u64::try_from(excess).unwrap_or(0))
    }

    /// Returns a state with the settings of the sample, which are checked.
    fn state_of(&self, sample: &LinkSample, entry: LinkEntry) -> Result<LinkState, EntryError> {
        let state = LinkState::new(self.link, entry, Duration::ZERO)?.with_target(sample.target)?;
        Ok(state.with_guaranteed(sample.guaranteed)?.with_flows(sample.flows))
    }
}

fn entry_of(sample: &LinkSample, interval: Duration, sent: Bytes) -> Result<LinkEntry, EntryError> {
    let entry = LinkEntry::without_news(sample.shown, sample.delay)?;
    if interval.is_zero() {
        // Range of the backlog, in an interval of its own.
        let probe = Duration::from_millis(1);
        LinkEntry::new(probe, Bytes::ZERO, sample.backlog, sample.shown, sample.delay)?;
        return Ok(entry);
    }
    LinkEntry::new(interval, sent, sample.backlog, sample.shown, sample.delay)
}

/// Returns the difference of two clocks in nanoseconds, or the nearest bound.
fn difference(here: Time, there: Time) -> i64 {
    let nanos = i128::from(here.as_nanos()) - i128::from(there.as_nanos());
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Error of a sample, which is refused. The link is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleError {
    /// The number of the sample is not higher than that of the last good one.
    NotNewer,
    /// The link's clock did not advance.
    ClockBackwards,
    /// The counter of sent bytes went backwards.
    CounterBackwards,
    /// A value is out of its range.
    Entry(EntryError),
}

impl From<EntryError> for SampleError {
    fn from(error: EntryError) -> Self {
        Self::Entry(error)
    }
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sample of a link invalid: ")?;
        match self {
            Self::NotNewer => f.write_str("it is not newer than the last one"),
            Self::ClockBackwards => f.write_str("its clock did not advance"),
            Self::CounterBackwards => f.write_str("its counter of sent bytes went backwards"),
            Self::Entry(error) => error.fmt(f),
        }
    }
}

impl Error for SampleError {}

#[cfg(test)]
mod tests;
