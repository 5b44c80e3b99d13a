//! Precincts of a window: those that its decoding reads.

use alloc::vec::Vec;
use core::ops::Range;

use crate::header::Span;
use crate::layout::Layout;
use crate::limits::{SUPPORT, WINDOW_PRECINCTS_MAX};

/// Rectangle of an image, in pixels of the whole image, counted from its upper left corner.
///
/// Whatever is outside of the image does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First column.
    pub x: u32,
    /// First row.
    pub y: u32,
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

/// Precincts of a window, by resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowPrecincts {
    /// Numbers of precincts for each resolution from the smallest on, in order.
    pub(crate) resolutions: Vec<Vec<u32>>,
    /// True if the window has more than [`WINDOW_PRECINCTS_MAX`] precincts; the finest are missing.
    pub(crate) is_cut: bool,
}

impl WindowPrecincts {
    /// Finds the precincts that the decoding of a window at this resolution reads.
    pub(crate) fn new(layout: &Layout, window: Window, resolution_max: u8) -> Self {
        let resolution_max = resolution_max.min(layout.resolution_max());
        let [x, y] = layout.size().axes.map(|axis| axis.image.begin);
        let part = |begin: u64, from: u32, count: u32| Span {
            begin: begin + u64::from(from),
            end: begin + u64::from(from) + u64::from(count),
        };
        let spans = [part(x, window.x, window.width), part(y, window.y, window.height)];
        let [columns, rows] = [0, 1].map(|axis| layout.size().axes[axis].tiles_of(spans[axis]));
        let query = Query { layout, spans, columns, rows, resolution_max };

        let (mut resolutions, mut capacity) = (Vec::new(), WINDOW_PRECINCTS_MAX);
        for resolution in 0..=resolution_max {
            let (numbers, is_cut) = query.numbers(resolution, capacity);
            capacity -= numbers.len();
            resolutions.push(numbers);
            if is_cut {
                return Self { resolutions, is_cut };
            }
        }
        Self { resolutions, is_cut: false }
    }
}

/// Window on the reference grid, and the tiles that have a part of it.
struct Query<'a> {
    layout: &'a Layout,
    spans: [Span; 2],
    columns: Range<u64>,
    rows: Range<u64>,
    resolution_max: u8,
}

impl Query<'_> {
    /// Returns the numbers of a resolution's precincts, and true if there are more than `capacity`.
    fn numbers(&self, resolution: u8, capacity: usize) -> (Vec<u32>, bool) {
        let (mut numbers, mut is_cut) = (Vec::new(), false);
        let tiles_in_row = self.layout.size().axes[0].tiles();
        for tile in self.rows.clone().flat_map(|row| self.columns.clone().map(move |column| (row, column))) {
            // Tiles are at most TILES_MAX.
            let tile = u32::try_from(tile.0 * tiles_in_row + tile.1).unwrap_or(u32::MAX);
            for component in 0..self.layout.components() {
                let cells = self.cells(tile, resolution, component);
                self.layout.visit_precincts((tile, resolution, component), cells, |number| {
                    if numbers.len() < capacity {
                        numbers.push(number);
                    } else {
                        is_cut = true;
                    }
                });
                if is_cut {
                    break;
                }
            }
        }
        numbers.sort_unstable();
        (numbers, is_cut)
    }

    /// Returns the columns and rows of precincts that the window reads in a tile's component.
    fn cells(&self, tile: u32, resolution: u8, component: usize) -> [Span; 2] {
        let tile = self.layout.size().tile(tile);
        let sampling = self.layout.size().components[component];
        let precinct = self.layout.coding().precincts[usize::from(resolution)];
        core::array::from_fn(|axis| {
            let samples = self.spans[axis].overlap(tile[axis]).cells(u64::from(sampling[axis]));
            let scale = 1 << (self.layout.resolution_max() - self.resolution_max);
            let levels = self.resolution_max - resolution;
            if resolution == 0 {
                // The band LL of the lowest level, with whole precincts.
                return read_samples(samples.cells(scale), levels).cells(1 << precinct[axis]);
            }
            // The other bands of the level below have half of the samples, and half precincts.
            read_samples(samples.cells(scale), levels + 1).cells(1 << (precinct[axis] - 1))
        })
    }
}

/// Returns the samples of bands that the reconstruction of `samples` reads, so many levels below.
fn read_samples(samples: Span, levels: u8) -> Span {
    let read = |span: Span, _| Span {
        begin: (span.begin / 2).saturating_sub(SUPPORT),
        end: span.end.div_ceil(2) + SUPPORT,
    };
    (0..levels).fold(samples, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_halves_the_samples_and_adds_the_filter() {
        let samples = Span { begin: 100, end: 201 };
        assert_eq!(read_samples(samples, 0), samples);
        // 100 / 2 - 2 and 101 + 2.
        assert_eq!(read_samples(samples, 1), Span { begin: 48, end: 103 });
        // 48 / 2 - 2 and 52 + 2.
        assert_eq!(read_samples(samples, 2), Span { begin: 22, end: 54 });
        // The filter does not reach beyond the first sample.
        assert_eq!(read_samples(Span { begin: 1, end: 2 }, 1), Span { begin: 0, end: 3 });
    }
}
