//! Delays of relays to each other: the matrix from which routes are planned.

use alloc::vec;
use alloc::vec::Vec;

use byway_units::{Duration, RelayId};
use thiserror::Error;

/// Most relays of a matrix. The time to plan grows with the third power: 512 relays need five times
/// as long as 300.
pub const ROUTE_RELAYS_MAX: usize = 512;

/// Longest delay that counts, 10 s. Relays that are farther apart count as unreachable.
const DELAY_US_MAX: u64 = 10_000_000;

/// Delay in microseconds that stands for no path. The sum of a route's four hops, of which each is
/// at most this, fits into `i32`. A route over existing hops is shorter.
pub(crate) const UNREACHABLE: i32 = 1 << 28;

/// Number of columns that are computed together. The rows of the matrix are padded to a multiple.
///
/// 32 delays fit into eight registers of 128 bits, which every x86-64 processor has.
const COLUMNS: usize = 32;

/// One-way delays of relays to each other, in each direction.
///
/// A pair without a delay is unreachable. Delays are stored in whole microseconds, rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayDelays {
    /// Relays in ascending order; a relay's position is its row and column.
    relays: Vec<RelayId>,
    delays: Grid,
}

/// Reason for which a matrix cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot plan routes over {relays} relays: use at most {ROUTE_RELAYS_MAX}")]
pub struct TooManyRelaysError {
    /// Number of relays in the request.
    pub relays: usize,
}

/// Square matrix of delays in microseconds, row by row, with padded rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    stride: usize,
    cells: Vec<i32>,
}

impl RelayDelays {
    /// Returns a matrix of these relays without any delay. Repeated relays count once.
    ///
    /// # Errors
    /// If there are more than [`ROUTE_RELAYS_MAX`] relays.
    pub fn new(relays: &[RelayId]) -> Result<Self, TooManyRelaysError> {
        let mut relays = relays.to_vec();
        relays.sort_unstable();
        relays.dedup();
        if relays.len() > ROUTE_RELAYS_MAX {
            return Err(TooManyRelaysError { relays: relays.len() });
        }
        let mut delays = Grid::new(relays.len());
        for index in 0..relays.len() {
            delays.set(index, index, 0);
        }
        Ok(Self { relays, delays })
    }

    /// Stores the one-way delay from a relay to another; `None` if there is no path.
    ///
    /// Returns false, and stores nothing, for relays that are not in the matrix. The delay of a
    /// relay to itself is always zero.
    pub fn set(&mut self, from: RelayId, to: RelayId, delay: Option<Duration>) -> bool {
        let (Some(from), Some(to)) = (self.index(from), self.index(to)) else {
            return false;
        };
        if from != to {
            self.delays.set(from, to, delay.map_or(UNREACHABLE, microseconds));
        }
        true
    }

    /// Returns the one-way delay from a relay to another; `None` if there is no path, or a relay is
    /// not in the matrix.
    #[must_use]
    pub fn get(&self, from: RelayId, to: RelayId) -> Option<Duration> {
        duration(self.delays.get(self.index(from)?, self.index(to)?))
    }

    /// Returns the relays in ascending order.
    #[must_use]
    pub fn relays(&self) -> &[RelayId] {
        &self.relays
    }

    /// Returns the row and column of a relay.
    pub(crate) fn index(&self, relay: RelayId) -> Option<usize> {
        self.relays.binary_search(&relay).ok()
    }

    pub(crate) const fn grid(&self) -> &Grid {
        &self.delays
    }
}

impl Grid {
    fn new(rows: usize) -> Self {
        let stride = rows.next_multiple_of(COLUMNS);
        Self { stride, cells: vec![UNREACHABLE; rows * stride] }
    }

    fn rows(&self) -> usize {
        self.cells.len().checked_div(self.stride).unwrap_or(0)
    }

    pub(crate) fn get(&self, from: usize, to: usize) -> i32 {
        self.cells[from * self.stride + to]
    }

    fn set(&mut self, from: usize, to: usize, delay: i32) {
        self.cells[from * self.stride + to] = delay;
    }

    /// Returns the delays from one relay to all, padded.
    pub(crate) fn row(&self, from: usize) -> &[i32] {
        &self.cells[from * self.stride..][..self.stride]
    }

    /// Returns the least delays over at most one relay between: the matrix product with minimum for
    /// addition, and addition for multiplication.
    ///
    /// Columns are computed in panels, which are copied once. A panel of 300 relays has 38 kB, so
    /// that it stays in the cache while all rows use it.
    pub(crate) fn over_one_relay(&self) -> Self {
        let rows = self.rows();
        let mut result = Self::new(rows);
        let mut panel = vec![[UNREACHABLE; COLUMNS]; rows];
        for column in (0..self.stride).step_by(COLUMNS) {
            for (of_panel, row) in panel.iter_mut().zip(self.cells.chunks_exact(self.stride)) {
                of_panel.copy_from_slice(&row[column..][..COLUMNS]);
            }
            for (from, row) in self.cells.chunks_exact(self.stride).enumerate() {
                let least = least_sums(row, &panel);
                result.cells[from * self.stride + column..][..COLUMNS].copy_from_slice(&least);
            }
        }
        result
    }
}

/// Returns the least sum of a delay to each relay and its delays to the panel's columns.
fn least_sums(delays: &[i32], panel: &[[i32; COLUMNS]]) -> [i32; COLUMNS] {
    let mut least = [UNREACHABLE; COLUMNS];
    for (delay, onward) in delays.iter().zip(panel) {
        for (least, onward) in least.iter_mut().zip(onward) {
            // Two delays of at most 2^28 do not overflow, and a check would prevent vector code.
            *least = (*least).min(delay.wrapping_add(*onward));
        }
    }
    least
}

/// Converts a delay into whole microseconds, rounded up.
pub(crate) fn microseconds(delay: Duration) -> i32 {
    let microseconds = delay.as_nanos().div_ceil(1_000);
    let in_range = Some(microseconds).filter(|microseconds| *microseconds <= DELAY_US_MAX);
    in_range.and_then(|microseconds| i32::try_from(microseconds).ok()).unwrap_or(UNREACHABLE)
}

/// Converts microseconds into a delay; `None` if there is no path.
pub(crate) fn duration(microseconds: i32) -> Option<Duration> {
    let reachable = Some(microseconds).filter(|microseconds| *microseconds < UNREACHABLE);
    reachable.and_then(|microseconds| u64::try_from(microseconds).ok()).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    const fn relay(number: u32) -> RelayId {
        RelayId::new(number)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn directions_are_separate_and_unknown_pairs_are_unreachable() {
        let mut delays = RelayDelays::new(&[relay(9), relay(4), relay(9)]).expect("two are few");
        assert_eq!(delays.relays(), [relay(4), relay(9)]);
        assert!(delays.set(relay(4), relay(9), Some(Duration::from_nanos(1_000_001))));
        assert_eq!(delays.get(relay(4), relay(9)), Some(Duration::from_micros(1_001)), "rounded up");
        assert_eq!(delays.get(relay(9), relay(4)), None);
        assert!(!delays.set(relay(4), relay(5), Some(ms(1))), "not in the matrix");
        assert!(delays.set(relay(4), relay(4), Some(ms(7))));
        assert_eq!(delays.get(relay(4), relay(4)), Some(Duration::ZERO));
        assert!(delays.set(relay(4), relay(9), None));
        assert_eq!(delays.get(relay(4), relay(9)), None);
    }

    #[test]
    fn delays_of_more_than_ten_seconds_are_no_paths() {
        let mut delays = RelayDelays::new(&[relay(1), relay(2)]).expect("two are few");
        assert!(delays.set(relay(1), relay(2), Some(Duration::MAX)));
        assert!(delays.set(relay(2), relay(1), Some(ms(10_000))));
        assert_eq!(delays.get(relay(1), relay(2)), None);
        assert_eq!(delays.get(relay(2), relay(1)), Some(ms(10_000)));
    }

    #[test]
    fn too_many_relays_are_refused() {
        let relays: Vec<RelayId> = (0..513).map(RelayId::new).collect();
        assert!(RelayDelays::new(&relays[1..]).is_ok());
        let error = RelayDelays::new(&relays).expect_err("513 are too many");
        assert_eq!(error.to_string(), "cannot plan routes over 513 relays: use at most 512");
    }

    proptest! {
        #[test]
        fn products_are_those_of_three_loops(
            count in 0..70_usize,
            cells in proptest::collection::vec(prop_oneof![4 => 0..100_000_i32, 1 => Just(UNREACHABLE)], 4_900),
        ) {
            let mut grid = Grid::new(count);
            for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
                grid.set(from, to, cells[from * 70 + to]);
            }
            let product = grid.over_one_relay();
            for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
                let sums = (0..count).map(|middle| grid.get(from, middle) + grid.get(middle, to));
                let least = sums.min().unwrap_or(UNREACHABLE).min(UNREACHABLE);
                prop_assert_eq!(product.get(from, to), least);
            }
        }
    }
}
