//! State of a named link, as controllers and senders pass it on.

use core::fmt;

use byway_units::{Bytes, Duration, Rate};

use crate::entry::{EntryError, EntryField, LinkEntry};
use crate::limits::{ENTRY_LIFETIME, LINK_RATE_MAX, TARGET_BACKLOG, TARGET_MAX, TARGET_MIN, TARGET_TIME};

byway_units::identifier! {
    /// Network of one provider, as neighbours know it.
    pub NetworkId(u32), "network"
}

/// Link in one direction, named within its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    /// Network that the link belongs to.
    pub network: NetworkId,
    /// Number of the link within its network.
    pub number: u32,
}

impl LinkId {
    /// Network of the links in the published form, which does not name them.
    pub const UNNAMED: NetworkId = NetworkId::new(u32::MAX);

    /// Creates the name of a link.
    #[must_use]
    pub const fn new(network: NetworkId, number: u32) -> Self {
        Self { network, number }
    }

    /// Creates the name of a link in the published form: its position on the path, from 0.
    #[must_use]
    pub const fn unnamed(position: u32) -> Self {
        Self::new(Self::UNNAMED, position)
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {} of {}", self.number, self.network)
    }
}

/// Active flows in each of a link's two queues. A flow is active if it had a packet within a
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Flows in the interactive queue (`n_I`).
    pub interactive: u32,
    /// Flows in the other queue (`n_O`).
    pub other: u32,
}

/// State of a link: its entry, the age of that entry, and the link's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    link: LinkId,
    entry: LinkEntry,
    age: Duration,
    target: Bytes,
    guaranteed: Option<Rate>,
    flows: Option<FlowCounts>,
}

impl LinkState {
    /// Creates the state of a link with the published target backlog of 1,500 bytes.
    ///
    /// `age` is the time since the link measured the entry, or an estimate of it: at most 5 s.
    ///
    /// # Errors
    /// If the age is out of range.
    pub const fn new(link: LinkId, entry: LinkEntry, age: Duration) -> Result<Self, EntryError> {
        if age.as_nanos() > ENTRY_LIFETIME.as_nanos() {
            return Err(EntryError::OutOfRange(EntryField::Age));
        }
        Ok(Self { link, entry, age, target: TARGET_BACKLOG, guaranteed: None, flows: None })
    }

    /// Returns the state with another target backlog (S), 64 bytes to 16 MiB. All flows of the link
    /// get the same one: [`target_backlog`].
    ///
    /// # Errors
    /// If the target is out of range.
    pub fn with_target(self, target: Bytes) -> Result<Self, EntryError> {
        if !(TARGET_MIN..=TARGET_MAX).contains(&target) {
            return Err(EntryError::OutOfRange(EntryField::Target));
        }
        Ok(Self { target, ..self })
    }

    /// Returns the state with the guaranteed rate of the interactive queue (the paper's `R_L`), at
    /// most 10 Tbit/s.
    ///
    /// # Errors
    /// If the rate is out of range.
    pub fn with_guaranteed(self, guaranteed: Rate) -> Result<Self, EntryError> {
        if guaranteed > LINK_RATE_MAX {
            return Err(EntryError::OutOfRange(EntryField::Guaranteed));
        }
        Ok(Self { guaranteed: Some(guaranteed), ..self })
    }

    /// Returns the state with the number of active flows in each queue.
    #[must_use]
    pub const fn with_flows(self, flows: FlowCounts) -> Self {
        Self { flows: Some(flows), ..self }
    }

    /// Returns the link.
    #[must_use]
    pub const fn link(&self) -> LinkId {
        self.link
    }

    /// Returns the entry.
    #[must_use]
    pub const fn entry(&self) -> &LinkEntry {
        &self.entry
    }

    /// Returns the time since the link measured the entry.
    #[must_use]
    pub const fn age(&self) -> Duration {
        self.age
    }

    /// Returns the bytes of each flow that wait at the link if it is the bottleneck (S).
    #[must_use]
    pub const fn target(&self) -> Bytes {
        self.target
    }

    /// Returns the guaranteed rate of the interactive queue (`R_L`), if the link names it.
    #[must_use]
    pub const fn guaranteed(&self) -> Option<Rate> {
        self.guaranteed
    }

    /// Returns the number of active flows in each queue, if the link names them.
    #[must_use]
    pub const fn flows(&self) -> Option<FlowCounts> {
        self.flows
    }

    /// Returns the state after `transit`, the time that it took from one node to the next. An age
    /// stays within 5 s.
    #[must_use]
    pub fn older_by(self, transit: Duration) -> Self {
        Self { age: self.age.saturating_add(transit).min(ENTRY_LIFETIME), ..self }
    }

    /// Returns the state with another entry and age, which the caller has from checked states.
    pub(crate) fn with_entry(self, entry: LinkEntry, age: Duration) -> Self {
        Self { entry, age: age.min(ENTRY_LIFETIME), ..self }
    }
}

/// Returns the target backlog for all flows of a link with this capacity: 1,500 bytes, or 1 ms at
/// the capacity if that is more.
#[must_use]
pub fn target_backlog(capacity: Rate) -> Bytes {
    capacity.bytes_in(TARGET_TIME).unwrap_or(TARGET_MAX).clamp(TARGET_BACKLOG, TARGET_MAX)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;
    use crate::test_values::{BUSY, link, millis, state};

    #[test]
    fn ages_and_settings_out_of_range_are_refused() {
        let state = state(link(7, 3), BUSY);
        let aged = |age| LinkState::new(state.link(), *state.entry(), age);
        assert_eq!(aged(millis(5_001)), Err(EntryError::OutOfRange(EntryField::Age)));
        assert!(aged(millis(5_000)).is_ok());
        assert_eq!(state.target(), Bytes::new(1_500));
        for target in [0, 63, (16 << 20) + 1] {
            let refused = state.with_target(Bytes::new(target));
            assert_eq!(refused, Err(EntryError::OutOfRange(EntryField::Target)));
        }
        assert_eq!(state.with_guaranteed(Rate::MAX), Err(EntryError::OutOfRange(EntryField::Guaranteed)));
    }

    #[test]
    fn settings_and_transit_are_in_the_state() {
        let flows = FlowCounts { interactive: 1, other: 2 };
        let guaranteed = Rate::from_megabits_per_second(2);
        let state = state(link(7, 3), BUSY).older_by(millis(10));
        let state = state.with_guaranteed(guaranteed).expect("the rate is in range").with_flows(flows);
        assert_eq!((state.guaranteed(), state.flows()), (Some(guaranteed), Some(flows)));
        assert_eq!(state.older_by(millis(5)).age(), millis(15));
        assert_eq!(state.older_by(Duration::MAX).age(), Duration::from_secs(5));
    }

    #[test]
    fn fast_links_keep_a_millisecond_of_each_flow() {
        assert_eq!(target_backlog(Rate::from_megabits_per_second(5)), Bytes::new(1_500));
        assert_eq!(target_backlog(Rate::from_megabits_per_second(50)), Bytes::new(6_250));
        assert_eq!(target_backlog(Rate::MAX), Bytes::new(16 << 20));
    }

    #[test]
    fn names_tell_networks_apart() {
        assert_eq!(link(7, 3).to_string(), "link 3 of network 7");
        assert_ne!(LinkId::unnamed(3), link(7, 3));
    }
}
